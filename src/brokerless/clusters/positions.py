"""Finds positions of groups past the ends that partitions have after a start.

Only partitions without another replica are known: a replica elsewhere may have more, and lead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from brokerless.clusters.placement import BrokerNode
from brokerless.internals.groups.positions import GroupPosition, LostPosition, lost_positions, read_positions
from brokerless.internals.metadata.cluster import Cluster
from brokerless.internals.records import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from brokerless.kafka_names import TopicPartition
from brokerless.log.directory import PartitionPath
from brokerless.log.seek import end_offset
from brokerless.progress import ignore

OffsetLimits = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PositionLimits:
    """The partitions of a node after its start."""

    served: Mapping[TopicPartition, PartitionPath]
    """Those that are loaded and served."""
    emptied: Collection[TopicPartition]
    """Those that begin empty."""
    of: Callable[[PartitionPath], OffsetLimits | None]
    """Where the log of a partition starts and ends then; None where that is not known."""


def positions_past_end(
    cluster: Cluster, node: BrokerNode, after: PositionLimits, max_batch_bytes: int | None = None
) -> Iterator[LostPosition]:
    """Yield the positions in partitions of this node that end before them."""
    served = after.served

    def limits_of(position: GroupPosition) -> OffsetLimits | None:
        place = position.topic, position.partition
        row = cluster.row(*place)
        if row is None or list(row["replicas"]) != [node.node_id]:
            return None
        if place in after.emptied:
            return 0, 0
        return after.of(served[place]) if place in served else None

    own = [each for each in served.values() if each.topic in (CONSUMER_OFFSETS, SHARE_GROUP_STATE)]

    def end_of(paths: PartitionPath) -> int | None:
        limits = after.of(paths)
        return None if limits is None else limits[1]

    positions = read_positions(own, cluster.topics, ignore, max_batch_bytes=max_batch_bytes, end_of=end_of)
    for each in lost_positions(positions, limits_of):
        paths = served.get((each.position.topic, each.position.partition))
        end = 0 if paths is None else end_offset(paths) or 0
        yield replace(each, was_past_end=paths is not None and each.position.offset > end)
