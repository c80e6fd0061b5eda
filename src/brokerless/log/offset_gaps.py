"""Finds missing segments: gaps in a log's offsets that compaction and retention do not explain.

A log that was only appended to has every offset. Compaction leaves gaps, and other signs of itself: batches with
fewer records than offsets, gaps within a file, a line in the cleaner's checkpoint, or the topic's ``cleanup.policy``
in the cluster's metadata. A gap between two files without any such sign is a file that is missing, or that was not
copied to its end.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from brokerless.bounds import MAX_INT32
from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.format.read.batch_headers import Batches, checksums_match
from brokerless.log import names
from brokerless.log.checkpoint.leader_epochs import load_leader_epochs
from brokerless.log.checkpoint.offset_checkpoints import recorded_offset
from brokerless.log.completion.findings import check_completion
from brokerless.log.directory import LogDirectory, PartitionPath, SegmentPaths, deleted_segments
from brokerless.log.index.readers import load_offset_index, load_time_index
from brokerless.log.live_segments import PAUSE_S, OpenSegment, ReplacedError, open_listed
from brokerless.log.positions import last_indexed
from brokerless.log.ranges import EVERYTHING, Range
from brokerless.log.segment import scan, scan_headers
from brokerless.log.settings.topic import CLEANUP_POLICY, REMOTE_STORAGE, cleanup_policies, is_true
from brokerless.log.storage.files import File
from brokerless.log.storage.location import DirectoryEntry
from brokerless.log.storage.paths import directory_name
from brokerless.log.tiered.detection import is_tiered
from brokerless.offset_spans import Span, union, without
from brokerless.progress import Report, ignore

_MOST_OFFSETS = MAX_INT32
"""A batch whose offset is further from its segment's base has to begin another one (``LogSegment.shouldRoll``, 4.1.1):
such a jump is of who wrote the log, as no lost segment would have so many offsets."""


def shows_compaction(batches: Batches) -> bool:
    """Return whether batches say themselves that records were taken out of them."""
    data = ~batches.is_legacy & ~batches.is_control
    spans = batches.last_offset - batches.entry_offset + 1
    return bool((data & (batches.count < spans) | batches.has_delete_horizon).any())


def check_following(opened: OpenSegment, report: Report, requested: Range = EVERYTHING) -> None:
    """Reports what is missing between a segment and the one that follows it, if it is in ``requested``."""
    _report_within(missing_segment(opened), report, requested)


def check_head(partition: PartitionPath, report: Report, requested: Range = EVERYTHING) -> None:
    """Reports what is missing before the first segment, and logs of which only an index is left, as far as these are in
    ``requested``."""
    _report_within(missing_head(partition), report, requested)
    for lost, finding in missing_logs(partition):
        if _is_requested(lost, requested):
            report(finding)


def check_end(partition: PartitionPath, report: Report, requested: Range = EVERYTHING) -> None:
    """Reports what is missing of an empty last segment, if it is in ``requested``."""
    finding = missing_end(partition)
    if finding is not None and (requested.end_offset is None or (finding.offset or 0) < requested.end_offset):
        report(finding)


def _report_within(finding: Finding | None, report: Report, requested: Range) -> None:
    if finding is not None and _is_requested(missing_offsets(finding), requested):
        report(finding)


def _is_requested(missing: range, requested: Range) -> bool:
    is_after = requested.end_offset is not None and missing.start >= requested.end_offset
    is_before = requested.start_offset is not None and missing.stop <= requested.start_offset
    return not is_before and not is_after


def is_gap(end_offset: int, base_offset: int, start_offset: int | None = None) -> bool:
    """Return whether offsets that were there once are missing between the end of a segment and the base offset of the
    next one, from ``start_offset`` on."""
    return max(end_offset, start_offset or 0) < base_offset <= end_offset + _MOST_OFFSETS


def _following(partition: PartitionPath, segment: SegmentPaths) -> SegmentPaths | None:
    at = bisect_right(partition.segments, segment.base_offset, key=lambda each: each.base_offset)
    return None if at == len(partition.segments) else partition.segments[at]


def missing_segment(opened: OpenSegment) -> Finding | None:
    """Return a finding about the offsets between a segment and the one that follows it, if something is missing."""
    partition = opened.partition
    following = _following(partition, opened.segment)
    if following is None or (following is partition.segments[-1] and following.log.size == 0):
        return None  # before an empty last segment it is the log's end that is missing, which salvage reports as that
    try:
        missing = missing_after(partition, opened.segment, following, opened.file)
    except ReplacedError:  # a broker is compacting it
        return None
    if missing is None or not without([(missing.start, missing.stop)], replaced_offsets(partition)):
        return None  # which is reported of the file that has them
    text = (
        f"offsets {missing.start} to {missing.stop - 1} are missing before this segment, and nothing says that "
        "compaction took them: a segment is missing, or the one before was not copied to its end; "
    )
    text += _remedy(partition, following)
    return _finding(following, missing.start, text)


def replaced_offsets(partition: PartitionPath) -> list[Span]:
    """Return the offsets that the next start of a broker deletes, although no other file has them."""
    completion = partition.completion
    return [] if completion.as_it_lies else union(span for _, spans in completion.lost for span in spans)


def _remedy(partition: PartitionPath, following: SegmentPaths) -> str:
    """Return where a segment may be that is missing before another one."""
    in_bucket = "look for an earlier version of its objects in the bucket, and for a copy of the bucket"
    if is_tiered(following.log.location):
        return in_bucket
    is_joined = any(is_tiered(each.log.location) for each in partition.segments)
    return f"{in_bucket}, or for it on another replica" if is_joined else "look for it on another replica"


def missing_head(partition: PartitionPath) -> Finding | None:
    """Return a finding about the offsets between the log start offset that is recorded and the first segment.

    Where retention removed them, the record is old, as a broker brings it up to date every minute: then the segments
    still wait for their deletion, or the leader epochs begin with the first segment
    (``LeaderEpochFileCache.truncateFromStart``, 4.1.1). With tiered storage, they are elsewhere.
    """
    start = partition.log_start_offset
    if not partition.segments or not 0 < start < partition.segments[0].base_offset:
        return None
    first = partition.segments[0]
    if deleted_segments(partition).segments:
        return None
    if partition.leader_epoch_checkpoint is not None:
        epochs = load_leader_epochs(partition.leader_epoch_checkpoint.location).start_offsets
        if len(epochs) and int(epochs[0]) >= first.base_offset:
            return None
    if is_true(_setting(partition, REMOTE_STORAGE)):
        return None
    text = (
        f"offsets {start} to {first.base_offset - 1} are missing: the log begins at offset {start} by its log start "
        f"offset, and this is its first segment; {_remedy(partition, first)}"
    )
    return _finding(first, start, text)


def missing_logs(partition: PartitionPath) -> Iterator[tuple[range, Finding]]:
    """Yield the offsets, as far as they are known, of each segment whose log is gone although one of its indexes has
    entries, and a finding. Who deletes a segment renames all of its files first (``LogSegment.changeFileSuffixes``,
    4.4.0), so that the log was lost, or left out of a copy."""
    known: dict[int, tuple[int, DirectoryEntry]] = {}
    completion = partition.completion
    renamed = {each.file.offset for each in completion.remove if each.file.kind == "log"}
    for each in completion.removed("index-orphaned") if partition.state == "live" else ():
        file, entry = each.file, each.entry
        if file.kind == "transaction-index" or file.offset in renamed:
            continue  # whoever deletes or replaces the segment is at it, or was stopped
        load = load_offset_index if file.kind == "offset-index" else load_time_index
        index = load(entry.location, file.offset)
        last = int(index.offsets[-1]) if index.is_valid and len(index.offsets) else -1
        if file.offset <= last <= file.offset + _MOST_OFFSETS and last >= partition.log_start_offset:
            known[file.offset] = max(known.get(file.offset, (-1, entry)), (last, entry), key=lambda each: each[0])
    above = partition.location.parent if known else None
    if above is not None and (above / names.COMMIT_JOURNAL).exists():
        return  # a commit was cut short: what it had removed or not yet put in place is for the next one to roll back
    if known:
        time.sleep(PAUSE_S)  # a broker renames one file of a segment after the other
    for base, (last, entry) in sorted(known.items()):
        log = partition.location / names.segment_file(base, "log")
        if entry.location.exists() and not log.exists():
            text = f"the log of this segment is missing, although {entry.name} has entries up to offset {last}"
            text += "; look for it on another replica"
            expected = f"offsets {base} to {last}"
            finding = Kind.MISSING_LOG.at(log.path, text, offset=base, expected=expected, found="no such file")
            yield range(max(base, partition.log_start_offset), last + 1), finding


def check_listing(partition: PartitionPath) -> Iterator[tuple[range, Finding]]:
    """Yield the findings by the names of a partition's files, and about logs of which only an index is left: each with
    the offsets that are lost by it. Such an index is reported once."""
    lost = list(missing_logs(partition))
    bases = {finding.offset for _, finding in lost}
    for finding in check_names(partition):
        if finding.kind != Kind.ORPHAN_INDEX or finding.offset not in bases:
            yield range(0), finding
    yield from lost


def check_names(partition: PartitionPath) -> Iterator[Finding]:
    """Yield the findings by names alone in a partition's directory; none of them keeps the segments from being read."""
    yield from partition.findings
    orphaned = (each for each in partition.orphaned_files if all(each.path != one.file for one in partition.findings))
    yield from check_completion(partition.completion, orphaned, partition.foreign)


def missing_end(partition: PartitionPath) -> Finding | None:
    """Return a finding about the end of a log whose last segment is empty, although one of its indexes has entries: a
    broker writes those after their batches, and truncates all of these files together."""
    last = partition.segments[-1] if partition.segments else None
    if last is None or last.log.size != 0:
        return None
    known: list[int] = []
    for load, index in ((load_offset_index, last.offset_index), (load_time_index, last.time_index)):
        if index is not None:
            known += load(index.location, last.base_offset).offsets[-1:].tolist()
    if not known:
        return None
    try:
        with open_listed(last, True) as file:
            if file.size:  # a broker has written to it meanwhile
                return None
    except UnreadableError:  # which is reported where it is read
        return None
    text = (
        f"the last segment is empty, but its indexes have entries up to offset {max(known)}: the end of the log is "
        "missing; look for it on another replica"
    )
    path, base = last.log.path, last.base_offset
    return Kind.MISSING_LOG_END.at(
        path, text, position=0, offset=base, expected=f"offset {base}", found="an empty file"
    )


def _finding(segment: SegmentPaths, start: int, text: str) -> Finding:
    expected, found = f"offset {start}", f"a segment that begins at {segment.base_offset}"
    return Kind.MISSING_SEGMENT.at(segment.log.path, text, offset=start, expected=expected, found=found)


def missing_offsets(finding: Finding) -> range:
    """Return the offsets that such a finding is about: up to where its segment begins."""
    file = names.parse_segment_file(directory_name(finding.file))
    assert file is not None
    assert finding.offset is not None
    return range(finding.offset, file.offset)


def missing_after(partition: PartitionPath, segment: SegmentPaths, following: SegmentPaths, file: File) -> range | None:
    """Return the offsets between a segment (``file``) and the one that follows it, if compaction does not explain them,
    from the log start offset on.

    None as well where the segment's batches break off, or its last one is damaged: that is reported where it is read.
    """
    found: list[Finding] = []
    end, last = segment.base_offset, None
    for chunk in scan_headers(file, found.append, last_indexed(file, segment)):
        end, last = int(chunk.batches.end_of_records[-1]) + 1, int(chunk.positions[-1])
    start = max(end, partition.log_start_offset)
    if following.base_offset - segment.base_offset > _MOST_OFFSETS:
        return None
    if start >= following.base_offset or any(each.severity != "info" for each in found):
        return None
    if last is not None and not _is_valid(file, last):
        return None
    if _is_compacted(partition, (segment, following)):
        return None
    start = max(start, _reached_before(partition, segment, following.base_offset))
    return range(start, following.base_offset) if start < following.base_offset else None


def _reached_before(partition: PartitionPath, segment: SegmentPaths, most: int) -> int:
    """The highest end offset of the segments before one, the nearest first, up to ``most``: where segments overlap, an
    earlier one may go on further."""
    reached = 0
    for each in reversed(partition.segments[: partition.segments.index(segment)]):
        if reached >= most:
            break
        with suppress(UnreadableError), open_listed(each, is_last=False) as file:
            for chunk in scan_headers(file, ignore, last_indexed(file, each)):
                reached = max(reached, int(chunk.batches.end_of_records.max()) + 1)
    return reached


def _is_valid(file: File, position: int) -> bool:
    for chunk in scan(file, ignore, position, position + 1):
        return bool(checksums_match(chunk.buffer, chunk.batches)[0])
    return False


def _is_compacted(partition: PartitionPath, segments: tuple[SegmentPaths, ...]) -> bool:
    topic, number = partition.topic, partition.partition
    if topic in names.COMPACTED_BY_KAFKA:
        return True
    if recorded_offset(partition.location, topic, number, names.CLEANER_CHECKPOINT) is not None:
        return True
    if "compact" in cleanup_policies(_setting(partition, CLEANUP_POLICY)):
        return True
    for segment in segments:
        before = segment.base_offset
        try:
            with open_listed(segment, segment is partition.segments[-1]) as file:
                for chunk in scan_headers(file, ignore):
                    batches = chunk.batches
                    ends = np.concatenate([[before], batches.end_of_records + 1])
                    # Of a wrapper message, it cannot be seen from outside what it has.
                    has_gaps = batches.is_wrapper | (batches.entry_offset > ends[:-1])
                    if shows_compaction(batches) or bool(has_gaps.any()):
                        return True
                    before = int(ends[-1])
        except ReplacedError:
            raise
        except UnreadableError:  # which is reported where it is read
            continue
    return False


def _setting(partition: PartitionPath, name: str) -> str | None:
    """A topic's setting by the cluster's metadata. It is read only where something seems to be missing."""
    if partition.read_setting is None or partition.topic is None or partition.topic == names.CLUSTER_METADATA:
        return None
    return partition.read_setting(partition.location, partition.topic, name)


def may_have_remote_offsets(directory: LogDirectory) -> bool:
    """Return whether offsets of a partition may be in remote storage, by names alone: it does not begin at offset 0,
    and there is a partition of ``__remote_log_metadata`` next to it."""
    if all(each.start_offset == 0 for each in directory.partitions if each.topic is not None):
        return False
    if directory.kind != "partition":
        return any(each.topic == names.REMOTE_LOG_METADATA for each in directory.partitions)
    above = directory.location.parent
    try:
        entries = [] if above is None else above.entries()
    except UnreadableError:
        return False
    found = (names.parse_partition_directory(each.name) for each in entries)
    return any(each is not None and each.topic == names.REMOTE_LOG_METADATA for each in found)
