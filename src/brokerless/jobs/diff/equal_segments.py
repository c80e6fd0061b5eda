"""Finds what two snapshots of backups begin with in common, by the SHA-256 of their segments: it need not be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from brokerless.errors import UnreadableError
from brokerless.jobs.diff.pairs import EqualSegments, Pair, Side
from brokerless.kafka_names import TopicPartition
from brokerless.log.backups.snapshot import SnapshotPartition, SnapshotSegment
from brokerless.log.tiered.detection import snapshot_of


@dataclass(frozen=True, slots=True)
class StoredPartition:
    """What a snapshot has of a partition."""

    partition: SnapshotPartition
    segments: Sequence[SnapshotSegment]


def add_equal_segments(pairs: Sequence[Pair], sides: tuple[Side, Side]) -> list[Pair]:
    """Return pairs with what both sides begin with, where both are snapshots."""
    left, right = (snapshot_partitions(each) for each in sides)
    if left is None or right is None:
        return list(pairs)
    names = [each.place for each in pairs]
    return [
        replace(each, equal=_common(left[name], right[name])) if name in left and name in right else each
        for each, name in zip(pairs, names, strict=True)
    ]


def snapshot_partitions(side: Side) -> dict[TopicPartition, StoredPartition] | None:
    """Return what the snapshot that a side is has of each partition; None for anything else, and for several paths."""
    if len(side.directories) != 1 or side.url is not None or side.is_one_partition:
        return None
    location = side.directories[0].location
    if snapshot_of(location) is None:
        return None
    try:
        state = location.file_system()[0].bucket.snapshot_state()
    except UnreadableError:  # which is reported where it is read
        return None
    return {
        (each.topic, each.partition): StoredPartition(each, state.segments.get((each.topic_id, each.partition), ()))
        for each in state.snapshot.partitions
        if not each.lost
    }


def _common(left: StoredPartition, right: StoredPartition) -> EqualSegments | None:
    start, end = left.partition.start_offset, left.partition.end_offset
    if start != right.partition.start_offset:
        return None
    keys = [[(one.start_offset, one.end_offset, one.sha256) for one in each.segments] for each in (left, right)]
    if keys[0] == keys[1] and end == right.partition.end_offset:
        return EqualSegments(start, end, left.partition.records, is_all=True)
    count = next(
        (at for at, (ours, theirs) in enumerate(zip(*keys, strict=False)) if ours != theirs), min(map(len, keys))
    )
    if not count or keys[0][0][0] != start:
        return None
    first = left.segments[:count]
    return EqualSegments(start, first[-1].end_offset + 1, sum(each.records for each in first))
