"""A kernel that finds which stretches of a buffer contain a byte string."""

# pyright: basic, reportCallIssue=false

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.format.intrinsics import load_u64
from brokerless.format.kernel import inlined, kernel

_ONES = np.uint64(0x0101010101010101)
_HIGH_BITS = np.uint64(0x8080808080808080)


@inlined
def _differences(buffer: NDArray[np.uint8], first: int, last: int, firsts: np.uint64, lasts: np.uint64) -> np.uint64:
    """Eight bytes, each zero only where both the first and the last byte of what is looked for are in place."""
    return (load_u64(buffer, first) ^ firsts) | (load_u64(buffer, last) ^ lasts)


@kernel(
    "void(Array(uint8, 1, 'C', readonly=True), Array(int64, 1, 'C', readonly=True), "
    "Array(int64, 1, 'C', readonly=True), Array(uint8, 1, 'C', readonly=True), uint8[::1])"
)
def mark_containing(
    buffer: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    needle: NDArray[np.uint8],
    found: NDArray[np.uint8],
) -> None:
    """Sets ``found[i]`` to 1 where ``buffer[starts[i]:ends[i]]`` contains ``needle``, of at least one byte; rows that
    are 1 already are passed over."""
    size = len(needle)
    if size == 0:
        return
    firsts, lasts = _ONES * np.uint64(needle[0]), _ONES * np.uint64(needle[size - 1])
    for row in range(min(len(starts), len(ends), len(found))):
        at = max(starts[row], 0)
        end = min(ends[row], len(buffer)) - size
        is_found = found[row] != 0
        while at <= end and not is_found:
            until = end + 1
            if at + 31 <= end:
                # Thirty-two positions at once, by the first and the last byte.
                one = _differences(buffer, at, at + size - 1, firsts, lasts)
                two = _differences(buffer, at + 8, at + size + 7, firsts, lasts)
                three = _differences(buffer, at + 16, at + size + 15, firsts, lasts)
                four = _differences(buffer, at + 24, at + size + 23, firsts, lasts)
                zeros = (one - _ONES) & ~one | (two - _ONES) & ~two
                zeros |= (three - _ONES) & ~three | (four - _ONES) & ~four
                if zeros & _HIGH_BITS == 0:
                    at += 32
                    continue
                until = at + 32
            while at < until and not is_found:
                if buffer[at] == needle[0] and buffer[at + size - 1] == needle[size - 1]:
                    same = 1
                    while same < size and buffer[at + same] == needle[same]:
                        same += 1
                    is_found = same == size
                at += 1
        if is_found:
            found[row] = 1
