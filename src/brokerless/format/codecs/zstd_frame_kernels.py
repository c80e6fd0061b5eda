"""Kernels that find where zstd frames end, by their block headers (RFC 8878)."""

# Intrinsics take what Numba gives them.
# pyright: reportCallIssue=false

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.format.intrinsics import load_u32_be, load_u64
from brokerless.format.kernel import inlined, kernel

FRAME_MAGIC = 0x28B52FFD
_SKIPPABLE_MAGIC = 0x502A4D18


@inlined
def walk_frame(buffer: NDArray[np.uint8], start: int, end: int) -> tuple[int, int]:
    """Return where the frame at ``start`` ends, and how many blocks it has; past ``end`` if it is cut off. At least
    five bytes are there."""
    descriptor = np.int64(buffer[np.uint64(start + 4)])
    # Window (if not one segment), dictionary id and content size depend on the descriptor.
    one_segment, content, dictionary = descriptor >> 5 & 1, descriptor >> 6, descriptor & 3
    at = start + 5 + (1 - one_segment) + (4 if dictionary == 3 else dictionary)
    at += one_segment if content == 0 else 1 << content
    blocks = np.int64(0)
    while at + 3 <= end:
        blocks += 1
        word = np.int64(buffer[np.uint64(at)])
        word |= np.int64(buffer[np.uint64(at + 1)]) << 8 | np.int64(buffer[np.uint64(at + 2)]) << 16
        at += 3 + (1 if word >> 1 & 3 == 1 else word >> 3)  # a block of one repeated byte has no more bytes
        if word & 1:
            return int(at + (4 if descriptor & 4 else 0)), blocks  # pyright: ignore[reportReturnType]
    return end + 1, blocks  # pyright: ignore[reportReturnType]


@inlined
def find_frame_end(buffer: NDArray[np.uint8], start: int, end: int) -> int:
    """The first of :func:`walk_frame`."""
    return walk_frame(buffer, start, end)[0]


@kernel("int64(Array(uint8, 1, 'C', readonly=True))")
def find_end_of_frames(payload: NDArray[np.uint8]) -> int:
    """Return how far a payload is whole frames, skippable ones (magic 184d2a50 to 5f) among them."""
    at, size = np.int64(0), np.int64(len(payload))
    while size - at >= 8:
        magic = np.int64(load_u32_be(payload, at))
        if magic == FRAME_MAGIC:
            end = find_frame_end(payload, at, size)
        elif magic & 0xF0FFFFFF == _SKIPPABLE_MAGIC:
            end = at + 8 + np.int64(load_u64(payload, at) >> np.uint64(32))
        else:
            break
        if end > size:
            break
        at = end
    return int(at)
