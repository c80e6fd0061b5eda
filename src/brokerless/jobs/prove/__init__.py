"""Checks that an erasure did what its manifest says, and nothing else.

A *claim* is what the manifest says of a file, a batch, a partition or a directory. A *proof* is what was found of all
claims and of the signature; it *holds* if no finding is an error. Each partition is checked as it is now (the
*target*) and, where the log from before the erasure is at hand, as it was then (the *source*). What is *seen* in a log
is compared with its claim: digests of touched batches, offsets of selected records, and in a source the erased values.

The *scope* is the part of the source that the proof is about; partitions outside of it must have no selected record.
Partitions of Kafka's own topics that the erasure *copied* unchanged may have some, which are counted.

A *pattern* is an erased key, or what was erased of a value; its bytes are searched for in all files and records that
were written. Short bytes may be there by chance: where they are a number or a name of the file's own format, one of its
*own fields*, that is a warning and not an error.
"""
