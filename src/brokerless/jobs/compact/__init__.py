"""Compacts partitions as Kafka's cleaner does: the last value of each key stays, at its offset.

To *clean* a log is to remove what Kafka's cleaner would. The *checkpoint* is the offset up to which it was cleaned
before; from there on, the log is *dirty*. The first *uncleanable* offset is where the segment begins that has an open
transaction or a record that is too young, or the active segment, if that is to stay; else it is the end of the log.
Keys are looked for between these two offsets, and records are removed from all segments before the second one.
Neighbours that become one segment are a *group*; the segments that are not cleaned are the *rest*.

A record is *superseded* if its key has a later one. A *tombstone* has a key and no value; it goes once its *delete
horizon* is over, a time that a v2 batch gets when it is cleaned first. A batch that has no record left *stays empty* if
it is the last one of its producer, or of the log. The *history* is what headers say before a log is cleaned: its end,
its transactions, the last batch of each producer.

A key is known by its *hash*. Where the keys of a log take more memory than they may, it is read in several *passes*,
each for a range of hashes. A *flag* is a bit for a row, by which superseded ones are marked. A batch is *plain* if
nothing but the keys of its records decides what stays of it: then it need not be decoded again.
"""
