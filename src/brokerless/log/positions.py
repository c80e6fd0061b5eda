"""Positions of batches in a segment's log, by offset.

An index is a hint: an entry is believed only if a valid batch begins where it points; otherwise the scan starts at the
segment's first byte, which is slower and always right.
"""

from __future__ import annotations

import numpy as np

from brokerless.format import layouts
from brokerless.format.read.batch_headers import Batches, checksums_match, read_headers
from brokerless.format.read.batch_scan import ScanStop, scan_batches
from brokerless.log.directory import SegmentPaths
from brokerless.log.index.readers import load_offset_index
from brokerless.log.segment import WINDOW, Chunk, scan_headers
from brokerless.log.storage.files import File
from brokerless.progress import ignore

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


def is_followed(file: File, chunk: Chunk) -> bool:
    """Return whether another batch begins where a chunk ends, by its header; where none does, what is there instead is
    still to be reported."""
    position, last = int(chunk.positions[-1] + chunk.batches.sizes[-1]), int(chunk.batches.end_of_records[-1])
    following = header_at(file, position, least=layouts.BATCH_V2_SIZE)
    if following is None:
        return False
    size = int(following.sizes[0])
    is_whole = size >= layouts.BATCH_V2_SIZE and position + size <= min(file.size, file.size_now())
    return is_whole and int(following.magic[0]) == layouts.MAGIC_V2 and int(following.entry_offset[0]) > last


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
