"""The checkpoint and metadata files of partitions and log directories.

A *checkpoint* is one of Kafka's text files; it is valid as a whole or not at all. *Lines* are what the checkpoints of a
log directory have of one partition: its recovery point, its log start offset, its high watermark, and the offset up to
which it was cleaned. *Epochs* are leader epochs with their first offsets, as a broker takes them from a file.

The *journal* of a commit is a file of ours. A partition in it is *new*, with a *renaming* from the name under which it
was staged, or *growing*: it was there before, and gets more segments. What a new partition replaces is moved *aside*.
Segments are *hidden* while the commit that writes them is not finished: readers skip them.
"""
