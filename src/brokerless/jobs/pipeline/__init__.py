"""Log directories to tables in one run: find what is new, verify, export, maintain, report.

A *copy* of a partition is a directory that holds it: a replica, or one of several backups of it. All copies of the
selected partitions go to one table for each topic. A *wave* exports the next copy of each partition; there are more
until no copy has anything new. A copy is *tried* once all of its present state was exported that the table, in its
state, can get.

The *ledger* has what was verified, in which state, and what was found (:mod:`brokerless.jobs.ledger`). A *damaged
range* is bytes of a file in no intact batch, and the offsets that were there. The *recording* is the ledger and the run
that is under way; a run is *interrupted* if it did not come to its end, and the next one continues it. What only the
export found is *met*. The pipeline's *own tables* have its runs, its findings and the damaged ranges.

To *maintain* a table is to merge its small files, to expire old states, and to remove files that no state needs.
"""
