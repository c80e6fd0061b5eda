"""Checks the indexes of a segment against its log. Pure: columns in, findings out.

An error is what makes a lookup go wrong: records after the position in the index would be missed, or records of
an aborted transaction be shown. A warning is what Kafka would not have written but what leads no reader astray. There
is at most one finding for each way of being wrong in an index: at its first such entry, with their number.

Sources: ``LogSegment`` (``append``, ``recover``, ``onBecomeInactiveSegment``) and ``DumpLogSegments`` of 3.9.1. The
dump tool asks for more than Kafka itself keeps to: before 0.11, an offset index entry held the first offset of what was
appended, and several batches that are appended at once have one entry with the last one's offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from brokerless.findings import Finding, Kind, Severity
from brokerless.format import layouts
from brokerless.format.arrays import Bools, Int64s
from brokerless.log.index.readers import OffsetIndex, TimeIndex, TransactionIndex

_LOWEST = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class SegmentBatches:
    """All batches of a segment's log that a batch scan finds: arrays of one length, in file order."""

    positions: Int64s
    """Where each batch begins (bytes, int64)."""
    last_offsets: Int64s
    """The last offset of each batch (int64)."""
    max_timestamps: Int64s
    """The largest timestamp of each batch (ms, int64)."""
    is_legacy: Bools
    """Whether a batch is of v0 or v1."""
    valid: Bools
    """Whether the checksum is right; of other batches, nothing but the position is believed."""
    end: int
    """Where the chain of batches ended (bytes). What lies from there to ``size`` is unknown."""
    size: int
    """Bytes of the file, without the zeros at the end of a preallocated one."""

    @property
    def is_whole(self) -> bool:
        """Whether there is nothing unknown from which offsets could be missing."""
        return self.end >= self.size and bool(self.valid.all())

    @property
    def last_offset(self) -> int:
        """The last offset of the segment; meaningless without batches."""
        return int(self.last_offsets_so_far[-1]) if len(self.positions) else _LOWEST

    @property
    def last_offsets_so_far(self) -> Int64s:
        """The largest last offset of the batches up to each one."""
        return np.maximum.accumulate(np.where(self.valid, self.last_offsets, _LOWEST))

    @property
    def max_timestamps_so_far(self) -> Int64s:
        """The largest timestamp of the batches up to each one."""
        return np.maximum.accumulate(np.where(self.valid, self.max_timestamps, layouts.NO_TIMESTAMP))


KEEP_INDEXES = "to be kept, as only the .txnindex of this segment knows of an aborted transaction"
"""Part of findings of indexes that a broker would rebuild, and lose what the log does not say any more."""
_REBUILT = (
    Kind.INDEX_MISSING, Kind.INDEX_CORRUPT, Kind.INDEX_NOT_SORTED, Kind.INDEX_NOT_TRIMMED, Kind.OFFSET_INDEX_MISMATCH,
    Kind.TIME_INDEX_MISMATCH, Kind.TRANSACTION_INDEX_MISMATCH, Kind.RETENTION_MISREAD,
)  # fmt: skip
"""Kinds whose advice is to let a broker rebuild the indexes of the segment."""


def keeping_indexes(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings of the indexes of a segment with aborted transactions whose marker is not in its log: they say
    that the indexes are to be kept, and their advice is another one."""
    return [
        replace(each, message=f"{each.message}; {KEEP_INDEXES}").in_case(Kind.ABORT_MARKER_MISSING)
        if each.kind in _REBUILT
        else each
        for each in findings
    ]


def has_unmarked(index: TransactionIndex, last_offsets: Int64s) -> bool:
    """Return whether a transaction index has entries whose marker is in no batch of its segment, of which these are the
    last offsets."""
    return index.is_valid and not bool(np.isin(index.last_offsets, last_offsets).all())


def check_offset_index(index: OffsetIndex, batches: SegmentBatches, is_last: bool = True) -> Iterator[Finding]:
    """Yield what of an offset index does not fit its log. ``is_last``: this is the partition's last segment, whose
    indexes may have room for more. ``index.findings`` are not repeated."""
    check = _IndexCheck(Kind.OFFSET_INDEX_MISMATCH, index.file, layouts.OFFSET_INDEX_ENTRY.itemsize, index.offsets)
    yield from _not_trimmed(index, check, is_last)
    offsets, positions = index.offsets, index.positions
    at = np.searchsorted(batches.positions, positions)
    is_start = np.append(batches.positions, -1)[at] == positions
    is_start[at == len(batches.positions)] = False
    unknown = (positions >= batches.end) & (positions < batches.size)
    yield from check.first(
        "error",
        ~is_start & ~unknown,
        "no batch starts where the entry says",
        expected=lambda row: f"the position of a batch before {batches.end}",
        found=lambda row: f"position {positions[row]}",
    )
    before = np.append(_LOWEST, batches.last_offsets_so_far)[at]
    misses = is_start & (before >= offsets)
    yield from check.first(
        "error",
        misses,
        "batches before the entry's position have its offset or later ones: who looks those up would miss them",
        expected=lambda row: f"an offset of more than {before[row]}",
        found=lambda row: f"offset {offsets[row]} at position {positions[row]}",
    )
    yield from check.first(
        "warning",
        is_start & ~misses & ~_may_be_appended(batches, offsets, at),
        "the entry's offset is not the last one of a batch",
        expected=lambda row: f"the last offset of the batch at {positions[row]}: {batches.last_offsets[at[row]]}",
        found=lambda row: f"offset {offsets[row]}",
    )
    yield from check.unknown(unknown)


def check_time_index(index: TimeIndex, batches: SegmentBatches, is_last: bool = True) -> Iterator[Finding]:
    """Yield what of a time index does not fit its log; as :func:`check_offset_index`."""
    check = _IndexCheck(Kind.TIME_INDEX_MISMATCH, index.file, layouts.TIME_INDEX_ENTRY.itemsize, index.offsets)
    yield from _not_trimmed(index, check, is_last)
    timestamps, offsets = index.timestamps, index.offsets
    last_offsets = batches.last_offsets_so_far
    at = np.searchsorted(last_offsets, offsets)  # the batch with the entry's offset, or the next one
    is_past_end = at == len(last_offsets)
    unknown = is_past_end & (not batches.is_whole)
    yield from check.first(
        "error",
        is_past_end & ~unknown,
        "the log ends before the entry's offset",
        expected=lambda row: (
            f"an offset up to {batches.last_offset}" if len(last_offsets) else "no entries for an empty log"
        ),
        found=lambda row: f"offset {offsets[row]}",
    )
    # Batches that end at the entry's offset or before must not have larger timestamps.
    ended = np.searchsorted(last_offsets, offsets, side="right")
    largest = np.append(layouts.NO_TIMESTAMP, batches.max_timestamps_so_far)[ended]
    misses = ~is_past_end & (largest > timestamps)
    yield from check.first(
        "error",
        misses,
        "there are larger timestamps up to the entry's offset: who looks those up would miss them",
        expected=lambda row: f"a timestamp of {largest[row]} or more",
        found=lambda row: f"timestamp {timestamps[row]} at offset {offsets[row]}",
    )
    own = np.append(batches.max_timestamps, layouts.NO_TIMESTAMP)[at]
    # The entry's offset may be in a batch of which nothing is believed.
    is_known = np.append(batches.valid, False)[at] & np.append(True, batches.valid)[at]
    yield from check.first(
        "warning",
        is_known & ~misses & (own != timestamps),
        "the entry's timestamp is not the largest one of the batch with its offset",
        expected=lambda row: f"timestamp {own[row]}",
        found=lambda row: f"timestamp {timestamps[row]} at offset {offsets[row]}",
    )
    yield from check.unknown(unknown)
    largest_at_all = int(batches.max_timestamps_so_far[-1]) if len(batches.positions) else layouts.NO_TIMESTAMP
    last = int(timestamps[-1]) if len(timestamps) else layouts.NO_TIMESTAMP
    if not is_last and last < largest_at_all:
        # A broker that came from before 0.10.1 has empty time indexes for the segments that it had then.
        text = "the segment's largest timestamp is missing, by which Kafka's retention goes"
        found = f"timestamp {last}" if len(timestamps) else "no entries"
        position = len(timestamps) * check.entry_size
        yield check.kind.at(
            index.file, text, severity="warning", position=position, expected=f"timestamp {largest_at_all}", found=found
        )


def check_transaction_index(
    index: TransactionIndex | None, file: str, producer_ids: Int64s, first_offsets: Int64s, last_offsets: Int64s
) -> Iterator[Finding]:
    """Yield what of a transaction index does not fit the aborted transactions whose markers are in the segment.

    Arrays of one length: ``last_offsets`` are those of the markers; ``first_offsets`` those of the transaction's first
    data that is left in the whole log, -1 where there is none. ``index`` is None, and ``file`` what it would be called,
    where there is none: Kafka makes the file with its first entry.
    """
    indexed = {} if index is None else _by_marker(index.producer_ids, index.last_offsets)
    actual = _by_marker(producer_ids, last_offsets)
    if index is not None:
        check = _IndexCheck(
            Kind.TRANSACTION_INDEX_MISMATCH, file, layouts.TRANSACTION_INDEX_ENTRY.itemsize, index.last_offsets
        )
        markers = zip(index.producer_ids.tolist(), index.last_offsets.tolist(), strict=True)
        rows = np.array([actual.get(marker, -1) for marker in markers], np.int64)
        yield from check.first(
            "error",
            rows < 0,
            "no marker in this segment ends an aborted transaction there: committed records would be hidden",
            expected=lambda row: (
                f"an abort marker of producer {index.producer_ids[row]} at offset {index.last_offsets[row]}"
            ),
            found=lambda row: "none",
        )
        starts = np.append(first_offsets, -1)[rows]
        yield from check.first(
            "error",
            (starts >= 0) & (index.first_offsets > starts),
            "the aborted transaction began before the entry's first offset: aborted records would be shown",
            expected=lambda row: f"a first offset of {starts[row]}",
            found=lambda row: f"first offset {index.first_offsets[row]}",
        )
    missing = [row for marker, row in actual.items() if first_offsets[row] >= 0 and marker not in indexed]
    if missing:
        row = missing[0]
        text = f"{_count(len(missing), 'aborted transaction')} not in the index: its records would be shown"
        expected = f"producer {producer_ids[row]} from offset {first_offsets[row]} to {last_offsets[row]}"
        offset = int(last_offsets[row])
        yield Kind.TRANSACTION_INDEX_MISMATCH.at(file, text, offset=offset, expected=expected, found="no entry")


@dataclass(frozen=True, slots=True)
class _IndexCheck:
    """One index while it is checked."""

    kind: Kind
    file: str
    entry_size: int
    offsets: Int64s
    """The offsets of its entries."""

    def first(
        self,
        severity: Severity,
        rows: Bools,
        text: str,
        expected: Callable[[int], str],
        found: Callable[[int], str],
    ) -> Iterator[Finding]:
        """Yield a finding for the first of the entries ``rows``, if there are any."""
        count = int(np.count_nonzero(rows))
        if count:
            row = int(np.argmax(rows))
            message = f"{_count(count, 'entry')} wrong: {text}"
            position, offset = row * self.entry_size, int(self.offsets[row])
            yield self.kind.at(
                self.file,
                message,
                severity=severity,
                position=position,
                offset=offset,
                expected=expected(row),
                found=found(row),
            )

    def unknown(self, rows: Bools) -> Iterator[Finding]:
        """Yield the finding for entries that could not be checked, because the log cannot be read where they point."""
        count = int(np.count_nonzero(rows))
        if count:
            row = int(np.argmax(rows))
            text = f"{_count(count, 'entry')} not checked: the log cannot be read to there"
            position, offset = row * self.entry_size, int(self.offsets[row])
            yield Kind.INDEX_NOT_CHECKED.at(self.file, text, position=position, offset=offset)


def _not_trimmed(index: OffsetIndex | TimeIndex, check: _IndexCheck, is_last: bool) -> Iterator[Finding]:
    used = len(index.offsets)
    if index.slots > used:
        text = "zeros after the last entry: the index was in use when the broker stopped, and was not closed"
        severity: Severity = "info" if is_last else "warning"
        expected, found = f"{used} entries", f"room for {index.slots}"
        yield Kind.INDEX_NOT_TRIMMED.at(
            index.file, text, severity=severity, position=used * check.entry_size, expected=expected, found=found
        )


def _may_be_appended(batches: SegmentBatches, offsets: Int64s, at: Int64s) -> Bools:
    """Return whether an append that began with the batches ``at`` may have ended with these offsets."""
    if not len(batches.positions):
        return np.zeros(len(offsets), np.bool_)
    first = np.minimum(at, len(batches.positions) - 1)
    fits = np.isin(offsets, batches.last_offsets[batches.valid])
    fits |= batches.is_legacy[first] & (offsets <= batches.last_offsets[first])
    unbelieved = np.flatnonzero(~batches.valid)
    if len(unbelieved):
        fits |= first <= unbelieved[-1]
    if batches.end < batches.size:
        fits |= offsets > batches.last_offset
    return fits


def _by_marker(producer_ids: Int64s, last_offsets: Int64s) -> dict[tuple[int, int], int]:
    """Rows by producer and offset of the marker."""
    return {marker: row for row, marker in enumerate(zip(producer_ids.tolist(), last_offsets.tolist(), strict=True))}


def _count(count: int, what: str) -> str:
    return f"1 {what} is" if count == 1 else f"{count} {what.removesuffix('y')}{'ies' if what[-1] == 'y' else 's'} are"
