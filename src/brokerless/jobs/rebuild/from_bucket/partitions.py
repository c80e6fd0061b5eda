"""What a bucket has of each partition: whole remote segments with all fields of their metadata, and the log's state
where the last of them ends.

Source: ``TierStateMachine.buildRemoteLogAuxState`` (4.4.0), by which an empty replica begins after remote segments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from brokerless import clock
from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.internals.remote.segment_metadata import SegmentMetadata
from brokerless.log.checkpoint.leader_epochs import Epochs, assign, truncate_from_end, truncate_from_start
from brokerless.log.checkpoint.producer_snapshot import ProducerSnapshot, parse_producer_snapshot
from brokerless.log.segment import scan_headers
from brokerless.log.tiered.bucket import Bucket, Folder
from brokerless.log.tiered.decryption import KeyPairs
from brokerless.log.tiered.lineage import is_within_lineage, parse_lineage
from brokerless.log.tiered.manifest import IndexName, Manifest
from brokerless.log.tiered.object_names import ObjectKind
from brokerless.log.tiered.segment_log import read_index
from brokerless.log.tiered.segments import RemoteSegment

_SNAPSHOT_LIMIT = 256 << 20
_LINEAGE_LIMIT = 16 << 20


@dataclass(frozen=True, slots=True)
class BucketPartition:
    """A partition that a bucket has objects of. ``segments``: those that are its log, by their offsets. ``epochs``: the
    lineage up to ``end_offset``, which is after the last one. ``snapshot``: of the producers at its end, None where
    there is none. ``newest_epoch``: of all of its objects, -1 for none."""

    topic: str
    topic_id: str
    partition: int
    segments: tuple[SegmentMetadata, ...]
    epochs: Epochs
    end_offset: int
    snapshot: bytes | None
    newest_epoch: int
    findings: tuple[Finding, ...]

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


def read_partitions(bucket: Bucket, is_chosen: Callable[[str], bool] = lambda _: True) -> list[BucketPartition]:
    """The partitions of chosen topics with objects in a bucket.

    Raises :class:`UnreadableError`, also for a partition whose leader epochs cannot be read for want of a key: a start
    without them would delete its objects.
    """
    return [_read(bucket, each) for each in bucket.folders().values() if is_chosen(each.name.topic)]


def _read(bucket: Bucket, folder: Folder) -> BucketPartition:
    name, log = folder.name, bucket.log(folder)
    findings = list(log.findings)
    whole: list[tuple[RemoteSegment, SegmentMetadata]] = []
    for each in log.segments:
        found = _of_manifest(each, each.manifest) if each.manifest is not None else _of_objects(each, folder)
        if isinstance(found, Finding):
            findings.append(found)
        else:
            whole.append((each, found))
    epochs: Epochs = ()
    snapshot = None
    if whole:
        last, metadata = whole[-1]
        epochs = truncate_from_end(_lineage(last, whole, bucket.keys, findings), metadata.end_offset + 1)
        whole = [each for each in whole if is_within_lineage(each[1].epochs, each[1].end_offset, epochs)]
        with suppress(UnreadableError):
            snapshot = _companion(last, "producerSnapshot", "snapshot", keys=bucket.keys, limit=_SNAPSHOT_LIMIT)
    segments = tuple(metadata for _, metadata in whole)
    newest = [epoch for _, each in whole for epoch, _ in each.epochs] + [epoch for epoch, _ in epochs]
    newest += (epoch for each in log.segments for epoch, _ in each.epochs)
    newest += (epoch for each in folder.manifests.values() if isinstance(each, Manifest) for epoch, _ in each.epochs)
    end = segments[-1].end_offset + 1 if segments else 0
    return BucketPartition(
        name.topic,
        name.topic_id,
        name.partition,
        segments=segments,
        epochs=epochs,
        end_offset=end,
        snapshot=snapshot,
        newest_epoch=max(newest, default=-1),
        findings=tuple(findings),
    )


def _of_manifest(segment: RemoteSegment, manifest: Manifest) -> SegmentMetadata:
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
        custom_metadata=None,
        is_txn_index_empty=manifest.indexes.get("transaction", (0, 0))[1] == 0,
        metadata_partition=-1,
        metadata_offset=-1,
    )


def _of_objects(segment: RemoteSegment, folder: Folder) -> SegmentMetadata | Finding:
    """The same by the log itself and the leader epochs beside it; a finding where the copy is not whole."""
    path, start = segment.log.path, segment.start_offset
    text = "not taken: this remote segment is not whole, as an interrupted upload leaves it"
    unfinished = Finding("info", Kind.REMOTE_SEGMENT_UNFINISHED, path, offset=start, message=text)
    entry = segment.objects.get("leader_epoch_checkpoint")
    if entry is None or "snapshot" not in segment.objects:
        return unfinished
    broken: list[Finding] = []
    end, newest = -1, -1
    with segment.log.location.open() as file:
        for chunk in scan_headers(file, broken.append):
            end = int(chunk.batches.last_offset[-1])
            newest = max(newest, int(chunk.batches.max_timestamp.max()))
    if broken or end < start:
        return unfinished
    lineage = truncate_from_end(tuple(parse_lineage(entry.location.read(_LINEAGE_LIMIT))), end + 1)
    epochs = truncate_from_start(lineage, start)
    if not epochs:
        return unfinished
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
        custom_metadata=None,
        is_txn_index_empty=transactions is None or not transactions.size,
        metadata_partition=-1,
        metadata_offset=-1,
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
    findings.append(Finding("error", Kind.REMOTE_OBJECT_MISSING, last.log.path, offset=last.start_offset, message=text))
    return epochs


def _companion(segment: RemoteSegment, index: IndexName, kind: ObjectKind, keys: KeyPairs, limit: int) -> bytes | None:
    """An index of a segment; None without one. Raises :class:`UnreadableError`."""
    if segment.manifest is not None:
        return read_index(segment, index, keys)
    entry = segment.objects.get(kind)
    return None if entry is None else entry.location.read(limit)
