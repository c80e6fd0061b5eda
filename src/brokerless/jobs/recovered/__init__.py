"""What salvage, merge and carve share: intact batches, damaged regions, losses.

A batch is *intact* if it is whole, has the right checksum and decodes, and *partial* if it breaks off although its
checksum is right. A *region* is bytes of a file in no intact batch. A *loss* is offsets that were in the log and are
not in what was saved, with its cause; offsets that compaction had removed are none.
"""
