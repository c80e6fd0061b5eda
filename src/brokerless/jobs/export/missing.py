"""Finds offsets that were missing or damaged in an earlier export and that the log has intact now."""

from __future__ import annotations

from collections.abc import Iterator

from brokerless.errors import UnreadableError
from brokerless.findings import Finding
from brokerless.log.directory import PartitionPath
from brokerless.log.live_segments import open_segments
from brokerless.log.offset_gaps import missing_offsets, missing_segment
from brokerless.log.ranges import Range
from brokerless.log.segment import check_checksums, scan
from brokerless.log.walk import start_of
from brokerless.offset_spans import Span, union
from brokerless.progress import ignore


def present(source: PartitionPath, span: Span, end_offset: int) -> tuple[list[Span], list[Finding]]:
    """Return which of some offsets a log has now, which ends at ``end_offset``; and findings about those that it lacks
    still. What compaction took meanwhile counts as there."""
    first, after = max(span[0], source.start_offset or 0), span[1]
    if first >= after:
        return [], []
    found: list[Span] = []
    findings: list[Finding] = []
    ends = dict(zip((each.base_offset for each in source.segments), _ends(source, end_offset), strict=True))
    for each in open_segments(source, ignore, Range(first, after)):
        segment = each.segment
        end = ends.get(segment.base_offset, after)  # one that took the place of several has what is left of them
        finding = missing_segment(each)
        if finding is not None:
            end = missing_offsets(finding).start
            if end < after:
                findings.append(finding)
        one = max(segment.base_offset, first), min(end, after)
        if one[0] < one[1]:
            found.append(one)
    return union(found), findings


def intact(source: PartitionPath, span: Span) -> list[Span]:
    """Return which of some offsets are in batches of a log whose checksums are right, and that begin among them: the
    first records of others were exported. What compaction took meanwhile is not, as nothing shows that it is not
    damaged; nor are wrapper messages, whose first offset only their records have."""
    first, after = span
    found: list[Span] = []
    try:
        for each in open_segments(source, ignore, Range(first, after)):
            for chunk in scan(each.file, ignore, start_of(each, Range(first))):
                batches, valid = chunk.batches, check_checksums(chunk, each.file.path, ignore)
                rows = valid & (batches.entry_offset >= first) & (batches.entry_offset < after) & ~batches.is_wrapper
                spans = zip(batches.entry_offset[rows].tolist(), batches.end_of_records[rows].tolist(), strict=True)
                found += [(begin, min(last + 1, after)) for begin, last in spans]
                if int(batches.entry_offset.max()) >= after:
                    break
    except UnreadableError:  # what it has is found when it can be read
        return []
    return union(found)


def _ends(source: PartitionPath, end_offset: int) -> Iterator[int]:
    yield from (each.base_offset for each in source.segments[1:])
    yield end_offset
