"""Decoded columns as Arrow tables, and Arrow tables as columns to write.

*Read options* say which records are read, and how, from every face down to the reader. A *record filter* selects
records; what it knows of a batch without its records (*pruning*) decides whether that is decoded. A *batcher* makes
batches of rows as a producer would.
"""
