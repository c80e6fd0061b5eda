"""Offsets that are recorded while a table is copied, however many: in a file beside the copy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from brokerless.jobs.diff.copied_partition import CopiedPartition
from brokerless.log.directory import PartitionPath

Int64s = NDArray[np.int64]


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


def read_offsets(path: Path | None) -> Int64s:
    """Return the offsets of a file: int64, mapped into memory; none without one."""
    if path is None or not path.exists() or not path.stat().st_size:
        return np.zeros(0, np.int64)
    return np.memmap(path, np.int64, "r")


def repeated_offsets(partition: PartitionPath) -> Int64s:
    """Return the offsets of rows that came again in a table, ascending, each as often as it did: int64."""
    return read_offsets(partition.repeated if isinstance(partition, CopiedPartition) else None)
