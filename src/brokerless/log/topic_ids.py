"""The ID by which a cluster knows a topic. All partitions of a topic in a log directory have to have the same: a broker
takes those with another for strays, renames them, and begins them anew, empty (``LogManager``, ``isStray``, 4.1.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from brokerless.errors import UnreadableError, UsageError
from brokerless.log import names
from brokerless.log.checkpoint_writers import random_id
from brokerless.log.checkpoints import load_partition_metadata
from brokerless.log.destination import Destination
from brokerless.log.directory import PartitionPath
from brokerless.log.storage import StorageOptions


def topic_id_of(source: PartitionPath, storage_options: StorageOptions | None) -> str | None:
    """By the partition's own note, if it has one that can be read."""
    if source.partition_metadata is None:
        return None
    return load_partition_metadata(source.partition_metadata.path, storage_options).topic_id


def topic_id_there(directory: Path | Destination, topic: str) -> str | None:
    """The ID that a topic's partitions have in a log directory, in base64 as in ``partition.metadata``; None without
    any."""
    at = Destination.of(directory)
    for each in at.entries():
        found = names.parse_partition_directory(each.name)
        if found is not None and found.topic == topic and found.state == "live":
            known = _noted(at, each.name)
            if known is not None:
                return known
    return None


def choose_topic_ids(directory: Destination, sources: Iterable[tuple[str, str | None, str]]) -> dict[str, str]:
    """The ID that each topic gets that is written to a log directory: that of its partitions that are there, or its
    own, or else a random one. ``sources``: what is written: topic, its own ID if it has one, and the path of that.

    Raises :class:`UsageError` where two differ.
    """
    known: dict[str, tuple[str, str]] = {}
    topics: set[str] = set()
    for topic, own, path in sources:
        if topic not in topics and (there := topic_id_there(directory, topic)) is not None:
            known[topic] = there, f"the partitions of {topic} in {directory}"
        topics.add(topic)
        if own is None:
            continue
        first, where = known.setdefault(topic, (own, path))
        if own != first:
            raise UsageError(
                f"{path} has the topic ID {own}, but {where} {first}: a broker serves partitions of one ID only. Write "
                f"to another directory; or, if it is to be that topic's, read a copy without {names.PARTITION_METADATA}"
            )
    return {topic: known[topic][0] if topic in known else random_id() for topic in topics}


def check_topic_ids(directory: Destination, unnamed: Iterable[tuple[str, str]]) -> None:
    """Raises :class:`UsageError` if new partitions have another ID than those of their topic that are there by now.
    ``unnamed``: the topic of each, and its directory, which has no name yet; those of one topic have one ID."""
    for topic, name in dict(unnamed).items():
        there, own = topic_id_there(directory, topic), _noted(directory, name)
        if None not in (there, own) and there != own:
            raise UsageError(
                f"{directory}: meanwhile somebody else has written partitions of {topic}, with the ID {there}, and a "
                "broker serves partitions of one ID only; nothing was added, so run this again"
            )


def _noted(directory: Destination, name: str) -> str | None:
    path = directory.join(name, names.PARTITION_METADATA)
    with suppress(UnreadableError):
        return load_partition_metadata(path, directory.storage_options).topic_id
    return None
