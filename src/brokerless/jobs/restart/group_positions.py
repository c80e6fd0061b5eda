"""Finds positions of groups past the ends that partitions have after a start.

Only partitions without another replica are known: a replica elsewhere may have more, and lead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from brokerless.internals.groups.positions import GroupPosition, LostPosition, lost_positions, read_positions
from brokerless.internals.records import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from brokerless.jobs.restart.replicas import BrokerNode, ClusterState
from brokerless.log.directory import PartitionPath
from brokerless.log.segment import ignore
from brokerless.tables.partition_reader import PartitionReader

Place = tuple[str, int]
Limits = tuple[int, int]


def positions_past_end(
    state: ClusterState,
    node: BrokerNode,
    served: Mapping[Place, PartitionPath],
    emptied: Collection[Place],
    limits_after: Callable[[PartitionPath], Limits | None],
    max_batch_bytes: int | None = None,
) -> Iterator[LostPosition]:
    """Yield the positions in partitions of this node that end before them. ``served``: the partitions that are loaded
    and served; ``emptied``: those that begin empty. ``limits_after``: where the log of a partition starts and ends
    after the start; None where that is not known."""
    ids = {name: topic_id for topic_id, name in state.topics.items()}

    def limits_of(position: GroupPosition) -> Limits | None:
        place = position.topic, position.partition
        row = state.partitions.get((ids.get(position.topic, ""), position.partition))
        if row is None or list(row["replicas"]) != [node.node_id]:
            return None
        if place in emptied:
            return 0, 0
        return limits_after(served[place]) if place in served else None

    own = [each for each in served.values() if each.topic in (CONSUMER_OFFSETS, SHARE_GROUP_STATE)]

    def end_of(paths: PartitionPath) -> int | None:
        limits = limits_after(paths)
        return None if limits is None else limits[1]

    positions = read_positions(
        map(PartitionReader, own), state.topics, ignore, max_batch_bytes=max_batch_bytes, end_of=end_of
    )
    for each in lost_positions(positions, limits_of):
        paths = served.get((each.position.topic, each.position.partition))
        end = 0 if paths is None else PartitionReader(paths).end_offset or 0
        yield replace(each, was_past_end=paths is not None and each.position.offset > end)
