"""Remote segments by the events of ``__remote_log_metadata``: the last state of each, and which of them brokers serve.

Sources: ``RemoteLogMetadataCache``, ``RemoteLogLeaderEpochState``, ``RemoteLogSegmentState`` and
``RemotePartitionMetadataStore`` (4.4.0).
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from brokerless.findings import Kind
from brokerless.internals.entries import RawRecord, decode_entry, read_entries
from brokerless.kafka_names import TopicIdPartition
from brokerless.log.checkpoint.leader_epochs import Epochs, assign
from brokerless.log.directory import PartitionPath
from brokerless.log.names import REMOTE_LOG_METADATA
from brokerless.progress import Report

RemoteSegmentState = Literal[
    "COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED"
]
STATES: tuple[RemoteSegmentState, ...] = get_args(RemoteSegmentState)
"""By ``remoteLogSegmentState``."""

_STARTED, _FINISHED, _DELETING, _DELETED = STATES
_NEXT: dict[RemoteSegmentState | None, tuple[RemoteSegmentState, ...]] = {
    None: (_STARTED,),
    _STARTED: (_STARTED, _FINISHED, _DELETING),
    _FINISHED: (_FINISHED, _DELETING),
    _DELETING: (_DELETING, _DELETED),
    _DELETED: (_STARTED,),  # which brokers have forgotten
}
_PARTITION_DELETED = 2
"""``RemotePartitionDeleteState.DELETE_PARTITION_FINISHED``."""


@dataclass(frozen=True, slots=True)
class SegmentMetadata:
    """A remote segment with ``start_offset <= offset <= end_offset``."""

    topic: str
    topic_id: str
    partition: int
    segment_id: str
    state: RemoteSegmentState
    start_offset: int
    end_offset: int
    max_timestamp: int
    size: int
    """In bytes."""
    epochs: tuple[tuple[int, int], ...]
    """The leader epochs of its batches, each with its first offset."""
    broker_id: int
    started_at: int
    """The timestamp of the first event that counts, in ms."""
    changed_at: int
    """The timestamp of the last event that counts, in ms."""
    is_txn_index_empty: bool
    custom_metadata: bytes | None = None
    metadata_partition: int = -1
    """The partition of the metadata's topic that has the last event; -1 where it has none."""
    metadata_offset: int = -1
    """The offset of the last event in that partition."""
    is_referenced: bool = False
    """Whether brokers read it; what was copied again later is not, once that copy is finished."""


@dataclass(frozen=True, slots=True)
class DiscardedEvent:
    """An event that brokers discard, as the state before it does not allow it; None for a segment without one."""

    topic: str
    topic_id: str
    partition: int
    segment_id: str
    state: RemoteSegmentState
    before: RemoteSegmentState | None
    metadata_partition: int
    metadata_offset: int


@dataclass(frozen=True, slots=True)
class RemoteMetadata:
    """The metadata of all remote segments."""

    segments: Mapping[TopicIdPartition, Mapping[str, SegmentMetadata]]
    """By partition and segment ID, in the order of their first events, the deleted ones too."""
    discarded: tuple[DiscardedEvent, ...] = ()

    def of(self, topic_id: str, partition: int) -> Mapping[str, SegmentMetadata]:
        """Return the segments of a partition by their IDs."""
        return self.segments.get((topic_id, partition), {})


def remote_epochs(metadata: RemoteMetadata) -> dict[TopicIdPartition, Epochs]:
    """Return the leader epochs of each partition's remote segments, each with its first offset there: of those that
    brokers read, from the first one on."""
    found: dict[TopicIdPartition, Epochs] = {}
    for key, known in metadata.segments.items():
        read = sorted((each.start_offset, each.epochs) for each in known.values() if each.is_referenced)
        for _, epochs in read:
            for epoch, offset in epochs:
                found[key] = assign(found.get(key, ()), epoch, offset)
    return found


def read_remote_metadata(
    partitions: Iterable[PartitionPath], on_damage: Report, max_batch_bytes: int | None = None
) -> RemoteMetadata:
    """Return the last state of each remote segment by partitions of ``__remote_log_metadata``.

    Others among ``partitions`` are not read. ``max_batch_bytes``: what one batch may inflate to.
    """
    found = _Events()
    for partition in partitions:
        if partition.topic != REMOTE_LOG_METADATA:
            continue
        for entry in read_entries(partition, REMOTE_LOG_METADATA, on_damage, max_batch_bytes=max_batch_bytes):
            record = decode_entry(entry, REMOTE_LOG_METADATA, on_damage)
            problem = None if record.data is None else found.add(record.data, entry, partition.partition or 0)
            if problem is not None:
                finding = Kind.RECORD_UNREADABLE.at(
                    entry.file, problem, severity="warning", position=entry.position, offset=entry.offset
                )
                on_damage(finding)
    return found.metadata()


@dataclass(slots=True)
class _EpochSegments:
    """The segments that have records of one leader epoch."""

    by_offset: dict[int, str] = field(default_factory=dict[int, str])
    """The segments' IDs by their first offset in the epoch."""
    highest: int = -1
    """The last offset of these segments."""

    def finish(self, segment_id: str, start_offset: int, end_offset: int) -> None:
        # RemoteLogLeaderEpochState.handleSegmentWithCopySegmentFinishedState: the next leader copied more of the epoch.
        while self.by_offset and self.highest <= end_offset and (last := max(self.by_offset)) >= start_offset:
            del self.by_offset[last]
        self.by_offset[start_offset] = segment_id
        self.highest = max(self.highest, end_offset)


@dataclass(slots=True)
class _Events:
    segments: dict[TopicIdPartition, dict[str, SegmentMetadata]] = field(
        default_factory=dict[TopicIdPartition, "dict[str, SegmentMetadata]"]
    )
    epochs: dict[tuple[TopicIdPartition, int], _EpochSegments] = field(
        default_factory=dict[tuple[TopicIdPartition, int], _EpochSegments]
    )
    discarded: list[DiscardedEvent] = field(default_factory=list[DiscardedEvent])

    def add(self, data: Mapping[str, Any], entry: RawRecord, metadata_partition: int) -> str | None:
        """Apply an event, and return what is wrong with it, if it cannot be applied."""
        if "remotePartitionDeleteState" in data:
            if data["remotePartitionDeleteState"] == _PARTITION_DELETED:
                self._delete_partition(data["topicIdPartition"])
            return None
        if "remoteLogSegmentId" not in data:
            return None
        number = data["remoteLogSegmentState"]
        if not 0 <= number < len(STATES):
            return f"a remote segment in state {number}, which is not known"
        state, named = STATES[number], data["remoteLogSegmentId"]
        of = named["topicIdPartition"]
        key = of["id"], of["partition"]
        known = self.segments.setdefault(key, {})
        before = known.get(named["id"])
        is_first = "startOffset" in data
        if is_first and state != _STARTED:
            return f"the metadata of a remote segment in state {state}, where it begins with {_STARTED}"
        last = None if before is None else before.state
        if state not in _NEXT[last] or (state == _STARTED and not is_first):
            place = metadata_partition, entry.offset
            self.discarded.append(DiscardedEvent(of["name"], *key, named["id"], state, last, *place))
        elif is_first:
            known[named["id"]] = _first(data, entry.offset, metadata_partition)
        elif before is not None:
            known[named["id"]] = replace(
                before,
                state=state,
                broker_id=data["brokerId"],
                changed_at=data["eventTimestampMs"],
                custom_metadata=_bytes(data.get("customMetadata")) or before.custom_metadata,
                metadata_offset=entry.offset,
            )
            self._refer(key, known[named["id"]])
        return None

    def _refer(self, key: TopicIdPartition, segment: SegmentMetadata) -> None:
        ends = [offset - 1 for _, offset in segment.epochs[1:]] + [segment.end_offset]
        for (epoch, start_offset), end_offset in zip(segment.epochs, ends, strict=False):
            of_epoch = self.epochs.setdefault((key, epoch), _EpochSegments())
            if segment.state == _FINISHED:
                of_epoch.finish(segment.segment_id, start_offset, end_offset)
            elif of_epoch.by_offset.get(start_offset) == segment.segment_id:
                del of_epoch.by_offset[start_offset]

    def _delete_partition(self, of: Mapping[str, Any]) -> None:
        known = self.segments.get((of["id"], of["partition"]), {})
        for segment_id, segment in known.items():
            known[segment_id] = replace(segment, state=_DELETED)
        for key, epoch in [each for each in self.epochs if each[0] == (of["id"], of["partition"])]:
            del self.epochs[key, epoch]

    def metadata(self) -> RemoteMetadata:
        referenced = {
            (key, segment_id) for (key, _), each in self.epochs.items() for segment_id in each.by_offset.values()
        }
        segments = {
            key: {each: replace(one, is_referenced=(key, each) in referenced) for each, one in known.items()}
            for key, known in self.segments.items()
            if known
        }
        return RemoteMetadata(segments, tuple(self.discarded))


def _first(data: Mapping[str, Any], offset: int, metadata_partition: int) -> SegmentMetadata:
    named = data["remoteLogSegmentId"]
    of = named["topicIdPartition"]
    return SegmentMetadata(
        of["name"],
        of["id"],
        of["partition"],
        segment_id=named["id"],
        state=_STARTED,
        start_offset=data["startOffset"],
        end_offset=data["endOffset"],
        max_timestamp=data["maxTimestampMs"],
        size=data["segmentSizeInBytes"],
        epochs=tuple(sorted((each["leaderEpoch"], each["offset"]) for each in data["segmentLeaderEpochs"])),
        broker_id=data["brokerId"],
        started_at=data["eventTimestampMs"],
        changed_at=data["eventTimestampMs"],
        custom_metadata=_bytes(data.get("customMetadata")),
        is_txn_index_empty=data.get("txnIndexEmpty", False),
        metadata_partition=metadata_partition,
        metadata_offset=offset,
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)


def segment_rows(metadata: RemoteMetadata) -> list[dict[str, Any]]:
    """Return the rows of the table ``remoteSegments``."""
    return [
        {
            "topic": each.topic,
            "topicId": each.topic_id,
            "partition": each.partition,
            "segmentId": each.segment_id,
            "state": each.state,
            "isReferenced": each.is_referenced,
            "startOffset": each.start_offset,
            "endOffset": each.end_offset,
            "segmentSizeInBytes": each.size,
            "maxTimestamp": None if each.max_timestamp < 0 else each.max_timestamp,
            "segmentLeaderEpochs": [{"leaderEpoch": epoch, "offset": offset} for epoch, offset in each.epochs],
            "brokerId": each.broker_id,
            "startTimestamp": each.started_at,
            "eventTimestamp": each.changed_at,
            "customMetadata": None if each.custom_metadata is None else b64encode(each.custom_metadata).decode(),
            "txnIndexEmpty": each.is_txn_index_empty,
            "metadataPartition": each.metadata_partition,
            "recordOffset": each.metadata_offset,
        }
        for known in metadata.segments.values()
        for each in known.values()
    ]
