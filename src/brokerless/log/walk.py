"""Walks through a partition's log: its segments in order, and what is missing before, between and after them.

Who reads a log reads it by this, so that all say the same of what they do not find. Segments are opened while a broker
may replace them (:mod:`brokerless.log.live_segments`); what is missing of a log is found by
:mod:`brokerless.log.offset_gaps`.
"""

from __future__ import annotations

from collections.abc import Iterator

from brokerless.errors import UnreadableError
from brokerless.log.directory import PartitionPath
from brokerless.log.live_segments import OpenSegment, open_segments
from brokerless.log.offset_gaps import check_end, check_following, check_head
from brokerless.log.ranges import EVERYTHING, Range
from brokerless.log.seek import start_position
from brokerless.progress import Report


def walk(
    partition: PartitionPath, report: Report, selected: Range = EVERYTHING, requested: Range | None = None
) -> Iterator[OpenSegment]:
    """Yield the segments that hold the selected offsets, as :func:`open_segments` yields them, and raises. What is
    missing of the log and nothing explains is reported where reading comes to it, as far as it is in ``requested`` (by
    default what is selected): before the first segment, between two, and at the end."""
    requested = selected if requested is None else requested
    check_head(partition, report, requested)
    yield from walk_part(partition, report, selected, requested)
    check_end(partition, report, requested)


def walk_part(
    partition: PartitionPath, report: Report, selected: Range = EVERYTHING, requested: Range | None = None
) -> Iterator[OpenSegment]:
    """Yield the segments of a part of a log, or of one whose ends were checked before: only what is missing between
    segments is reported. Of a segment that ``skips_gap``, nothing is looked for."""
    for each in open_segments(partition, report, selected):
        yield each
        if each.skips_gap:
            continue
        try:
            check_following(each, report, selected if requested is None else requested)
        except UnreadableError as error:  # what would say whether something is missing
            report(error.finding(each.file.path))


def check_ends(partition: PartitionPath, report: Report, requested: Range = EVERYTHING) -> None:
    """Reports what is missing at both ends of a log that is read in parts, or not written where its end is missing."""
    check_head(partition, report, requested)
    check_end(partition, report, requested)


def start_of(opened: OpenSegment, selected: Range) -> int:
    """Return the position (bytes) in an open segment where a batch begins, so that all that is selected of it
    follows."""
    return max(opened.start, start_position(opened.file, opened.segment, selected))
