"""Splits a segment whose offsets are too far apart for one, as cleaners before Kafka 1.0 left them (KAFKA-6264)."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

from brokerless.log import names
from brokerless.log.recovery.segment import check_split, follow_parts
from brokerless.log.segment import scan
from brokerless.log.storage.guarded_files import open_own
from brokerless.log.storage.location import Location
from brokerless.progress import ignore

_BLOCK = 8 << 20
_KINDS: tuple[names.SegmentFileKind, ...] = ("log", "offset-index", "time-index", "transaction-index")


def split_segment(directory: Path, base_offset: int) -> None:
    """Replace a segment in a directory that nobody else reads by several, each of which begins where an offset is too
    far after the base offset of the one before; their indexes are to be rebuilt.

    Source: ``LocalLog.splitOverflowedSegment`` (4.4.0). Raises what :func:`check_split` does.
    """
    log = directory / names.segment_file(base_offset, "log")
    parts, end = list[tuple[int, int]](), 0
    with Location(str(log)).open() as file:
        check_split(file, base_offset)
        for chunk in scan(file, ignore, chain_only=True):
            follow_parts(parts, chunk)
            end = chunk.base + int(chunk.batches.ends[-1])
        for (base, start), (_, after) in pairwise([*parts, (0, end)]):
            created = open_own(directory / f"{base:020}.part", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            with os.fdopen(created, "wb") as part:
                while start < after:
                    block = file.read(start, min(_BLOCK, after - start))
                    part.write(block.data)
                    start += len(block)
    for kind in _KINDS:
        (directory / names.segment_file(base_offset, kind)).unlink(missing_ok=True)
    for base, _ in parts:
        (directory / f"{base:020}.part").rename(directory / names.segment_file(base, "log"))
