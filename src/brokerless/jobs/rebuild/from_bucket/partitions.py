"""What a bucket has of each partition: whole remote segments with all fields of their metadata, and the log's state
where the last of them ends.

Source: ``TierStateMachine.buildRemoteLogAuxState`` (4.4.0), by which an empty replica begins after remote segments.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from brokerless import clock
from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.internals.remote.segment_metadata import SegmentMetadata
from brokerless.log.checkpoint.leader_epochs import Epochs, assign, truncate_from_end, truncate_from_start
from brokerless.log.producer.snapshot import ProducerSnapshot, parse_producer_snapshot
from brokerless.log.segment import scan_headers
from brokerless.log.tiered.bucket import Bucket
from brokerless.log.tiered.decryption import KeyPairs
from brokerless.log.tiered.lineage import is_within_lineage, parse_lineage
from brokerless.log.tiered.listing.folder import Folder
from brokerless.log.tiered.manifest import IndexName, Manifest
from brokerless.log.tiered.object_names import ObjectKind, PartitionName
from brokerless.log.tiered.segment_log import read_index
from brokerless.log.tiered.segments import RemoteSegment, object_missing
from brokerless.offset_spans import union, without
from brokerless.text import count_of

_SNAPSHOT_LIMIT = 256 << 20
_LINEAGE_LIMIT = 16 << 20
_NEEDED: tuple[ObjectKind, ...] = ("leader_epoch_checkpoint", "snapshot")
"""Beside a log, in the layout without manifests."""


@dataclass(frozen=True, slots=True)
class MissingOffsets:
    """Offsets of a partition that no segment has, or one that is not taken."""

    first: int
    """The first of them."""
    end: int | None
    """The offset after the last one; None where that is not known."""
    file: str
    """An object, or the directory of the partition."""
    reason: str
    """The reason why they are not there, as a text for people."""

    def text(self, name: str) -> str:
        """Return what is lost of the partition of this name."""
        span = f"offsets {self.first} and after" if self.end is None else f"offsets {self.first}..{self.end - 1}"
        return f"{span} of {name}: {self.reason}"


@dataclass(frozen=True, slots=True)
class BucketPartition:
    """A partition that a bucket has objects of."""

    topic: str
    topic_id: str
    partition: int
    segments: tuple[SegmentMetadata, ...]
    """The segments that are its log, by their offsets."""
    epochs: Epochs
    """The lineage up to ``end_offset``."""
    end_offset: int
    """The offset after the last one."""
    snapshot: bytes | None
    """The snapshot of the producers at its end; None where there is none."""
    newest_epoch: int
    """The newest leader epoch of all of its objects; -1 for none."""
    findings: tuple[Finding, ...]
    missing: tuple[MissingOffsets, ...] = ()
    """Offsets that are in none of the segments that are taken, though there was a segment."""
    objects: tuple[int, ...] = ()
    """How many objects each of the segments has."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def producers(self) -> ProducerSnapshot | None:
        """The producers at its end; None where there is no snapshot."""
        if self.snapshot is None:
            return None
        return parse_producer_snapshot(np.frombuffer(self.snapshot, np.uint8), self.name)

    @property
    def start_offset(self) -> int:
        """The first offset of the first segment."""
        return self.segments[0].start_offset if self.segments else 0


def read_partitions(
    bucket: Bucket, id_of: Callable[[str, Collection[str]], str | None]
) -> tuple[list[BucketPartition], list[Folder]]:
    """Return the partitions of chosen topics with objects in a bucket, and those of the topics of the same names that
    are not taken. ``id_of``: which of the IDs of a topic of this name is taken, None for no one.

    Raises :class:`UnreadableError`, also for a partition whose leader epochs cannot be read for want of a key: a start
    without them would delete its objects; and what ``id_of`` raises.
    """
    folders = bucket.folders().values()
    repeated = {each.name.topic for each in folders if any(map(_is_of_replaced, each.findings))}
    ids: dict[str, set[str]] = {}
    for each in folders:
        ids.setdefault(each.name.topic, set()).add(each.name.topic_id)
    repeated |= {topic for topic, own in ids.items() if len(own) > 1}
    everything = [*(each for each in folders if each.name.topic not in repeated), *_folders(bucket, repeated)]
    for each in everything:
        ids[each.name.topic].add(each.name.topic_id)
    chosen = {topic: id_of(topic, own) for topic, own in ids.items()}
    taken = [each for each in everything if chosen[each.name.topic] == each.name.topic_id]
    others = [each for each in everything if chosen[each.name.topic] not in (None, each.name.topic_id)]
    return [_read(bucket, each) for each in taken], others


def _is_of_replaced(finding: Finding) -> bool:
    return finding.kind == Kind.REMOTE_TOPIC_REPLACED


def _folders(bucket: Bucket, topics: Container[str]) -> list[Folder]:
    """The objects of topics that have a name together with others, each by its own ID."""
    found: dict[PartitionName, Folder] = {}
    for each in bucket.inventory() if topics else ():
        if each.topic not in topics:
            continue
        name = PartitionName(each.topic, each.topic_id, each.partition, is_plain=each.is_plain)
        location = next(iter(each.objects.values())).location.parent
        folder = found.setdefault(name, Folder(name, location or bucket.root, {}))
        folder.objects[each.start_offset, each.segment_id] = dict(each.objects)
    return list(found.values())


def describe_replaced(folder: Folder) -> str:
    """Return for people what is lost with a partition whose topic is not taken, as another one of this name is."""
    name, starts = folder.name, [start for start, _ in folder.objects]
    text = f"{name.topic}-{name.partition} of the other topic of this name, with ID {name.topic_id}: "
    return f"{text}{count_of(len(starts), 'segment')}, which begin at offsets {min(starts)}..{max(starts)}"


def _read(bucket: Bucket, folder: Folder) -> BucketPartition:
    name, log = folder.name, bucket.log(folder)
    findings = list(log.findings)
    whole: list[tuple[RemoteSegment, SegmentMetadata]] = []
    not_taken: list[MissingOffsets] = []
    for each in log.segments:
        found = _first_whole(each, folder)
        if isinstance(found, MissingOffsets):
            not_taken.append(found)
        else:
            whole.append(found)
    epochs: Epochs = ()
    snapshot = None
    apart = {each.file for each in findings if each.kind == Kind.REMOTE_SEGMENT_DANGLING}
    if whole:
        last, metadata = whole[-1]
        epochs = truncate_from_end(_lineage(last, whole, bucket.keys, findings), metadata.end_offset + 1)
        apart |= {one.log.path for one, each in whole if not is_within_lineage(each.epochs, each.end_offset, epochs)}
        whole = [each for each in whole if each[0].log.path not in apart]
        with suppress(UnreadableError):
            snapshot = _companion(last, "producerSnapshot", "snapshot", keys=bucket.keys, limit=_SNAPSHOT_LIMIT)
    segments = tuple(metadata for _, metadata in whole)
    newest = [epoch for _, each in whole for epoch, _ in each.epochs] + [epoch for epoch, _ in epochs]
    newest += (epoch for each in log.segments for epoch, _ in each.epochs)
    newest += (epoch for each in folder.manifests.values() if isinstance(each, Manifest) for epoch, _ in each.epochs)
    known = {*(each.segment_id for each in segments), *(each.segment_id for each in log.segments)}
    not_taken += _without_log(folder, known, apart)
    cut = [_cut(one) for one, _ in whole if not one.is_whole and not one.copies]
    return BucketPartition(
        name.topic,
        name.topic_id,
        name.partition,
        segments=segments,
        epochs=epochs,
        end_offset=segments[-1].end_offset + 1 if segments else 0,
        snapshot=snapshot,
        newest_epoch=max(newest, default=-1),
        findings=tuple(findings),
        objects=tuple(len(each.objects) for each, _ in whole),
        missing=(*_missing(str(folder.location), segments, not_taken), *cut),
    )


def _first_whole(segment: RemoteSegment, folder: Folder) -> tuple[RemoteSegment, SegmentMetadata] | MissingOffsets:
    """A segment, or the first of its copies that is whole, with all fields of its metadata."""
    if segment.manifest is not None:
        return segment, _of_manifest(segment.manifest)
    not_whole: list[MissingOffsets] = []
    for each in (segment, *segment.copies):
        found = _of_objects(each, folder)
        if not isinstance(found, MissingOffsets):
            return each, found
        not_whole.append(found)
    return not_whole[0]


def _without_log(folder: Folder, known: Container[str], apart: Container[str]) -> Iterator[MissingOffsets]:
    """Segments that are not read, for want of their log or a manifest that can be read. ``apart``: logs of those that
    are of another history."""
    for (start, segment_id), objects in folder.objects.items():
        file = min(each.path for each in objects.values())
        if segment_id in known or ("log" in objects and objects["log"].path in apart):
            continue
        manifest = folder.manifests.get(objects["rsm-manifest"]) if "rsm-manifest" in objects else None
        end = manifest.end_offset + 1 if isinstance(manifest, Manifest) else None
        if "log" not in objects:
            reason = "a remote segment is there without its log"
        elif manifest is None:
            reason = "a remote segment is there without its manifest, as an interrupted upload leaves it"
        else:
            reason = "the manifest of a remote segment cannot be read, or another segment begins at its offset"
        yield MissingOffsets(start, end, file, reason)


def _cut(segment: RemoteSegment) -> MissingOffsets:
    """A segment that is taken, with a log of another size than its manifest says."""
    first, last = segment.start_offset, segment.end_offset
    text = "some or all of them, as the log of this remote segment has another size than its manifest says"
    return MissingOffsets(first, None if last is None else last + 1, segment.log.path, text)


def _missing(
    path: str, segments: Sequence[SegmentMetadata], not_taken: Sequence[MissingOffsets]
) -> Iterator[MissingOffsets]:
    """Yield what is between the segments that are taken, and what others have that are not."""
    taken = union((each.start_offset, each.end_offset + 1) for each in segments)
    others = [(each.first, max(each.end or 0, each.first + 1)) for each in not_taken]
    there = union([*taken, *others])
    for first, end in without([(there[0][0], there[-1][1])], taken) if there else ():
        own = [each for each in not_taken if first <= each.first < end]
        is_last = not taken or first >= taken[-1][1]
        is_open = is_last and any(each.end is None for each in own)
        yield MissingOffsets(
            first,
            None if is_open else end,
            own[0].file if own else path,
            own[0].reason if own else "no remote segment has them, though others are before and after",
        )


def _of_manifest(manifest: Manifest) -> SegmentMetadata:
    return SegmentMetadata(
        manifest.topic,
        manifest.topic_id,
        manifest.partition,
        segment_id=manifest.segment_id,
        state="COPY_SEGMENT_FINISHED",
        start_offset=manifest.start_offset,
        end_offset=manifest.end_offset,
        max_timestamp=manifest.max_timestamp,
        size=manifest.chunks.size,
        epochs=manifest.epochs,
        broker_id=manifest.broker_id,
        started_at=manifest.event_timestamp,
        changed_at=manifest.event_timestamp,
        is_txn_index_empty=manifest.indexes.get("transaction", (0, 0))[1] == 0,
    )


def _of_objects(segment: RemoteSegment, folder: Folder) -> SegmentMetadata | MissingOffsets:
    """Return the metadata of a segment by the log itself and the leader epochs beside it."""
    path, start = segment.log.path, segment.start_offset
    broken: list[Finding] = []
    end, newest = -1, -1
    with segment.log.location.open() as file:
        for chunk in scan_headers(file, broken.append):
            end = int(chunk.batches.last_offset[-1])
            newest = max(newest, int(chunk.batches.max_timestamp.max()))
    if broken or end < start:
        return MissingOffsets(start, None, path, "the log of this remote segment is cut or damaged")
    missing = [each for each in _NEEDED if each not in segment.objects]
    if missing:
        text = f"this remote segment is there without its {' and '.join(missing)}, and its log is intact"
        return MissingOffsets(start, end + 1, path, text)
    lineage = parse_lineage(segment.objects["leader_epoch_checkpoint"].location.read(_LINEAGE_LIMIT))
    epochs = truncate_from_start(truncate_from_end(tuple(lineage), end + 1), start)
    if not epochs:
        return MissingOffsets(
            start, end + 1, path, "the leader_epoch_checkpoint of this remote segment has no leader epoch"
        )
    transactions = segment.objects.get("txnindex")
    at = segment.log.modified or clock.now()
    return SegmentMetadata(
        folder.name.topic,
        folder.name.topic_id,
        folder.name.partition,
        segment_id=segment.segment_id,
        state="COPY_SEGMENT_FINISHED",
        start_offset=start,
        end_offset=end,
        max_timestamp=newest,
        size=segment.size,
        epochs=tuple(epochs),
        broker_id=-1,
        started_at=at,
        changed_at=at,
        is_txn_index_empty=transactions is None or not transactions.size,
    )


def _lineage(
    last: RemoteSegment,
    segments: Sequence[tuple[RemoteSegment, SegmentMetadata]],
    keys: KeyPairs,
    findings: list[Finding],
) -> Epochs:
    """The leader epochs of a log by its last segment, or, where that object is damaged, by those of all segments."""
    try:
        found = parse_lineage(
            _companion(last, "leaderEpoch", "leader_epoch_checkpoint", keys=keys, limit=_LINEAGE_LIMIT) or b""
        )
        if found:
            return tuple(found)
        reason = "there are none"
    except UnreadableError as error:
        if last.manifest is not None and last.manifest.encryption is not None:
            raise
        reason = str(error)
    epochs: Epochs = ()
    for _, each in segments:
        for epoch, offset in each.epochs:
            epochs = assign(epochs, epoch, offset)
    text = f"the leader epochs of this partition are those that its segments name: its own cannot be read ({reason})"
    findings.append(object_missing(last.log.path, last.start_offset, text))
    return epochs


def _companion(segment: RemoteSegment, index: IndexName, kind: ObjectKind, keys: KeyPairs, limit: int) -> bytes | None:
    """An index of a segment; None without one. Raises :class:`UnreadableError`."""
    if segment.manifest is not None:
        return read_index(segment, index, keys)
    entry = segment.objects.get(kind)
    return None if entry is None else entry.location.read(limit)
