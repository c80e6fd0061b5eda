"""Inflates blocks of snappy in kernels (format_description.txt of google/snappy), with all bounds checked."""

# Intrinsics take what Numba gives them.
# pyright: reportCallIssue=false, reportArgumentType=false, reportReturnType=false

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.format.columns import SLACK
from brokerless.format.intrinsics import copy_32, copy_bytes, load_u64, store_u64
from brokerless.format.kernel import inlined

_MASKS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF], np.int64)
"""The bits of so many bytes."""
_SIZES = np.array([4 + (tag >> 2 & 7) if tag & 3 == 1 else (tag >> 2) + 1 for tag in range(256)], np.int64)
"""What a copy of each tag copies (bytes)."""


@inlined
def read_length(buffer: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    """Return what a block inflates to (bytes; -1 if that is not there), and where its elements start."""
    length, shift = np.int64(0), np.int64(0)
    while at < end and shift < 35:
        byte = np.int64(buffer[np.uint64(at)])
        at += 1
        length |= (byte & 127) << shift
        if byte < 128:
            return (length if length < 1 << 31 else np.int64(-1)), at
        shift += 7
    return np.int64(-1), at


@inlined
def inflate_elements(
    buffer: NDArray[np.uint8], at: int, end: int, target: NDArray[np.uint8], start: int, length: int
) -> bool:
    """Inflates ``buffer[at:end]`` to exactly ``length`` bytes at ``start``; False if that is not what it is.
    ``target`` has :data:`SLACK` bytes more."""
    to, until, wide = start, start + length, np.int64(len(buffer)) - SLACK
    while at < end:
        tag = np.int64(buffer[np.uint64(at)])
        at += 1
        kind = tag & 3
        if kind == 0:
            size = (tag >> 2) + 1
            if size > 60:
                extra = size - 60
                if extra > end - at:
                    return False
                size = _little_endian(buffer, at, extra, wide) + 1
                at = int(at + extra)
            if size > end - at or size > until - to:
                return False
            if size <= 64 and at <= wide:
                copy_32(target, to, buffer, at)
                if size > 32:
                    copy_32(target, to + 32, buffer, at + 32)
            else:
                copy_bytes(target, to, buffer, at, size)
            at += size
            to += size
            continue
        extra, size = kind + (kind == 3), _SIZES[np.uint64(tag)]
        if extra > end - at:
            return False
        back = _little_endian(buffer, at, extra, wide)
        if kind == 1:
            back |= tag >> 5 << 8
        at = int(at + extra)
        if back == 0 or back > to - start or size > until - to:
            return False
        if back >= 32:
            copy_32(target, to, target, to - back)
            if size > 32:
                copy_32(target, to + 32, target, to + 32 - back)
        elif back >= 8:
            for i in range(0, size, 8):
                store_u64(target, to + i, load_u64(target, to - back + i))
        else:
            for i in range(size):
                target[np.uint64(to + i)] = target[np.uint64(to - back + i)]
        to += size
    return to == until


@inlined
def _little_endian(buffer: NDArray[np.uint8], at: int, size: int, wide: int) -> int:
    """The number in ``size`` (1 to 4) bytes at ``at``, by one load where that is no further than ``wide``."""
    if at <= wide:
        return np.int64(load_u64(buffer, at)) & _MASKS[np.uint64(size)]
    number = np.int64(0)
    for i in range(size):
        number |= np.int64(buffer[np.uint64(at + i)]) << (8 * i)
    return number
