"""The choices whose sizes are compared: message format, codec, level, and records or bytes of a batch."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from brokerless.format import layouts
from brokerless.format.codecs.compression import LEVELS
from brokerless.format.convert import LARGEST, ConversionTarget

MAGICS = (layouts.MAGIC_V0, layouts.MAGIC_V1, layouts.MAGIC_V2)
BATCH_RECORDS = (1, 10, 100, 1000)
BATCH_BYTES = (16 << 10, 128 << 10, 1 << 20)
COMPARED_LEVELS = {"gzip": (None, 9), "lz4": (None,), "zstd": (None, 1, 9)}
"""Of v2, where nothing else is requested; None is Kafka's default. Older formats are compared at that alone."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A format, codec and batch size for which the size of a topic is estimated."""

    magic: int
    codec: str
    level: int | None = None
    """The level of the codec; None for its default."""
    batch_records: int | None = None
    """How many records a batch has. None for this and ``batch_bytes`` retains the batches that are there; v0 and v1
    without a codec have no batches, and so neither."""
    batch_bytes: int | None = None
    """How many bytes a batch has."""

    @property
    def is_compressed(self) -> bool:
        return self.codec != "none"

    @property
    def is_unchanged(self) -> bool:
        """Whether the batches that are there keep their boundaries."""
        return self.batch_records is None and self.batch_bytes is None

    @property
    def target(self) -> ConversionTarget:
        """The conversion whose output is measured: with Kafka's gzip, which is not that of ``convert``."""
        packing = self.batch_bytes, self.batch_records
        return ConversionTarget(self.magic, self.codec, self.level, *packing, with_zlib=True)

    def as_dict(self) -> dict[str, Any]:
        return {
            "format": f"v{self.magic}",
            "compression": self.codec,
            "level": self.level,
            "batchRecords": self.batch_records,
            "batchBytes": self.batch_bytes,
        }

    def command(self, paths: Sequence[str], options: Sequence[str] = (), to: str = "converted") -> str:
        """Return the command line that makes it so. ``options``: which of the partitions."""
        words = ["brokerless", "convert", *paths, "--to", to, *options]
        words += ["--format", f"v{self.magic}", "--codec", self.codec]
        words += [] if self.level is None else ["--level", str(self.level)]
        words += [] if self.batch_bytes is None else ["--batch-size", str(self.batch_bytes)]
        return shlex.join(words)


def choices_of(
    magics: Sequence[int] = (),
    codecs: Sequence[str] = (),
    levels: Sequence[int] = (),
    batch_records: Sequence[int] = (),
    batch_bytes: Sequence[int] = (),
) -> list[Choice]:
    """Return all combinations that Kafka has of the choices that are requested. For others the usual ones are taken,
    and the batches that are there. Levels outside of a codec's range are left out."""
    packings: list[tuple[int | None, int | None]] = [(None, size) for size in batch_bytes]
    packings = [(count, None) for count in batch_records] + packings
    if not packings:
        packings = [(None, None), *((count, None) for count in BATCH_RECORDS), *((None, size) for size in BATCH_BYTES)]
    found: dict[Choice, None] = {}
    for magic, codec in product(sorted({*(magics or MAGICS)}), layouts.CODECS):
        if codecs and codec not in codecs:
            continue
        if codec == "zstd" and magic < layouts.MAGIC_V2:
            continue
        if codec == "none" and magic < layouts.MAGIC_V2:
            found[Choice(magic, codec)] = None
            continue
        for level, (count, size) in product(_levels(magic, codec, levels), packings):
            found[Choice(magic, codec, level, batch_records=count, batch_bytes=size)] = None
    return list(found)


def _levels(magic: int, codec: str, levels: Sequence[int]) -> Iterator[int | None]:
    if codec not in LEVELS or (not levels and magic < layouts.MAGIC_V2):
        yield None
    elif not levels:
        yield from COMPARED_LEVELS[codec]
    else:
        lowest, highest, _ = LEVELS[codec]
        yield from (level for level in levels if lowest <= level <= highest)


def is_too_large(choice: Choice, record_bytes: float) -> bool:
    """Return whether so many records would make a larger batch than a broker takes."""
    return choice.batch_records is not None and choice.batch_records * record_bytes > LARGEST
