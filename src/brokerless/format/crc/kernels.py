"""Kernels for CRC-32 (v0 and v1: one per message) and CRC-32C (v2: one per batch) over ranges of a buffer.

CRC-32C uses the processor's instruction where there is one: it takes eight bytes in one cycle but answers after three,
so long ranges are cut into three streams that run in parallel and are then joined. Elsewhere, and for CRC-32, eight
tables process eight bytes a step.
"""

# Inside kernels, numbers are Numba's, and intrinsics take what Numba gives them.
# pyright: basic, reportCallIssue=false, reportReturnType=false, reportArgumentType=false, reportAssignmentType=false

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.format.crc.plain import CRC32C_POLYNOMIAL
from brokerless.format.intrinsics import CRC32C_INSTRUCTION, crc32c_word, load_u64
from brokerless.format.kernel import inlined, kernel

CRC32_POLYNOMIAL = 0xEDB88320
_STREAM = 256
"""Bytes of each of the three streams: longer joins less, shorter lets the processor fetch ahead."""


def slicing_tables(polynomial: int) -> NDArray[np.uint32]:
    """The eight tables of the slicing-by-8 method for a reflected ``polynomial``; shape (8, 256)."""
    tables = np.zeros((8, 256), dtype=np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (polynomial if crc & 1 else 0)
        tables[0, byte] = crc
    for step in range(1, 8):
        previous = tables[step - 1]
        tables[step] = tables[0][previous & 0xFF] ^ (previous >> np.uint32(8))
    return tables


def zeros_tables(polynomial: int, length: int) -> NDArray[np.uint32]:
    """Tables that move a checksum register past ``length`` zero bytes, a byte of it at a time; shape (4, 256)."""
    table = slicing_tables(polynomial)[0]

    def shifted(crc: int) -> int:
        for _ in range(length):
            crc = int(table[crc & 0xFF]) ^ (crc >> 8)
        return crc

    bits = [shifted(1 << bit) for bit in range(32)]
    tables = np.zeros((4, 256), dtype=np.uint32)
    for place in range(4):
        for byte in range(256):
            value = 0
            for bit in range(8):
                if byte >> bit & 1:
                    value ^= bits[8 * place + bit]
            tables[place, byte] = value
    return tables


_CRC32_TABLES = slicing_tables(CRC32_POLYNOMIAL)
_CRC32C_TABLES = slicing_tables(CRC32C_POLYNOMIAL)
_PAST_ONE_STREAM = zeros_tables(CRC32C_POLYNOMIAL, _STREAM)
_PAST_TWO_STREAMS = zeros_tables(CRC32C_POLYNOMIAL, 2 * _STREAM)


@inlined
def _by_tables(tables: NDArray[np.uint32], buffer: NDArray[np.uint8], start: int, end: int) -> int:
    crc = np.uint32(0xFFFFFFFF)
    at = start
    while end - at >= 8:
        word = load_u64(buffer, at) ^ np.uint64(crc)
        crc = (
            tables[7, word & np.uint64(0xFF)]
            ^ tables[6, (word >> np.uint64(8)) & np.uint64(0xFF)]
            ^ tables[5, (word >> np.uint64(16)) & np.uint64(0xFF)]
            ^ tables[4, (word >> np.uint64(24)) & np.uint64(0xFF)]
            ^ tables[3, (word >> np.uint64(32)) & np.uint64(0xFF)]
            ^ tables[2, (word >> np.uint64(40)) & np.uint64(0xFF)]
            ^ tables[1, (word >> np.uint64(48)) & np.uint64(0xFF)]
            ^ tables[0, word >> np.uint64(56)]
        )
        at += 8
    while at < end:
        crc = tables[0, (crc ^ np.uint32(buffer[at])) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
        at += 1
    return crc ^ np.uint32(0xFFFFFFFF)


@inlined
def _past(tables: NDArray[np.uint32], crc: int) -> int:
    crc = np.uint32(crc)
    return (
        tables[0, crc & np.uint32(0xFF)]
        ^ tables[1, (crc >> np.uint32(8)) & np.uint32(0xFF)]
        ^ tables[2, (crc >> np.uint32(16)) & np.uint32(0xFF)]
        ^ tables[3, crc >> np.uint32(24)]
    )


@inlined
def _by_instruction(buffer: NDArray[np.uint8], start: int, end: int) -> int:
    crc = np.uint32(0xFFFFFFFF)
    at = start
    while end - at >= 3 * _STREAM:
        second, third = np.uint32(0), np.uint32(0)
        for step in range(at, at + _STREAM, 8):
            crc = crc32c_word(crc, load_u64(buffer, step))
            second = crc32c_word(second, load_u64(buffer, step + _STREAM))
            third = crc32c_word(third, load_u64(buffer, step + 2 * _STREAM))
        crc = _past(_PAST_TWO_STREAMS, crc) ^ _past(_PAST_ONE_STREAM, second) ^ third
        at += 3 * _STREAM
    while end - at >= 8:
        crc = crc32c_word(crc, load_u64(buffer, at))
        at += 8
    while at < end:
        crc = _CRC32C_TABLES[0, (crc ^ np.uint32(buffer[at])) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
        at += 1
    return crc ^ np.uint32(0xFFFFFFFF)


@inlined
def crc32(buffer: NDArray[np.uint8], start: int, end: int) -> int:
    """CRC-32 of ``buffer[start:end]``, for kernels."""
    return _by_tables(_CRC32_TABLES, buffer, start, end)


@inlined
def crc32c(buffer: NDArray[np.uint8], start: int, end: int) -> int:
    """CRC-32C of ``buffer[start:end]``, for kernels."""
    if CRC32C_INSTRUCTION:
        return _by_instruction(buffer, start, end)
    return _by_tables(_CRC32C_TABLES, buffer, start, end)


@kernel("void(Array(uint8, 1, 'C', readonly=True), int64[::1], int64[::1], uint32[::1])")
def crc32_ranges(
    buffer: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], checksums: NDArray[np.uint32]
) -> None:
    """CRC-32 (ISO-HDLC, as zlib's) of ``buffer[starts[i]:ends[i]]`` into ``checksums[i]``."""
    for i in range(len(starts)):
        checksums[i] = _by_tables(_CRC32_TABLES, buffer, starts[i], ends[i])


@kernel("void(Array(uint8, 1, 'C', readonly=True), int64[::1], int64[::1], uint32[::1])")
def crc32c_ranges(
    buffer: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], checksums: NDArray[np.uint32]
) -> None:
    """CRC-32C (Castagnoli) of ``buffer[starts[i]:ends[i]]`` into ``checksums[i]``."""
    for i in range(len(starts)):
        checksums[i] = crc32c(buffer, starts[i], ends[i])
