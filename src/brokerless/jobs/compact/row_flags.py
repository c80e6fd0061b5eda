"""A flag for each of very many rows, one bit each."""

from __future__ import annotations

import numpy as np

from brokerless.format.arrays import Bools

_FIRST_BYTES = 1 << 12


class RowFlags:
    """Flags that are false until they are set, by the number of the row."""

    def __init__(self) -> None:
        self.bits = np.zeros(_FIRST_BYTES, np.uint8)
        """For kernels: uint8, the flag of row ``i`` is bit ``i % 8`` of byte ``i // 8``. It is another array after
        :meth:`reserve`."""

    def reserve(self, rows: int) -> None:
        """Makes room for so many rows."""
        if rows > 8 * len(self.bits):
            bits = np.zeros(max(2 * len(self.bits), rows // 8 + 1), np.uint8)
            bits[: len(self.bits)] = self.bits
            self.bits = bits

    def get(self, start: int, count: int) -> Bools:
        """Those of ``count`` rows from ``start`` on: bool, shape ``(count,)``."""
        self.reserve(start + count)
        first = start // 8
        unpacked = np.unpackbits(self.bits[first : (start + count + 7) // 8], bitorder="little")
        return unpacked[start - 8 * first : start - 8 * first + count].view(np.bool_)

    def set(self, start: int, flags: Bools) -> None:
        """Sets those of the rows from ``start`` on."""
        self.reserve(start + len(flags))
        bounds = slice(start // 8, (start + len(flags) + 7) // 8)
        unpacked = np.unpackbits(self.bits[bounds], bitorder="little")
        unpacked[start % 8 : start % 8 + len(flags)] = flags
        self.bits[bounds] = np.packbits(unpacked, bitorder="little")
