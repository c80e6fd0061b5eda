"""Predicts which remote segments of tiered topics a start deletes.

A leader deletes those whose leader epochs are all before the first one in its local ``leader-epoch-checkpoint``; where
the directory of a partition is gone or begins again, empty, that is every segment in the bucket, within seconds and
whatever its retention. Source: ``RemoteLogManager`` (3.9.1, 4.4.0); it was tried with both
(``tests/kafka/test_remote_start.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from brokerless.internals.remote.storage import RemoteSegment, RemoteStorage, deleted_by_epochs
from brokerless.log.checkpoint.leader_epochs import load_epochs
from brokerless.log.directory import PartitionPath

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class RemoteDeletion:
    """Remote segments of a partition that are deleted, from ``first_offset`` to ``last_offset``; ``size`` in bytes."""

    topic: str
    partition: int
    segments: int
    first_offset: int
    last_offset: int
    size: int


def remote_deletions(
    storage: RemoteStorage,
    rows: Mapping[tuple[str, int], Mapping[str, Any]],
    node_id: int | None,
    served: Mapping[Place, PartitionPath],
    unserved: Collection[Place],
) -> Iterator[RemoteDeletion]:
    """What a node deletes of the partitions that it alone can lead. ``rows``: of the cluster's metadata, by topic ID
    and partition; ``served``: its directories that are loaded; ``unserved``: what is loaded and led by nobody."""
    for (topic_id, partition), segments in storage.segments.items():
        topic, row = storage.topics.get(topic_id), rows.get((topic_id, partition))
        if topic is None or row is None or (topic, partition) in unserved:
            continue
        if node_id not in row["replicas"] or not {*row["isr"]} <= {node_id}:
            continue
        epoch = _earliest_epoch(served.get((topic, partition)), row["leaderEpoch"] + 1)
        gone = deleted_by_epochs(segments, epoch)
        if gone:
            yield _deletion(topic, partition, gone)


def _deletion(topic: str, partition: int, gone: Collection[RemoteSegment]) -> RemoteDeletion:
    first, last = min(each.start_offset for each in gone), max(each.end_offset for each in gone)
    return RemoteDeletion(topic, partition, len(gone), first, last, sum(each.size for each in gone))


def _earliest_epoch(partition: PartitionPath | None, next_epoch: int) -> int:
    """The first leader epoch that a broker knows of a partition once it leads it."""
    epochs = () if partition is None else load_epochs(partition.leader_epoch_checkpoint)
    return epochs[0][0] if epochs else next_epoch


def deletion_line(deletions: Collection[RemoteDeletion]) -> str:
    """For people, what is said first of all."""
    count = sum(each.segments for each in deletions)
    places = [f"{each.topic}-{each.partition} {each.first_offset}..{each.last_offset}" for each in deletions]
    shown = ", ".join(places[:5]) + (f" and {len(places) - 5} more" if len(places) > 5 else "")
    segments = "1 remote segment" if count == 1 else f"{count} remote segments"
    return (
        f"this start would delete {segments} of tiered topics ({shown}): their directories are gone or empty, and a "
        "leader deletes what is older than its leader epochs; make the bucket read-only, or copy it, before the start"
    )
