"""Positions of batches in a segment's log, by offset.

An index is a hint: an entry is believed only if a valid batch begins where it points; otherwise the scan starts at the
segment's first byte, which is slower and always right.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from brokerless.findings import Finding
from brokerless.format import layouts
from brokerless.format.read.batch_headers import Batches, checksums_match, read_headers
from brokerless.format.read.batch_scan import ScanStop, scan_batches
from brokerless.log.directory import SegmentPaths
from brokerless.log.index.readers import load_offset_index
from brokerless.log.segment import WINDOW, Chunk, check_checksums, scan_headers
from brokerless.log.storage.files import File
from brokerless.progress import Report, ignore

ENDING = 16
"""Batches in a row that begin past a range of offsets, before which reading it ends."""
_LARGEST = 1 << 20
"""Bytes of a batch that is read for whether it is a true one."""


def position_of_offset(file: File, segment: SegmentPaths, offset: int) -> int:
    """Return a position (bytes) in the segment's log where a batch begins, so that all records from ``offset`` on
    follow."""
    if segment.offset_index is None or offset <= segment.base_offset:
        return 0
    index = load_offset_index(segment.offset_index.location, segment.base_offset)
    _, position = index.lookup(offset)
    return position if position and is_batch_up_to(file, position, offset) else 0


def first_position(file: File, segment: SegmentPaths, offset: int) -> int:
    """Return the position (bytes) of the first batch that ends, or begins, at ``offset`` or later; the last batch's end
    where none does. Exact, where :func:`position_of_offset` is a hint: what is before has been read with lower
    offsets."""
    start = position_of_offset(file, segment, offset)
    for chunk in scan_headers(file, ignore, start, step=_step(file)):
        batches = chunk.batches
        rows = np.flatnonzero((batches.end_of_records >= offset) | (batches.entry_offset >= offset))
        if len(rows):
            return int(chunk.positions[rows[0]])
        start = chunk.base + int(batches.ends[-1])
    return start


def highest_before(file: File, segment: SegmentPaths, position: int) -> int:
    """Return the highest offset of the batches shortly before ``position`` (bytes), where a batch begins; -1 for none.
    By the offset index, whose offsets go up, those before are lower."""
    if not position:
        return -1
    start = 0
    if segment.offset_index is not None:
        index = load_offset_index(segment.offset_index.location, segment.base_offset)
        slot = int(np.searchsorted(index.positions, position)) - 1
        if index.is_valid and slot >= 0 and is_batch_up_to(file, int(index.positions[slot]), int(index.offsets[slot])):
            start = int(index.positions[slot])
    ends = [int(chunk.batches.end_of_records.max()) for chunk in scan_headers(file, ignore, start, position)]
    return max(ends, default=-1)


def end_position(file: File, segment: SegmentPaths, offset: int) -> int:
    """Return the position (bytes) after the last batch that begins before ``offset``."""
    end, last_before = position_of_offset(file, segment, offset), -1
    for chunk in scan_headers(file, ignore, end, step=_step(file)):
        batches = chunk.batches
        # A wrapper's own offset is its last one; where it begins is known from the one before.
        before_it = np.concatenate([[last_before], batches.last_offset[:-1]])
        begins = (batches.entry_offset < offset) | (batches.is_wrapper & (before_it + 1 < offset))
        rows = np.flatnonzero(begins)
        if not len(rows):
            break
        end, last_before = chunk.base + int(batches.ends[rows[-1]]), int(batches.last_offset[-1])
    return end


def last_indexed(file: File, segment: SegmentPaths) -> int:
    """Return the position (bytes) of the last batch that the offset index knows, if a true batch is there, or else
    0."""
    if segment.offset_index is None:
        return 0
    index = load_offset_index(segment.offset_index.location, segment.base_offset)
    if not len(index.positions) or not index.is_valid:
        return 0
    position = int(index.positions[-1])
    return position if is_batch_up_to(file, position, int(index.offsets[-1])) else 0


def check_in_range(
    file: File, chunk: Chunk, end_offset: int | None, report: Report
) -> tuple[Chunk, NDArray[np.bool_], bool]:
    """Return what is read of a chunk for a range of offsets that ends at ``end_offset`` (None: all), which of these
    batches have the right checksum, and whether reading ends with them. Others with a wrong one are reported.

    Reading ends after an intact batch that begins in the range and reaches its end, if the next one begins past it; and
    before ``ENDING`` batches in a row that begin past the range: no checksum covers the offset of a batch, so that few
    say too little. Of what follows nothing is reported, however much is read at once and by how many threads. Messages
    of v0 and v1 may begin far before their offsets, and end nothing.
    """
    found: list[Finding] = []
    # Checked before anything is left out by its header: a flipped bit would hide records without a word.
    valid = check_checksums(chunk, file.path, found.append)
    count = None if end_offset is None else _count_in_range(file, chunk, valid, end_offset)
    if count is not None:
        until = chunk.base + int(chunk.batches.sizes[:count].sum())
        found = [each for each in found if (each.position or 0) < until]
        chunk, valid = replace(chunk, batches=chunk.batches.take(slice(0, count))), valid[:count]
    for each in found:
        report(each)
    return chunk, valid, count is not None


def _count_in_range(file: File, chunk: Chunk, valid: NDArray[np.bool_], end_offset: int) -> int | None:
    """Return how many batches of a chunk are read; None for all of them and what follows."""
    batches = chunk.batches
    is_past = _begin_past(batches, end_offset)
    reaches_end = valid & ~batches.is_legacy & ~is_past & (batches.end_of_records >= end_offset - 1)
    following = 0
    if is_past[-1] or reaches_end[-1]:
        following, _ = _count_past(file, chunk.base + int(batches.ends[-1]), end_offset)
    goes_on = np.concatenate([is_past, np.ones(following, np.bool_), np.zeros(1, np.bool_)])
    others, each = np.flatnonzero(~goes_on), np.arange(len(is_past) + 1)
    # How many batches in a row begin past the range, from each on.
    past_from = others[np.searchsorted(others, each)] - each
    ends = [
        *np.flatnonzero(past_from[:-1] >= ENDING)[:1],
        *(np.flatnonzero(reaches_end & (past_from[1:] > 0))[:1] + 1),
    ]
    return min(map(int, ends), default=None)


def ends_range(file: File, position: int, end_offset: int) -> bool:
    """Return whether a part of a file that begins at ``position`` (bytes) has nothing of a range of offsets: ``ENDING``
    batches in a row begin past it, or two at least and all up to the end of the file."""
    count, end = _count_past(file, position, end_offset)
    return count == ENDING or (count > 1 and end >= file.size)


def _count_past(file: File, position: int, end_offset: int) -> tuple[int, int]:
    """Return how many batches in a row, from ``position`` on, are there as a whole and begin past a range, ``ENDING``
    at most, and where they end (bytes)."""
    size = min(file.size, file.size_now())
    for count in range(ENDING):
        batch = header_at(file, position, least=layouts.BATCH_V2_SIZE)
        if batch is None or not _begin_past(batch, end_offset)[0] or position + int(batch.sizes[0]) > size:
            return count, position
        position += int(batch.sizes[0])
    return ENDING, position


def _begin_past(batches: Batches, end_offset: int) -> NDArray[np.bool_]:
    """Return which batches begin past a range by their headers."""
    is_v2 = (batches.magic == layouts.MAGIC_V2) & (batches.sizes >= layouts.BATCH_V2_SIZE)
    return is_v2 & (batches.entry_offset >= end_offset)


def header_at(file: File, position: int, least: int = layouts.HEADER_SIZE_UP_TO_MAGIC) -> Batches | None:
    """Return the header of the batch that begins at ``position`` (bytes); None where the file has less than ``least``
    bytes from there on."""
    head = file.read(position, layouts.BATCH_V2_SIZE)
    return None if len(head) < least else read_headers(head, np.zeros(1, np.int64))


def _step(file: File) -> int:
    """Bytes to scan at once where the position is near: of a remote file, a window is fetched in any case."""
    return 1 << 16 if file.is_local else WINDOW


def is_batch_up_to(file: File, position: int, offset: int) -> bool:
    """Return whether a true batch begins at ``position`` (bytes) that does not begin after ``offset``."""
    if not 0 <= position < file.size:
        return False
    head = file.read(position, layouts.LOG_ENTRY_SIZE).tobytes()
    size = layouts.LOG_ENTRY_SIZE + int.from_bytes(head[8:], "big", signed=True)
    # A short message's header, as it is gathered, goes on in what follows.
    buffer = file.read(position, min(max(size, layouts.BATCH_V2_SIZE), _LARGEST))
    walked = scan_batches(buffer, limit=1)
    if walked.stop == ScanStop.SIZE_TOO_SMALL or not len(walked.positions):
        return False
    batch = read_headers(buffer, walked.positions)
    # A wrapper's offset is its last one, so this is stricter than need be for those.
    return int(batch.entry_offset[0]) <= offset and bool(checksums_match(buffer, batch)[0])
