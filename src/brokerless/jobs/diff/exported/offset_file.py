"""Offsets that are recorded while a table is copied, however many: in a file beside the copy."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from brokerless.format.arrays import Int64s
from brokerless.jobs.diff.copied_partition import CopiedPartition
from brokerless.log.directory import PartitionPath

_WIDTH = 8
_PART = 1 << 16


class OffsetFile:
    """Writes offsets, which come in order, to a file of its own in a temporary directory. It can be closed by its
    context."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")

    def __enter__(self) -> OffsetFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, offsets: Int64s) -> None:
        """Write some more. Raises OSError."""
        self._file.write(offsets.tobytes())


class RecordedOffsets:
    """The offsets of such a file, ascending, which are read where they are needed; none without a file."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._count = path.stat().st_size // _WIDTH if path is not None and path.exists() else 0

    def __len__(self) -> int:
        return self._count

    def between(self, first: int, end: int) -> Int64s:
        """Return those in ``[first, end)``: int64."""
        start = self._find(first)
        return self._read(start, self._find(end) - start)

    def parts(self) -> Iterator[Int64s]:
        """Yield all of them: int64, some at a time."""
        for start in range(0, self._count, _PART):
            yield self._read(start, _PART)

    def _find(self, offset: int) -> int:
        return bisect_left(range(self._count), offset, key=lambda place: int(self._read(place, 1)[0]))

    def _read(self, start: int, count: int) -> Int64s:
        if self._path is None or count <= 0:
            return np.zeros(0, np.int64)
        return np.fromfile(self._path, np.int64, count, offset=start * _WIDTH)


def repeated_offsets(partition: PartitionPath) -> RecordedOffsets:
    """Return the offsets of rows that came again in a table, each as often as it did."""
    return RecordedOffsets(partition.repeated if isinstance(partition, CopiedPartition) else None)
