"""Appends to the active segment of a log: first to the log file, then to its indexes.

Source: ``LogSegment`` (4.1.1). Kafka maps its indexes and gives them their full size while they are in use; here they
grow, so that they are at any moment what a closed segment has. Methods raise OSError; the files may then end within
what was to be written, as after a crash, and recovery cuts that off.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from brokerless import clock
from brokerless.format import layouts
from brokerless.format.read.batch_headers import Batches
from brokerless.log import names
from brokerless.log.config import LogConfig
from brokerless.log.storage.guarded_files import open_own, sync
from brokerless.log.write.active_segment import SegmentFollower, SegmentState, limits_of

_MOST_AT_ONCE = 1 << 30
"""Bytes in one call; Linux takes no more than 2 GiB."""
_GIVEN_AT_ONCE, _ON_ITS_WAY = 4 << 20, 32 << 20
"""Bytes that are given to the disk in one call, and those that it may not have taken yet."""


class SegmentWriter:
    """A segment that is appended to."""

    def __init__(
        self,
        directory: Path,
        state: SegmentState,
        config: LogConfig,
        transactions: int | None = None,
        *,
        is_bulk: bool = False,
    ) -> None:
        """Opens the segment's files, or makes them, and cuts them to what ``state`` says is in them. The transaction
        index keeps its first ``transactions`` entries; all of them if that is None. ``is_bulk``: much is written, and
        read much later, so it goes to the disk at once and does not stay in memory."""
        self._directory = directory
        self._created = clock.now()
        self._given = state.size if is_bulk and hasattr(os, "posix_fadvise") else None
        self._placement = SegmentFollower(state, limits_of(config))
        offsets_size = state.offset_entries * layouts.OFFSET_INDEX_ENTRY.itemsize
        times_size = state.time_entries * layouts.TIME_INDEX_ENTRY.itemsize
        with ExitStack() as opened:
            self._files = opened
            self._log = self._open("log", state.size)
            self._offsets = self._open("offset-index", offsets_size)
            self._times = self._open("time-index", times_size)
            self._transactions: int | None = None
            if transactions is not None and self.path("transaction-index").exists():
                size = transactions * layouts.TRANSACTION_INDEX_ENTRY.itemsize
                self._transactions = self._open("transaction-index", size)
            self._files = opened.pop_all()

    def _open(self, kind: names.SegmentFileKind, size: int | None = None) -> int:
        descriptor = open_own(self.path(kind), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._files.callback(os.close, descriptor)
        if size is not None and os.fstat(descriptor).st_size != size:
            os.ftruncate(descriptor, size)
        return descriptor

    def path(self, kind: names.SegmentFileKind) -> Path:
        return self._directory / names.segment_file(self.base_offset, kind)

    @property
    def paths(self) -> list[Path]:
        """The paths of the files that exist."""
        kinds = ("log", "offset-index", "time-index", "transaction-index")
        return [self.path(kind) for kind in kinds if kind != "transaction-index" or self._transactions is not None]

    @property
    def state(self) -> SegmentState:
        return self._placement.state

    @property
    def base_offset(self) -> int:
        return self._placement.base_offset

    @property
    def size(self) -> int:
        """Bytes in the log."""
        return self._placement.size

    def append(self, buffer: NDArray[np.uint8], batches: Batches, row: int) -> int:
        """Appends the batches from ``row`` on up to the first one that needs a new segment, and returns its row.

        ``batches`` are contiguous in ``buffer``.
        """
        placed = self._placement.place(batches, row, clock.now() - self._created)
        if placed.end > row:
            _write(self._log, buffer[int(batches.positions[row]) : int(batches.ends[placed.end - 1])])
            _write(self._offsets, placed.offset_index)
            _write(self._times, placed.time_index)
            self._give_to_disk()
        return placed.end

    def _give_to_disk(self) -> None:
        """Begins to write out what was appended, and lets go of the memory of what was written out: taking that again
        is quicker than taking other memory, the last sync has little left to do, and what a broker on this machine has
        in its page cache stays there."""
        if self._given is not None and self.size >= self._given + _GIVEN_AT_ONCE:
            start = max(0, self._given - _ON_ITS_WAY)
            os.posix_fadvise(self._log, start, self.size - start, os.POSIX_FADV_DONTNEED)
            self._given = self.size

    def append_aborted(self, entries: bytes) -> None:
        """Appends to the transaction index, which is made with its first entry."""
        if not entries:
            return
        if self._transactions is None:
            self._transactions = self._open("transaction-index")
        _write(self._transactions, entries)

    def finish(self) -> None:
        """Makes the last entry of the time index, as before the segment is closed or left for a new one."""
        _write(self._times, self._placement.finish())

    def flush(self) -> None:
        """Syncs the log, then its indexes (``LogSegment.flush``)."""
        for descriptor in (self._log, self._offsets, self._times, self._transactions):
            if descriptor is not None:
                sync(descriptor)

    def close(self) -> None:
        """Closes the files without writing. Nothing happens if they are closed already."""
        self._files.close()


def _write(descriptor: int, data: NDArray[np.uint8] | bytes) -> None:
    view = memoryview(data.data if isinstance(data, np.ndarray) else data)
    while len(view):
        view = view[os.write(descriptor, view[:_MOST_AT_ONCE]) :]
