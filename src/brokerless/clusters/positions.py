"""Finds positions of groups past the ends that partitions have after a start.

Only partitions without another replica are known: a replica elsewhere may have more, and lead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from brokerless.clusters.placement import BrokerNode
from brokerless.internals.groups.positions import GroupPosition, LostPosition, lost_positions, read_positions
from brokerless.internals.metadata.cluster import Cluster
from brokerless.kafka_names import TopicPartition
from brokerless.log.directory import PartitionPath
from brokerless.log.seek import end_offset
from brokerless.progress import ignore


def positions_past_end(
    cluster: Cluster,
    node: BrokerNode,
    served: Mapping[TopicPartition, PartitionPath],
    emptied: Collection[TopicPartition],
    limits: Callable[[PartitionPath], tuple[int, int] | None],
    end_of: Callable[[PartitionPath], int | None],
    max_batch_bytes: int | None = None,
) -> Iterator[LostPosition]:
    """Yield the positions in partitions of this node that end before them. ``served``: the partitions that a start
    loads and serves; ``emptied``: those that begin empty; ``limits``: where a log starts and ends then, and ``end_of``
    where it ends; None where that is not known."""

    def limits_of(position: GroupPosition) -> tuple[int, int] | None:
        place = position.topic, position.partition
        row = cluster.row(*place)
        if row is None or list(row["replicas"]) != [node.node_id]:
            return None
        if place in emptied:
            return 0, 0
        return limits(served[place]) if place in served else None

    positions = read_positions(served.values(), cluster.topics, ignore, max_batch_bytes=max_batch_bytes, end_of=end_of)
    for each in lost_positions(positions, limits_of):
        paths = served.get((each.position.topic, each.position.partition))
        end = 0 if paths is None else end_offset(paths) or 0
        yield replace(each, was_past_end=paths is not None and each.position.offset > end)
