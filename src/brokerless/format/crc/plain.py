"""CRC-32 and CRC-32C of a few bytes in plain Python, without importing Numba.

For processes that check a few batches and need no other kernels, such as Spark's when it plans a query: importing
Numba takes 0.6 s, as long as 10 MB take here.
"""

from __future__ import annotations

import sys
import zlib

import numpy as np
from numpy.typing import NDArray

CRC32C_POLYNOMIAL = 0x82F63B78
_BEFORE_NUMBA = 8 << 20
"""How many bytes a process checks here before importing Numba pays off."""
_checked = 0


def is_plain_cheaper(size: int) -> bool:
    """Return whether checking ``size`` more bytes here is cheaper than with kernels; if so, they are counted."""
    global _checked
    if "brokerless.format.kernel" in sys.modules or _checked + size > _BEFORE_NUMBA:
        return False
    _checked += size
    return True


def _table() -> list[int]:
    remainders = list(range(256))
    for _ in range(8):
        remainders = [(each >> 1) ^ (CRC32C_POLYNOMIAL if each & 1 else 0) for each in remainders]
    return remainders


_TABLE = _table()


def crc32c(data: bytes) -> int:
    """Castagnoli's, as ``Crc32C`` (4.1.1) and iSCSI (RFC 3720) have it."""
    register, table = 0xFFFFFFFF, _TABLE
    for byte in data:
        register = table[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register ^ 0xFFFFFFFF


def crc32c_ranges(
    buffer: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], out: NDArray[np.uint32]
) -> None:
    """Fills ``out`` with the CRC-32C of ``buffer[starts[i]:ends[i]]``; all of shape ``(n,)``."""
    for row, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        out[row] = crc32c(buffer[start:end].tobytes())


def crc32_ranges(
    buffer: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], out: NDArray[np.uint32]
) -> None:
    """Compute CRC-32 of several ranges."""
    for row, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        out[row] = zlib.crc32(buffer[start:end].tobytes())
