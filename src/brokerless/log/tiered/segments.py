"""Remote segments of a partition: what their objects and manifests say, and which of them are its log."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest

from brokerless.bounds import MAX_INT64
from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind, Severity
from brokerless.log.checkpoint.leader_epochs import Epochs
from brokerless.log.storage.location import DirectoryEntry
from brokerless.log.storage.side_by_side import side_by_side
from brokerless.log.tiered.chunk_file import readable_size
from brokerless.log.tiered.lineage import is_within_lineage
from brokerless.log.tiered.manifest import Manifest
from brokerless.log.tiered.object_names import ObjectKind
from brokerless.log.tiered.remote_history import (
    LEFT_OUT,
    Elsewhere,
    InBucket,
    Standing,
    is_deleted_first,
    verdict_of,
)
from brokerless.offset_spans import Span, union, without

_PAUSE_S = 0.2
"""How long a broker may take from one object of a segment that it deletes to the next."""


@dataclass(frozen=True, slots=True)
class RemoteSegment:
    """A segment by its objects."""

    start_offset: int
    segment_id: str
    objects: Mapping[ObjectKind, DirectoryEntry]
    manifest: Manifest | None = None
    """None in a layout without manifests; then the last offset and the leader epochs are not known."""
    copies: tuple[RemoteSegment, ...] = ()
    """Other segments of the same bytes, or of the first of these bytes, for where this one is damaged."""

    @property
    def log(self) -> DirectoryEntry:
        return self.objects["log"]

    @property
    def size(self) -> int:
        """Bytes of its log that can be read."""
        stored = self.log.size or 0
        return stored if self.manifest is None else readable_size(self.manifest, stored)

    @property
    def end_offset(self) -> int | None:
        """The last offset, included."""
        return None if self.manifest is None else self.manifest.end_offset

    @property
    def is_whole(self) -> bool:
        """Whether its log has the size that the manifest says."""
        return self.manifest is None or self.log.size in (None, self.manifest.chunks.stored_size)

    @property
    def epochs(self) -> Epochs:
        return () if self.manifest is None else self.manifest.epochs


@dataclass(frozen=True, slots=True)
class SegmentObjects:
    """All objects of a segment in a bucket, whether it is read or not."""

    topic: str
    topic_id: str
    partition: int
    start_offset: int
    segment_id: str
    objects: Mapping[ObjectKind, DirectoryEntry]
    manifest: Manifest | None
    """None where there is no manifest, or it cannot be read."""
    is_plain: bool
    """Whether the layout has no manifests."""

    @property
    def size(self) -> int:
        """Bytes of all objects."""
        return sum(each.size or 0 for each in self.objects.values())

    @property
    def path(self) -> str:
        """The path of its log, or of another object."""
        return min(self.objects.values(), key=lambda each: (not each.name.endswith(".log"), each.name)).path

    @property
    def missing(self) -> list[str]:
        """The kinds of objects that a reader needs, and that are not there."""
        needed: tuple[ObjectKind, ...] = ("log",) if self.is_plain else ("log", "indexes", "rsm-manifest")
        return [each for each in needed if each not in self.objects]

    @property
    def is_whole(self) -> bool:
        """Whether all objects are there that a reader needs, in the sizes that the manifest says."""
        if self.missing or (self.manifest is None and not self.is_plain):
            return False
        segment = RemoteSegment(self.start_offset, self.segment_id, self.objects, self.manifest)
        return next(check_objects(segment), None) is None


@dataclass(frozen=True, slots=True)
class RemoteLog:
    """Segments that are a partition's log, by their start offsets."""

    segments: tuple[RemoteSegment, ...]
    overlapping: frozenset[int]
    """Start offsets of the segments that begin within the one before."""
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class LocalSegment:
    """A segment in a log directory of brokers."""

    base_offset: int
    log: DirectoryEntry
    offset_index: DirectoryEntry | None

    @property
    def size(self) -> int:
        """Bytes of its log."""
        return self.log.size or 0


@dataclass(frozen=True, slots=True)
class LogPart:
    """A segment of a log that is partly in a bucket."""

    start_offset: int
    is_remote: bool
    overlaps: bool
    """Whether it begins within the segments before it."""


@dataclass(frozen=True, slots=True)
class SegmentsBeside:
    """Remote segments that are read next to local ones."""

    log: RemoteLog
    parts: tuple[LogPart, ...]
    """All segments of the log in order, remote and local."""
    has_epochs: bool = False
    """Whether the bucket has the leader epochs of all of them."""


def segments_from(segments: Sequence[RemoteSegment], offset: int) -> list[RemoteSegment]:
    """Return the segments with offsets from ``offset`` on. One whose end is not known ends where the next one begins,
    and the last one after any offset."""
    return [
        each
        for each, following in zip_longest(segments, segments[1:])
        if each is not None
        and (
            (following is None or following.start_offset > offset)
            if each.end_offset is None
            else each.end_offset >= offset
        )
    ]


def segments_beside(log: RemoteLog, local: Sequence[LocalSegment], local_end: int | None = None) -> SegmentsBeside:
    """Return those of a partition's remote segments that are before its ``local`` ones, and those with offsets from
    ``local_end`` on, unless that is None: these take the place of local segments that begin later."""
    # Before its local log start, a broker reads remote segments (ReplicaManager.handleOffsetOutOfRangeError, 4.4.0).
    before = [each for each in log.segments if not local or each.start_offset < local[0].base_offset]
    after = [] if local_end is None else segments_from(log.segments, local_end)
    if not after:
        joined = replace(log, segments=tuple(before))
        return SegmentsBeside(joined, _parts(joined, local, None, local_end))
    first = after[0]
    text = "the local log ends before its bucket does: it is an old copy, or was cut; the bucket is read from here on"
    finding = _finding(Kind.REMOTE_AHEAD, first, text, severity="info")
    segments = tuple(each for each in log.segments if each in before or each.start_offset >= first.start_offset)
    joined = replace(log, segments=segments, findings=(*log.findings, finding))
    return SegmentsBeside(joined, _parts(joined, local, first.start_offset, local_end))


def _parts(
    log: RemoteLog, local: Sequence[LocalSegment], resumes_at: int | None, local_end: int | None
) -> tuple[LogPart, ...]:
    """Return all segments of a log in order. ``resumes_at``: local segments from this offset on are left out."""
    ends = [*(each.base_offset for each in local[1:]), local_end or 0]
    places = [(each.start_offset, True, 0 if each.end_offset is None else each.end_offset + 1) for each in log.segments]
    places += [
        (each.base_offset, False, end)
        for each, end in zip(local, ends, strict=False)
        if resumes_at is None or each.base_offset < resumes_at
    ]
    parts: list[LogPart] = []
    reached = 0
    for start, is_remote, end in sorted(places):
        parts.append(LogPart(start, is_remote, start < reached or (is_remote and start in log.overlapping)))
        reached = max(reached, end)
    return tuple(parts)


def needs_lineage(segments: Sequence[RemoteSegment]) -> bool:
    """Return whether segments contradict one another, so that only the partition's lineage says which are its log."""
    in_order = sorted(segments, key=place_of)
    for before, after in pairwise(in_order):
        if before.end_offset is None or not before.epochs or not after.epochs:
            continue
        if before.epochs[-1][0] != after.epochs[0][0] and (
            before.end_offset >= after.start_offset or before.epochs[-1][0] > after.epochs[0][0]
        ):
            return True
    return False


def newest(segments: Sequence[RemoteSegment]) -> RemoteSegment | None:
    """Return the segment with the highest leader epoch, and the highest offset in it: its leader epochs are the
    lineage."""
    known = [each for each in segments if each.epochs]
    return max(known, key=lambda each: (each.epochs[-1][0], each.end_offset or 0), default=None)


def choose(segments: Sequence[RemoteSegment], lineage: Epochs) -> RemoteLog:
    """Choose the segments that are the log of a partition. Of two that begin at one offset, it is the one that goes
    further, is whole, or was copied later."""
    findings: list[Finding] = []
    within: list[RemoteSegment] = []
    for each in sorted(segments, key=place_of):
        if each.end_offset is None or is_within_lineage(each.epochs, each.end_offset, lineage):
            within.append(each)
        else:
            text = "not read: the leader epochs of this remote segment are not in the history of the log"
            findings.append(_finding(Kind.REMOTE_SEGMENT_DANGLING, each, text, severity="warning"))
    chosen: list[RemoteSegment] = []
    overlapping: set[int] = set()
    for each in within:
        before = chosen[-1] if chosen else None
        if before is not None and _covers(before, each):
            text = f"not read: the remote segment {before.segment_id} has these offsets as well"
            findings.append(_finding(Kind.REMOTE_SEGMENT_REPEATED, each, text, severity="info"))
            continue
        if before is not None and before.end_offset is not None and before.end_offset >= each.start_offset:
            overlapping.add(each.start_offset)
        chosen.append(each)
    return RemoteLog(tuple(chosen), frozenset(overlapping), tuple(findings))


def _covers(before: RemoteSegment, after: RemoteSegment) -> bool:
    if before.start_offset == after.start_offset:
        return True
    return before.end_offset is not None and after.end_offset is not None and before.end_offset >= after.end_offset


def place_of(segment: RemoteSegment) -> tuple[int, int, bool, int, str]:
    """Return the key that segments are sorted by: the start offset; where several have one, the one that is taken comes
    first."""
    manifest = segment.manifest
    if manifest is None:
        return segment.start_offset, -(segment.log.size or 0), False, 0, segment.segment_id
    is_cut = not segment.is_whole
    return segment.start_offset, -manifest.end_offset, is_cut, -manifest.event_timestamp, segment.segment_id


def _finding(kind: Kind, segment: RemoteSegment, text: str, severity: Severity) -> Finding:
    return kind.at(segment.log.path, text, severity=severity, offset=segment.start_offset)


def check_segments(segments: Sequence[RemoteSegment]) -> list[Finding]:
    """Check the objects of segments. Those of a segment go one after the other when a broker deletes it: where one is
    missing, and others are gone a moment later, nothing is wrong."""
    found = [(each, list(check_objects(each))) for each in segments]
    lacking = [each for each, findings in found if any(one.kind == Kind.REMOTE_OBJECT_MISSING for one in findings)]
    if lacking:
        time.sleep(_PAUSE_S)
    is_remote = any(entry.location.is_remote for each in lacking for entry in each.objects.values())
    are_there = side_by_side(_are_there, lacking, is_remote)
    deleted = {id(each) for each, is_there in zip(lacking, are_there, strict=True) if not is_there}
    return [finding for each, findings in found if id(each) not in deleted for finding in findings]


def _are_there(segment: RemoteSegment) -> bool:
    try:
        return all(each.location.exists() for each in segment.objects.values())
    except UnreadableError:
        return True


def check_objects(segment: RemoteSegment) -> Iterator[Finding]:
    """Yield the sizes of a segment's objects against its manifest; without one, whether there is its log."""
    manifest = segment.manifest
    if manifest is None:
        if "log" not in segment.objects:
            path = min(each.path for each in segment.objects.values()).rpartition(".")[0] + ".log"
            text = "the log of a remote segment is missing; there are other objects of it"
            yield object_missing(path, segment.start_offset, text)
        return
    needed: dict[ObjectKind, int] = {"log": manifest.chunks.stored_size}
    needed["indexes"] = max((position + size for position, size in manifest.indexes.values()), default=0)
    for kind, size in needed.items():
        entry = segment.objects.get(kind)
        if entry is None:
            if size:
                path = segment.objects["rsm-manifest"].path.removesuffix("rsm-manifest") + kind
                text = f"this object of a remote segment is missing; its manifest says that it has {size} bytes"
                yield object_missing(path, segment.start_offset, text)
        elif entry.size is not None and entry.size != size:
            text = "an object of a remote segment has another size than its manifest says"
            yield Kind.REMOTE_OBJECT_SIZE.at(
                entry.path,
                text,
                severity="error",
                offset=segment.start_offset,
                expected=f"{size} bytes",
                found=f"{entry.size} bytes",
            )


def object_missing(path: str, start_offset: int, text: str) -> Finding:
    """Return the finding about an object of a remote segment that is not there, or not as it was written."""
    return Kind.REMOTE_OBJECT_MISSING.at(path, text, severity="error", offset=start_offset)


def manifest_invalid(
    path: str, text: str, offset: int | None = None, expected: str | None = None, found: str | None = None
) -> Finding:
    """Return the finding about a manifest that is none, or is not its segment's."""
    return Kind.REMOTE_MANIFEST_INVALID.at(path, text, severity="error", offset=offset, expected=expected, found=found)


def have_same_log(one: RemoteSegment, other: RemoteSegment) -> bool:
    """Return whether two segments are whole copies of one, by their offsets and sizes. Without manifests, one may have
    been made earlier than the other, and be shorter."""
    places = [(each.start_offset, each.end_offset, -1 if each.manifest is None else each.size) for each in (one, other)]
    return one.segment_id != other.segment_id and one.is_whole and other.is_whole and places[0] == places[1]


def spans_of(segments: Sequence[RemoteSegment]) -> list[Span]:
    """Return the offsets of segments in order; one whose end is not known goes on to the next."""
    return union(
        (each.start_offset, each.start_offset + 1 if following is None else following.start_offset)
        if each.end_offset is None
        else (each.start_offset, each.end_offset + 1)
        for each, following in zip_longest(segments, segments[1:])
        if each is not None
    )


def graded_damage(findings: Iterable[Finding], read: Iterable[RemoteSegment]) -> Iterator[Finding]:
    """Yield what is wrong with a segment is a warning where a whole copy of it is read, and nothing is missing."""
    by_start = {each.start_offset: each for each in read if each.is_whole}
    for each in findings:
        instead = None if each.offset is None or each.kind not in DAMAGED_SEGMENT else by_start.get(each.offset)
        is_harmless = instead is not None and instead.segment_id not in each.file
        yield replace(each, severity="warning") if is_harmless and each.severity == "error" else each


DAMAGED_SEGMENT = (
    Kind.REMOTE_OBJECT_MISSING,
    Kind.REMOTE_OBJECT_SIZE,
    Kind.REMOTE_MANIFEST_INVALID,
    Kind.REMOTE_SEGMENT_DAMAGED,
)
"""What is wrong with a segment, where an intact copy may be read."""


def graded_left_out(
    finding: Finding, log_start: int, read: Sequence[Span], local: Sequence[Span] = (), own: Collection[str] = ()
) -> Finding:
    """Return what listing says of a segment as :mod:`brokerless.log.tiered.remote_history` has it, once it is known
    what else is read: ``read`` are the spans of all that is, ``local`` those of the local log, ``own`` the paths of the
    remote logs. Before ``log_start``, nothing is missing."""
    start = finding.offset
    if start is None:
        return finding
    if finding.kind in DAMAGED_SEGMENT:
        if finding.severity != "error" or finding.file in own or not _is_in(start, local):
            return finding
        return replace(finding, severity=verdict_of(Standing.REFERENCED, InBucket.CUT, Elsewhere.LOCAL).severity)
    standing = LEFT_OUT.get(finding.kind)
    if standing is None or start < log_start or _is_in(start, read) or is_deleted_first(standing, start, read):
        return finding
    verdict = verdict_of(standing, InBucket.UNREADABLE, Elsewhere.NOWHERE)
    return replace(finding, kind=verdict.kind or finding.kind, severity=verdict.severity)


def findings_beside(beside: SegmentsBeside, local: Sequence[LocalSegment], log_start: int) -> list[Finding]:
    """Return what listing says of remote segments that are read next to ``local`` ones."""
    on_disk = [(each.base_offset, MAX_INT64) for each in local[:1]]
    read, logs = union([*spans_of(beside.log.segments), *on_disk]), {each.log.path for each in beside.log.segments}
    return [graded_left_out(each, log_start, read, local=on_disk, own=logs) for each in beside.log.findings]


def _is_in(offset: int, spans: Sequence[Span]) -> bool:
    return not without([(offset, offset + 1)], spans)
