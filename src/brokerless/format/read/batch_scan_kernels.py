"""Kernels of ``scan_batches``: find where batches begin and end in a buffer or an open file."""

# Inside kernels, numbers are Numba's, and intrinsics take what Numba gives them.
# pyright: basic, reportCallIssue=false, reportReturnType=false, reportArgumentType=false, reportAssignmentType=false

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.format.intrinsics import load_u32_be
from brokerless.format.kernel import external_function, kernel

_END, _SIZE_TOO_SMALL = 1, 2
NOT_READ = 3
"""Why a file's scan stopped, beside :class:`brokerless.format.read.batch_scan.ScanStop`: the system did not read."""

_pread = external_function("pread", "intp(intc, voidptr, uintp, int64)")


@kernel("UniTuple(int64, 3)(Array(uint8, 1, 'C', readonly=True), int64, int64, int64[::1])")
def scan_buffer(
    buffer: NDArray[np.uint8], start: int, until: int, positions: NDArray[np.int64]
) -> tuple[int, int, int]:
    """Fills ``positions`` from ``start`` on, with batches that begin before ``until``; returns how many, where it
    stopped, and why (:class:`brokerless.format.read.batch_scan.ScanStop`)."""
    at, end, found = start, len(buffer), 0
    while found < len(positions) and at < until:
        if at >= end - 17:
            return found, at, _END
        size = np.int64(np.int32(load_u32_be(buffer, at + 8)))
        if size < 14:
            return found, at, _SIZE_TOO_SMALL
        if at > end - 12 - size:
            return found, at, _END
        positions[found] = at
        found += 1
        at += 12 + size
    return found, at, 0


@kernel("UniTuple(int64, 3)(int32, int64, int64, int64, int64[::1], uint8[::1])")
def scan_file(
    descriptor: int, start: int, until: int, end: int, positions: NDArray[np.int64], heads: NDArray[np.uint8]
) -> tuple[int, int, int]:
    """Find the batches of a file that has ``end`` bytes; ``heads`` gets the first 61 bytes of each batch, with zeros
    after the end. What stopped it may be :data:`NOT_READ`."""
    at, found = start, 0
    while found < len(positions) and at < until:
        if at >= end - 17:
            return found, at, _END
        head, length = 61 * found, min(61, end - at)
        got = _pread(descriptor, heads.ctypes.data + head, length, at)
        if got < length:
            return found, at, NOT_READ if got < 0 else _END
        size = np.int64(np.int32(load_u32_be(heads, head + 8)))
        if size < 14:
            return found, at, _SIZE_TOO_SMALL
        if at > end - 12 - size:
            return found, at, _END
        heads[head + length : head + 61] = 0
        positions[found] = at
        found += 1
        at += 12 + size
    return found, at, 0
