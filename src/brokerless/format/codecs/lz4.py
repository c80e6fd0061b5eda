"""lz4 as Kafka reads and writes it: one frame of independent blocks.

v0 wrote a wrong checksum into the frame's header, and only v0 may have it (KAFKA-3160). A content checksum is skipped,
a block checksum is checked (``Lz4BlockInputStream``, 3.9.1 and 4.1.1). Kafka writes blocks of 64 KB without checksums,
stored where they do not get smaller (``Lz4BlockOutputStream``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import cramjam
import xxhash

from brokerless.format import layouts
from brokerless.format.codecs.decompression_buffer import CodecError, InflateBuffer

LEVELS = (1, 17, 9)
"""The lowest and the highest level, and Kafka's default (KIP-390)."""
_LIBRARY_MAX_LEVEL = 12
"""The library's highest level; Kafka's levels up to 17 mean the same."""

_MAGIC = b"\x04\x22\x4d\x18"
_DESCRIPTOR = _MAGIC + bytes([0x60, 0x40])
_END_MARK = bytes(4)
_STORED = 1 << 31
_BLOCK_SIZE = 64 << 10
_decompress_into = cramjam.lz4.decompress_block_into


def read(payload: memoryview, magic: int, output: InflateBuffer) -> None:
    """Appends what the frame's blocks hold. Raises :class:`CodecError`; what was inflated before it stays."""
    end = len(payload)
    at, max_block, block_checksums, content_checksum = read_header(payload, magic)
    while True:
        word = int.from_bytes(payload[at : at + 4], "little")
        block = at + 4
        size = word & 0x7FFFFFFF
        at = block + size
        if block > end:
            raise CodecError("lz4: the stream ends without an end mark")
        if size == 0:
            if content_checksum and end - block < 4:
                raise CodecError("lz4: the stream ends within its content checksum")
            return
        if size > max_block:
            raise CodecError(f"lz4: a block of {size} bytes in a frame of blocks up to {max_block}")
        if at > end:
            raise CodecError(f"lz4: a block of {size} bytes, of which only {end - block} are there")
        data = payload[block:at]
        if block_checksums:
            if bytes(payload[at : at + 4]) != xxhash.xxh32_intdigest(data).to_bytes(4, "little"):
                raise CodecError("lz4: a block's checksum does not match")
            at += 4
        if word & _STORED:
            output.append(data)
            continue
        # A valid block inflates at most 255 times: there is no need to reserve more.
        target = output.reserve(min(max_block, 255 * size + 64))
        try:
            output.used += _decompress_into(data, target)
        except cramjam.DecompressionError as error:
            raise CodecError(f"lz4: a block does not decompress ({error})") from None


def read_header(payload: memoryview, magic: int) -> tuple[int, int, bool, bool]:
    """Return where a frame's blocks start, their largest size, and whether it has block and content checksums."""
    head = bytes(payload[:15])
    if len(head) < 6:
        raise CodecError("lz4: the stream ends within its header")
    return _read_descriptor(head if head[4] & 0x08 else head[:7], magic > layouts.MAGIC_V0)


def read_plain_header(payload: memoryview, magic: int) -> int:
    """The 7 bytes of the frame's header as a number (little-endian), if the frame has nothing but blocks of up to 64 KB
    after it; otherwise 0."""
    try:
        at, max_block, block_checksums, content_checksum = read_header(payload, magic)
    except CodecError:
        return 0
    is_plain = at == 7 and max_block == _BLOCK_SIZE and not block_checksums and not content_checksum
    return int.from_bytes(payload[:7], "little") if is_plain else 0


def make_compressor(level: int, magic: int) -> Callable[[memoryview], bytes]:
    import lz4.block  # only writers need it

    compress_block = lz4.block.compress
    covered = _DESCRIPTOR if magic == layouts.MAGIC_V0 else _DESCRIPTOR[4:]
    header = _DESCRIPTOR + bytes([xxhash.xxh32_intdigest(covered) >> 8 & 0xFF])
    # As Kafka: the default level is not one of the thorough compressor's.
    options = {"mode": "default"}
    if level != LEVELS[2]:
        options = {"mode": "high_compression", "compression": min(level, _LIBRARY_MAX_LEVEL)}

    def compress(payload: memoryview) -> bytes:
        parts: list[bytes | memoryview] = [header]
        for start in range(0, len(payload), _BLOCK_SIZE):
            block = payload[start : start + _BLOCK_SIZE]
            data = compress_block(block, store_size=False, **options)
            if len(data) < len(block):
                parts += (len(data).to_bytes(4, "little"), data)
            else:
                parts += ((len(block) | _STORED).to_bytes(4, "little"), block)
        parts.append(_END_MARK)
        return b"".join(parts)

    return compress


@lru_cache(maxsize=64)
def _read_descriptor(header: bytes, check: bool) -> tuple[int, int, bool, bool]:
    if header[:4] != _MAGIC:
        raise CodecError(f"lz4: the frame's magic is {header[:4].hex()}, not {_MAGIC.hex()}")
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
