"""Partitions by name (``orders-0``), and where each is written: refuses duplicates, and KRaft's own log."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence

from brokerless.errors import UsageError
from brokerless.internals.topic_settings import topic_id_in_metadata
from brokerless.log import names
from brokerless.log.checkpoint.topic_ids import topic_id_of
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.storage.paths import directory_name


def by_name(partitions: Iterable[PartitionPath], advice: str) -> dict[str, PartitionPath]:
    """The partitions by the names of their directories, in this order. ``advice``: what to do where one comes twice.

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
    return topic_id_in_metadata(partition.location, partition.topic)


def topic_ids_of(partitions: Iterable[PartitionPath], advice: str) -> dict[str, tuple[str, str]]:
    """Return the topic ID (KIP-516) of each topic, with the path of a partition that has it; of those that have one.

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


def rewritten_topics(partitions: Iterable[PartitionPath], sources: Collection[str], named: Collection[str]) -> set[str]:
    """Which of Kafka's own topics get other batches, instead of being copied unchanged: those that are ``named``, and
    those whose directories are ``sources``, the paths that were given.

    Raises :class:`UsageError` if KRaft's own log is among them, as no broker starts then.
    """
    found = {*named, *(each.topic or "" for each in partitions if each.path in sources)}
    if names.CLUSTER_METADATA in found:
        raise UsageError(
            f"{names.CLUSTER_METADATA} is KRaft's own log, and no broker starts on other batches in it; leave it out, "
            "or give its whole log directory, of which it is copied unchanged"
        )
    return found


def target_directories(sources: Sequence[LogDirectory], to: str | os.PathLike[str]) -> list[str]:
    """Where what becomes of each source is written: into ``to`` itself; of several log directories, each into a
    directory in it that has the name of its source. Raises :class:`UsageError` where two of them have the same."""
    path = os.fspath(to)
    if sum(each.kind == "log-directory" for each in sources) < 2:
        return [path for _ in sources]
    own = [directory_name(each.path) for each in sources]
    for at, name in enumerate(own):
        if name in own[:at] or name in ("", ".", ".."):
            text = f"two of the paths end with {name!r}" if name not in ("", ".", "..") else f"{name!r} is no name"
            raise UsageError(f"each log directory gets one of its own name in {path}, but {text}; give them one by one")
    return [f"{path.rstrip('/')}/{name}" for name in own]
