"""Compares what brokers know of remote segments with the objects in a bucket and with where local logs begin.

Sources: ``RemoteLogManager`` (``RLMExpirationTask``, 4.4.0), and what real brokers left when they were killed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from brokerless import clock
from brokerless.clusters.remote_retention import expired_segments
from brokerless.errors import UsageError
from brokerless.findings import Finding, Kind, Severity
from brokerless.internals.remote.segment_events import metadata_partition
from brokerless.internals.remote.segment_metadata import RemoteMetadata, SegmentMetadata
from brokerless.internals.remote.unread_segments import LoadedMetadata, load_remote_metadata, log_directory_of
from brokerless.internals.topic_settings import cluster_in
from brokerless.kafka_names import TopicIdPartition
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.names import REMOTE_LOG_METADATA
from brokerless.log.tiered.detection import is_joined, is_tiered, remote_of, snapshot_of, without_remote
from brokerless.log.tiered.remote_history import (
    Elsewhere,
    InBucket,
    SegmentVerdict,
    Standing,
    is_deleted_first,
    standing_of,
    verdict_of,
)
from brokerless.log.tiered.segments import SegmentObjects
from brokerless.text import format_bytes, short_html, short_repr

GIGABYTE = 1_000_000_000
_STARTED, _FINISHED = "COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED"
REPORTED = (
    Kind.REMOTE_SEGMENT_LOST,
    Kind.REMOTE_SEGMENT_NEEDED,
    Kind.REMOTE_SEGMENT_UNFINISHED,
    Kind.REMOTE_SEGMENT_REPEATED,
    Kind.REMOTE_SEGMENT_DELETED,
    Kind.REMOTE_SEGMENT_DANGLING,
    Kind.REMOTE_OFFSETS_MISSING,
)
"""What listing says of segments that are not read, or are not there; here, it is said of each with what it costs."""


@dataclass(frozen=True, slots=True)
class RemoteFinding:
    """A finding about a remote segment, with its objects: how many, their bytes, since when they are there (ms), and
    what they cost a month, where a price was given."""

    finding: Finding
    topic: str
    topic_id: str
    partition: int
    segment_id: str | None = None
    objects: int = 0
    size: int = 0
    since: int | None = None
    monthly_cost: float | None = None


@dataclass(frozen=True, slots=True)
class RemoteAudit:
    """The result of comparing a bucket's segments with their metadata."""

    referenced: int
    """How many segments brokers read."""
    size: int
    """The bytes of these segments."""
    unknown: int
    """How many segments may be read by brokers or not, as far as is known here: their metadata is elsewhere, or they
    are another cluster's."""
    unknown_size: int
    """The bytes of these segments."""
    price_per_gb: float | None
    findings: tuple[RemoteFinding, ...]

    __repr__ = short_repr
    _repr_html_ = short_html

    @property
    def lost(self) -> list[RemoteFinding]:
        """Segments of which objects are missing, and that the local log does not have either."""
        of_kind = [each for each in self.findings if each.finding.kind == Kind.REMOTE_SEGMENT_LOST]
        return [each for each in of_kind if each.finding.severity == "error"]

    @property
    def orphans(self) -> list[RemoteFinding]:
        """Objects that no broker reads, and none deletes before their offsets expire."""
        return [each for each in self.findings if each.finding.kind == Kind.REMOTE_SEGMENT_ORPHANED]


def has_remote(directory: LogDirectory) -> bool:
    """Return whether there are remote segments for :func:`audit_remote`. Those of a backup are the log itself."""
    location = directory.location
    return is_joined(location) or (is_tiered(location) and snapshot_of(location) is None)


def check_price(price_per_gb: float | None, directories: Iterable[LogDirectory]) -> None:
    """Raise :class:`UsageError` for a price that is none, or where no directory has remote segments."""
    if price_per_gb is None:
        return
    if not 0 < price_per_gb < math.inf:
        raise UsageError(f"--price-per-gb: {price_per_gb!r} is no number above 0")
    if not any(map(has_remote, directories)):
        raise UsageError("--price-per-gb: this is the price of what is in a bucket, which --remote names")


def audit_remote(
    directory: LogDirectory,
    price_per_gb: float | None = None,
    places: Collection[tuple[str, int]] | None = None,
    errors: Mapping[tuple[str, int], int] | None = None,
) -> RemoteAudit | None:
    """Return what is wrong with the remote segments of a log directory, or of a bucket by itself; None without any.

    ``price_per_gb``: of 1,000,000,000 bytes. ``places``: only these topics and partitions. ``errors``: how many were
    found as all of a partition was read, by topic and partition (:func:`brokerless.jobs.audit.job.errors_of`): only
    where there are none, what the partition does not need is called an orphan.
    """
    location = directory.location
    if not has_remote(directory):
        return None
    remote = remote_of(location) if is_joined(location) else location
    if remote is None:
        return None
    bucket = remote.file_system()[0].bucket
    loaded = LoadedMetadata(RemoteMetadata({}), frozenset(), is_damaged=False)
    if not is_tiered(location):
        loaded = load_remote_metadata(location)  # damage in it is reported of its partition
    known = _KnownPartitions.of(directory, loaded.partitions, loaded.metadata)
    if loaded.is_damaged:
        known = replace(known, here=frozenset())  # what was lost there may be about any segment
    comparison = _Comparison(loaded.metadata, known, clock.now(), is_alone=is_tiered(location))
    comparison.price, comparison.places, comparison.errors = price_per_gb, places, errors or {}
    comparison.dangling = frozenset(
        each.file
        for partition in directory.partitions
        for each in partition.findings
        if each.kind == Kind.REMOTE_SEGMENT_DANGLING
    )
    local = {each.place: each for each in directory.partitions if each.state == "live"}
    return comparison.compare(bucket.inventory(), {} if is_tiered(location) else local, is_part=bucket.is_part)


def without_reported(partition: PartitionPath) -> PartitionPath:
    """Return a partition without the findings that :func:`audit_remote` has as well, with more of them."""
    return replace(partition, findings=tuple(each for each in partition.findings if each.kind not in REPORTED))


def local_part(directory: LogDirectory) -> LogDirectory:
    """Return a log directory without the remote segments of its partitions, of which a broker's start reads nothing."""
    if not is_joined(directory.location):
        return directory
    partitions = [
        replace(each, segments=tuple(one for one in each.segments if not is_tiered(one.log.location)))
        for each in directory.partitions
    ]
    return replace(directory, location=without_remote(directory.location), partitions=tuple(partitions))


def show_cost(cost: float) -> str:
    """Return an amount of money: ``12.30``."""
    return f"{cost:,.2f}" if cost >= 0.005 or not cost else "less than 0.01"


@dataclass(frozen=True, slots=True)
class _KnownPartitions:
    """The partitions whose segments can be looked up in the metadata here."""

    here: frozenset[int]
    """The partitions of the metadata's topic that are here."""
    count: int | None
    """How many partitions the metadata's topic has; None where that is not known."""
    topics: frozenset[str]
    """IDs of the cluster's topics, and of those that the metadata has; others may be another cluster's."""
    newest: Mapping[int, int]
    """The timestamp of the last event in each partition of the metadata (ms)."""

    @classmethod
    def of(cls, directory: LogDirectory, here: Collection[int], metadata: RemoteMetadata) -> _KnownPartitions:
        above = log_directory_of(directory.location)
        cluster = cluster_in(above) if here else None
        count = None if cluster is None else len(cluster.partitions_of(REMOTE_LOG_METADATA))
        ids = {*(() if cluster is None else cluster.topics), *(topic_id for topic_id, _ in metadata.segments)}
        newest: dict[int, int] = {}
        for each in (one for segments in metadata.segments.values() for one in segments.values()):
            newest[each.metadata_partition] = max(newest.get(each.metadata_partition, -1), each.changed_at)
        return cls(frozenset(here), count or None, frozenset(ids), newest)

    def has(self, key: TopicIdPartition, since: int) -> bool:
        """Return whether the metadata here has all of a partition's segments whose copying began by ``since`` (ms)."""
        if key[0] not in self.topics or self.count is None:
            return False
        partition = metadata_partition(*key, self.count)
        return partition in self.here and since <= self.newest.get(partition, -1)


_OffsetRanges = defaultdict[TopicIdPartition, list[tuple[int, int]]]
"""First and last offsets of segments, by partition."""


_REASONS = {
    Standing.REPLACED: "a later copy has taken the place of this segment; brokers delete it when its offsets expire",
    Standing.STARTED: "an upload that did not end: it is at work, or its broker was killed",
    Standing.DELETING: "the deletion of this segment began, and did not end; a broker tries it again",
    Standing.DELETED: "by the metadata, the segment is deleted",
    Standing.UNKNOWN: "the metadata has no such segment",
}


@dataclass(slots=True)
class _Comparison:
    metadata: RemoteMetadata
    known: _KnownPartitions
    now: int
    is_alone: bool = False
    price: float | None = None
    places: Collection[tuple[str, int]] | None = None
    found: list[RemoteFinding] = field(default_factory=list[RemoteFinding])
    referenced: defaultdict[TopicIdPartition, list[SegmentMetadata]] = field(default_factory=lambda: defaultdict(list))
    referenced_size: int = 0
    unknown: int = 0
    unknown_size: int = 0
    errors: Mapping[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    whole: frozenset[str] = frozenset()
    """IDs of segments whose objects are all there, in the sizes that their manifests say."""
    ids: defaultdict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    """IDs of topics that have segments which brokers read, by topic and partition."""
    lost_at: defaultdict[tuple[str, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    """First offsets of lost segments, by topic and partition."""
    present: _OffsetRanges = field(default_factory=lambda: defaultdict(list))
    """First and last offsets of complete segments in the bucket that are not deleted."""
    readable: _OffsetRanges = field(default_factory=lambda: defaultdict(list))
    """Those of whole segments that brokers read."""
    unlisted: _OffsetRanges = field(default_factory=lambda: defaultdict(list))
    """Those of whole segments that the metadata does not have."""
    copies: _OffsetRanges = field(default_factory=lambda: defaultdict(list))
    """Those of whole segments that brokers do not read, and that are not deleted."""
    dangling: frozenset[str] = frozenset()
    """Paths of logs whose leader epochs are not in the history of their partition."""

    def compare(
        self,
        inventory: Sequence[SegmentObjects],
        local: Mapping[tuple[str, int], PartitionPath],
        *,
        is_part: bool,
    ) -> RemoteAudit:
        chosen = [each for each in inventory if self._is_chosen(each.topic, each.partition)]
        self.whole = frozenset(each.segment_id for each in inventory if each.is_whole)
        for each in chosen:
            self._place(each)
        for each in chosen:
            self._judge(each, local.get((each.topic, each.partition)))
        there = {each.segment_id for each in chosen}
        topics = {each.topic_id for each in inventory} if is_part else None
        for key, segments in self.metadata.segments.items():
            for each in segments.values():
                is_here = each.segment_id in there or not self._is_chosen(each.topic, each.partition)
                if each.is_referenced and not is_here and (topics is None or key[0] in topics):
                    self._lose(each, local.get((each.topic, each.partition)), None)
                if each.is_referenced:
                    self.ids[each.topic, each.partition].add(key[0])
        names = {each.topic for each in inventory}
        for place, partition in local.items():
            if self._is_chosen(*place) and (not is_part or place[0] in names):
                self._check_offsets(partition)
        findings = tuple(sorted(self.found, key=lambda each: (each.topic, each.partition, each.finding.offset or 0)))
        totals = sum(map(len, self.referenced.values())), self.referenced_size, self.unknown, self.unknown_size
        return RemoteAudit(*totals, self.price, findings)

    def _is_chosen(self, topic: str, partition: int) -> bool:
        return self.places is None or (topic, partition) in self.places

    def _place(self, objects: SegmentObjects) -> None:
        """Record which offsets the segment has, for the verdicts on others."""
        key = objects.topic_id, objects.partition
        segment = self.metadata.of(*key).get(objects.segment_id)
        end = _end_of(objects, segment)
        # A deletion is recorded before the first object goes (RemoteLogManager.deleteRemoteLogSegment, 4.4.0).
        if not objects.missing and (segment is None or segment.state in (_STARTED, _FINISHED)):
            self.present[key].append((objects.start_offset, end))
        if objects.segment_id not in self.whole or objects.path in self.dangling:
            return
        if segment is None or segment.is_referenced:
            (self.unlisted if segment is None else self.readable)[key].append((objects.start_offset, end))
        elif segment.state in (_STARTED, _FINISHED):
            self.copies[key].append((objects.start_offset, end))

    def _judge(self, objects: SegmentObjects, local: PartitionPath | None) -> None:
        key = objects.topic_id, objects.partition
        segment = self.metadata.of(*key).get(objects.segment_id)
        if objects.path in self.dangling:
            # Retention passes over it, too (RemoteLogManager.isRemoteSegmentWithinLeaderEpochs, 4.4.0).
            text = "no broker serves this segment, as its leader epochs are not in the history of the log"
            self._add(Kind.REMOTE_SEGMENT_DANGLING, "warning", text, objects=objects, segment=segment)
            return
        standing = _standing_of(segment)
        verdict = verdict_of(standing, self._in_bucket(objects), self._elsewhere(objects, segment, local))
        if verdict.kind == Kind.REMOTE_SEGMENT_LOST and segment is not None:
            self._lose(segment, local, objects)
        elif standing == Standing.REFERENCED and segment is not None:
            if verdict.kind is None:
                self.referenced[key].append(segment)
                self.referenced_size += objects.size
        elif standing == Standing.UNKNOWN and not self._is_known(objects) and "rsm-manifest" not in objects.missing:
            if "log" in objects.objects:  # else it is found as it is listed
                self.unknown += 1
                self.unknown_size += objects.size
        elif verdict.kind == Kind.REMOTE_SEGMENT_NEEDED:
            self._keep(self._reason(standing, objects, segment), objects, segment)
        else:
            self._judge_left(standing, verdict, objects, segment)

    def _judge_left(
        self, standing: Standing, verdict: SegmentVerdict, objects: SegmentObjects, segment: SegmentMetadata | None
    ) -> None:
        """A segment that is not read, and whose offsets are elsewhere."""
        text, instead = self._reason(standing, objects, segment), self._instead(segment)
        # Each try of a copy has an ID of its own (RLMCopyTask.copyLogSegmentsToRemote, 4.4.0).
        is_copied_again = standing == Standing.STARTED and instead in self.whole
        is_orphan = standing == Standing.DELETED or (
            self._is_known(objects) and (standing == Standing.UNKNOWN or is_copied_again)
        )
        errors = self.errors.get((objects.topic, objects.partition))
        if is_orphan and errors:
            self._keep(f"{text}, but the partition has errors", objects, segment)
        elif is_orphan:
            # Retention goes by the metadata, in which an upload that did not end is a segment like others
            # (RLMExpirationTask.cleanupExpiredRemoteLogSegments, 4.4.0).
            when = ", or deletes them before their offsets expire" if is_copied_again else " or deletes them"
            text = f"no broker reads these objects{when}: {text}"
            self._add(Kind.REMOTE_SEGMENT_ORPHANED, "warning", text, objects=objects, segment=segment)
        elif verdict.kind is not None:
            self._add(verdict.kind, verdict.severity, text, objects=objects, segment=segment)

    def _is_known(self, objects: SegmentObjects) -> bool:
        """Return whether what the metadata here says of a segment, or does not say, is all that there is of it, and its
        partition was read."""
        if (objects.topic, objects.partition) not in self.errors:
            return False
        if self.metadata.of(objects.topic_id, objects.partition).get(objects.segment_id) is not None:
            # All of a log's events are in one partition of the metadata (RemoteLogMetadataTopicPartitioner, 4.4.0).
            return bool(self.known.here)
        at = None if objects.manifest is None else objects.manifest.event_timestamp
        return at is not None and self.known.has((objects.topic_id, objects.partition), at)

    def _reason(self, standing: Standing, objects: SegmentObjects, segment: SegmentMetadata | None) -> str:
        """Say why brokers do not read a segment."""
        instead = self._instead(segment)
        if standing == Standing.STARTED and instead is not None:
            lacks = "" if instead in self.whole else ", but there objects are missing or cut"
            return f"the upload did not end; it was copied again as {instead}{lacks}"
        if segment is None and "rsm-manifest" in objects.missing:
            return "an upload that did not end: this segment has no manifest"
        return _REASONS[standing]

    def _instead(self, segment: SegmentMetadata | None) -> str | None:
        """The ID of the segment that brokers read in the place of one."""
        if segment is None:
            return None
        known = self.metadata.of(segment.topic_id, segment.partition).values()
        start, end = segment.start_offset, segment.end_offset
        found = (each for each in known if each.is_referenced and each.start_offset <= start and each.end_offset >= end)
        return next((each.segment_id for each in found if each.segment_id != segment.segment_id), None)

    def _in_bucket(self, objects: SegmentObjects) -> InBucket:
        if objects.segment_id in self.whole:
            return InBucket.WHOLE
        return InBucket.UNREADABLE if objects.missing else InBucket.CUT

    def _elsewhere(
        self, objects: SegmentObjects, segment: SegmentMetadata | None, local: PartitionPath | None
    ) -> Elsewhere:
        """Return what else has the offsets of a segment; the local log also where none of them are needed: they are
        before the log start, or the log does not go on after the segment and only a part of a bucket is known."""
        key, standing = (objects.topic_id, objects.partition), _standing_of(segment)
        start, end = objects.start_offset, _end_of(objects, segment)
        is_unlisted = segment is None and objects.segment_id in self.whole  # it is among these itself
        others = self.readable[key] if is_unlisted else [*self.readable[key], *self.unlisted[key]]
        if _covers(others, start, end) or is_deleted_first(standing, start, self.readable[key]):
            return Elsewhere.COPY
        if local is None:
            goes_on = self.is_alone or any(first > start for first, _ in others)
            return Elsewhere.NOWHERE if goes_on else Elsewhere.LOCAL
        own = [each.base_offset for each in local.segments if not is_tiered(each.log.location)]
        start = max(start, local.log_start_offset)
        is_held = start > end or _covers((*others, *((each, end) for each in own[:1])), start, end)
        return Elsewhere.LOCAL if is_held else Elsewhere.NOWHERE

    def _keep(self, text: str, objects: SegmentObjects, segment: SegmentMetadata | None) -> None:
        """Reports objects that may be the only copy."""
        end = _end_of(objects, segment)
        is_known = objects.manifest is not None or segment is not None
        offsets = f"{objects.start_offset}..{end}" if is_known else f"from {objects.start_offset} on"
        named = f"; these objects may be the only copy of offsets {offsets}"
        lacks = f", without {' and '.join(objects.missing)}" if objects.missing else ""
        self._add(Kind.REMOTE_SEGMENT_NEEDED, "warning", text + named + lacks, objects=objects, segment=segment)

    def _lose(self, segment: SegmentMetadata, local: PartitionPath | None, objects: SegmentObjects | None) -> None:
        own = [] if local is None else [each for each in local.segments if not is_tiered(each.log.location)]
        is_local = bool(own) and own[0].base_offset <= segment.start_offset
        self.lost_at[segment.topic, segment.partition].add(segment.start_offset)
        key = segment.topic_id, segment.partition
        others = (*self.readable[key], *self.unlisted[key], *self.copies[key])
        is_copied = _covers(others, segment.start_offset, segment.end_offset)
        severity: Severity = "warning" if is_local or is_copied else "error"
        rest = "; the local log still has them" if is_local else ""
        rest = "; a whole copy of them in the bucket is read here, and by no broker" if is_copied else rest
        lacks = "no object" if objects is None else f"no {' and no '.join(objects.missing)}"
        text = (
            f"offsets {segment.start_offset}..{segment.end_offset} are copied by the metadata, and {lacks} of remote "
            f"segment {segment.segment_id} is in the bucket{rest}"
        )
        path = f"{segment.topic}-{segment.partition}" if local is None else local.path
        path = path if objects is None else objects.path
        finding = Kind.REMOTE_SEGMENT_LOST.at(path, text, severity=severity, offset=segment.start_offset)
        counts = (0, 0) if objects is None else (len(objects.objects), objects.size)
        place = segment.topic, segment.topic_id, segment.partition, segment.segment_id
        self.found.append(RemoteFinding(finding, *place, *counts, segment.started_at, self._cost(counts[1])))

    def _cost(self, size: int) -> float | None:
        return None if self.price is None else size * self.price / GIGABYTE

    def _add(
        self, kind: Kind, severity: Severity, text: str, objects: SegmentObjects, segment: SegmentMetadata | None
    ) -> None:
        since, cost, count = _since(objects, segment), self._cost(objects.size), len(objects.objects)
        facts = f"{count} object{'s' * (count != 1)}, {format_bytes(objects.size)}"
        if since is not None:
            days = max(0, self.now - since) // 86_400_000
            facts += f", {days} day{'s' * (days != 1)} old"
        if cost is not None:
            facts += f", {show_cost(cost)} a month"
        finding = kind.at(objects.path, f"{text} ({facts})", severity=severity, offset=objects.start_offset)
        place = objects.topic, objects.topic_id, objects.partition, objects.segment_id
        self.found.append(RemoteFinding(finding, *place, count, objects.size, since, cost))

    def _check_offsets(self, partition: PartitionPath) -> None:
        """Offsets that are nowhere, and segments that brokers would delete."""
        place = partition.place
        ids = self.ids.get(place, set())
        topic_id = next(iter(ids)) if len(ids) == 1 else ""
        segments = sorted(self.referenced.get((topic_id, place[1]), ()), key=lambda each: each.start_offset)
        if topic_id and self.known.has((topic_id, place[1]), -1):
            for missing in self._missing(partition, self.present.get((topic_id, place[1]), ())):
                text = f"offsets {missing.start}..{missing.stop - 1} are neither in remote storage nor in the local log"
                kind, offset = Kind.REMOTE_OFFSETS_MISSING, missing.start
                finding = kind.at(partition.path, text, severity="error", offset=offset)
                self.found.append(RemoteFinding(finding, place[0], topic_id, place[1]))
        for each in expired_segments(partition, segments, self.now):
            since = next(known.started_at for known in segments if known is each.segments[0])
            facts = len(each.segments), each.size, since, self._cost(each.size)
            self.found.append(RemoteFinding(each.finding, place[0], topic_id, place[1], None, *facts))

    def _missing(self, partition: PartitionPath, present: Sequence[tuple[int, int]]) -> Iterator[range]:
        """Before the first segment, and before a local log without batches; what is missing between others is found as
        they are read."""
        named = self.lost_at.get(partition.place, set())
        own = partition.local_segments
        first = min((start for start, _ in present), default=own[0].base_offset if own else None)
        if first is not None and partition.log_start_offset < first and partition.log_start_offset not in named:
            yield range(partition.log_start_offset, first)
        end = max((last + 1 for _, last in present), default=None)
        if end is not None and len(own) == 1 and not own[0].size and end < own[0].base_offset and end not in named:
            yield range(end, own[0].base_offset)


def _standing_of(segment: SegmentMetadata | None) -> Standing:
    return Standing.UNKNOWN if segment is None else standing_of(segment.state, is_referenced=segment.is_referenced)


def _end_of(objects: SegmentObjects, segment: SegmentMetadata | None) -> int:
    """The last offset of a segment; its first one, where that is not known."""
    if segment is not None:
        return segment.end_offset
    return objects.start_offset if objects.manifest is None else objects.manifest.end_offset


def _covers(ranges: Iterable[tuple[int, int]], start: int, end: int) -> bool:
    """Return whether all offsets from the first to the last one are in ranges."""
    for first, last in sorted(ranges):
        if first > start:
            break
        start = max(start, last + 1)
    return start > end


def _since(objects: SegmentObjects, segment: SegmentMetadata | None) -> int | None:
    if segment is not None:
        return segment.started_at
    if objects.manifest is not None:
        return objects.manifest.event_timestamp
    return min((each.modified for each in objects.objects.values() if each.modified is not None), default=None)
