"""Reads a topic's settings from the cluster's metadata in the same log directory."""

from __future__ import annotations

from functools import lru_cache

from brokerless.errors import BrokerlessError
from brokerless.internals.cluster import Cluster, read_cluster
from brokerless.log import names
from brokerless.log.storage.paths import StorageOptions, exists, join, parent_directory
from brokerless.tables.partition_reader import open_partitions

_TOPIC, _BROKER = 2, 4
"""``ConfigResource.Type``."""


def read_topic_setting(
    partition_directory: str, topic: str, name: str, storage_options: StorageOptions | None = None
) -> str | None:
    """A topic's own setting, or the dynamic default of brokers for it (``log.`` and the name); None where the log
    directory of the partition has no ``__cluster_metadata``, or that does not say."""
    above = parent_directory(partition_directory)
    if above is None:
        return None
    path = join(above, names.partition_directory(names.CLUSTER_METADATA, 0))
    try:
        if not exists(path, storage_options):
            return None
        (partition,) = open_partitions(path, storage_options=storage_options)
        files = tuple((each.log.path, each.log.size, each.log.modified) for each in partition.segment_paths)
        cluster = _clusters(path, files) if storage_options is None else read_cluster(partition, lambda _: None)
    except (BrokerlessError, ValueError):
        return None
    if topic not in cluster.topics.values():
        return None
    default = cluster.configs.get((_BROKER, ""), {}).get(f"log.{name}")
    return cluster.configs.get((_TOPIC, topic), {}).get(name, default)


@lru_cache(maxsize=4)
def _clusters(path: str, files: tuple[object, ...]) -> Cluster:
    (partition,) = open_partitions(path)
    return read_cluster(partition, lambda _: None)
