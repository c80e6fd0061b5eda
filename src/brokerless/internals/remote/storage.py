"""Which topics are tiered, and which offsets of their partitions are in remote storage.

A topic is tiered by its setting ``remote.storage.enable``; its remote segments are what ``__remote_log_metadata`` says.
Nothing here reads an object store. Sources: ``RemoteLogMetadataCache``, ``RemoteLogSegmentState``, ``RemoteLogManager``
(``deleteLogSegmentsDueToLeaderEpochCacheTruncation``; 3.9.1, 4.4.0); KIP-405.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING

from brokerless.errors import BrokerlessError
from brokerless.findings import Finding, Kind
from brokerless.internals.metadata.cluster import Cluster, read_cluster
from brokerless.internals.remote.segment_metadata import RemoteMetadata, SegmentMetadata, read_remote_metadata
from brokerless.kafka_names import TopicIdPartition
from brokerless.log.directory import LogDirectory, PartitionPath, metadata_of, resolve
from brokerless.log.names import REMOTE_LOG_METADATA
from brokerless.log.offset_gaps import may_have_remote_offsets
from brokerless.log.settings.topic import has_remote_storage
from brokerless.log.storage.location import Location
from brokerless.log.tiered.detection import remote_of
from brokerless.progress import ignore

if TYPE_CHECKING:  # it imports NumPy
    from brokerless.log.tiered.bucket import Bucket

_FINISHED = "COPY_SEGMENT_FINISHED"
"""Only such a segment is read; before, it may not be whole, and after, it is being deleted."""
_DELETED = "DELETE_SEGMENT_FINISHED"
_BY_OFFSET = attrgetter("start_offset")


@dataclass(frozen=True, slots=True)
class RemoteLogSegment:
    """A segment in remote storage, with ``start_offset <= offset <= end_offset``."""

    segment_id: str
    start_offset: int
    end_offset: int
    size: int
    """In bytes."""
    epochs: tuple[int, ...]
    """The leader epochs of its batches."""
    max_timestamp: int = -1
    """In ms, -1 where none is known."""


@dataclass(frozen=True, slots=True)
class RemoteStorage:
    """The remote segments of all tiered topics."""

    topics: Mapping[str, str] = field(default_factory=dict[str, str])
    """The names of tiered topics by ID."""
    segments: Mapping[TopicIdPartition, Sequence[RemoteLogSegment]] = field(
        default_factory=dict[TopicIdPartition, "Sequence[RemoteLogSegment]"]
    )
    """The segments that can be read, by topic ID and partition, from the first offset on."""
    is_known: bool = False
    """Whether there is a ``__remote_log_metadata`` here."""
    begun: Mapping[TopicIdPartition, Sequence[RemoteLogSegment]] = field(
        default_factory=dict[TopicIdPartition, "Sequence[RemoteLogSegment]"]
    )
    """The segments that can be read, and those whose copy or deletion did not end."""

    def id_of(self, topic: str | None) -> str | None:
        """Return the ID of a tiered topic; None for any other."""
        return next((topic_id for topic_id, name in self.topics.items() if name == topic), None)

    def of(self, topic: str | None, partition: int | None) -> Sequence[RemoteLogSegment]:
        """Return the remote segments of a partition of a tiered topic."""
        topic_id = self.id_of(topic)
        return () if topic_id is None else self.segments.get((topic_id, partition or 0), ())

    def finding(self, partition: PartitionPath, *, is_read: bool = False) -> Finding | None:
        """Return what of a partition is in remote storage only, before its first segment; None if nothing is.
        ``is_read``: the first segment is not the first local one, but that of the bucket, which should have these
        offsets."""
        if self.id_of(partition.topic) is None or partition.state != "live":
            return None
        local = partition.segments[0].base_offset if partition.segments else None
        segments = self.of(partition.topic, partition.partition)
        if not self.is_known and local != 0:
            text = (
                "this topic is tiered, and what of it is in remote storage is not known: its __remote_log_metadata is "
            )
            text += "not here"
            return Kind.REMOTE_OFFSETS.at(partition.path, text, severity="info", offset=local)
        last = max((each.end_offset for each in segments), default=-1)
        last = last if local is None else min(last, local - 1)
        first = max(min((each.start_offset for each in segments), default=0), partition.log_start_offset)
        if last < first:
            return None
        if is_read:
            text = f"by the metadata of brokers, offsets {first}..{last} are in remote storage; nothing that can be "
            text += "read of them is in the bucket"
            return remote_offsets_missing(partition.path, first, text)
        text = f"offsets {first}..{last} are in remote storage and were not read"
        return Kind.REMOTE_OFFSETS.at(partition.path, text, severity="info", offset=first)


def remote_offsets_missing(path: str, first: int, text: str) -> Finding:
    """Return the finding about offsets from ``first`` on that brokers had in remote storage, and no object has."""
    return Kind.REMOTE_OFFSETS_MISSING.at(path, text, offset=first)


def read_remote_storage(
    cluster: Cluster, partitions: Iterable[PartitionPath], max_batch_bytes: int | None = None
) -> RemoteStorage:
    """Return what the settings of topics and those of ``partitions`` that are of ``__remote_log_metadata`` say; damage
    in these is reported of them. Without a tiered topic, none of them is read."""
    topics = tiered_topics(cluster)
    own = [each for each in partitions if topics and each.topic == REMOTE_LOG_METADATA]
    metadata = read_remote_metadata(own, ignore, max_batch_bytes)
    return replace(remote_storage(cluster, metadata), is_known=bool(own))


def remote_storage(cluster: Cluster, metadata: RemoteMetadata) -> RemoteStorage:
    """Return what is in remote storage by metadata that was read."""
    whole = _segments(metadata, lambda each: each.state == _FINISHED)
    return RemoteStorage(tiered_topics(cluster), whole, is_known=True, begun=begun_segments(metadata))


def tiered_topics(cluster: Cluster) -> dict[str, str]:
    """Return the names of tiered topics, by ID."""
    return {
        topic_id: topic for topic_id, topic in cluster.topics.items() if has_remote_storage(cluster.settings_of(topic))
    }


def begun_segments(metadata: RemoteMetadata) -> Mapping[TopicIdPartition, Sequence[RemoteLogSegment]]:
    """Return all segments of which something may be in remote storage, by topic ID and partition."""
    return _segments(metadata, lambda each: each.state != _DELETED)


def _segments(
    metadata: RemoteMetadata, is_chosen: Callable[[SegmentMetadata], bool]
) -> dict[TopicIdPartition, tuple[RemoteLogSegment, ...]]:
    return {
        key: tuple(sorted((_segment(each) for each in known.values() if is_chosen(each)), key=_BY_OFFSET))
        for key, known in metadata.segments.items()
    }


def _segment(found: SegmentMetadata) -> RemoteLogSegment:
    epochs = tuple(epoch for epoch, _ in found.epochs)
    ends = found.start_offset, found.end_offset
    return RemoteLogSegment(found.segment_id, *ends, size=found.size, epochs=epochs, max_timestamp=found.max_timestamp)


def with_remote_findings(directory: LogDirectory) -> LogDirectory:
    """Return what was listed with a finding for each partition of which offsets are in remote storage only, so that
    whoever reads it reports them: a warning, or an error where they should be in the bucket that is read as well. Where
    :func:`may_have_remote_offsets` says no, the metadata is not read."""
    above = directory.location.parent if directory.kind == "partition" else directory.location
    if above is None or not may_have_remote_offsets(directory):
        return directory
    chosen = [each for each in directory.partitions if each.topic is not None and each.start_offset != 0]
    storage = (_storage_of if above.options is None else load_remote_storage)(above)
    joined = _joined_topics(directory)
    found = {
        each.path: replace(finding, severity="warning") if finding.severity == "info" else finding
        for each in chosen
        if (finding := storage.finding(each, is_read=each.topic in joined)) is not None
    }
    return replace(
        directory,
        partitions=tuple(
            each if (finding := found.get(each.path)) is None else replace(each, findings=(*each.findings, finding))
            for each in directory.partitions
        ),
    )


def _joined_topics(directory: LogDirectory) -> Collection[str | None]:
    """The topics whose remote segments are read as well: those that a part of a bucket has, or all."""
    remote = remote_of(directory.location)
    if remote is None:
        return ()
    bucket: Bucket = remote.file_system()[0].bucket
    if not bucket.is_part:
        return {each.topic for each in directory.partitions}
    return {each.name.topic for each in bucket.folders().values()}


def load_remote_storage(directory: Location) -> RemoteStorage:
    """Return what the metadata in a log directory says of remote storage; nothing where it cannot be read."""
    try:
        partitions = resolve(directory).partitions
        metadata = metadata_of(partitions)
        cluster = None if metadata is None else read_cluster(metadata, ignore)
        if cluster is None:
            return RemoteStorage()
        return read_remote_storage(cluster, partitions)
    except BrokerlessError:
        return RemoteStorage()


_storage_of = lru_cache(maxsize=4)(load_remote_storage)


def deleted_by_epochs(segments: Sequence[RemoteLogSegment], earliest_epoch: int) -> Sequence[RemoteLogSegment]:
    """Return the remote segments that a leader deletes whose first local leader epoch is this one: all of whose epochs
    are before it. With an empty directory, that is the epoch in which it becomes leader, and all go."""
    return [each for each in segments if all(epoch < earliest_epoch for epoch in each.epochs)]
