"""Writes a partition's log: append, roll, flush, truncate at either end, close.

What Kafka's ``UnifiedLog`` and ``LocalLog`` (4.1.1) do with their files, in the same order: data, then what points into
it, then what says that both are there. Everything appended counts as replicated: the high watermark is the log's end.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from brokerless import clock
from brokerless.bounds import check_arguments
from brokerless.errors import UnwritableError, UsageError
from brokerless.format import layouts
from brokerless.format.read.batch_headers import Batches
from brokerless.log import names
from brokerless.log.checkpoint.leader_epochs import (
    Epochs,
    assign_batches,
    leader_epoch_checkpoint,
    truncate_from_end,
    truncate_from_start,
)
from brokerless.log.checkpoint.offset_checkpoints import PartitionOffsets
from brokerless.log.config import LogConfig
from brokerless.log.producer.loading import LoadedProducers, load_producers
from brokerless.log.producer.state import CompletedTransaction, ProducerState, aborted_entry, snapshots_out_of_range
from brokerless.log.storage.atomic import sync_directory, write_file
from brokerless.log.storage.guarded_files import open_own
from brokerless.log.storage.segment_files import list_files
from brokerless.log.storage.write_errors import unwritable
from brokerless.log.write.active_segment import SegmentState, roll_offset
from brokerless.log.write.copied_boundaries import SegmentBoundaries
from brokerless.log.write.follower_append import check_next, check_sizes, whole_batches
from brokerless.log.write.retention import ClosedSegment, before_start, expired
from brokerless.log.write.segment_state import (
    clear_segment,
    describe_for_retention,
    remove_segments,
    sync_file,
    truncated_segment,
)
from brokerless.log.write.segment_writer import SegmentWriter


@dataclass(frozen=True, slots=True)
class Appended:
    """What was appended: the first batch's base offset (v0 and v1: its message's or wrapper's offset), the last batch's
    last offset, the number of batches, and their bytes."""

    first_offset: int
    last_offset: int
    batches: int
    size: int


@dataclass(slots=True)
class LogContents:
    """What is in a partition's directory when it is opened: the base offsets of its segments, the last of them as it is
    (the segment is made if there are none), and what is known of offsets, leader epochs and producers."""

    segments: list[int]
    active: SegmentState
    log_start_offset: int
    recovery_point: int
    log_end_offset: int
    epochs: Epochs
    producers: LoadedProducers


class LogWriter:
    """A partition's log, open for writing by one thread; :func:`open_log` makes it.

    If the disk fails, the method raises :class:`UnwritableError`, and so do all later calls. What was flushed is safe;
    the next opening recovers the rest.
    """

    def __init__(
        self,
        directory: Path,
        config: LogConfig,
        contents: LogContents,
        write_checkpoints: Callable[[PartitionOffsets], None] = lambda checkpoints: None,
        release: Callable[[bool], None] = lambda is_clean: None,
        *,
        is_bulk: bool = False,
        boundaries: SegmentBoundaries | None = None,
    ) -> None:
        """``write_checkpoints`` gets this partition's lines when they change; ``release`` is called when the log was
        closed, with whether no write failed. ``is_bulk``: this is written as a whole before anybody reads it, so a
        segment is not synced when the next one begins, but with the next :meth:`flush`, and does not stay in memory.
        ``boundaries``: where segments begin beside those that ``config`` makes necessary."""
        self._directory = directory
        self._config = config
        self._write_checkpoints = write_checkpoints
        self._release = release
        self._is_bulk, self._boundaries = is_bulk, boundaries or SegmentBoundaries()
        self._failed = self._closed = False
        self._segments = contents.segments or [contents.active.base_offset]
        self._unsynced: list[Path] = []
        self._log_start_offset = contents.log_start_offset
        self._recovery_point = max(contents.recovery_point, contents.log_start_offset)
        self._log_end_offset = contents.log_end_offset
        self._epochs = contents.epochs
        self._producers = contents.producers
        self._active = SegmentWriter(directory, contents.active, config, is_bulk=is_bulk)

    @property
    def log_start_offset(self) -> int:
        """The first offset that a reader gets. The first segment may still have batches before it."""
        return self._log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset after the last record: the next one gets it, or a larger one."""
        return self._log_end_offset

    @property
    def recovery_point(self) -> int:
        """The offset up to which everything is synced."""
        return self._recovery_point

    @property
    def last_stable_offset(self) -> int:
        """The offset at which read_committed ends: that of the first open transaction, or the log's end."""
        unstable = self._producers.state.first_unstable_offset
        return self._log_end_offset if unstable is None else max(unstable, self._log_start_offset)

    @property
    def segments(self) -> tuple[int, ...]:
        """The base offsets of all segments; the last is the active one."""
        return tuple(self._segments)

    @property
    def leader_epochs(self) -> Epochs:
        return self._epochs

    @property
    def producers(self) -> ProducerState:
        return self._producers.state

    @check_arguments
    def append(self, buffer: NDArray[np.uint8], batches: Batches | None = None) -> Appended:
        """Append whole batches with their final offsets and leader epochs, as a follower does.

        They may have any format, and go into as many segments as they need. It is ``UnifiedLog.appendAsFollower``, as
        if each batch came by itself.

        Parameters
        ----------
        buffer
            uint8: the batches, one after the other.
        batches
            Their headers (:func:`~brokerless.log.write.follower_append.whole_batches`), if they were read already.

        Returns
        -------
        Appended
            The offsets, the number of batches, and their bytes.

        Raises
        ------
        RefusedError
            For a batch that is cut off, has a wrong checksum, does not come after the log's end, does not continue its
            producer's sequence, or is larger than a segment (unless the log is written as a whole). Nothing is
            appended then.
        """
        batches = whole_batches(buffer) if batches is None else batches
        if not len(batches):
            return Appended(self._log_end_offset, self._log_end_offset - 1, 0, 0)
        check_next(batches, buffer, self._log_end_offset, producers=self._producers.state)
        if not self._is_bulk:
            check_sizes(batches, self._config)
        with self._writing():
            self._set_epochs(assign_batches(self._epochs, batches))
            has_producers = bool((batches.producer_id > layouts.NO_PRODUCER_ID).any())
            row = 0
            while row < len(batches):
                until = self._boundaries.row(batches, row, self._segments[-1])
                end = row if until == row else self._active.append(buffer, batches.take(slice(0, until)), row)
                if end == row:
                    self._roll(self._boundaries.take() if until == row else roll_offset(batches, row))
                    continue
                self._log_end_offset = int(batches.last_offset[end - 1]) + 1
                if has_producers or self._producers.state.has_recorded:
                    update = self._producers.state.update(batches.take(slice(row, end)), buffer)
                    self._append_aborted(update.completed)
                self._producers.state.end_offset = self._log_end_offset
                row = end
        return Appended(int(batches.entry_offset[0]), int(batches.last_offset[-1]), len(batches), len(buffer))

    @check_arguments
    def roll(self, offset: int = 0) -> None:
        """Begin a new segment, unless the active one is empty. The next record gets ``offset`` or a larger one."""
        if self._active.size or offset > self._log_end_offset:
            with self._writing():
                self._roll(offset)
                self._log_end_offset = self._segments[-1]

    def flush(self) -> None:
        """Sync everything that was appended: each segment's log and indexes, at last the recovery point."""
        with self._writing():
            self._flush()
            self._checkpoint()

    @check_arguments
    def truncate_to(self, offset: int) -> bool:
        """Remove all batches with offsets from ``offset`` on. Return whether the log reached so far.

        Raises :class:`UsageError` for a negative offset.
        """
        offset = operator.index(offset)
        if offset < 0:
            raise UsageError(f"truncate_to: {offset} is not an offset")
        with self._writing():
            if offset >= self._log_end_offset:
                self._set_epochs(truncate_from_end(self._epochs, self._log_end_offset))
                return False
            if self._segments[0] > offset:
                self._truncate_fully(offset)
                return True
            # The checkpoints go first: what is appended from here on is not synced, whatever they said before.
            self._recovery_point = min(self._recovery_point, offset)
            self._log_start_offset = min(self._log_start_offset, offset)
            self._log_end_offset = offset
            self._checkpoint()
            self._active.close()
            kept = [base for base in self._segments if base <= offset]
            remove_segments(self._directory, reversed(self._segments[len(kept) :]))
            self._segments = kept
            state, transactions = truncated_segment(list_files(self._directory), kept[-1], offset)
            self._active = SegmentWriter(self._directory, state, self._config, transactions)
            self._set_epochs(truncate_from_end(self._epochs, offset))
            self._reload_producers()
            return True

    @check_arguments
    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Delete everything, so that the log begins at ``offset``. Raises :class:`UsageError` for a negative one."""
        offset = operator.index(offset)
        if offset < 0:
            raise UsageError(f"truncate_fully_and_start_at: {offset} is not an offset")
        with self._writing():
            self._truncate_fully(offset)

    @check_arguments
    def delete_records_before(self, offset: int) -> int:
        """Set the log start offset to ``offset``, if it was lower, delete the segments before it, and return how
        many. Raises :class:`UsageError` for an offset past the log's end."""
        offset = operator.index(offset)
        if offset > self._log_end_offset:
            raise UsageError(f"delete_records_before: {offset} is past the log's end, {self._log_end_offset}")
        if offset <= self._log_start_offset:
            return 0
        with self._writing():
            self._raise_log_start(offset)
            return self._delete_oldest(before_start(self._describe(), self._log_start_offset))

    @check_arguments
    def apply_retention(self, now_ms: int) -> int:
        """Delete the segments that retention deletes at ``now_ms`` (since the epoch), and return how many.

        The log start offset becomes that of the first segment that is left.
        """
        with self._writing():
            return self._delete_oldest(expired(self._describe(), self._log_start_offset, self._config, now_ms))

    def close(self) -> None:
        """Close the log as a broker's clean stop does: everything is synced, with a producer snapshot at the end."""
        if self._closed:
            return
        try:
            if not self._failed:
                with self._writing():
                    self._active.finish()
                    self._producers.take_snapshot()
                    self._write_snapshots()
                    self._flush()
                    self._checkpoint()
        finally:
            self._closed = True
            self._active.close()
            self._release(not self._failed)

    def abandon(self) -> None:
        """Close the files without writing, as if the process had been killed."""
        if not self._closed:
            self._failed = True
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _roll(self, next_offset: int) -> None:
        base_offset = max(next_offset, self._log_end_offset)
        self._append_aborted(self._producers.state.skip(base_offset))
        old = self._active
        old.finish()
        # The snapshot is as of the new segment's first offset, so that its recovery can begin with it.
        self._producers.state.end_offset = base_offset
        self._producers.take_snapshot()
        self._write_snapshots()
        if self._is_bulk:
            self._unsynced += old.paths
        else:
            old.flush()
        old.close()
        clear_segment(self._directory, base_offset)
        self._active = SegmentWriter(self._directory, SegmentState(base_offset), self._config, is_bulk=self._is_bulk)
        self._segments.append(base_offset)
        if not self._is_bulk:
            sync_directory(self._directory)
            self._recovery_point = max(self._recovery_point, base_offset)

    def _append_aborted(self, completed: Sequence[CompletedTransaction]) -> None:
        aborted = [aborted_entry(each) for each in completed if each.is_aborted]
        if aborted:
            self._active.append_aborted(b"".join(aborted))

    def _flush(self) -> None:
        for path in self._unsynced:
            sync_file(path)
        self._unsynced.clear()
        self._active.flush()
        sync_directory(self._directory)
        self._recovery_point = self._log_end_offset

    def _checkpoint(self) -> None:
        # Kafka records the log start offset only where the first segment does not say the same.
        start = self._log_start_offset if self._log_start_offset > self._segments[0] else None
        self._write_checkpoints(PartitionOffsets(self._recovery_point, start, self._log_end_offset))

    def _set_epochs(self, epochs: Epochs) -> None:
        if epochs != self._epochs:
            write_file(self._directory / names.LEADER_EPOCH_CHECKPOINT, leader_epoch_checkpoint(epochs))
            self._epochs = epochs

    def _truncate_fully(self, offset: int) -> None:
        gone, self._segments = self._segments, [offset]
        self._recovery_point = min(self._recovery_point, offset)
        self._log_start_offset = self._log_end_offset = offset
        self._checkpoint()
        self._set_epochs(())
        self._active.close()
        remove_segments(self._directory, reversed(gone))
        for left in list_files(self._directory).offsets("producer-snapshot"):
            self._drop_snapshot(left)
        self._producers = LoadedProducers(ProducerState(offset), 0)
        self._active = SegmentWriter(self._directory, SegmentState(offset), self._config)
        self._reload_producers()

    def _reload_producers(self) -> None:
        """After the log was cut back (``UnifiedLog.rebuildProducerState``)."""
        files = list_files(self._directory)
        offsets = files.offsets("producer-snapshot")
        for offset in snapshots_out_of_range(offsets, self._log_start_offset, self._log_end_offset):
            self._drop_snapshot(offset)
        limits = self._log_start_offset, self._log_end_offset
        self._producers = load_producers(list_files(self._directory), self._segments, *limits, clock.now())
        for offset in self._producers.corrupt:
            self._drop_snapshot(offset)
        self._write_snapshots()

    def _drop_snapshot(self, offset: int) -> None:
        (self._directory / names.segment_file(offset, "producer-snapshot")).unlink(missing_ok=True)

    def _write_snapshots(self) -> None:
        for offset, snapshot in self._producers.write.items():
            path = self._directory / names.segment_file(offset, "producer-snapshot")
            if self._is_bulk:
                with os.fdopen(open_own(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
                    file.write(snapshot)
                self._unsynced.append(path)
            else:
                write_file(path, snapshot)
        self._producers.write.clear()

    def _describe(self) -> list[ClosedSegment]:
        state = self._active.state
        timestamp = state.max_timestamp if state.max_timestamp >= 0 else clock.now()
        closed = describe_for_retention(list_files(self._directory), self._segments[:-1])
        return [*closed, ClosedSegment(state.base_offset, state.size, timestamp)]

    def _raise_log_start(self, offset: int) -> None:
        self._log_start_offset = offset
        self._recovery_point = max(self._recovery_point, offset)
        self._checkpoint()
        self._set_epochs(truncate_from_start(self._epochs, offset))
        self._producers.state.end_offset = max(self._producers.state.end_offset, offset)
        snapshots = list_files(self._directory).offsets("producer-snapshot")
        self._producers.snapshot_offset = snapshots[-1] if snapshots else offset

    def _delete_oldest(self, count: int) -> int:
        if count == len(self._segments):
            self._roll(self._log_end_offset)
        gone, kept = self._segments[:count], self._segments[count:]
        if gone:
            if kept[0] > self._log_start_offset:
                self._raise_log_start(kept[0])
            self._segments = kept
            remove_segments(self._directory, gone)
            sync_directory(self._directory)
            self._checkpoint()
        return count

    @contextmanager
    def _writing(self) -> Generator[None]:
        if self._closed and not self._failed:
            raise UsageError(f"{self._directory}: this log was closed")
        if self._failed:
            raise UnwritableError(f"{self._directory}: writing to this log failed before; open it again")
        try:
            with unwritable(self._directory):
                yield
        except BaseException:
            self._failed = True
            raise
