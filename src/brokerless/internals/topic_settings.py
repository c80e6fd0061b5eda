"""Reads the cluster's metadata in the same log directory, and a topic's settings and ID from it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache

from brokerless.errors import BrokerlessError
from brokerless.internals.metadata.cluster import Cluster, ResourceType, read_cluster
from brokerless.log import names
from brokerless.log.checkpoint.meta_properties import load_meta_properties
from brokerless.log.directory import resolve
from brokerless.log.settings.definitions import synonyms_of
from brokerless.log.storage.location import Location
from brokerless.progress import ignore


def read_topic_setting(directory: Location, topic: str, name: str, others: Sequence[str] = ()) -> str | None:
    """Return a topic's own setting, or else the default of this broker (by the ``node.id`` in ``meta.properties``), or
    of all brokers, as far as it was set in the running cluster: what is in a ``server.properties`` is not known. None
    where neither the log directory of the partition nor ``others``, the broker's other ones, have a
    ``__cluster_metadata`` with the topic, or that does not say."""
    cluster = _cluster_with(topic, directory, others)
    above = directory.parent
    if cluster is None or above is None:
        return None
    own = cluster.settings_of(topic).get(name)
    for broker in (_node_id(above), "") if own is None else ():
        for synonym in synonyms_of("topic", name)[:1]:  # the others cannot be set while a broker runs
            own = cluster.configs.get((ResourceType.BROKER, broker), {}).get(synonym) if own is None else own
    return own


def is_in_metadata(directory: Location, topic: str, others: Sequence[str] = ()) -> bool:
    """Return whether the cluster's metadata, where :func:`read_topic_setting` looks, has a topic of this name."""
    return _cluster_with(topic, directory, others) is not None


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


def _node_id(directory: Location) -> str:
    with suppress(BrokerlessError):
        return str(load_meta_properties(directory / names.META_PROPERTIES).node_id)
    return ""


@lru_cache(maxsize=4)
def _clusters(metadata: Location, files: tuple[object, ...]) -> Cluster:
    (partition,) = resolve(metadata).partitions
    return read_cluster(partition, ignore)
