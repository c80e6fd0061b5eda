"""snappy as Kafka reads and writes it: blocks in xerial's framing, or one bare block.

The framing is that of snappy-java's ``SnappyInputStream`` and ``SnappyOutputStream``: a header of 16 bytes, then
blocks, each after its length. Kafka writes blocks of 32 KB. What is accepted and refused is as in 3.9.1 and 4.1.1.
"""

from __future__ import annotations

import cramjam
import pyarrow as pa

from brokerless.format.codecs.decompression_buffer import CodecError, InflateBuffer

_MAGIC = b"\x82SNAPPY\x00"
_HEADER = _MAGIC + (1).to_bytes(4, "big") * 2
_HEADER_START = int.from_bytes(_MAGIC[:4], "big", signed=True)
"""What a further header would be as the length of a block."""
_MAX_BLOCK = 512 << 20
"""SnappyInputStream's default for the largest block."""
_BLOCK_SIZE = 32 << 10
_codec = pa.Codec("snappy")
_decompress_into, _inflated_size = cramjam.snappy.decompress_raw_into, cramjam.snappy.decompress_raw_len


def read(payload: memoryview, output: InflateBuffer) -> None:
    """Appends what the blocks hold. Raises :class:`CodecError`; what was inflated before it stays."""
    if len(payload) == 0:
        raise CodecError("snappy: an empty stream")
    if not has_header(payload):
        _read_block(payload, output)
        return
    at = 16
    while len(payload) - at >= 4:
        size = int.from_bytes(payload[at : at + 4], "big", signed=True)
        at += 4
        if size == _HEADER_START:
            if len(payload) - at < 12:
                raise CodecError("snappy: a second header is cut off")
            if not has_header(payload[at - 4 : at + 12]):
                return
            at += 12
            continue
        if size < 0 or size > _MAX_BLOCK:
            raise CodecError(f"snappy: a block of {size} bytes")
        block = payload[at : at + size]
        if len(block) < size:
            raise CodecError(f"snappy: a block of {size} bytes, of which only {len(block)} are there")
        at += size
        _read_block(block, output)


def has_header(payload: memoryview) -> bool:
    """Return whether a payload begins with xerial's header; if not, it is one bare block."""
    return len(payload) >= 16 and bytes(payload[:8]) == _MAGIC


def compress(payload: memoryview) -> bytes:
    parts = [_HEADER]
    for start in range(0, len(payload), _BLOCK_SIZE):
        data = _codec.compress(payload[start : start + _BLOCK_SIZE], asbytes=True)
        parts += (len(data).to_bytes(4, "big"), data)
    return b"".join(parts)


def _read_block(block: memoryview, output: InflateBuffer) -> None:
    try:
        size = _inflated_size(block)
        if size > 64 * len(block):  # three bytes make at most 64
            raise CodecError(f"snappy: a block of {len(block)} bytes claims to hold {size}")
        target = output.reserve(size)
        output.used += _decompress_into(block, target)
    except cramjam.DecompressionError as error:
        raise CodecError(f"snappy: a block does not decompress ({error})") from None
