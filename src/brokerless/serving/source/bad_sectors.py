"""Reads a segment that has unreadable bytes: its batches up to the first one that the system cannot read.

A disk may have a few bad sectors: where a large read fails, small ones follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import UnreadableError
from brokerless.log.directory import SegmentPaths
from brokerless.log.positions import last_indexed
from brokerless.log.segment import FIRST_WINDOW, LEAST_WINDOW, WINDOW, Chunk, Windows, scan
from brokerless.log.storage.files import File
from brokerless.progress import Report, ignore

_SECTOR = 4096


def readable_batches(file: File, report: Report, start: int, end: int | None = None) -> Iterator[Chunk]:
    """Yield the batches from ``start`` on (bytes) up to the first that the system does not read.

    Raises :class:`UnreadableError` where that is the very first."""
    is_first = True
    try:
        for chunk in scan(file, report, start, end, windows=_careful_windows(file)):
            is_first = False
            yield chunk
    except UnreadableError:
        if is_first:
            raise


def readable_start(find: Callable[[], int]) -> int:
    """Return a position that is found by an index, or the beginning where the system does not read what is there."""
    try:
        return find()
    except UnreadableError:
        return 0


def readable_end(file: File, segment: SegmentPaths) -> int:
    """Return the offset after the last batch before the first that the system does not read."""
    end = segment.base_offset
    for start in (readable_start(lambda: last_indexed(file, segment)), 0):
        try:
            for chunk in readable_batches(file, ignore, start):
                end = max(end, int(chunk.batches.end_of_records.max()) + 1)
        except UnreadableError:
            continue
        break
    return end


def _careful_windows(file: File) -> Windows:
    most = FIRST_WINDOW if file.is_local else WINDOW

    def read(position: int, useful: int, needed: int) -> tuple[NDArray[np.uint8], int]:
        nonlocal most
        if most:
            window = max(needed, min(most, max(useful, LEAST_WINDOW)))
            try:
                data = file.read(position, window)
            except UnreadableError:
                if not file.is_local:
                    raise
                most = 0
            else:
                most = min(8 * most, WINDOW)
                return data, window
        window = max(needed, _SECTOR - position % _SECTOR)
        return file.read(position, window), window

    return read
