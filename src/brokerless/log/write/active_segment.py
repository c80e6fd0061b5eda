"""Follows the active segment while batches are appended: size, timestamps, when to roll, and new index entries.

Nothing is preallocated: Kafka does that only for indexes in use, and a log that was closed has none.

Sources: ``LogSegment``, ``OffsetIndex``, ``TimeIndex`` and ``TransactionIndex`` (4.1.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from brokerless.bounds import MAX_INT32
from brokerless.format import layouts
from brokerless.format.arrays import Int64s
from brokerless.format.read.batch_headers import Batches
from brokerless.log.config import LogConfig
from brokerless.log.index.readers import OffsetIndex, TimeIndex, TransactionIndex
from brokerless.log.write import segment_numbers as at

_UNBOUNDED = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class SegmentState:
    """The state of a segment, as far as appending to it needs it."""

    base_offset: int
    size: int = 0
    """Bytes of its log."""
    max_timestamp: int = layouts.NO_TIMESTAMP
    """In ms, as all times here."""
    max_timestamp_offset: int | None = None
    """The last offset of the first batch with ``max_timestamp``; None stands for the base offset, where there are no
    timestamps."""
    first_timestamp: int = layouts.NO_TIMESTAMP
    """The largest timestamp of the first batch, -1 if there is none."""
    offset_entries: int = 0
    """How many entries the offset index has."""
    time_entries: int = 0
    """How many entries the time index has."""
    last_time_entry: int = layouts.NO_TIMESTAMP
    """The timestamp of the time index's last entry, -1 if there is none."""
    since_entry: int = 0
    """Bytes since the last entry, of which Kafka knows nothing any more when it opens a log."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Batches that go into a segment, and the index entries that are made with them."""

    end: int
    """The batches are those up to this row."""
    offset_index: bytes
    time_index: bytes


class SegmentFollower:
    """Follows a segment while batches come to it, in numbers only."""

    def __init__(self, state: SegmentState, limits: Int64s) -> None:
        self._limits = limits
        self._numbers = np.zeros(at.STATE, np.int64)
        self._numbers[at.BASE_OFFSET] = state.base_offset
        self._numbers[at.SIZE] = state.size
        self._numbers[at.SINCE_ENTRY] = state.since_entry
        self._numbers[at.MAX_TIMESTAMP] = state.max_timestamp
        offset = state.max_timestamp_offset
        self._numbers[at.MAX_TIMESTAMP_OFFSET] = state.base_offset if offset is None else offset
        self._numbers[at.FIRST_TIMESTAMP] = state.first_timestamp
        self._numbers[at.OFFSET_ENTRIES] = state.offset_entries
        self._numbers[at.TIME_ENTRIES] = state.time_entries
        self._numbers[at.LAST_TIME_ENTRY] = state.last_time_entry

    @property
    def state(self) -> SegmentState:
        numbers = self._numbers
        return SegmentState(
            base_offset=int(numbers[at.BASE_OFFSET]),
            size=int(numbers[at.SIZE]),
            max_timestamp=int(numbers[at.MAX_TIMESTAMP]),
            max_timestamp_offset=int(numbers[at.MAX_TIMESTAMP_OFFSET]),
            first_timestamp=int(numbers[at.FIRST_TIMESTAMP]),
            offset_entries=int(numbers[at.OFFSET_ENTRIES]),
            time_entries=int(numbers[at.TIME_ENTRIES]),
            last_time_entry=int(numbers[at.LAST_TIME_ENTRY]),
            since_entry=int(numbers[at.SINCE_ENTRY]),
        )

    @property
    def base_offset(self) -> int:
        return int(self._numbers[at.BASE_OFFSET])

    @property
    def size(self) -> int:
        """Bytes in the log."""
        return int(self._numbers[at.SIZE])

    def place(self, batches: Batches, row: int = 0, age_ms: int = 0) -> Placed:
        """Takes the batches from ``row`` on, which are contiguous, up to the first one that needs a new
        segment. ``age_ms``: since the segment was created, which counts where batches have no timestamps."""
        from brokerless.log.write.segment_roll_kernels import place_batches

        self._limits[at.AGE] = age_ms
        columns = batches.sizes, batches.last_offset, batches.max_timestamp
        size_before = self.size
        # From one entry to the next there are more bytes than the interval.
        spanned = int(batches.ends[-1] - batches.positions[row]) if row < len(batches) else 0
        most = min(len(batches) - row, spanned // (int(self._limits[at.INDEX_INTERVAL]) + 1) + 1)
        rows, times, time_offsets = (np.empty(most, np.int64) for _ in range(3))
        found = place_batches(*columns, row, self._numbers, self._limits, rows, times, time_offsets)
        end, rows, times, time_offsets = found[0], rows[: found[1]], times[: found[2]], time_offsets[: found[2]]
        positions = batches.positions[rows] - batches.positions[row : row + 1] + size_before
        return Placed(
            end,
            _offset_entries(self.base_offset, batches.last_offset[rows], positions),
            _time_entries(self.base_offset, times, time_offsets),
        )

    def finish(self) -> bytes:
        """Return what the time index gets when the segment is closed or left for a new one: its largest timestamp
        (``LogSegment.onBecomeInactiveSegment``)."""
        timestamp, offset = int(self._numbers[at.MAX_TIMESTAMP]), int(self._numbers[at.MAX_TIMESTAMP_OFFSET])
        if timestamp <= self._numbers[at.LAST_TIME_ENTRY]:
            return b""
        self._numbers[at.LAST_TIME_ENTRY] = timestamp
        self._numbers[at.TIME_ENTRIES] += 1
        return _time_entries(self.base_offset, [timestamp], [offset])


def roll_offset(batches: Batches, row: int) -> int:
    """Return where a segment begins that a batch makes necessary (``UnifiedLog.maybeRoll``). What the first offset of a
    v0 or v1 message is, Kafka does not look for: it goes so far back that the segment can hold it in any case."""
    if batches.is_legacy[row]:
        return int(batches.last_offset[row]) - MAX_INT32
    return int(batches.entry_offset[row])


def limits_of(config: LogConfig) -> Int64s:
    """Return what a segment may have by a topic's settings."""
    return np.array(
        [
            config.segment_bytes,
            config.segment_ms,
            config.segment_index_bytes // layouts.OFFSET_INDEX_ENTRY.itemsize,
            config.segment_index_bytes // layouts.TIME_INDEX_ENTRY.itemsize,
            config.index_interval_bytes,
            0,
        ],
        np.int64,
    )


def no_limits(config: LogConfig) -> Int64s:
    """Return limits for batches that are in a segment already, whatever the settings were when they came."""
    return np.array([_UNBOUNDED] * 4 + [config.index_interval_bytes, 0], np.int64)


def _offset_entries(base_offset: int, offsets: Int64s, positions: Int64s) -> bytes:
    entries = np.empty(len(offsets), layouts.OFFSET_INDEX_ENTRY)
    entries["relative_offset"] = offsets - base_offset
    entries["position"] = positions
    return entries.tobytes()


def _time_entries(base_offset: int, timestamps: Int64s | Sequence[int], offsets: Int64s | Sequence[int]) -> bytes:
    entries = np.empty(len(timestamps), layouts.TIME_INDEX_ENTRY)
    entries["timestamp"] = timestamps
    entries["relative_offset"] = np.asarray(offsets, np.int64) - base_offset
    return entries.tobytes()


def offset_entries_before(index: OffsetIndex, offset: int) -> int:
    """Return how many entries of an offset index stay when its log is truncated to ``offset``
    (``OffsetIndex.truncateTo``)."""
    return int(np.searchsorted(index.offsets, offset, side="left"))


def time_entries_before(index: TimeIndex, offset: int) -> int:
    """Return how many entries of a time index stay when its log is truncated to ``offset``
    (``TimeIndex.truncateTo``)."""
    return int(np.searchsorted(index.offsets, offset, side="left"))


def transaction_entries_before(index: TransactionIndex, offset: int) -> int:
    """Return how many entries of a transaction index stay: those before the first marker at or after ``offset``
    (``TransactionIndex.truncateTo``)."""
    later = np.flatnonzero(index.last_offsets >= offset)
    return int(later[0]) if len(later) else len(index.last_offsets)
