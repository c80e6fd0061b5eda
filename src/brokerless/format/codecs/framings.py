"""How compressed payloads begin in Kafka's framings: headers of gzip's members, of xerial's streams of snappy, and of
lz4's frames, as Kafka's reader takes and refuses them (3.9.1 and 4.1.1).
"""

from __future__ import annotations

from functools import lru_cache

import xxhash
from isal import isal_zlib

from brokerless.format import layouts

_PIECE = 512
"""Bytes that are looked through at once for the end of a name."""


class CodecError(Exception):
    """A compressed payload that Kafka would not read; the message says what is wrong with it."""


class LimitError(CodecError):
    """A payload that would inflate past the limit."""


_XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEAD = int.from_bytes(_XERIAL_MAGIC[:4], "big", signed=True)
XERIAL_LARGEST = 512 << 20
"""SnappyInputStream's default for the largest block."""


def is_xerial_header(header: memoryview) -> bool:
    return len(header) == 16 and bytes(header[:8]) == _XERIAL_MAGIC


_LZ4_MAGIC = b"\x04\x22\x4d\x18"


def lz4_frame(payload: memoryview, magic: int) -> tuple[int, int, bool, bool]:
    """Of a frame: where its blocks start, their largest size, and whether it has block and content checksums."""
    head = bytes(payload[:15])
    if len(head) < 6:
        raise CodecError("lz4: the stream ends within its header")
    return _lz4_descriptor(head if head[4] & 0x08 else head[:7], magic > layouts.MAGIC_V0)


@lru_cache(maxsize=64)
def _lz4_descriptor(header: bytes, check: bool) -> tuple[int, int, bool, bool]:
    if header[:4] != _LZ4_MAGIC:
        raise CodecError(f"lz4: the frame's magic is {header[:4].hex()}, not {_LZ4_MAGIC.hex()}")
    flags, block_descriptor = header[4], header[5]
    if flags & 0x03 or block_descriptor & 0x8F:
        raise CodecError("lz4: reserved bits are set in the frame descriptor")
    if flags >> 6 != 1:
        raise CodecError(f"lz4: frame version {flags >> 6}")
    if not flags & 0x20:
        raise CodecError("lz4: the blocks depend on each other")
    if block_descriptor >> 4 < 4:
        raise CodecError(f"lz4: block size id {block_descriptor >> 4}")
    end = 14 if flags & 0x08 else 6
    if len(header) < end + 1:
        raise CodecError("lz4: the stream ends within its header")
    if check and header[end] != xxhash.xxh32_intdigest(header[4:end]) >> 8 & 0xFF:
        raise CodecError("lz4: the frame descriptor's checksum does not match")
    return end + 1, 1 << (2 * (block_descriptor >> 4) + 8), bool(flags & 0x10), bool(flags & 0x04)


def gzip_header(payload: memoryview) -> int:
    """The length of a gzip member's header (RFC 1952), read as ``java.util.zip.GZIPInputStream`` does."""
    if len(payload) < 10:
        raise CodecError("gzip: the stream ends within its header")
    if bytes(payload[:2]) != b"\x1f\x8b":
        raise CodecError("gzip: not in gzip format")
    if payload[2] != 8:
        raise CodecError(f"gzip: compression method {payload[2]}")
    flags, at = payload[3], 10
    if flags & 0x04:
        at += 2 + int.from_bytes(payload[at : at + 2], "little")
    for flag in (0x08, 0x10):
        if flags & flag:
            at = _after_zero(payload, at)
    if flags & 0x02:
        if bytes(payload[at : at + 2]) != (isal_zlib.crc32(payload[:at]) & 0xFFFF).to_bytes(2, "little"):
            raise CodecError("gzip: the header's checksum does not match")
        at += 2
    if at > len(payload):
        raise CodecError("gzip: the stream ends within its header")
    return at


def _after_zero(payload: memoryview, at: int) -> int:
    """The position after the next zero byte; past the end where there is none."""
    for start in range(at, len(payload), _PIECE):
        found = bytes(payload[start : start + _PIECE]).find(b"\x00")
        if found >= 0:
            return start + found + 1
    return len(payload) + 1
