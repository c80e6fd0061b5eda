"""A kernel that finds which stretches of a buffer contain a byte string.

Three of its bytes are compared at 64 positions at once, and the rest only where all three are in place: as libraries do
that search for text, those which the buffer has least (:func:`find_rarest`).
"""

# pyright: basic, reportCallIssue=false

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.format.intrinsics import equal_bytes_64, trailing_zeros
from brokerless.format.kernel import inlined, kernel

_SAMPLED = 4096
"""Bytes of a buffer in which those of a byte string are counted."""


def find_rarest(buffer: NDArray[np.uint8], pattern: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the places in ``pattern`` (of at least one byte) of three bytes that ``buffer`` seldom has: int64, shape
    ``(3,)``; of a shorter one, some are the same."""
    counts = np.bincount(buffer[:: max(1, len(buffer) // _SAMPLED)], minlength=256)
    return np.resize(np.argsort(counts[pattern], kind="stable")[:3], 3).astype(np.int64)


@inlined
def _is_at(buffer: NDArray[np.uint8], at: int, pattern: NDArray[np.uint8]) -> bool:
    same = 0
    while same < len(pattern) and buffer[at + same] == pattern[same]:
        same += 1
    return same == len(pattern)


@kernel(
    "void(Array(uint8, 1, 'C', readonly=True), Array(int64, 1, 'C', readonly=True), "
    "Array(int64, 1, 'C', readonly=True), Array(uint8, 1, 'C', readonly=True), int64[::1], uint8[::1])"
)
def mark_containing(
    buffer: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    pattern: NDArray[np.uint8],
    rarest: NDArray[np.int64],
    found: NDArray[np.uint8],
) -> None:
    """Sets ``found[i]`` to 1 where ``buffer[starts[i]:ends[i]]`` contains ``pattern``, of at least one byte; rows that
    are 1 already are passed over. ``rarest``: the places in ``pattern`` of the three bytes that are compared first."""
    size = len(pattern)
    if size == 0 or len(rarest) < 3:
        return
    one, two, three = rarest[0], rarest[1], rarest[2]
    if min(one, two, three) < 0 or max(one, two, three) >= size:
        return
    first, second, third = pattern[one], pattern[two], pattern[three]
    last_wide = len(buffer) - size - 63
    for row in range(min(len(starts), len(ends), len(found))):
        at = max(starts[row], 0)
        end = min(ends[row], len(buffer)) - size
        is_found = found[row] != 0
        while at <= end and not is_found:
            if at > last_wide:
                is_found = _is_at(buffer, at, pattern)
                at += 1
                continue
            places = equal_bytes_64(buffer, at + one, first) & equal_bytes_64(buffer, at + two, second)
            places &= equal_bytes_64(buffer, at + three, third)
            if places != 0:
                if end - at < 63:
                    places &= (np.uint64(2) << np.uint64(end - at)) - np.uint64(1)
                while places != 0 and not is_found:
                    is_found = _is_at(buffer, at + trailing_zeros(places), pattern)
                    places &= places - np.uint64(1)
            at += 64
        if is_found:
            found[row] = 1
