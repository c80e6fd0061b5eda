"""Finds the first record at a timestamp, a segment's last offset, and where to cut a log's bytes at batches.

Indexes are hints. What one says is believed only if a true batch begins where it points; otherwise the walk starts at
the segment's first byte, which is slower and always right.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.format.read.batch_headers import checksums_match
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.index.readers import load_time_index
from brokerless.log.live_segments import open_listed, open_segments, with_current_listing
from brokerless.log.positions import last_indexed, position_of_offset
from brokerless.log.ranges import Range, from_log_start
from brokerless.log.segment import Chunk, check_checksums, scan, scan_headers
from brokerless.log.storage.files import File
from brokerless.progress import Report, ignore

_MOST_HEADERS = 1 << 18
"""Headers of batches, of 61 bytes, that are kept."""


def last_offset(file: File, segment: SegmentPaths, report: Report = ignore) -> int | None:
    """Return the offset of the segment's last record, by the header of the last batch; None if there is no batch.
    ``report``: what is wrong with the end of the file.

    Source: ``LogSegment.readNextOffset`` (4.1.1). A batch before it at a larger offset is damaged. Where the last one
    has a wrong size that leads over intact batches to the end of the file, the last of these counts.
    """
    last = None
    for chunk in scan_headers_to_end(file, report, last_indexed(file, segment)):
        last = int(chunk.batches.end_of_records[-1])
    return last


def end_offset(partition: PartitionPath, headers: list[Chunk] | None = None) -> int | None:
    """Return the offset after the last one in a partition's log, by the last segment's headers; None without a segment.
    ``headers`` gets these as they were read, if all were, nothing is wrong with them and they are not many: so that
    they need not be read again.

    Raises :class:`UnreadableError` for a segment that cannot be read.
    """

    def end_of(paths: PartitionPath) -> int | None:
        for segment in reversed(paths.segments):
            is_last = segment is paths.segments[-1]
            with open_listed(segment, is_last) as file:
                last = _last_offset_with(headers, file, segment) if is_last else last_offset(file, segment)
            if last is not None:
                return last + 1
            if segment.base_offset:
                return segment.base_offset
        return paths.start_offset

    return with_current_listing(partition, end_of)


def _last_offset_with(headers: list[Chunk] | None, file: File, segment: SegmentPaths) -> int | None:
    """The same as :func:`last_offset`; ``headers`` as :func:`end_offset` has it."""
    if headers is None:
        return last_offset(file, segment)
    headers.clear()
    start, found, last, count = last_indexed(file, segment), list[Finding](), None, 0
    for chunk in scan_headers_to_end(file, found.append, start):
        last, count = int(chunk.batches.end_of_records[-1]), count + len(chunk.batches)
        if count <= _MOST_HEADERS:
            headers.append(chunk)
    if start or found or count > _MOST_HEADERS:
        headers.clear()
    return last


def scan_headers_to_end(file: File, report: Report, start: int = 0) -> Iterator[Chunk]:
    """Yield the batches of a log's last segment by their headers, as :func:`scan_headers` gives them from a position
    (bytes) on; and where the last one ends with the file as its size is wrong, the intact ones that it leads over."""
    last = None
    for chunk in scan_headers(file, report, start):
        yield chunk
        last = int(chunk.positions[-1]), chunk.base + int(chunk.batches.ends[-1])
    if last is None or last[1] != file.size:
        return
    found: list[Finding] = []
    for chunk in scan(file, found.append, last[0]):
        check_checksums(chunk, file.path, found.append)
        others = chunk.take(chunk.positions != last[0])
        if len(others.batches):
            for finding in found:
                report(finding)
            found.clear()
            yield others


def log_start_after_end(partition: PartitionPath) -> Finding | None:
    """Return the finding about a log that ends before its log start offset, if it does: a broker deletes all of it and
    serves nothing (``LogLoader.load``, 4.1.1). Looks at the last segment only."""
    if not partition.segments or partition.log_start_offset <= partition.segments[-1].base_offset:
        return None
    last = partition.segments[-1]
    try:
        with last.log.location.open() as file:
            offset = last_offset(file, last)
    except UnreadableError:  # which is reported where it is read
        return None
    if offset is None:  # all was deleted
        return None
    end = offset + 1
    if partition.log_start_offset <= end:
        return None
    text = (
        "the log ends before its start offset: a broker deletes all of it at its next start, and nothing is read "
        "(deleted records can be included)"
    )
    expected, found = f"at least {partition.log_start_offset}, the log start offset", f"{end}, where the log ends"
    return Kind.LOG_START_BEYOND_END.at(last.log.path, text, offset=end, expected=expected, found=found)


def from_reported_start(partition: PartitionPath, report: Report) -> Range:
    """Return what readers get: all from the log start offset on. A log that ends before that is reported."""
    finding = log_start_after_end(partition)
    if finding is not None:
        report(finding)
    return from_log_start(partition)


def offset_for_timestamp(
    partition: PartitionPath, timestamp: int, max_batch_bytes: int | None = None
) -> tuple[int, int] | None:
    """Return the first record from the log start offset on whose timestamp (ms) is at least ``timestamp``, as (offset,
    timestamp); None if there is none.

    As ``KafkaConsumer.offsetsForTimes``; found through the time index where there is a valid one, and the largest
    timestamps of batch headers. Where the first segment that has such a timestamp has it only before the log start
    offset, a broker finds nothing, and looks into no later segment (``UnifiedLog.searchOffsetInLocalLog``, 4.1.1).
    ``max_batch_bytes``: what one batch may inflate to.
    """
    first = partition.start_offset or 0
    for each in open_segments(partition, ignore, from_log_start(partition)):
        segment, file = each.segment, each.file
        start = max(each.start, position_of_timestamp(file, segment, timestamp))
        if segment.base_offset < first:
            start = max(start, position_of_offset(file, segment, first))
        found = _first_since(file, start, timestamp, first_offset=first, max_batch_bytes=max_batch_bytes)
        if found is not None:
            return found
        if segment.base_offset < first and _has_timestamp(file, timestamp):
            return None
    return None


def _has_timestamp(file: File, timestamp: int) -> bool:
    """Return whether a valid batch of a segment has a timestamp (ms) that is as late."""
    for chunk in scan_headers(file, ignore):
        for late in chunk.take(chunk.batches.max_timestamp >= timestamp).load(ignore):
            if checksums_match(late.buffer, late.batches).any():
                return True
    return False


def position_of_timestamp(file: File, segment: SegmentPaths, timestamp: int) -> int:
    """Return a position (bytes) in the segment's log where a batch begins, so that all records whose timestamp (ms) is
    at least this follow, by the time index and the offset index."""
    if segment.time_index is None or segment.offset_index is None:
        return 0
    index = load_time_index(segment.time_index.location, segment.base_offset)
    known, offset = index.lookup(timestamp - 1)
    if known < 0:
        return 0
    position = position_of_offset(file, segment, offset)
    return position if position and _max_timestamp_at(file, position, offset) == known else 0


def start_position(file: File, segment: SegmentPaths, selected: Range) -> int:
    """Return a position (bytes) in the segment's log where a batch begins, so that all records that are selected by
    offsets, and by times if batches are passed over by these, follow."""
    start = 0
    if selected.start_offset is not None:
        start = position_of_offset(file, segment, selected.start_offset)
    if selected.pruned_from is not None:
        start = max(start, position_of_timestamp(file, segment, selected.pruned_from))
    return start


def _max_timestamp_at(file: File, start: int, offset: int) -> int | None:
    """The largest timestamp (ms) of the batch with ``offset``, at or after ``start`` (bytes); a time index has it."""
    for chunk in scan_headers(file, ignore, start, step=1 << 16):
        rows = np.flatnonzero(chunk.batches.end_of_records >= offset)
        if len(rows):
            return int(chunk.batches.max_timestamp[rows[0]])
    return None


def _first_since(
    file: File, start: int, timestamp: int, first_offset: int, max_batch_bytes: int | None
) -> tuple[int, int] | None:
    from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
    from brokerless.format.read.decoder import Decoder, decode_whole

    decoder = Decoder(
        keys=False, values=False, headers=False, max_batch_bytes=max_batch_bytes or DEFAULT_MAX_BATCH_BYTES
    )
    for chunk in scan_headers(file, ignore, start):
        batches = chunk.batches
        is_late = (batches.max_timestamp >= timestamp) & (batches.end_of_records >= first_offset)
        for late in chunk.take(is_late).load(ignore):
            for row in range(len(late.batches)):
                one = late.batches.take(slice(row, row + 1))
                if not checksums_match(late.buffer, one)[0]:
                    continue
                for columns in (each.columns for each in decode_whole(decoder, late.buffer, one)):
                    is_since = columns.timestamp[: columns.rows] >= timestamp
                    rows = np.flatnonzero(is_since & (columns.offset[: columns.rows] >= first_offset))
                    if len(rows):
                        return int(columns.offset[rows[0]]), int(columns.timestamp[rows[0]])
    return None


def split(file: File, start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    """Cuts the batches of a file that begin in ``[start, end)`` into byte ranges of about ``size`` bytes; each starts
    where a batch does."""
    at, size = start, max(size, 1)
    for chunk in scan_headers(file, ignore, start, end, step=size):
        ends = chunk.base + chunk.batches.ends  # a chunk may end anywhere, so ranges do not end where it does
        while (row := int(np.searchsorted(ends, at + size))) < len(ends):
            yield at, int(ends[row])
            at = int(ends[row])
    if at < end:
        yield at, end
