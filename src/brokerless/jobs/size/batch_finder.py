"""Finds a batch at or after a position of a segment, and reads little beside it: by the offset index, from header to
header, or by searching for a valid one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import zip_longest

import numpy as np

from brokerless.errors import UnreadableError
from brokerless.format import layouts
from brokerless.format.arrays import Int64s, Uint8s
from brokerless.format.read.batch_headers import checksums_match, read_headers
from brokerless.format.read.batch_scan import scan_batches
from brokerless.format.read.resync import find_batch, find_next_batch
from brokerless.jobs.size.places import SampledSegment
from brokerless.log.index.readers import load_offset_index
from brokerless.log.live_segments import open_listed
from brokerless.log.storage.files import File

_LARGEST_BATCH = 128 << 20
_MOST_HOPS = 1000
"""Headers that are followed in a segment without an index: where batches are small, a search reads less."""
_FEW_HOPS = 16
"""The same for how large batches are."""
_NONE = np.empty(0, np.int64)


class BatchSearch:
    """Finds batches in segments; ``touched`` are the bytes that were read of their logs."""

    def __init__(self) -> None:
        self.touched = 0
        self._indexes: dict[str, Int64s] = {}
        self._hops: dict[str, list[int]] = {}
        """Where batches begin, as far as headers were followed from the start; by path."""

    def spacing(self, place: SampledSegment, file: File) -> int:
        """Return about how many bytes a large batch takes: by the offset index, which has an entry for each one, or by
        the first headers."""
        positions = self._indexed(place)
        if len(positions) < 2:
            positions = np.array(self._follow(place, file, file.size, _FEW_HOPS), np.int64)
        return int(np.median(np.diff(positions))) if len(positions) > 1 else 0

    def find(self, place: SampledSegment, file: File, position: int, length: int, least: int) -> tuple[int, Uint8s]:
        """Return where a valid batch begins at or after ``position``, or else before it, but from ``least`` on; and
        ``length`` bytes from there on, or the whole batch. Of no batch, there are no bytes."""
        for start in self._likely(place, file, position, least):
            buffer = self._window(file, start, length)
            scan = scan_batches(buffer, limit=1)
            if len(scan.positions) and checksums_match(buffer, read_headers(buffer, scan.positions))[0]:
                return start, buffer
        buffer = self._read(file, position, max(length, layouts.BATCH_V2_SIZE))
        found = find_batch(buffer)
        if found is not None:
            return position + found, buffer[found:]

        def read(at: int, count: int) -> Uint8s:
            return self._read(file, at, count)

        start = find_next_batch(read, place.end, position, place.end, skip=file.next_data)
        if start is None and not least and position > place.start:  # within the only batch
            return self.find(place, file, place.start, length=length, least=least)
        return (place.end, buffer[:0]) if start is None else (start, self._window(file, start, length))

    def last_offset(self, place: SampledSegment, file: File) -> int | None:
        """Return the offset of the last record, by headers from the last entry of the offset index on; None where that
        is too far, or a header is invalid."""
        indexed = self._indexed(place)
        at, last = int(indexed[-1]) if len(indexed) else place.start, place.segment.base_offset - 1
        for _ in range(_MOST_HOPS):
            if at >= place.end:
                return last
            header = self._read(file, at, layouts.BATCH_V2_SIZE)
            size = _whole_size(header)
            if not size or at + size > file.size:
                return None
            last = int(read_headers(header, np.zeros(1, np.int64)).last_offset[0])
            at += size
        return None

    def _likely(self, place: SampledSegment, file: File, position: int, least: int) -> list[int]:
        """Return where a batch may begin at or after a position, or else the last one."""
        if position == place.start:
            return [position]
        known = self._indexed(place)
        if not len(known):
            hops = self._follow(place, file, position, _MOST_HOPS)
            known = np.array(hops, np.int64)
            if len(hops) >= _MOST_HOPS and hops[-1] < position:
                return []
        at = int(np.searchsorted(known, position))
        return [start for start in known[max(0, min(at, len(known) - 1)) :][:1].tolist() if start >= least]

    def _follow(self, place: SampledSegment, file: File, position: int, most: int) -> list[int]:
        """Return where batches begin by the sizes in their headers, up to the first one at or after a position."""
        hops = self._hops.setdefault(file.path, [place.start])
        while hops[-1] < position and len(hops) < most:
            header = self._read(file, hops[-1], layouts.LOG_ENTRY_SIZE)
            following = hops[-1] + _whole_size(header)
            if len(header) < layouts.LOG_ENTRY_SIZE or not hops[-1] < following < file.size:
                break
            hops.append(following)
        return hops

    def _indexed(self, place: SampledSegment) -> Int64s:
        """Return where batches begin, by the offset index; empty without a valid one."""
        entry = place.segment.offset_index
        if entry is None:
            return _NONE
        if entry.path not in self._indexes:
            self._indexes[entry.path] = _NONE
            with suppress(UnreadableError):
                index = load_offset_index(entry.location, place.segment.base_offset)
                if index.is_valid:
                    self._indexes[entry.path] = index.positions[index.positions < place.end]
        return self._indexes[entry.path]

    def _window(self, file: File, start: int, length: int) -> Uint8s:
        """The batches that begin in a window, as a whole: at least one."""
        buffer = self._read(file, start, max(length, layouts.BATCH_V2_SIZE))
        size = _whole_size(buffer)
        if len(buffer) < size <= min(_LARGEST_BATCH, file.size - start):
            first = buffer.copy()  # the next read may be into the same memory
            return np.concatenate([first, self._read(file, start + len(first), size - len(first))])
        return buffer

    def _read(self, file: File, start: int, length: int) -> Uint8s:
        buffer = file.read(start, length)
        self.touched += len(buffer)
        return buffer


def offsets_of(places: Sequence[SampledSegment]) -> int | None:
    """Return how many offsets there are, by the names of segments and the last batch of each partition; None where that
    is not found quickly."""
    finder, total = BatchSearch(), 0
    for place, following in zip_longest(places, places[1:]):
        first = max(place.segment.base_offset, place.partition.log_start_offset)
        if following is not None and following.partition is place.partition:
            total += max(0, following.segment.base_offset - first)
            continue
        try:
            with open_listed(place.segment, is_last=True) as file:
                last = finder.last_offset(place, file)
        except UnreadableError:
            return None
        if last is None:
            return None
        total += max(0, last + 1 - first)
    return total


def _whole_size(buffer: Uint8s) -> int:
    """Return how many bytes the batch at the start of a buffer takes, by its header; 0 if that cannot be."""
    if len(buffer) < layouts.LOG_ENTRY_SIZE:
        return 0
    at = layouts.position_of(layouts.LOG_ENTRY, "size")
    size = int.from_bytes(buffer[at : layouts.LOG_ENTRY_SIZE].tobytes(), "big", signed=True)
    return layouts.LOG_ENTRY_SIZE + size if size >= layouts.MESSAGE_V0_OVERHEAD else 0
