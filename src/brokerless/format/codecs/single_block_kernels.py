"""Finds payloads of one block, which are decompressed without parsing the codec's frames (kernel).

Such a block can be handed to its codec directly; all others are parsed by the codecs' modules. What is found here must
be what is found there.
"""

# Intrinsics take what Numba gives them.
# pyright: reportCallIssue=false

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.format.codecs.zstd_frame_kernels import FRAME_MAGIC, find_frame_end
from brokerless.format.intrinsics import load_u32_be, load_u64, load_u64_be
from brokerless.format.kernel import kernel
from brokerless.format.layouts import GZIP, LZ4, SNAPPY, ZSTD

_GZIP_WITHOUT_OPTIONS = 0x1F8B0800
_XERIAL = 0x82534E4150505900


@kernel("void(Array(uint8, 1, 'C', readonly=True), int64, int64[::1], int64[::1], uint64, int64[::1], int64[::1])")
def find_single_blocks(
    buffer: NDArray[np.uint8],
    codec: int,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    lz4_header: int,
    blocks: NDArray[np.int64],
    capacities: NDArray[np.int64],
) -> None:
    """For each payload ``buffer[starts[i]:ends[i]]``: where its one block starts, and the bytes that it may inflate to;
    0 and 0 for any other payload. The block ends with the payload (lz4: four bytes before).

    ``lz4_header``: the 7 bytes of a frame header (:func:`brokerless.format.codecs.lz4.read_plain_header`).
    """
    for row in range(len(starts)):
        start, end = starts[row], ends[row]
        size = end - start
        blocks[row], capacities[row] = 0, 0
        if codec == LZ4 and size > 15:
            header = load_u64(buffer, start) & np.uint64(0x00FFFFFFFFFFFFFF)
            word = load_u64(buffer, start + 7) & np.uint64(0xFFFFFFFF)
            if header == np.uint64(lz4_header) and np.int64(word) == size - 15 and load_u32_be(buffer, end - 4) == 0:
                blocks[row], capacities[row] = start + 11, min(65536, 255 * (size - 15) + 64)
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
                    blocks[row], capacities[row] = start + 20, length
        elif codec == ZSTD and size > 12 and load_u32_be(buffer, start) == FRAME_MAGIC:
            is_plain = find_frame_end(buffer, start, end) == end
            blocks[row], capacities[row] = (start, max(65536, 8 * size)) if is_plain else (0, 0)
        elif codec == GZIP and size > 18 and load_u32_be(buffer, start) == _GZIP_WITHOUT_OPTIONS:
            # The trailer has the length, if this is the only member. Nothing is deflated to less than 1 / 1032.
            length = np.int64(load_u64(buffer, end - 8) >> np.uint64(32))
            if length <= 1032 * size:
                blocks[row], capacities[row] = start, length
