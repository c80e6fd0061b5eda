"""A kernel that gathers values of any length from a column of bytes."""

# Inside kernels, numbers are Numba's, and intrinsics take what Numba gives them.
# pyright: basic, reportCallIssue=false, reportReturnType=false, reportArgumentType=false, reportAssignmentType=false

from __future__ import annotations

import numpy as np

from brokerless.format.columns import SLACK
from brokerless.format.intrinsics import copy_value
from brokerless.format.kernel import kernel


@kernel(
    "int64(int64[::1], Array(int32, 1, 'C', readonly=True), Array(uint8, 1, 'C', readonly=True), int32[::1], "
    "uint8[::1])"
)
def gather_values(rows, ends, data, target_ends, target) -> int:
    """Copies the values of ``rows``, which are ``data[ends[row]:ends[row + 1]]``, one after the other into ``target``,
    and where each ends into ``target_ends``, whose first is set by the caller. Returns how many rows were copied: fewer
    than there are where a row is not in ``data``, or ``target`` with its :data:`SLACK` is too small."""
    at = np.int64(target_ends[0])
    limit = len(target) - SLACK
    for place in range(len(rows)):
        row = rows[place]
        if row < 0 or row + 1 >= len(ends) or place + 1 >= len(target_ends):
            return place
        start = np.int64(ends[row])
        length = np.int64(ends[row + 1]) - start
        if start < 0 or length < 0 or start + length > len(data) or at + length > limit:
            return place
        copy_value(target, at, data, start, length)
        at += length
        target_ends[place + 1] = at
    return len(rows)
