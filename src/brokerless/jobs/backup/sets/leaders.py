"""Which node's replica of a partition is backed up, where each host stores what its node leads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from brokerless.internals.metadata.cluster import Cluster
from brokerless.log.backups.snapshot import TopicLeaders
from brokerless.values import Row


def leader_of(row: Row) -> int:
    """Return the node that leads a partition by the metadata; while none does, the first one in sync, or that could be
    elected, or else has a replica."""
    known = (row.get("isr"), row.get("eligibleLeaderReplicas"), row.get("replicas"))
    return row["leader"] if row["leader"] >= 0 else next((each[0] for each in known if each), -1)


def rows_led_by(cluster: Cluster | None, nodes: Collection[int] | None) -> dict[tuple[str, int], Row]:
    """Return the partitions that some nodes lead, by the topic's ID and the number; ``nodes``: None for all."""
    rows = {} if cluster is None else cluster.rows_by_id()
    return {place: row for place, row in rows.items() if nodes is None or leader_of(row) in nodes}


def topic_leaders(cluster: Cluster) -> tuple[TopicLeaders, ...]:
    """Return what the part of a set says of the cluster, by which others know whether the set has all of it."""
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for (topic_id, number), row in sorted(cluster.rows_by_id().items()):
        found[topic_id].append((number, leader_of(row)))
    named = ((cluster.topics.get(topic_id, ""), topic_id, own) for topic_id, own in found.items())
    return tuple(TopicLeaders(topic, topic_id, tuple(own)) for topic, topic_id, own in named if topic)
