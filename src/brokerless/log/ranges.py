"""Ranges of offsets and timestamps, and the segments, batches and rows that they select. Imports no kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from brokerless.format.columns import RecordColumns
from brokerless.format.read.batch_headers import Batches
from brokerless.log.directory import PartitionPath, SegmentPaths


@dataclass(frozen=True, slots=True)
class Range:
    """The records that are selected: ``start <= x < end`` for offsets and for timestamps (ms); None is without
    bound."""

    start_offset: int | None = None
    end_offset: int | None = None
    start_timestamp: int | None = None
    end_timestamp: int | None = None
    prune: bool = True
    """Whether batches are passed over by the times in headers and time indexes, as Kafka does; otherwise all are read,
    and each record's own timestamp decides."""

    @property
    def is_everything(self) -> bool:
        return replace(self, prune=True) == EVERYTHING

    @property
    def pruned_from(self) -> int | None:
        """The timestamp (ms) before which batches are passed over by their headers; None where none are."""
        return self.start_timestamp if self.prune else None

    def narrow(self, other: Range) -> Range:
        """Return what is in both."""
        return Range(
            _tightest(max, self.start_offset, other.start_offset),
            _tightest(min, self.end_offset, other.end_offset),
            _tightest(max, self.start_timestamp, other.start_timestamp),
            _tightest(min, self.end_timestamp, other.end_timestamp),
            prune=self.prune and other.prune,
        )

    def batches(self, batches: Batches) -> NDArray[np.bool_]:
        """Return which batches may hold such records, by their headers: bool, shape ``(n,)``."""
        requested = np.ones(len(batches), np.bool_)
        if self.start_offset is not None:
            requested &= batches.end_of_records >= self.start_offset
        if self.end_offset is not None:
            # A wrapper's offset is its last one: its first may be far before.
            requested &= (batches.entry_offset < self.end_offset) | batches.is_wrapper
        if (since := self.pruned_from) is not None:
            requested &= batches.max_timestamp >= since
        return requested

    def rows(self, columns: RecordColumns) -> NDArray[np.bool_] | None:
        """Return which decoded rows are selected; None for all."""
        requested = np.ones(columns.rows, np.bool_)
        for values, start, end in (
            (columns.offset[: columns.rows], self.start_offset, self.end_offset),
            (columns.timestamp[: columns.rows], self.start_timestamp, self.end_timestamp),
        ):
            if start is not None:
                requested &= values >= start
            if end is not None:
                requested &= values < end
        return None if requested.all() else requested

    def segments(self, segments: tuple[SegmentPaths, ...]) -> tuple[SegmentPaths, ...]:
        """Return which segments may hold such offsets, by their names."""
        chosen: list[SegmentPaths] = []
        for segment, following in zip_longest(segments, segments[1:]):
            if self.end_offset is not None and segment.base_offset >= self.end_offset:
                continue
            if following is not None and self.start_offset is not None and following.base_offset <= self.start_offset:
                continue
            chosen.append(segment)
        return tuple(chosen)


EVERYTHING = Range()


def from_log_start(partition: PartitionPath) -> Range:
    """Return what readers get of a partition: all from the log start offset on, where the first segment begins before
    it."""
    first = partition.segments[0].base_offset if partition.segments else 0
    return Range(partition.log_start_offset) if partition.log_start_offset > first else EVERYTHING


@dataclass(frozen=True, slots=True)
class FileSpan:
    """The offsets of a file: ``start_offset <= offset < end_offset`` holds for all batches that are read of it."""

    start_offset: int
    end_offset: int
    start: int
    """Where the first of these batches begins (bytes)."""

    @property
    def range(self) -> Range:
        return Range(self.start_offset, self.end_offset)


@dataclass(slots=True)
class Countdown:
    """How many rows are still to be taken, of those that are read one after the other."""

    left: int

    def end_of_reading(
        self, rows: NDArray[np.bool_] | None, given: NDArray[np.int32], positions: NDArray[np.int64]
    ) -> int:
        """Take rows, those that are selected (bool) or all, of which ``given[i]`` are of the batch at ``positions[i]``.
        Return the position (bytes) of the batch with the last one, -1 where others are to follow."""
        before = self.left
        self.left -= int(given.sum() if rows is None else rows.sum())
        if self.left > 0 or before <= 0:
            return -1
        row = before - 1 if rows is None else int(np.flatnonzero(rows)[before - 1])
        return int(positions[np.searchsorted(np.cumsum(given), row, "right")])


def both(one: NDArray[np.bool_] | None, other: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    """Return the rows that both select; None selects all."""
    return other if one is None else one if other is None else one & other


def _tightest(choose: Callable[..., int], one: int | None, other: int | None) -> int | None:
    return choose((bound for bound in (one, other) if bound is not None), default=None)
