"""Payloads as other compressors make them, with every option of the framings, and what inflates them."""

from __future__ import annotations

import random
import struct
import zlib

import cramjam
import xxhash
import zstandard

from brokerless.format.codecs.decompression import Inflater
from brokerless.format.layouts import GZIP, LZ4, SNAPPY, ZSTD

CODECS = {"gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
NOISE = random.Random(1).randbytes(200_000)
TEXT = b"".join(b"%d: a line of some text\n" % (number * 7919 % 1000) for number in range(60_000))
SAMPLES = {
    "one byte": b"x",
    "text": TEXT,
    "noise": NOISE,
    "zeros": bytes(3_000_000),
    "a block": NOISE[:65536],
    "some more": (NOISE[:20] * 5000)[:65537],
}


def inflate(codec: int, payload: bytes, magic: int = 2, limit: int = 1 << 28) -> bytes:
    inflater = Inflater(limit)
    start, end, error = inflater.inflate(codec, magic, memoryview(payload))
    if error is not None:
        raise error
    return inflater.buffer[start:end].tobytes()


def xerial(data: bytes, size: int) -> bytes:
    blocks = [bytes(cramjam.snappy.compress_raw(data[at : at + size])) for at in range(0, len(data), size)]
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(b)) + b for b in blocks)


def lz4_frame(data: bytes, block: int = 65536, flags: int = 0x60, size_id: int = 4) -> bytes:
    """By the frame format's specification, around the library's raw blocks."""
    descriptor = bytes([flags, size_id << 4])
    if flags & 0x08:
        descriptor += struct.pack("<q", len(data))
    frame = b"\x04\x22\x4d\x18" + descriptor + bytes([xxhash.xxh32_intdigest(descriptor) >> 8 & 0xFF])
    for at in range(0, len(data), block):
        raw = data[at : at + block]
        packed = bytes(cramjam.lz4.compress_block(raw, store_size=False))
        stored = len(packed) >= len(raw)
        packed = raw if stored else packed
        frame += struct.pack("<I", len(packed) | (stored << 31)) + packed
        if flags & 0x10:
            frame += struct.pack("<I", xxhash.xxh32_intdigest(packed))
    frame += bytes(4)
    return frame + (struct.pack("<I", xxhash.xxh32_intdigest(data)) if flags & 0x04 else b"")


def skippable(data: bytes) -> bytes:
    return struct.pack("<II", 0x184D2A53, len(data)) + data


def zstd_stream(data: bytes, **options: object) -> bytes:
    """Without the size of its content."""
    compressor = zstandard.ZstdCompressor(**options).compressobj()  # type: ignore[arg-type]
    return compressor.compress(data) + compressor.flush()


def gzip_with(flags: int, fields: bytes, data: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-15)
    head = b"\x1f\x8b\x08" + bytes([flags]) + bytes(6) + fields
    if flags & 2:
        head += struct.pack("<H", zlib.crc32(head) & 0xFFFF)
    return head + deflate.compress(data) + deflate.flush() + struct.pack("<II", zlib.crc32(data), len(data))
