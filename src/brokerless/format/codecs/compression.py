"""Compressors of payloads for every codec, with the levels that Kafka's topics may set."""

from __future__ import annotations

from collections.abc import Callable

from brokerless.errors import UsageError
from brokerless.format import layouts
from brokerless.format.codecs import gzip, lz4, snappy, zstd

LEVELS = {"gzip": gzip.LEVELS, "lz4": lz4.LEVELS, "zstd": zstd.LEVELS}
"""The lowest and the highest level of each codec that has levels, and Kafka's default."""

Compress = Callable[[memoryview], bytes | bytearray]


def make_compressor(
    codec: str, magic: int = layouts.MAGIC_V2, level: int | None = None, *, with_zlib: bool = False
) -> Compress:
    """A function that compresses payloads for batches of a format; it owns its state, so one belongs to one thread.

    ``level``: Kafka's ``compression.gzip.level`` and so on; None for Kafka's default. ``with_zlib``: gzip of the sizes
    that Kafka writes, for twice the time. Raises :class:`UsageError` for a
    codec that this format does not have, or a level that the codec does not have.
    """
    if codec not in layouts.CODECS[1:]:
        raise UsageError(f"there is no codec {codec!r}; there are {', '.join(layouts.CODECS)}")
    if codec == "zstd" and magic < layouts.MAGIC_V2:
        raise UsageError(f"message format v{magic} has no zstd; it has {', '.join(layouts.CODECS[:-1])}")
    chosen = _check_level(codec, level)
    match codec:
        case "gzip":
            return gzip.make_zlib_compressor(chosen) if with_zlib else gzip.make_compressor(chosen)
        case "snappy":
            return snappy.compress
        case "lz4":
            return lz4.make_compressor(chosen, magic)
        case _:
            return zstd.make_compressor(chosen)


def _check_level(codec: str, level: int | None) -> int:
    if codec not in LEVELS:
        if level is not None:
            raise UsageError(f"{codec} has no levels")
        return 0
    lowest, highest, default = LEVELS[codec]
    if level is None or level == default:
        return default
    if not lowest <= level <= highest:
        raise UsageError(f"{codec} has no level {level}; it has {lowest} to {highest}, by default {default}")
    return level
