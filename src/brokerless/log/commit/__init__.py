"""Partitions written in full first, then made visible together: all of them or none.

A partition is *staged* where it is written under a name that brokers and readers ignore. A *commit* gives names to all
that was staged: its *journal* lists the renamings before the first is done, and is removed after the last. Until it is
there, the commit is undone by removing what was staged; from then on it is *decided*, and whoever comes next completes
it. A *run record* says which run wrote a partition, so that the same command goes on and another one does not.
"""
