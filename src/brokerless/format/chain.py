"""The chain of sizes as a kernel: the same walk as :func:`brokerless.format.batches.walk`, for many batches."""

# Inside kernels, numbers are Numba's, and intrinsics take what Numba gives them.
# pyright: basic, reportCallIssue=false, reportReturnType=false, reportArgumentType=false, reportAssignmentType=false

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.format.kernel import kernel
from brokerless.format.words import load_u32_be

_END, _SIZE_TOO_SMALL = 1, 2


@kernel("UniTuple(int64, 3)(Array(uint8, 1, 'C', readonly=True), int64, int64, int64[::1])")
def walk_chain(buffer: NDArray[np.uint8], start: int, until: int, positions: NDArray[np.int64]) -> tuple[int, int, int]:
    """Fills ``positions`` from ``start`` on, with batches that begin before ``until``; returns how many, where it
    stopped, and why (:class:`brokerless.format.batches.Stop`)."""
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
