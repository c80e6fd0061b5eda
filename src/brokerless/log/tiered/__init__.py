"""Segments of tiered storage (KIP-405) in object stores, as a log directory.

A *remote segment* is three *objects* in a bucket: the log, its indexes and its *manifest*, which says how the log was
cut into *chunks* of a few MiB that are compressed and encrypted one by one (a chunk of reading is something else). Its
*standing* is what the metadata of brokers says of it; by that, its objects and what else has its offsets, one table
decides whether it is read (:mod:`brokerless.log.tiered.remote_history`). It is *within the lineage* of a log if its
leader epochs are those of the log, and *dangling* if an unclean election ended its history. Objects of a copy that
brokers did not finish are *unfinished*. A log is *joined* where its local and remote segments are read as one.
"""
