"""Describes an active segment that is opened or truncated, and removes the files of segments.

Sources: ``LocalLog.deleteSegmentFiles``, ``LogSegment`` (``changeFileSuffixes``, ``truncateTo``,
``readLargestTimestamp``, ``readNextOffset``) and ``UnifiedLog.deleteProducerSnapshots`` (4.1.1).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from brokerless.format import layouts
from brokerless.log import names
from brokerless.log.index.readers import TimeIndex, load_offset_index, load_time_index, load_transaction_index
from brokerless.log.segment import scan_headers
from brokerless.log.storage.atomic import sync_directory
from brokerless.log.storage.files import File
from brokerless.log.storage.guarded_files import sync
from brokerless.log.storage.location import Location
from brokerless.log.storage.segment_files import SegmentFiles
from brokerless.log.write.active_segment import (
    SegmentState,
    offset_entries_before,
    time_entries_before,
    transaction_entries_before,
)
from brokerless.log.write.retention import ClosedSegment
from brokerless.progress import Report, ignore

KINDS: tuple[names.SegmentFileKind, ...] = (
    "log",
    "offset-index",
    "time-index",
    "transaction-index",
    "producer-snapshot",
)
"""What belongs to a segment; a producer snapshot has the offset of the segment that begins where it was taken."""


def remove_segments(directory: Path, base_offsets: Iterable[int]) -> None:
    """Removes segments, in this order: all files are renamed to ``.deleted`` first, those of a segment durably before
    those of the next, so that a crash leaves no half of one, and a power loss no gap between two. Raises OSError."""
    for path in put_aside(directory, base_offsets):
        path.unlink()


def put_aside(directory: Path, base_offsets: Iterable[int]) -> list[Path]:
    """Renames the files of segments to ``.deleted``, as a broker does before it removes them, and returns their paths.
    Raises OSError."""
    doomed: list[Path] = []
    for base_offset in base_offsets:
        for kind in KINDS[-1:] + KINDS[:-1]:  # a snapshot of producers alone would be nobody's
            path = directory / names.segment_file(base_offset, kind)
            if path.exists():
                doomed.append(path.rename(directory / names.segment_file(base_offset, kind, "deleted")))
        sync_directory(directory)
    return doomed


def clear_segment(directory: Path, base_offset: int) -> None:
    """Makes way for a new segment (``LocalLog.roll``): files of its names that are there already go."""
    for kind in KINDS[:4]:
        (directory / names.segment_file(base_offset, kind)).unlink(missing_ok=True)


def sync_file(path: Path) -> None:
    """Syncs a file, wherever it was written; nothing to do if it is gone. Raises OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def describe_for_retention(files: SegmentFiles, base_offsets: Iterable[int]) -> list[ClosedSegment]:
    """Closed segments as retention sees them: their largest timestamp is the last entry of the time index."""
    described: list[ClosedSegment] = []
    for base_offset in base_offsets:
        status = files.path(base_offset, "log").stat()
        timestamp = status.st_mtime_ns // 1_000_000
        if files.has(base_offset, "time-index"):
            index = load_time_index(files.location(base_offset, "time-index"), base_offset)
            timestamp = int(index.timestamps[-1]) if len(index.timestamps) else timestamp
        described.append(ClosedSegment(base_offset, status.st_size, timestamp))
    return described


def describe_segment(files: SegmentFiles, base_offset: int, report: Report = ignore) -> tuple[SegmentState, int]:
    """Return a segment as its files are, and the offset after its last batch; its indexes are trusted.

    An invalid end of the log is reported; then ``size`` covers the valid batches.
    """
    offsets = load_offset_index(files.location(base_offset, "offset-index"), base_offset)
    times = load_time_index(files.location(base_offset, "time-index"), base_offset)
    for finding in (*offsets.findings, *times.findings):
        report(finding)
    with files.location(base_offset, "log").open() as file:
        start = int(offsets.positions[-1]) if offsets.is_valid and len(offsets.positions) else 0
        start = start if start <= file.size else 0
        size, next_offset = start, base_offset
        for chunk in scan_headers(file, report, start, chain_only=True):
            size = chunk.base + int(chunk.batches.ends[-1])
            next_offset = int(chunk.batches.last_offset[-1]) + 1
        state = SegmentState(
            base_offset,
            size,
            first_timestamp=first_timestamp(file),
            offset_entries=len(offsets.offsets),
            time_entries=len(times.offsets),
        )
    return _with_last_time_entry(state, times), next_offset


def truncated_segment(files: SegmentFiles, base_offset: int, offset: int) -> tuple[SegmentState, int]:
    """Return a segment without the batches that reach ``offset`` or beyond, and the entries left in its transaction
    index."""
    offsets = load_offset_index(files.location(base_offset, "offset-index"), base_offset)
    times = load_time_index(files.location(base_offset, "time-index"), base_offset)
    with files.location(base_offset, "log").open() as file:
        size = file.size
        for chunk in scan_headers(file, ignore, offsets.lookup(offset)[1], chain_only=True):
            reaching = np.flatnonzero(chunk.batches.last_offset >= offset)
            if len(reaching):
                size = int(chunk.positions[reaching[0]])
                break
        kept = time_entries_before(times, offset)
        state = SegmentState(
            base_offset,
            size,
            first_timestamp=first_timestamp(file) if size else layouts.NO_TIMESTAMP,
            offset_entries=offset_entries_before(offsets, offset),
            time_entries=kept,
        )
        state = _with_last_time_entry(
            state, replace(times, timestamps=times.timestamps[:kept], offsets=times.offsets[:kept])
        )
        # What came after the time index's last entry is in the log only.
        last = state.base_offset if state.max_timestamp_offset is None else state.max_timestamp_offset
        for chunk in scan_headers(file, ignore, offsets.lookup(last)[1], size, chain_only=True):
            row = int(np.argmax(chunk.batches.max_timestamp))
            if (largest := int(chunk.batches.max_timestamp[row])) > state.max_timestamp:
                found = int(chunk.batches.last_offset[row])
                state = replace(state, max_timestamp=largest, max_timestamp_offset=found)
    path = files.path(base_offset, "transaction-index")
    aborted = load_transaction_index(Location(str(path)), base_offset) if path.exists() else None
    return state, 0 if aborted is None else transaction_entries_before(aborted, offset)


def _with_last_time_entry(state: SegmentState, times: TimeIndex) -> SegmentState:
    if not len(times.timestamps):
        return state
    timestamp, offset = int(times.timestamps[-1]), int(times.offsets[-1])
    return replace(state, max_timestamp=timestamp, max_timestamp_offset=offset, last_time_entry=timestamp)


def first_timestamp(file: File) -> int:
    """Return the largest timestamp (ms) of a segment's first batch; -1 if it has none."""
    for chunk in scan_headers(file, ignore, 0, 1, chain_only=True):
        return int(chunk.batches.max_timestamp[0])
    return layouts.NO_TIMESTAMP
