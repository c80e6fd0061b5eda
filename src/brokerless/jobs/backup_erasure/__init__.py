"""Records erased in all snapshots of a backup, and the proof of that.

A segment with selected records is written again, and *replaced*: a *list* in the bucket says which new segment is read
in place of which old one, in each snapshot that has it. The old objects stay until ``prune`` removes them. The claim of
such a manifest is about segments, and not about batches (see :mod:`brokerless.jobs.prove`). A partition is *covered* if
the manifest has it.
"""
