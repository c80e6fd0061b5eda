"""Exports the new records of partitions, each exactly once: as Parquet files, or to tables of Iceberg and Delta.

An export continues where the last one ended, by the *state* that is committed with the data (see
:mod:`brokerless.table_formats`). A *task* is a range of offsets of one partition; it writes files that no reader sees.
The *target* is what they go to: a directory for each topic, or a table. The *commit* takes results in the order of
offsets, whatever order tasks end in, has the target *publish* the files, and records how far the topic is then.

Offsets are *missing* that are between two segments and in none; those of what is damaged are *left out*. Both are
recorded. A *fill* is a task for some of them that are there, and intact, in a later run; its *mark* is the offset where
the last run ended, which stays. A task is not *complete* if something could not be read that may be readable another
time; its partition is then exported no further. With read_committed, a range is *decided* if no transaction is open in
it.

A topic is *refused* if it cannot go where it should, each time with a reason; all others are exported. *Removed* files
were exported, and are not there any more. A log is *live* if a broker may be writing to it: it may end within a batch.
"""
