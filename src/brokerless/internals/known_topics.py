"""The topics and partitions in the cluster's metadata of a log directory; a broker serves only these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from brokerless.errors import UnreadableError
from brokerless.internals.metadata.cluster import read_cluster
from brokerless.log import names
from brokerless.log.storage.location import Location
from brokerless.tables.partition_reader import open_partitions


@dataclass(frozen=True, slots=True)
class KnownTopics:
    """IDs of topics by name, and their partitions by ID."""

    ids: Mapping[str, str] = field(default_factory=dict[str, str])
    partitions: Mapping[str, frozenset[int]] = field(default_factory=dict[str, "frozenset[int]"])

    def have(self, topic: str, partition: int) -> bool:
        return partition in self.partitions.get(self.ids.get(topic, ""), ())


def known_topics(directory: Location) -> KnownTopics | None:
    """Return what the metadata in a log directory knows; None if it is not there or cannot be read."""
    metadata = directory / names.partition_directory(names.CLUSTER_METADATA, 0)
    if not metadata.is_directory():
        return None
    try:
        (partition,) = open_partitions(metadata)
        cluster = read_cluster(partition, lambda _: None)
    except UnreadableError:
        return None
    ids = {name: topic_id for topic_id, name in cluster.topics.items()}
    return KnownTopics(ids, {topic_id: frozenset(rows) for topic_id, rows in cluster.partitions.items()})
