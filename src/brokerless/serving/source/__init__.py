"""What is served: topics and partitions in log directories, their offsets, and the ranges of files with their batches.

A *range* is some whole, intact batches that lie in one segment; it is sent as *pieces*, each some bytes or a range of a
file. A *want* is what is requested of a partition: from which offset on, up to which, and how many bytes. A *hint* is
where the batch of an offset begins, which a consumer is about to request next.

Of several replicas of a partition, the one with the greatest last leader epoch is served, and of these the longest. A
*spare* is another one with the same history up to some offset, whose batches are served in place of damaged ones.
Where damage is *skipped*, consumers go on after it; the *reach* is where the log ended before damage at its end.
*Hidden* partitions are read and not served: the cluster's metadata and what groups have committed. The *survey* reports
what consumers will not get, as far as that is seen without reading everything.
"""
