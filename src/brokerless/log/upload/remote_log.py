"""Writes a partition's batches as remote segments, with the indexes that a broker would have made of them.

Indexes, producer snapshots and leader epochs are made of the batches, never copied: a broker's own may be wrong, even
after a clean stop. Sources: ``LogSegment``, ``UnifiedLog.append`` (4.4.0), as in :mod:`brokerless.log.write`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from brokerless import clock
from brokerless.bounds import MAX_INT32
from brokerless.format import layouts
from brokerless.format.read.batch_headers import Batches
from brokerless.log.checkpoint.leader_epochs import (
    Epochs,
    assign_batches,
    leader_epoch_checkpoint,
    truncate_from_end,
    truncate_from_start,
)
from brokerless.log.config import DEFAULTS, LogConfig
from brokerless.log.producer.state import CompletedTransaction, ProducerState, aborted_entry
from brokerless.log.tiered.manifest import IndexName
from brokerless.log.tiered.writing.objects import ObjectFormat, SegmentEnd, SegmentUpload, StoredSegment, UploadPlace
from brokerless.log.write.active_segment import SegmentFollower, SegmentState, limits_of, roll_offset
from brokerless.log.write.copied_boundaries import SegmentBoundaries
from brokerless.log.write.follower_append import check_next, whole_batches

NO_EPOCH: Epochs = ((0, 0),)
"""Of a log whose batches have none: a broker takes no metadata of a segment without one."""


@dataclass(frozen=True, slots=True)
class UploadedLog:
    """The state where a log begins that is written as remote segments."""

    start_offset: int
    producers: ProducerState
    """The producers, which follow what is appended."""
    epochs: Epochs = ()
    """The leader epochs of the log, each with its first offset. They include epochs that began before the first batch,
    and those in which nothing was written. Where this is empty, the epochs are those of the batches."""
    config: LogConfig = DEFAULTS
    base_offsets: Sequence[int] = ()
    """Where segments begin in addition to those that ``config`` makes necessary."""


class RemoteLogOutput:
    """A partition's log that is being written as remote segments. Leaving it as a context manager drops the segment
    that is not complete; those before it are whole."""

    def __init__(self, place: UploadPlace, log: UploadedLog, how: ObjectFormat) -> None:
        self._place, self._how, self._known = place, how, log.epochs
        self._limits = limits_of(log.config)
        self._boundaries = SegmentBoundaries(log.base_offsets)
        self._producers = log.producers
        self._epochs: Epochs = ()
        self._end = log.start_offset
        self._stored: list[StoredSegment] = []
        self._begin(log.start_offset)

    @property
    def end_offset(self) -> int:
        """The offset after the last one."""
        return self._end

    @property
    def producers(self) -> ProducerState:
        """What is known of producers at its end."""
        return self._producers

    def append(self, buffer: NDArray[np.uint8]) -> None:
        """Takes whole batches with their offsets and epochs. Raises :class:`RefusedError`, and takes nothing, for what
        no log takes (:meth:`brokerless.log.write.log_writer.LogWriter.append`); and UnwritableError."""
        batches = whole_batches(buffer)
        if not len(batches):
            return
        check_next(batches, buffer, self._end, producers=self._producers)
        row = 0
        while row < len(batches):
            until = self._boundaries.row(batches, row, self._follower.base_offset)
            placed = None if until == row else self._follower.place(batches.take(slice(0, until)), row)
            if placed is None or placed.end == row:
                self._roll(self._boundaries.take() if placed is None else self._next_base(batches, row))
                continue
            self._upload.write(buffer[int(batches.positions[row]) : int(batches.ends[placed.end - 1])])
            self._offsets += placed.offset_index
            self._times += placed.time_index
            self._follow(batches.take(slice(row, placed.end)), buffer)
            row = placed.end

    def finish(self) -> tuple[StoredSegment, ...]:
        """Completes the last segment, and returns all of them. Raises :class:`UnwritableError`."""
        self._end_segment()
        return tuple(self._stored)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._upload.abandon()

    def _follow(self, batches: Batches, buffer: NDArray[np.uint8]) -> None:
        self._epochs = assign_batches(self._epochs, batches)
        self._end = int(batches.last_offset[-1]) + 1
        has_producers = bool((batches.producer_id > layouts.NO_PRODUCER_ID).any())
        if has_producers or self._producers.has_recorded:
            self._add_aborted(self._producers.update(batches, buffer).completed)
        self._producers.end_offset = self._end

    def _next_base(self, batches: Batches, row: int) -> int:
        """Return where the segment begins that a batch makes necessary: where the one before ends, also where offsets
        are missing, so that each offset is in one; unless the segment could not hold it."""
        if int(batches.last_offset[row]) - self._end <= MAX_INT32:
            return self._end
        return max(self._end, roll_offset(batches, row))

    def _roll(self, base_offset: int) -> None:
        self._add_aborted(self._producers.skip(base_offset))
        self._end_segment()
        self._producers.end_offset = self._end = base_offset
        self._begin(base_offset)

    def _begin(self, base_offset: int) -> None:
        self._follower = SegmentFollower(SegmentState(base_offset), self._limits)
        self._offsets, self._times, self._transactions = bytearray(), bytearray(), bytearray()
        self._upload = SegmentUpload(self._place, base_offset, self._how)

    def _add_aborted(self, completed: Sequence[CompletedTransaction]) -> None:
        self._transactions += b"".join(aborted_entry(each) for each in completed if each.is_aborted)

    def _end_segment(self) -> None:
        if not self._follower.size:
            return
        state = self._follower.state
        self._times += self._follower.finish()
        epochs = truncate_from_end(self._known or self._epochs, self._end)
        indexes: dict[IndexName, bytes] = {
            "offset": bytes(self._offsets),
            "timestamp": bytes(self._times),
            "producerSnapshot": self._producers.snapshot(),
            "leaderEpoch": leader_epoch_checkpoint(epochs),
        }
        if self._transactions:
            indexes["transaction"] = bytes(self._transactions)
        own = truncate_from_start(epochs, state.base_offset) or NO_EPOCH
        # A segment without timestamps is as old as its file (LogSegment.largestTimestamp).
        timestamp = state.max_timestamp if state.max_timestamp >= 0 else clock.now()
        own = tuple((epoch, max(offset, state.base_offset)) for epoch, offset in own)
        self._stored.append(self._upload.finish(SegmentEnd(self._end - 1, timestamp, own, indexes)))
