"""Where a batch may start, by its header alone (kernel)."""

# pyright: basic, reportCallIssue=false

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.format.kernel import kernel
from brokerless.format.words import load_u32_be, load_u64, load_u64_be, trailing_zeros

_THREES = np.uint64(0x0303030303030303)
_HIGH_BITS = np.uint64(0x8080808080808080)


@kernel("UniTuple(int64, 2)(Array(uint8, 1, 'C', readonly=True), int64, int64, int64[::1])")
def find_candidates(buffer: NDArray[np.uint8], start: int, until: int, positions: NDArray[np.int64]) -> tuple[int, int]:
    """Fills ``positions`` with places in ``[start, until)`` whose header makes sense; returns how many, and where to go
    on.

    All of the batch must be in the buffer; fewer than ``len(positions)`` means that the end was reached.
    """
    found = 0
    at = start
    end = min(until, len(buffer) - 25)
    while at < end and found < len(positions):
        # Eight places at once: on to the first whose magic is 0, 1 or 2, unless all their sizes are zero.
        magics = load_u64(buffer, at + 16)
        if magics == 0 and load_u64(buffer, at + 8) == 0:
            at += 8
            continue
        small = (magics - _THREES) & ~magics & _HIGH_BITS
        if small == 0:
            at += 8
            continue
        at += trailing_zeros(small) >> 3
        if at >= end:
            break
        magic = buffer[at + 16]
        if magic <= 2:
            size = np.int64(np.int32(load_u32_be(buffer, at + 8)))
            offset = np.int64(load_u64_be(buffer, at))
            room = len(buffer) - at - 12
            sound = False
            if offset >= 0 and size <= room:
                if magic == 2 and size >= 49:
                    # Attributes use seven bits; KIP-98 fills the rest with zeros.
                    delta = np.int64(np.int32(load_u32_be(buffer, at + 23)))
                    count = np.int64(np.int32(load_u32_be(buffer, at + 57)))
                    sound = (
                        buffer[at + 21] == 0
                        and buffer[at + 22] < 128
                        and (buffer[at + 22] & 7) <= 4
                        and delta >= 0
                        and count >= 0
                        and count <= delta + 1
                    )
                elif magic == 1 and size >= 22:
                    key = np.int64(np.int32(load_u32_be(buffer, at + 26)))
                    if buffer[at + 17] < 16 and key >= -1 and key <= size - 22:
                        value = np.int64(np.int32(load_u32_be(buffer, at + 30 + max(key, 0))))
                        sound = value >= -1 and 22 + max(key, 0) + max(value, 0) == size
                elif magic == 0 and size >= 14:
                    key = np.int64(np.int32(load_u32_be(buffer, at + 18)))
                    if buffer[at + 17] < 8 and key >= -1 and key <= size - 14:
                        value = np.int64(np.int32(load_u32_be(buffer, at + 22 + max(key, 0))))
                        sound = value >= -1 and 14 + max(key, 0) + max(value, 0) == size
            if sound:
                positions[found] = at
                found += 1
        at += 1
    return found, at
