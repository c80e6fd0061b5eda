"""A flag for each of very many rows, one bit each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
_BLOCK = 1 << 20
"""Rows of a block: as many flags are unpacked at once."""


class RowFlags:
    """Flags that are false until they are set, by the number of the row."""

    def __init__(self) -> None:
        self._blocks: list[NDArray[np.uint8]] = []

    def get(self, start: int, count: int) -> Bools:
        """Those of ``count`` rows from ``start`` on: bool, shape ``(count,)``."""
        flags = np.zeros(count, np.bool_)
        for block, rows, target in _parts(start, count):
            if block < len(self._blocks):
                flags[target] = np.unpackbits(self._blocks[block])[rows].view(np.bool_)
        return flags

    def set(self, start: int, flags: Bools) -> None:
        """Sets those of the rows from ``start`` on."""
        for block, rows, source in _parts(start, len(flags)):
            while block >= len(self._blocks):
                self._blocks.append(np.zeros(_BLOCK // 8, np.uint8))
            unpacked = np.unpackbits(self._blocks[block])
            unpacked[rows] = flags[source]
            self._blocks[block] = np.packbits(unpacked)


def _parts(start: int, count: int) -> list[tuple[int, slice, slice]]:
    """The blocks that hold some rows: which rows of each, and which of the requested ones."""
    parts: list[tuple[int, slice, slice]] = []
    at = start
    while at < start + count:
        block, row = divmod(at, _BLOCK)
        size = min(_BLOCK - row, start + count - at)
        parts.append((block, slice(row, row + size), slice(at - start, at - start + size)))
        at += size
    return parts
