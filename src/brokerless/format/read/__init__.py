"""Batches and records of every format into columns, and the search for the next valid batch after damage.

The *header* of a batch is its first 61 bytes; headers are columns, one row for each batch. A *scan* finds where batches
begin: the size in each header leads to the next one (the *batch scan*), and nothing else is checked. A batch is
*valid* if its header is plausible and its checksum is right. It is *intact* if its records can be decoded as well; the
search after damage decodes nothing, and calls a batch intact whose checksum is right.

A *decoder* fills record columns of bounded size, and yields them as a *chunk* when they are full; a batch may continue
in the next chunk. ``given`` is the number of rows that a batch gave. *Damage* is why a batch's records end early: a
value, with which the rows before it are yielded. *Partial* records are their offset, their timestamp, and whether their
key is null: a broker reads no more of some batches. A *pattern* is a byte string; batches that contain none of the
requested ones are not decoded.

*One pass* is one call of a kernel that reads, checks and decodes batches of a local file. It stops at a batch that
needs more *care*, which is left to the scan, the checksums and the decoder, step by step. What it has decoded is
*passed*, and counts only when the caller chooses the same batches.

A *candidate* is a position at which a batch may begin, by the header alone. A batch that is found after damage may be
the value of a record, too. So where a log goes on, its *continuation*, is decided by offsets as well, and a damaged
batch that such a value may lie in is a *suspect*.
"""
