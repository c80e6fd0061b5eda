"""Reads the cluster's metadata in the same log directory, and a topic's settings and ID from it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache

from brokerless.errors import BrokerlessError
from brokerless.internals.metadata.cluster import Cluster, read_cluster
from brokerless.log import names
from brokerless.log.checkpoint.meta_properties import load_meta_properties
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from brokerless.progress import ignore


def read_topic_settings(directory: Location, topic: str, others: Sequence[str] = ()) -> dict[str, str] | None:
    """Return the settings that hold for a topic on the broker with this directory of a partition (by the ``node.id`` in
    ``meta.properties``), as :meth:`Cluster.settings_by_topic` has them. None where neither the log directory of the
    partition nor ``others``, the broker's other ones, have a ``__cluster_metadata`` with the topic."""
    cluster = _cluster_with(topic, directory, others)
    above = directory.parent
    return None if cluster is None or above is None else cluster.settings_on(_node_id(above), topic)


def read_topic_setting(directory: Location, topic: str, name: str) -> str | None:
    """Return one of a topic's settings, as :func:`read_topic_settings`; None where it is not set either."""
    return (read_topic_settings(directory, topic) or {}).get(name)


def topic_id_in_metadata(directory: Location, topic: str) -> str | None:
    """Return the topic ID (KIP-516) that the metadata in the log directory of a partition has for a topic; None where
    there is no metadata, or it has no such topic."""
    cluster = _cluster_with(topic, directory, ())
    return None if cluster is None else cluster.id_of(topic)


def cluster_beside(partition: Location) -> Cluster | None:
    """Return the cluster's metadata in the log directory of a partition, as far as it can be read; None where there is
    none."""
    above = partition.parent
    return None if above is None else cluster_in(above)


def _cluster_with(topic: str, directory: Location, others: Sequence[str]) -> Cluster | None:
    above = directory.parent
    for each in dict.fromkeys((*(() if above is None else (above,)), *map(directory.at, others))):
        cluster = cluster_in(each)
        if cluster is not None and cluster.id_of(topic) is not None:
            return cluster
    return None


def cluster_in(directory: Location) -> Cluster | None:
    """Return the cluster's metadata in a log directory, as far as it can be read; None where there is none. It is not
    to be changed."""
    metadata = directory / names.partition_directory(names.CLUSTER_METADATA, 0)
    with suppress(BrokerlessError, ValueError):
        if metadata.exists():
            (partition,) = resolve(metadata).partitions
            logs = [each.log for each in partition.segments]
            files = tuple((each.path, each.size, each.modified, each.identity) for each in logs)
            is_known = directory.options is None or all(each.modified is not None for each in logs)
            return _clusters(metadata, files) if is_known else read_cluster(partition, ignore)
    return None


def _node_id(directory: Location) -> int | None:
    with suppress(BrokerlessError):
        return load_meta_properties(directory / names.META_PROPERTIES).node_id
    return None


@lru_cache(maxsize=4)
def _clusters(metadata: Location, files: tuple[object, ...]) -> Cluster:
    (partition,) = resolve(metadata).partitions
    return read_cluster(partition, ignore)
