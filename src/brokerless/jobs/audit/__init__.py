"""The audit: every check that needs nothing but the files, in one pass.

A *check* follows the intact batches of a partition and reports what concerns the log as a whole, where ``verify`` has
each batch. *Gaps* are offsets between two batches that are in none. Compaction leaves some, and other *signs* of
itself; without such a sign, offsets are *missing*: records were lost. A transaction is *open* without its marker. It is
*hanging* if it is open for longer than its coordinator permits (``transaction.max.timeout.ms``), and *orphaned* if the
coordinator knows nothing of it any more. The *advice* of a finding is what to do at its place, with a command.

What a broker's next *start* does to the log directory is reported in the words of ``restart``.

A remote segment is *referenced* if brokers read it, and *unknown* if the metadata at hand cannot say that. It is *lost*
if brokers read it and objects of it are missing. *Needed* objects are read by no broker, but may be the only copy of
their offsets. An *orphan* is objects that no broker reads, and whose offsets are elsewhere, of a partition without
errors. *Elsewhere* is what else has the offsets of a segment: other remote segments, or the local log.
"""
