"""Positions of groups past the ends that partitions have in the rebuilt cluster, and the records that set them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from brokerless.findings import Kind
from brokerless.internals.coordinators import partition_counts
from brokerless.internals.groups.positions import (
    GroupPosition,
    LostPosition,
    lost_positions,
    read_positions,
)
from brokerless.internals.metadata.cluster import Cluster
from brokerless.internals.records import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from brokerless.jobs.rebuild.replicas import HeldReplica
from brokerless.kafka_names import TopicIdPartition
from brokerless.progress import Report


def positions_past_end(
    cluster: Cluster,
    held: Mapping[TopicIdPartition, Sequence[HeldReplica]],
    of_bucket: Mapping[TopicIdPartition, tuple[int, int]],
    report: Report,
    max_batch_bytes: int | None = None,
) -> Iterator[tuple[LostPosition, str]]:
    """Yield the positions past the end of what the in-sync replicas of a partition have, and the path of the partition
    that has each. ``of_bucket``: the first offset and the end of partitions that are rebuilt of a bucket. ``report``
    is called with where groups are of which no coordinator reads the positions; damage is reported elsewhere."""

    def limits_of(position: GroupPosition) -> tuple[int, int] | None:
        if cluster.row(position.topic, position.partition) is None:
            return None
        place = cluster.id_of(position.topic) or "", position.partition
        if place in of_bucket:
            return of_bucket[place]
        there = in_sync(cluster, held, place)
        return there[0].limits if there else (0, 0)

    own = [
        there[0]
        for place in held
        if cluster.topics.get(place[0]) in (CONSUMER_OFFSETS, SHARE_GROUP_STATE)
        if (there := in_sync(cluster, held, place))
    ]
    paths = {(each.replica.topic, each.replica.partition): each.replica.paths.path for each in own}
    ends = {each.replica.paths.path: each.limits[1] for each in own}
    readers = (each.replica.paths for each in own)
    positions = read_positions(
        readers,
        cluster.topics,
        lambda found: report(found) if found.kind == Kind.COORDINATOR_MOVED else None,
        max_batch_bytes=max_batch_bytes,
        end_of=lambda each: ends[each.path],
        counts=partition_counts(cluster),
    )
    for each in lost_positions(positions, limits_of):
        yield each, paths[each.position.source]


def in_sync(
    cluster: Cluster, held: Mapping[TopicIdPartition, Sequence[HeldReplica]], place: TopicIdPartition
) -> list[HeldReplica]:
    """Return the replicas of a partition that are in sync in the rebuilt cluster."""
    isr = cluster.partitions[place[0]][place[1]]["isr"]
    return [each for each in held.get(place, ()) if each.node in isr]
