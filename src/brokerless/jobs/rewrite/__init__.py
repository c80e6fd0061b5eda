"""Writes partitions again as others: what convert, compact, erase, salvage and merge share.

A *source* is a log directory and which of its partitions were chosen; a *target* is where one of them is written. A
*plan* has a *task* for each partition, and has refused all that can be known to be wrong before anything is read. A
partition is *copied* if its files stay unchanged, as those of Kafka's own topics that nobody has named. A batch is
*oversized* if it alone is larger than a segment may be.
"""
