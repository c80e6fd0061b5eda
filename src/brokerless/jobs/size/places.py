"""The segments of a topic that are measured, from their log start offsets on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from brokerless.errors import UnreadableError
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.live_segments import open_listed
from brokerless.log.offset_gaps import missing_logs
from brokerless.log.positions import last_indexed, position_of_offset
from brokerless.log.ranges import Range, from_log_start
from brokerless.log.segment import scan_headers
from brokerless.log.storage.paths import is_remote
from brokerless.log.storage.side_by_side import side_by_side
from brokerless.progress import Report, ignore

_TAIL = 64
"""Bytes at the end of a file that are read; no batch ends in so many zeros."""


@dataclass(frozen=True, slots=True)
class SampledSegment:
    """A segment that is sampled."""

    partition: PartitionPath
    segment: SegmentPaths
    selected: Range
    start: int
    """The position in the segment's log from which on it is sampled."""
    end: int
    """The position up to which it is sampled, after which there are only zeros."""

    @property
    def size(self) -> int:
        return max(0, self.end - self.start)


def places_of(partitions: Sequence[PartitionPath], report: Report = ignore) -> list[SampledSegment]:
    """All segments of some partitions, from their log start offsets up to their last batches. ``report``: called with
    what is after those, such as the zeros of a preallocated file."""
    found: list[SampledSegment] = []
    for partition in partitions:
        for _, finding in missing_logs(partition):
            report(finding)
    is_any_remote = any(is_remote(each.path) for each in partitions)
    ends = side_by_side(lambda each: _end_of_batches(each, report), partitions, is_any_remote)
    for partition, end in zip(partitions, ends, strict=True):
        selected = from_log_start(partition)
        for number, segment in enumerate(selected.segments(partition.segments)):
            start = 0
            if number == 0 and not selected.is_everything:
                with (
                    suppress(UnreadableError),
                    open_listed(segment, is_last=True) as file,
                ):
                    start = position_of_offset(file, segment, partition.log_start_offset)
            is_last = segment is partition.segments[-1]
            found.append(
                SampledSegment(partition, segment, selected, start=start, end=end if is_last else segment.size)
            )
    return found


def _end_of_batches(partition: PartitionPath, report: Report) -> int:
    """Return where the last segment's batches end (bytes): its size, unless zeros are at its end, as
    ``log.preallocate`` leaves them after a kill. What cannot be opened is reported where it is read."""
    if not partition.segments:
        return 0
    last = partition.segments[-1]
    with suppress(UnreadableError), open_listed(last, is_last=True) as file:
        if file.size < _TAIL or file.read(file.size - _TAIL, _TAIL).any():
            return last.size
        end = last_indexed(file, last)
        for chunk in scan_headers(file, report, end):
            end = chunk.base + int(chunk.batches.ends[-1])
        return end
    return last.size
