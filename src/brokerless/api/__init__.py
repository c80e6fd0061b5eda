"""What :func:`brokerless.open` returns: a log and its partitions, with their tables and jobs.

A *log* is the partitions at a path. It is *narrowed* to a topic or a partition, which is a log, too, with the same
methods; the partitions that are left are *selected*, and topics that it was narrowed to are *named*: a job that writes
leaves Kafka's own topics unchanged unless they are. A method that is called like a command takes its *request*
(:mod:`brokerless.requests`). A *view* is one row of a table as a Python object. A *partition output* is a new partition
that a program writes: it becomes visible when it is complete, or never.
"""
