"""A kernel that finds positions where a batch may start, by their header alone."""

# pyright: basic, reportCallIssue=false

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.format.intrinsics import load_u32_be, load_u64, load_u64_be, trailing_zeros
from brokerless.format.kernel import inlined, kernel

_ONES = np.uint64(0x0101010101010101)
_TWOS = np.uint64(0x0202020202020202)
_THREES = np.uint64(0x0303030303030303)
_SIXTEENS = np.uint64(0xF0F0F0F0F0F0F0F0)
_HIGH_BITS = np.uint64(0x8080808080808080)


@inlined
def _may_be_keys(keys: np.uint64, sizes: np.uint64) -> np.uint64:
    """The high bit of each of eight bytes: whether it may begin the length of a key in a message whose size begins with
    the other, which has no high bit."""
    null = ~keys
    return (((sizes | _HIGH_BITS) - (keys & ~_HIGH_BITS)) & ~keys) | ((null - _ONES) & ~null)


@kernel("UniTuple(int64, 2)(Array(uint8, 1, 'C', readonly=True), int64, int64, int64, int64[::1])")
def find_candidates(
    buffer: NDArray[np.uint8], start: int, until: int, more: int, positions: NDArray[np.int64]
) -> tuple[int, int]:
    """Fills ``positions`` with those in ``[start, until)`` whose header is plausible; returns how many, and where to
    continue.

    The header must be in the buffer, and all of the batch there or in the ``more`` bytes that follow it in its file;
    fewer than ``len(positions)`` means that the end was reached.
    """
    found = 0
    at = start
    end = min(until, len(buffer) - 25)
    while at < end and found < len(positions):
        # Eight positions at once: skip to the first whose magic is 0, 1 or 2, unless all their sizes are zero.
        magics = load_u64(buffer, at + 16)
        if magics == 0 and load_u64(buffer, at + 8) == 0:
            at += 8
            continue
        possible = (magics - _THREES) & ~magics & _HIGH_BITS
        if possible != 0 and at + 65 <= len(buffer):
            # Binary data is full of small bytes, so more is checked for all eight. No size is zero; the attributes of
            # v2 begin with a zero; those of v0 and v1 are less than 16, and a key is not longer than its message.
            sizes = load_u64(buffer, at + 8)
            some = sizes | load_u64(buffer, at + 9) | load_u64(buffer, at + 10) | load_u64(buffer, at + 11)
            attributes = load_u64(buffer, at + 21)
            twos = magics ^ _TWOS
            v2 = (twos - _ONES) & ~twos & (attributes - _ONES) & ~attributes
            v2 &= ~(load_u64(buffer, at + 22) | load_u64(buffer, at + 23) | load_u64(buffer, at + 57))
            ones = magics ^ _ONES
            attributes = load_u64(buffer, at + 17) & _SIXTEENS
            v0 = (magics - _ONES) & ~magics & _may_be_keys(load_u64(buffer, at + 18), sizes)
            v1 = (ones - _ONES) & ~ones & _may_be_keys(load_u64(buffer, at + 26), sizes)
            possible &= v2 | ((v0 | v1) & (attributes - _ONES) & ~attributes)
            possible &= (((some & ~_HIGH_BITS) + ~_HIGH_BITS) | some) & ~(load_u64(buffer, at) | sizes)
        if possible == 0:
            at += 8
            continue
        at += trailing_zeros(possible) >> 3
        if at >= end:
            break
        magic = buffer[at + 16]
        if magic <= 2:
            size = np.int64(np.int32(load_u32_be(buffer, at + 8)))
            offset = np.int64(load_u64_be(buffer, at))
            available = len(buffer) + more - at - 12
            is_valid = False
            if offset >= 0 and size <= available:
                if magic == 2 and size >= 49 and at + 61 <= len(buffer):
                    # Attributes use seven bits; KIP-98 fills the rest with zeros.
                    delta = np.int64(np.int32(load_u32_be(buffer, at + 23)))
                    count = np.int64(np.int32(load_u32_be(buffer, at + 57)))
                    is_valid = (
                        buffer[at + 21] == 0
                        and buffer[at + 22] < 128
                        and (buffer[at + 22] & 7) <= 4
                        and delta >= 0
                        and count >= 0
                        and count <= delta + 1
                    )
                elif magic == 1 and size >= 22 and at + 34 <= len(buffer):
                    key = np.int64(np.int32(load_u32_be(buffer, at + 26)))
                    if at + 34 + key > len(buffer):
                        is_valid = buffer[at + 17] < 16 and key <= size - 22  # only the checksum can decide
                    elif buffer[at + 17] < 16 and key >= -1 and key <= size - 22:
                        value = np.int64(np.int32(load_u32_be(buffer, at + 30 + max(key, 0))))
                        is_valid = value >= -1 and 22 + max(key, 0) + max(value, 0) == size
                elif magic == 0 and size >= 14:
                    key = np.int64(np.int32(load_u32_be(buffer, at + 18)))
                    if at + 26 + key > len(buffer):
                        is_valid = buffer[at + 17] < 8 and key <= size - 14
                    elif buffer[at + 17] < 8 and key >= -1 and key <= size - 14:
                        value = np.int64(np.int32(load_u32_be(buffer, at + 22 + max(key, 0))))
                        is_valid = value >= -1 and 14 + max(key, 0) + max(value, 0) == size
            if is_valid:
                positions[found] = at
                found += 1
        at += 1
    return found, at
