"""What a compaction counts of a partition."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class CompactTotals:
    """Counts of the whole partition, in and out; ``cleaned_bytes``: of the segments that were cleaned. ``keys``: how
    many the dirty segments have. ``passes``: over these, for their keys."""

    batches_in: int = 0
    records_in: int = 0
    bytes_in: int = 0
    batches_out: int = 0
    records_out: int = 0
    bytes_out: int = 0
    cleaned_bytes: int = 0
    keys: int = 0
    passes: int = 0
    segments_in: int = 0
    segments_out: int = 0


@dataclass(frozen=True, slots=True)
class FrequentKey:
    """A key with many records in the dirty segments: the key, how many, and the offset of the last one."""

    key: bytes
    records: int
    last_offset: int
