"""Payloads -> compressed payloads in Kafka's framings; the codecs themselves are libraries.

gzip: one member (``GZIPOutputStream``). snappy: xerial's framing of 32 KB blocks (``SnappyOutputStream``). lz4: one
frame of independent 64 KB blocks, stored where they do not get smaller, without checksums; in v0 with the wrong header
checksum that its readers expect (``Lz4BlockOutputStream``, KAFKA-3160). zstd: one frame (KIP-110), in whose header we
also write the size. Levels are Kafka's (KIP-390). All as 4.1.1 does.
"""

from __future__ import annotations

from collections.abc import Callable

import deflate
import lz4.block
import pyarrow as pa
import xxhash
import zstandard

from brokerless.errors import UsageError
from brokerless.format import layouts

LEVELS = {"gzip": (1, 9, -1), "lz4": (1, 17, 9), "zstd": (-131072, 22, 3)}
"""The least and the largest level of each codec that has levels, and Kafka's default."""

_SNAPPY_BLOCK, _LZ4_BLOCK = 32 << 10, 64 << 10
_SNAPPY_HEADER = b"\x82SNAPPY\x00" + (1).to_bytes(4, "big") * 2
_LZ4_DESCRIPTOR = b"\x04\x22\x4d\x18" + bytes([0x60, 0x40])
_LZ4_HIGHEST = 12
"""The library's largest level; Kafka's names up to 17 mean the same."""
_LZ4_END = bytes(4)
_STORED = 1 << 31
_snappy_codec = pa.Codec("snappy")

Compress = Callable[[memoryview], bytes | bytearray]


def make_compressor(codec: str, magic: int = layouts.MAGIC_V2, level: int | None = None) -> Compress:
    """What compresses payloads for batches of a format; it owns its state, so one belongs to one thread.

    ``level``: Kafka's ``compression.gzip.level`` and so on; None for Kafka's default. Raises :class:`UsageError` for a
    codec that this format does not have, or a level that the codec does not have.
    """
    if codec not in layouts.CODECS[1:]:
        raise UsageError(f"there is no codec {codec!r}; there are {', '.join(layouts.CODECS)}")
    if codec == "zstd" and magic < layouts.MAGIC_V2:
        raise UsageError(f"message format v{magic} has no zstd; it has {', '.join(layouts.CODECS[:-1])}")
    chosen = _level(codec, level)
    match codec:
        case "gzip":
            return _gzip(6 if chosen == -1 else chosen)
        case "snappy":
            return _snappy
        case "lz4":
            return _lz4(chosen, magic)
        case _:
            return _zstd(chosen)


def _level(codec: str, level: int | None) -> int:
    if codec not in LEVELS:
        if level is not None:
            raise UsageError(f"{codec} has no levels")
        return 0
    least, largest, default = LEVELS[codec]
    if level is None or level == default:
        return default
    if not least <= level <= largest:
        raise UsageError(f"{codec} has no level {level}; it has {least} to {largest}, by default {default}")
    return level


def _gzip(level: int) -> Compress:
    return lambda payload: deflate.gzip_compress(payload, level)


def _snappy(payload: memoryview) -> bytes:
    pieces = [_SNAPPY_HEADER]
    for start in range(0, len(payload), _SNAPPY_BLOCK):
        data = _snappy_codec.compress(payload[start : start + _SNAPPY_BLOCK], asbytes=True)
        pieces += (len(data).to_bytes(4, "big"), data)
    return b"".join(pieces)


def _lz4(level: int, magic: int) -> Compress:
    covered = _LZ4_DESCRIPTOR if magic == layouts.MAGIC_V0 else _LZ4_DESCRIPTOR[4:]
    header = _LZ4_DESCRIPTOR + bytes([xxhash.xxh32_intdigest(covered) >> 8 & 0xFF])
    # As Kafka: the default level is not one of the thorough compressor's.
    how = {"mode": "default"}
    if level != LEVELS["lz4"][2]:
        how = {"mode": "high_compression", "compression": min(level, _LZ4_HIGHEST)}

    def compress(payload: memoryview) -> bytes:
        pieces: list[bytes | memoryview] = [header]
        for start in range(0, len(payload), _LZ4_BLOCK):
            block = payload[start : start + _LZ4_BLOCK]
            data = lz4.block.compress(block, store_size=False, **how)
            if len(data) < len(block):
                pieces += (len(data).to_bytes(4, "little"), data)
            else:
                pieces += ((len(block) | _STORED).to_bytes(4, "little"), block)
        pieces.append(_LZ4_END)
        return b"".join(pieces)

    return compress


def _zstd(level: int) -> Compress:
    return zstandard.ZstdCompressor(level=level, write_checksum=False).compress
