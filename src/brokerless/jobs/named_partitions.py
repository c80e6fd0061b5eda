"""Partitions by name (``orders-0``), and the IDs of their topics: refuses duplicates."""

from __future__ import annotations

from collections.abc import Iterable

from brokerless.errors import UsageError
from brokerless.log import names
from brokerless.log.checkpoint.partition_metadata import topic_id_of
from brokerless.log.directory import PartitionPath


def by_name(partitions: Iterable[PartitionPath], advice: str) -> dict[str, PartitionPath]:
    """Return the partitions by the names of their directories, in this order. ``advice``: what to do where one comes
    twice.

    Raises :class:`UsageError` for a partition that comes twice, or whose path does not say which one it is.
    """
    found: dict[str, PartitionPath] = {}
    for each in partitions:
        if each.topic is None or each.partition is None:
            text = "the name does not say which partition this is; give its directory, as orders-0"
            raise UsageError(f"{each.path}: {text}")
        name = names.partition_directory(each.topic, each.partition)
        if name in found:
            raise UsageError(f"{name} is both in {found[name].path} and in {each.path}; {advice}")
        found[name] = each
    return found


def topic_id_of_partition(partition: PartitionPath) -> str | None:
    """Return the ID of a partition's topic: as its ``partition.metadata`` has it, or where a power cut left none, the
    cluster's metadata in the same log directory; a broker takes a partition with any other ID for a stray one."""
    own = topic_id_of(partition.partition_metadata)
    if own is not None or partition.topic is None or partition.state != "live":
        return own
    from brokerless.internals.topic_settings import topic_id_in_metadata  # it imports kernels

    return topic_id_in_metadata(partition.location, partition.topic)


def topic_ids_of(partitions: Iterable[PartitionPath], advice: str) -> dict[str, tuple[str, str]]:
    """Return the topic ID (KIP-516) of each topic that has one, with the path of a partition that records it.

    Raises :class:`UsageError` where partitions of one name have several: the topic was deleted and made again, and
    offsets of the one have nothing to do with those of the other. ``advice``: what to do then."""
    known: dict[str, tuple[str, str]] = {}
    for each in partitions:
        topic_id = topic_id_of_partition(each)
        if topic_id is not None:
            first, path = known.setdefault(each.topic or "", (topic_id, each.path))
            if first != topic_id:
                what = f"they are of two topics; {advice}"
                raise UsageError(f"{path} has the topic ID {first}, but {each.path} has {topic_id}: {what}")
    return known
