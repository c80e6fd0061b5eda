"""Predicts which remote segments of tiered topics a start deletes.

A leader deletes those whose leader epochs are all before the first one in its local ``leader-epoch-checkpoint``, also
those whose copy did not end; where the directory of a partition is gone or begins again, empty, that is every segment
in the bucket, within seconds and whatever its retention. Source: ``RemoteLogManager`` (3.9.1, 4.4.0); it was tried with
both (``tests/kafka/test_remote_start.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokerless.findings import Finding, Kind
from brokerless.internals.remote.storage import RemoteLogSegment, RemoteStorage, deleted_by_epochs
from brokerless.kafka_names import TopicPartition
from brokerless.log.checkpoint.leader_epochs import Epochs

DeletedObjects = Mapping[tuple[str, int], Mapping[str, int]]
"""How many objects each remote segment has, by its ID, of each partition by its topic's ID and number."""


@dataclass(frozen=True, slots=True)
class RemoteDeletion:
    """Remote segments of a partition that are deleted, from ``first_offset`` to ``last_offset``."""

    topic: str
    partition: int
    segments: int
    first_offset: int
    last_offset: int
    size: int
    """In bytes."""
    objects: int | None = None
    """How many objects of these segments are in the bucket, None where no bucket was named."""


def remote_deletions(
    storage: RemoteStorage,
    rows: Mapping[tuple[str, int], Mapping[str, Any]],
    node_id: int | None,
    epochs: Mapping[TopicPartition, Epochs],
    unserved: Collection[TopicPartition],
    objects: DeletedObjects | None = None,
) -> Iterator[RemoteDeletion]:
    """Yield what a node deletes of the partitions that it alone can lead. ``rows``: of the cluster's metadata, by topic
    ID and partition; ``epochs``: of its partitions that are loaded, as they are once they are loaded; ``unserved``:
    what is loaded and led by nobody; ``objects``: of the bucket."""
    for (topic_id, partition), segments in storage.begun.items():
        topic, row = storage.topics.get(topic_id), rows.get((topic_id, partition))
        if topic is None or row is None or (topic, partition) in unserved or not leads(row, node_id):
            continue
        known = epochs.get((topic, partition), ())
        gone = deleted_by_epochs(segments, known[0][0] if known else row["leaderEpoch"] + 1)
        if gone:
            there = None if objects is None else objects.get((topic_id, partition), {})
            yield deletion_of(topic, partition, gone, there)


def leads(row: Mapping[str, Any], node_id: int | None) -> bool:
    """Return whether a node is the only one that can lead a partition."""
    return node_id in row["replicas"] and {*row["isr"]} <= {node_id}


def deletion_of(
    topic: str, partition: int, gone: Collection[RemoteLogSegment], objects: Mapping[str, int] | None = None
) -> RemoteDeletion:
    """Return the deletion of segments of one partition. ``objects``: how many each has in the bucket, if that is
    known."""
    first, last = min(each.start_offset for each in gone), max(each.end_offset for each in gone)
    count = None if objects is None else sum(objects.get(each.segment_id, 0) for each in gone)
    return RemoteDeletion(
        topic,
        partition,
        len(gone),
        first_offset=first,
        last_offset=last,
        size=sum(each.size for each in gone),
        objects=count,
    )


def remote_segments_deleted(path: str, deletions: Sequence[RemoteDeletion]) -> Finding:
    """Return the finding about remote segments that a start deletes. ``path``: of a log directory."""
    offset, found = None, None
    if len(deletions) == 1:
        offset = deletions[0].first_offset
        found = f"offsets {offset}..{deletions[0].last_offset} in remote storage"
    return Kind.REMOTE_SEGMENTS_DELETED.at(path, deletion_line(deletions), offset=offset, found=found)


def deletion_line(deletions: Collection[RemoteDeletion]) -> str:
    """Return what is said first of all, for people."""
    return (
        f"this start would delete {count_deleted(deletions)}: their directories, or the leader epochs in them, are "
        "gone or wrong, and a leader deletes what is older than its leader epochs; make the bucket read-only, or copy "
        "it, and give them back before the start"
    )


def count_deleted(deletions: Collection[RemoteDeletion]) -> str:
    """Return how many remote segments are deleted, and of which partitions."""
    count = sum(each.segments for each in deletions)
    places = [f"{each.topic}-{each.partition} {each.first_offset}..{each.last_offset}" for each in deletions]
    shown = ", ".join(places[:5]) + (f" and {len(places) - 5} more" if len(places) > 5 else "")
    segments = "1 remote segment" if count == 1 else f"{count} remote segments"
    if all(each.objects is not None for each in deletions):
        segments += f" ({sum(each.objects or 0 for each in deletions)} objects)"
    return f"{segments} of tiered topics ({shown})"
