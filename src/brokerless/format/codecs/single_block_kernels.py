"""Which payloads are framed as nearly all are, with one block and nothing odd, found for many at a call (kernel).

Such a block can be handed to its codec as it is; all others go the long way of ``compression.py``, which knows every
oddity. What is found here must be what is found there. Where a frame of zstd ends is found here for both.
"""

# Intrinsics take what Numba gives them.
# pyright: reportCallIssue=false

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.format.intrinsics import load_u32_be, load_u64, load_u64_be
from brokerless.format.kernel import inlined, kernel

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
_GZIP_WITHOUT_OPTIONS = 0x1F8B0800
_XERIAL = 0x82534E4150505900
_ZSTD_MAGIC = 0x28B52FFD
_ZSTD_SKIPPABLE = 0x502A4D18


@inlined
def _zstd_frame_end(buffer: NDArray[np.uint8], start: int, end: int) -> int:
    """Where the frame at ``start`` ends, by its block headers (RFC 8878); past ``end`` if it is cut off. At least
    five bytes are there."""
    descriptor = np.int64(buffer[np.uint64(start + 4)])
    # Window (if not one segment), dictionary id and content size come as the descriptor tells.
    one_segment, content, dictionary = descriptor >> 5 & 1, descriptor >> 6, descriptor & 3
    at = start + 5 + (1 - one_segment) + (4 if dictionary == 3 else dictionary)
    at += one_segment if content == 0 else 1 << content
    while at + 3 <= end:
        word = np.int64(buffer[np.uint64(at)])
        word |= np.int64(buffer[np.uint64(at + 1)]) << 8 | np.int64(buffer[np.uint64(at + 2)]) << 16
        at += 3 + (1 if word >> 1 & 3 == 1 else word >> 3)  # a block of one repeated byte holds just that
        if word & 1:
            return int(at + (4 if descriptor & 4 else 0))
    return end + 1


@kernel("void(Array(uint8, 1, 'C', readonly=True), int64, int64[::1], int64[::1], uint64, int64[::1], int64[::1])")
def find_single_blocks(
    buffer: NDArray[np.uint8],
    codec: int,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    lz4_header: int,
    blocks: NDArray[np.int64],
    rooms: NDArray[np.int64],
) -> None:
    """For each payload ``buffer[starts[i]:ends[i]]``: where its one block starts, and the bytes that it may inflate to;
    0 and 0 for a payload that is not plain. The block ends with the payload (lz4: four bytes before).

    ``lz4_header``: the 7 bytes of a frame header that was looked at, little-endian, of frames without checksums and
    with blocks of up to 64 KB.
    """
    for row in range(len(starts)):
        start, end = starts[row], ends[row]
        size = end - start
        blocks[row], rooms[row] = 0, 0
        if codec == LZ4 and size > 15:
            header = load_u64(buffer, start) & np.uint64(0x00FFFFFFFFFFFFFF)
            word = load_u64(buffer, start + 7) & np.uint64(0xFFFFFFFF)
            if header == np.uint64(lz4_header) and np.int64(word) == size - 15 and load_u32_be(buffer, end - 4) == 0:
                blocks[row], rooms[row] = start + 11, min(65536, 255 * (size - 15) + 64)
        elif codec == SNAPPY and size > 22:
            block = np.int64(load_u32_be(buffer, start + 16))
            if load_u64_be(buffer, start) == np.uint64(_XERIAL) and block == size - 20:
                # A block of snappy begins with the length that it inflates to, as a varint.
                length, shift, at = np.int64(0), np.int64(0), start + 20
                while shift < 28 and at < end - 1 and buffer[np.uint64(at)] >= 128:
                    length |= np.int64(buffer[np.uint64(at)] & 127) << shift
                    shift += 7
                    at += 1
                length |= np.int64(buffer[np.uint64(at)]) << shift
                if 0 < length <= 64 * block:
                    blocks[row], rooms[row] = start + 20, length
        elif codec == ZSTD and size > 12 and load_u32_be(buffer, start) == _ZSTD_MAGIC:
            is_plain = _zstd_frame_end(buffer, start, end) == end
            blocks[row], rooms[row] = (start, max(65536, 8 * size)) if is_plain else (0, 0)
        elif codec == GZIP and size > 18 and load_u32_be(buffer, start) == _GZIP_WITHOUT_OPTIONS:
            # The trailer has the length, if this is the only member. Nothing is deflated to less than 1 / 1032.
            length = np.int64(load_u64(buffer, end - 8) >> np.uint64(32))
            if length <= 1032 * size:
                blocks[row], rooms[row] = start, length


@kernel("int64(Array(uint8, 1, 'C', readonly=True))")
def zstd_end(payload: NDArray[np.uint8]) -> int:
    """How far a payload is whole frames of zstd, skippable ones (magic 184d2a50 to 5f) among them."""
    at, size = np.int64(0), np.int64(len(payload))
    while size - at >= 8:
        magic = np.int64(load_u32_be(payload, at))
        if magic == _ZSTD_MAGIC:
            end = _zstd_frame_end(payload, at, size)
        elif magic & 0xF0FFFFFF == _ZSTD_SKIPPABLE:
            end = at + 8 + np.int64(load_u64(payload, at) >> np.uint64(32))
        else:
            break
        if end > size:
            break
        at = end
    return int(at)
