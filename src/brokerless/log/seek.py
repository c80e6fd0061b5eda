"""Where in a segment to begin, by offset or timestamp: by its indexes where they are sound, by its batches where not.

An index entry is believed only if a batch with a right checksum begins where it says; otherwise the walk starts at the
segment's first byte, which is slower and always right.
"""

from __future__ import annotations

import numpy as np

from brokerless.format.batches import Stop, checksums_match, read_headers, walk
from brokerless.log.directory import SegmentPaths
from brokerless.log.storage import File, StorageOptions


def position_of_offset(
    file: File, segment: SegmentPaths, offset: int, storage_options: StorageOptions | None = None
) -> int:
    """A position (bytes) in the segment's log where a batch begins that is not after the one with ``offset``."""
    if segment.offset_index is None or offset <= segment.base_offset:
        return 0
    position = 0
    return position if is_batch(file, position, offset) else 0


def is_batch(file: File, position: int, offset: int) -> bool:
    """Whether a true batch begins at ``position``, with no record after ``offset`` before it."""
    buffer = file.read(position, min(file.size - position, 1 << 20))
    walked = walk(buffer, limit=1)
    if walked.stop == Stop.SIZE_TOO_SMALL or not len(walked.positions):
        return False
    batch = read_headers(buffer, walked.positions)
    starts_before = not batch.is_legacy[0] and int(batch.entry_offset[0]) <= offset
    return bool(starts_before and np.all(checksums_match(buffer, batch)))
