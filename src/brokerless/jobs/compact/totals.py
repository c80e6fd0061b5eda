"""What a compaction counts of a partition."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class CompactTotals:
    """Counts of the whole partition, before (in) and after (out) it was compacted. Sizes are in bytes."""

    batches_in: int = 0
    records_in: int = 0
    bytes_in: int = 0
    batches_out: int = 0
    records_out: int = 0
    bytes_out: int = 0
    cleaned_bytes: int = 0
    """The size of the segments that were cleaned."""
    keys: int = 0
    """How many keys the dirty segments have."""
    passes: int = 0
    """How often the dirty segments were read for their keys."""
    segments_in: int = 0
    segments_out: int = 0


@dataclass(frozen=True, slots=True)
class FrequentKey:
    """A key with many records in the dirty segments: the key, how many, and the offset of the last one."""

    key: bytes
    records: int
    last_offset: int
