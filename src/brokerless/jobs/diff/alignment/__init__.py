"""Compares the records of a partition: two sides, read forward at once, and what differs between them.

There are three comparisons. By *offsets*, where both sides have the same ones; a *mapped side* is the target of a
restore, whose records get the offsets of the source by the offset map. In *sequence*, where the same records have
other offsets, as MirrorMaker writes them; an *anchor* is a pair of offsets that it recorded as one record. By *keys*,
where records may be in other partitions: each record is then a row of hashes in a file.

A *side* yields its batches by offset, each offset once. The *common* offsets are those that both sides should have.
Batches with the same bytes count as the same without being decoded; with *quick*, the same headers are enough. A
*block* is decoded records with their batches. All records of a side before its *frontier* are decoded, or were in
batches that were skipped. A place where a side cannot be read is *unread*, and offsets that were deleted while it was
read are *gone*. Records are *unknown* where they have no common offset.

The *tally* counts records by cause, and lists the first differences as *runs* of adjacent offsets. A *candidate* is a
record that one side lacks, until it is known whether compaction explains that. *Erased* records are those that the
manifest of an erasure names, in a batch whose digest proves that the rest is as the manifest says.
"""
