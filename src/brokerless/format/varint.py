"""ZigZag varints for kernels: int32 in at most 5 bytes, int64 in at most 10.

The rules are ``org.apache.kafka.common.utils.ByteUtils``'s (3.9.1): longer encodings than necessary are valid, bits
past the 32nd or 64th are dropped, a sixth (eleventh) byte is an error. Indexes are unsigned, so that Numba need not
ask each time whether they count from the end.
"""

# Inside kernels, numbers are Numba's, and intrinsics take what Numba gives them.
# pyright: basic, reportCallIssue=false, reportReturnType=false, reportArgumentType=false, reportAssignmentType=false

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.format.kernel import inlined

MAX_VARINT_SIZE = 5
MAX_VARLONG_SIZE = 10


@inlined
def read_varint(buffer: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    """The int32 at ``at`` and the position after it; the position is -1 if it is too long or reaches past ``end``."""
    if at >= end:
        return np.int64(0), np.int64(-1)
    byte = np.int64(buffer[np.uint64(at)])
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at + 1
    if end - at >= 3:
        second = np.int64(buffer[np.uint64(at + 1)])
        if second < 128:
            raw = (byte & 127) | (second << 7)
            return (raw >> 1) ^ -(raw & 1), at + 2
        third = np.int64(buffer[np.uint64(at + 2)])
        if third < 128:
            raw = (byte & 127) | ((second & 127) << 7) | (third << 14)
            return (raw >> 1) ^ -(raw & 1), at + 3
    raw, shift = byte & 127, 7
    at += 1
    while at < end and shift <= 28:
        byte = np.int64(buffer[np.uint64(at)])
        at += 1
        raw |= (byte & 127) << shift
        if byte < 128:
            raw &= 0xFFFFFFFF
            return (raw >> 1) ^ -(raw & 1), at
        shift += 7
    return np.int64(0), np.int64(-1)


@inlined
def read_varlong(buffer: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    """The int64 at ``at`` and the position after it; the position is -1 if it is too long or reaches past ``end``."""
    if at >= end:
        return np.int64(0), np.int64(-1)
    first = np.int64(buffer[np.uint64(at)])
    if first < 128:
        return (first >> 1) ^ -(first & 1), at + 1
    raw, shift = np.uint64(first & 127), np.uint64(7)
    at += 1
    while at < end and shift <= np.uint64(63):
        byte = np.uint64(buffer[np.uint64(at)])
        at += 1
        raw |= (byte & np.uint64(127)) << shift
        if byte < np.uint64(128):
            return np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1)), at
        shift += np.uint64(7)
    return np.int64(0), np.int64(-1)


@inlined
def size_of_varint(value: int) -> int:
    """Bytes that ``value`` (int32) takes."""
    raw = ((np.int64(value) << 1) ^ (np.int64(value) >> 63)) & 0xFFFFFFFF
    size = 1
    while raw >= 128:
        raw >>= 7
        size += 1
    return size


@inlined
def size_of_varlong(value: int) -> int:
    """Bytes that ``value`` (int64) takes."""
    raw = np.uint64((np.int64(value) << 1) ^ (np.int64(value) >> 63))
    size = 1
    while raw >= np.uint64(128):
        raw >>= np.uint64(7)
        size += 1
    return size


@inlined
def write_varint(buffer: NDArray[np.uint8], at: int, value: int) -> int:
    """Writes ``value`` (int32) at ``at``; returns the position after it."""
    raw = ((np.int64(value) << 1) ^ (np.int64(value) >> 63)) & 0xFFFFFFFF
    while raw >= 128:
        buffer[np.uint64(at)] = np.uint8(raw & 127 | 128)
        raw >>= 7
        at += 1
    buffer[np.uint64(at)] = np.uint8(raw)
    return at + 1


@inlined
def write_varlong(buffer: NDArray[np.uint8], at: int, value: int) -> int:
    """Writes ``value`` (int64) at ``at``; returns the position after it."""
    raw = np.uint64((np.int64(value) << 1) ^ (np.int64(value) >> 63))
    while raw >= np.uint64(128):
        buffer[np.uint64(at)] = np.uint8(raw & np.uint64(127) | np.uint64(128))
        raw >>= np.uint64(7)
        at += 1
    buffer[np.uint64(at)] = np.uint8(raw)
    return at + 1
