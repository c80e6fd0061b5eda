"""The sizes of records and batches without a codec, by arithmetic on decoded columns; nothing is encoded.

The layouts are those of ``DefaultRecord.sizeOf`` and ``LegacyRecord.recordOverhead`` (4.1.1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokerless.format import layouts
from brokerless.format.arrays import Int64s
from brokerless.format.columns import RecordColumns

MESSAGE_OVERHEADS = (
    layouts.LOG_ENTRY_SIZE + layouts.MESSAGE_V0_OVERHEAD,
    layouts.LOG_ENTRY_SIZE + layouts.MESSAGE_V1_OVERHEAD,
)
"""Bytes of a v0 and of a v1 message beside its key and value; the same of a wrapper message."""
FIXED_WIDTHS = {
    "length": 4,
    "attributes": 1,
    "timestamp": 8,
    "offset": 8,
    "keyLength": 4,
    "valueLength": 4,
    "headerCount": 4,
}
"""Bytes of a v2 record's fields if they were as wide as their Java types."""
FIXED_HEADER = 8
"""The same of a header's two lengths."""


def varint_sizes(values: NDArray[np.integer]) -> Int64s:
    """Bytes of each value as a ZigZag varint: int64, 1 to 10."""
    signed = values.astype(np.int64)
    raw = ((signed << 1) ^ (signed >> 63)).view(np.uint64)
    sizes = np.ones(len(raw), np.int64)
    for bits in range(7, 64, 7):
        more = raw >= np.uint64(1 << bits)
        if not more.any():
            break
        sizes += more
    return sizes


@dataclass(frozen=True, slots=True)
class RecordSizes:
    """The bytes of each record's parts, int64."""

    keys: Int64s
    """The bytes of the key's contents."""
    values: Int64s
    """The bytes of the value's contents."""
    headers: Int64s
    """The bytes of the headers' keys and values."""
    lengths: Int64s
    """The bytes of the varints of v2 that do not depend on the batch, and of the attributes."""
    header_counts: Int64s
    """How many headers the record has."""

    @property
    def payload(self) -> Int64s:
        return self.keys + self.values + self.headers

    def v2(self, offset_deltas: Int64s, timestamp_deltas: Int64s) -> Int64s:
        """Bytes of each as a v2 record."""
        body = self.payload + self.lengths + varint_sizes(offset_deltas) + varint_sizes(timestamp_deltas)
        return body + varint_sizes(body)

    def legacy(self, magic: int) -> Int64s:
        """Bytes of each as a v0 or v1 message, which has no headers."""
        return MESSAGE_OVERHEADS[magic] + self.keys + self.values

    def fixed(self) -> Int64s:
        """Bytes of each as a v2 record whose fields are as wide as their types."""
        return self.payload + sum(FIXED_WIDTHS.values()) + FIXED_HEADER * self.header_counts


def measure(columns: RecordColumns) -> RecordSizes:
    """Return the sizes of the parts of all rows."""
    rows = columns.rows
    keys, key_lengths = _nullable(columns.key_ends, columns.key_null, 0, rows)
    values, value_lengths = _nullable(columns.value_ends, columns.value_null, 0, rows)
    first, last = int(columns.header_ends[0]), int(columns.header_ends[rows])
    counts = np.diff(columns.header_ends[: rows + 1]).astype(np.int64)
    lengths = 1 + key_lengths + value_lengths + varint_sizes(counts)
    headers = np.zeros(rows, np.int64)
    if last > first:
        names = np.diff(columns.header_key_ends[first : last + 1]).astype(np.int64)
        contents, content_lengths = _nullable(columns.header_value_ends, columns.header_value_null, first, last)
        ends = columns.header_ends[: rows + 1] - first
        headers = _sums(names + contents, ends)
        lengths += _sums(varint_sizes(names) + content_lengths, ends)
    return RecordSizes(keys, values, headers, lengths=lengths, header_counts=counts)


def batch_sizes(
    columns: RecordColumns, sizes: RecordSizes, starts: Int64s, magic: int, headers: NDArray[np.void]
) -> Int64s:
    """Bytes of batches without a codec, which have the rows ``starts[i]`` to ``starts[i + 1]``, from the first to the
    last: v2 with their headers (:data:`layouts.BATCH_V2`), from which deltas count; of v0 and v1 the messages."""
    if magic < layouts.MAGIC_V2:
        each, overhead = sizes.legacy(magic), 0
    else:
        counts = np.diff(starts)
        bases = (np.repeat(headers[name].astype(np.int64), counts) for name in ("base_offset", "base_timestamp"))
        rows = slice(int(starts[0]), int(starts[-1]))
        deltas = (column[rows] - base for column, base in zip((columns.offset, columns.timestamp), bases, strict=True))
        each, overhead = sizes.v2(*deltas), layouts.BATCH_V2_SIZE
    return np.diff(np.concatenate([np.zeros(1, np.int64), np.cumsum(each)])[starts]) + overhead


def _nullable(ends: NDArray[np.int32], null: NDArray[np.uint8], first: int, last: int) -> tuple[Int64s, Int64s]:
    """Bytes of contents, and of the varints that are their lengths."""
    sizes = np.diff(ends[first : last + 1]).astype(np.int64)
    is_null = null[first:last] != 0
    return np.where(is_null, 0, sizes), np.where(is_null, 1, varint_sizes(sizes))


def _sums(values: Int64s, ends: NDArray[np.int32]) -> Int64s:
    return np.diff(np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])[ends])
