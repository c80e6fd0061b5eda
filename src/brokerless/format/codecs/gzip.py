"""gzip as Kafka reads and writes it: members one after another (RFC 1952).

Kafka's reader (``java.util.zip.GZIPInputStream``) ignores what follows the last member and is not a member. Its writer
(``GZIPOutputStream``) makes one member. Both as in 3.9.1 and 4.1.1.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from isal import isal_zlib

from brokerless.format.codecs.decompression_buffer import CodecError, InflateBuffer

LEVELS = (1, 9, -1)
"""The lowest and the highest level, and Kafka's default (KIP-390)."""
_ZLIB_DEFAULT = 6
_GZIP_WINDOW = 31
"""zlib's largest window, with a header and trailer of gzip."""
_STEP = 1 << 20
"""Bytes that are inflated at once, as the size of the whole is not known."""
_FIRST_STEP = 512
"""The same for further members: they may be empty and many, and the library copies what it leaves unused."""
_NAME_STEP = 512
"""Bytes that are searched at once for the end of a name in the header."""

_BlockError: type[Exception] = isal_zlib.error  # pyright: ignore[reportAssignmentType] - a class, whatever its stub says


def read(payload: memoryview, output: InflateBuffer) -> None:
    """Appends what the members hold. Raises :class:`CodecError`; what was inflated before it stays."""
    first = at = read_header(payload)
    while True:
        member = output.used
        at = _inflate(payload, at, output, _STEP if at == first else _FIRST_STEP)
        if len(payload) - at < 8:
            raise CodecError("gzip: the trailer is cut off")
        checksum = int.from_bytes(payload[at : at + 4], "little")
        length = int.from_bytes(payload[at + 4 : at + 8], "little")
        inflated = output.view[member : output.used]
        if checksum != isal_zlib.crc32(inflated) or length != len(inflated) & 0xFFFFFFFF:
            raise CodecError("gzip: the trailer does not match the data")
        at += 8
        try:
            at += read_header(payload[at:])
        except CodecError:
            return


def read_header(payload: memoryview) -> int:
    """The length of a member's header. Raises :class:`CodecError` where Kafka's reader does."""
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
            at = _skip_name(payload, at)
    if flags & 0x02:
        if bytes(payload[at : at + 2]) != (isal_zlib.crc32(payload[:at]) & 0xFFFF).to_bytes(2, "little"):
            raise CodecError("gzip: the header's checksum does not match")
        at += 2
    if at > len(payload):
        raise CodecError("gzip: the stream ends within its header")
    return at


def make_compressor(level: int) -> Callable[[memoryview], bytes | bytearray]:
    import deflate  # only writers need it

    zlib_level = _ZLIB_DEFAULT if level == -1 else level
    return lambda payload: deflate.gzip_compress(payload, zlib_level)


def make_zlib_compressor(level: int) -> Callable[[memoryview], bytes]:
    """Makes what Java's ``GZIPOutputStream`` makes, as both have zlib: slower, but of the sizes that Kafka writes."""
    zlib_level = _ZLIB_DEFAULT if level == -1 else level
    return lambda payload: zlib.compress(payload, zlib_level, _GZIP_WINDOW)


def _inflate(payload: memoryview, at: int, output: InflateBuffer, step: int) -> int:
    """Inflates the deflate stream that starts at ``at``; returns where it ends. ``step``: bytes of input at first."""
    decompressor = isal_zlib.decompressobj(wbits=-15)
    rest: memoryview | bytes = b""
    data = b""
    try:
        while not decompressor.eof:
            if not rest and len(data) < _STEP:  # after a full step there may be more without any input
                rest = payload[at : at + step]
                at, step = at + len(rest), min(2 * step, _STEP)
                if not rest:
                    raise CodecError("gzip: the stream is cut off")
            data = decompressor.decompress(rest, _STEP)
            output.append(data)
            rest = decompressor.unconsumed_tail
    except _BlockError as error:
        raise CodecError(f"gzip: the stream does not decompress ({error})") from None
    return at - len(decompressor.unused_data)


def _skip_name(payload: memoryview, at: int) -> int:
    """The position after the next zero byte; past the end where there is none."""
    for start in range(at, len(payload), _NAME_STEP):
        found = bytes(payload[start : start + _NAME_STEP]).find(b"\x00")
        if found >= 0:
            return start + found + 1
    return len(payload) + 1
