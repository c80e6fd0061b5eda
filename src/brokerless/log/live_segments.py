"""Opens a partition's segments one by one, while a broker may replace or delete them.

The cleaner writes what is left of some segments into one file, renames these segments to ``.deleted``, and gives the
new file the name of the first (``LocalLog.replaceSegments``, 4.1.1). Retention renames segments to ``.deleted``, too.
Such a file goes a minute later (``file.delete.delay.ms``). So a name that was listed may lead to another file, with
other batches at other positions, or nowhere.

Each file is therefore compared with its listing when it is opened. One that was renamed is read under its new name.
Where it is gone, the partition is listed again, and reading goes on at the offset that comes next. An open file does
not change, whatever becomes of its name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind, Severity
from brokerless.log import names
from brokerless.log.completion.files import Completion
from brokerless.log.directory import LogDirectory, PartitionPath, SegmentPaths, describe_partition, resolve
from brokerless.log.names import META_PROPERTIES, SegmentFileKind, SegmentFileState
from brokerless.log.positions import first_position
from brokerless.log.ranges import EVERYTHING, Range
from brokerless.log.segment import within_log
from brokerless.log.storage.files import File
from brokerless.log.storage.location import DirectoryEntry
from brokerless.log.storage.paths import is_remote
from brokerless.log.tiered.detection import refreshed
from brokerless.progress import Report, ignore

TRIES, PAUSE_S = 20, 0.05
"""How often a partition is listed again, and how long after the last time, while its files change."""
_DELETED = ".deleted"
_KINDS: tuple[SegmentFileKind, ...] = ("log", "offset-index", "time-index", "transaction-index", "producer-snapshot")
_STATES: tuple[SegmentFileState, ...] = ("live", "cleaned", "swap", "deleted")

ResultT = TypeVar("ResultT")


class ReplacedError(UnreadableError):
    """A file is not there any more, or another one has its name, since the partition was listed."""


@dataclass(slots=True)
class OpenSegment:
    """A segment with its open log."""

    partition: PartitionPath
    """The partition as it was listed when the segment was opened."""
    segment: SegmentPaths
    file: File
    is_last: bool
    """Whether the log ends in this segment."""
    start: int = 0
    """Batches before this position (bytes) were in segments that came before this one."""
    is_merged: bool = False
    """Whether this segment has taken the place of the segments that came before."""
    skips_gap: bool = False
    """Set by the reader of the segment where no offset is missing before the next segment, or where that cannot be
    known."""

    def reaches_next(self, last_offset: int | None) -> bool:
        """Return whether the next segment begins where this one ends, which has a last offset, or none follows."""
        following = self.next_base_offset
        return following is None or (last_offset is not None and last_offset + 1 >= following)

    def graded(self, report: Report) -> Report:
        """Return a report of what is wrong with this file, by whether the log goes on after it."""
        return report if self.is_last else within_log(report)

    @property
    def next_base_offset(self) -> int | None:
        """Where the next segment begins by its name; None after the last."""
        base_offset = self.segment.base_offset
        return min(
            (each.base_offset for each in self.partition.segments if each.base_offset > base_offset), default=None
        )


def open_segments(partition: PartitionPath, report: Report, selected: Range = EVERYTHING) -> Iterator[OpenSegment]:
    """Yield the segments that hold the selected offsets, in order, each until the next is taken. What cannot be opened
    is reported and passed over; raises :class:`UnreadableError` only if it is the very path that was passed.

    Every batch comes once, and every batch comes that the log still has when it is its turn. Offsets that were deleted
    in the meantime are reported (``deleted-meanwhile``, a warning): a consumer that is as far has lost them as well.
    """
    for finding in partition.findings:
        report(finding)
    segments = list(selected.segments(partition.segments))
    next_offset, tries = -1, 0
    while segments:
        segment, is_last = segments[0], segments[0] is partition.segments[-1]
        path = segment.log.path
        try:
            if path == partition.path or tries == TRIES:
                file = segment.log.location.open()
            else:
                file = open_listed(segment, is_last)
        except ReplacedError:
            if tries:
                time.sleep(PAUSE_S)
            tries, next_offset = tries + 1, max(next_offset, segment.base_offset)
            again = list_again(partition, report)
            if again is None or segment.log in (each.log for each in again.segments):
                tries = TRIES  # nothing changes here any more: a link that leads nowhere, say
                continue
            partition = again
            segments = list(selected.narrow(Range(next_offset)).segments(partition.segments))
            _report_deleted(partition, segments, next_offset, report)
            continue
        except UnreadableError as error:
            if path == partition.path:
                raise
            report(error.finding(path, segment.base_offset))
        else:
            with file:
                start = _start(file, segment, next_offset)
                is_merged = next_offset > segment.base_offset or segment.overlaps
                try:
                    yield OpenSegment(partition, segment, file, is_last=is_last, start=start, is_merged=is_merged)
                finally:
                    for finding in file.take_findings():
                        report(finding)
        tries = 0
        del segments[0]


def check_permitted(partitions: Iterable[PartitionPath]) -> None:
    """Check that this user may read the partitions of this machine: what is written without a file that is intact would
    lack its records. Raises :class:`UnreadableError` for the first directory or log without permission."""
    for each in partitions:
        denied = next((one for one in each.findings if one.kind == Kind.PERMISSION_DENIED), None)
        if denied is not None:
            raise UnreadableError(denied.file, denied.message, Kind.PERMISSION_DENIED)
        if is_remote(each.path):
            continue
        for segment in each.segments:
            try:
                segment.log.location.open().close()
            except UnreadableError as error:
                if error.kind == Kind.PERMISSION_DENIED:
                    raise


def open_listed(segment: SegmentPaths, is_last: bool) -> File:
    """Return the log of a segment, if it is the file that was listed; its path is the listed one, whatever it is called
    now.

    ``is_last``: it may have grown. Raises :class:`ReplacedError` where it is another file, or none, and
    :class:`UnreadableError` where it cannot be opened.
    """
    log = segment.log
    for location in (log.location, log.location.at(log.path + _DELETED)):
        try:
            file = location.open()
        except UnreadableError as error:
            if log.size is None or not isinstance(error.__cause__, FileNotFoundError):
                raise  # a link that leads nowhere was listed without a size
            continue
        if is_listed(file, log, is_last):
            file.path = log.path
            return file
        file.close()
    raise ReplacedError(log.path, "this is not there any more, or another file has its name, since it was listed")


def is_listed(file: File, listed: DirectoryEntry, is_last: bool) -> bool:
    """Return whether a file is the one that was listed, by what the storage says of both. ``is_last``: it may have
    grown."""
    if is_remote(listed.path):
        if listed.identity is not None and file.identity is not None:
            return listed.identity == file.identity
        return listed.size is None or listed.size == file.size
    if listed.size == file.size and listed.modified in (None, file.modified):
        return True  # not by its inode as well: some file systems make those up
    return is_last and listed.identity in (None, file.identity) and file.size >= (listed.size or 0)


def has_changed(now: DirectoryEntry, listed: DirectoryEntry) -> bool:
    """Return whether a file of this machine is surely not what was listed: some file systems make up inodes."""
    return (now.size, now.modified) != (listed.size, listed.modified)


def is_unchanged(segment: SegmentPaths) -> bool:
    """Return whether a segment's log is what it was when it was listed, and has its name; else what lies beside it may
    be of other batches."""
    try:
        with segment.log.location.open() as file:
            return is_listed(file, segment.log, is_last=False)
    except UnreadableError:
        return False


def segment_now(segment: SegmentPaths) -> tuple[SegmentPaths | None, tuple[DirectoryEntry, ...]]:
    """Return a segment of this machine as its files are now, None without a log; and what lies beside it that is to get
    its names, or lost them. Only these names are looked up: a directory has as many as there are segments."""
    directory = segment.log.location.at(segment.log.path.removesuffix(segment.log.name))
    listed = [names.segment_file(segment.base_offset, kind, state) for state in _STATES for kind in _KINDS]
    entries = [entry for name in listed if (entry := directory.find_entry(name)) is not None]
    # Its files by themselves do not say which compaction was finished.
    lies = names.segment_file(segment.base_offset, "log") == segment.log.name
    found = describe_partition(directory, entries, as_it_lies=lies)
    return (found.segments[0] if found.segments else None), found.orphaned_files


def as_it_lies(partition: PartitionPath) -> PartitionPath:
    """Return a partition by the names that its files have now, and not as the next start of a broker completes it."""
    if partition.completion.as_it_lies or not partition.completion.is_needed:
        return partition
    lying = list_again(replace(partition, completion=Completion(as_it_lies=True)), ignore)
    return partition if lying is None else lying


def directory_as_it_lies(directory: LogDirectory) -> LogDirectory:
    """Return a log directory with all of its partitions as :func:`as_it_lies` has them."""
    partitions, others = (tuple(map(as_it_lies, each)) for each in (directory.partitions, directory.others))
    return replace(directory, partitions=partitions, others=others)


def list_again(partition: PartitionPath, report: Report) -> PartitionPath | None:
    """Return what is in a partition's directory now; None if that is gone, or cannot be listed."""
    lies = partition.completion.as_it_lies
    try:
        found = resolve(refreshed(partition.location), as_it_lies=lies).partitions
    except UnreadableError:
        return None
    if len(found) != 1 or not found[0].segments:
        return None
    for finding in found[0].findings:
        if finding not in partition.findings:
            report(finding)
    own = {name: getattr(partition, name) for name in ("topic", "log_start_offset", "read_setting")}
    return replace(found[0], **own)


def with_current_listing(partition: PartitionPath, work: Callable[[PartitionPath], ResultT]) -> ResultT:
    """Return what ``work`` makes of a partition; where it raises :class:`ReplacedError`, of the partition listed
    again."""
    for _ in range(TRIES):
        try:
            return work(partition)
        except ReplacedError:
            again = list_again(partition, ignore)
            if again is None:
                raise
            partition = again
            time.sleep(PAUSE_S)
    return work(partition)


def _start(file: File, segment: SegmentPaths, next_offset: int) -> int:
    return 0 if next_offset <= segment.base_offset else first_position(file, segment, next_offset)


def is_gone(partition: PartitionPath) -> bool:
    """Return whether a partition's directory was removed from its log directory since it was listed, as a broker does
    with those of deleted topics. Where nothing else is there either, a disk may be gone."""
    above = None if partition.location.is_remote else partition.location.containing
    if above is None or partition.location.exists():
        return False
    try:
        return any(each.is_directory or each.name == META_PROPERTIES for each in above.entries())
    except UnreadableError:
        return False


def _report_deleted(partition: PartitionPath, segments: list[SegmentPaths], next_offset: int, report: Report) -> None:
    first = partition.segments[0].base_offset
    if segments and segments[0].base_offset == first > next_offset:
        text = "these offsets were deleted while the log was read; reading continues where the log begins now"
        report(deleted_meanwhile(partition.path, text, next_offset, first, severity="warning"))


def deleted_meanwhile(path: str, text: str, expected: int, found: int, *, severity: Severity) -> Finding:
    """Return the finding about a log that began at the offset ``expected``, and begins at ``found`` when it is read."""
    return Kind.DELETED_MEANWHILE.at(
        path, text, severity=severity, offset=expected, expected=f"offset {expected}", found=f"{found}"
    )
