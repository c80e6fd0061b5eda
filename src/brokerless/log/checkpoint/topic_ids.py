"""Chooses and checks the topic IDs (KIP-516) of partitions that are written to a log directory.

All partitions of a topic in a log directory must have the same ID: a broker takes those with another one for stray
replicas, renames them, and starts them again empty (``LogManager``, ``isStray``, 4.1.1).
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from brokerless.errors import UnreadableError, UsageError
from brokerless.log import names
from brokerless.log.checkpoint.partition_metadata import load_partition_metadata
from brokerless.log.storage.destination import Destination

_ID = re.compile(r"(?!A{22})[A-Za-z0-9_-]{21}[AQgw]")
"""``org.apache.kafka.common.Uuid``, but for the one that is none (4.1.1)."""


def is_topic_id(text: str) -> bool:
    """Return whether this is how Kafka writes an ID."""
    return _ID.fullmatch(text) is not None


def topic_ids_there(directory: Path | Destination, topics: Collection[str]) -> dict[str, str]:
    """Return the IDs of those topics whose partitions in a log directory have one, in base64 as in
    ``partition.metadata``."""
    at, known = Destination.of(directory), dict[str, str]()
    for each in at.entries() if topics else ():
        found = names.parse_partition_directory(each.name)
        if found is not None and found.state == "live" and found.topic in topics and found.topic not in known:
            topic_id = _topic_id_in(at, each.name)
            if topic_id is not None:
                known[found.topic] = topic_id
    return known


def choose_topic_ids(directory: Destination, sources: Sequence[tuple[str, str | None, str]]) -> list[str]:
    """Return the IDs of partitions that are written to a log directory: their own, or that of their topic's partitions
    there, or else of others of these, or a random one. ``sources``: of each, topic, its own ID if any, and its path.

    Raises :class:`UsageError` for one that has another than those that are there.
    """
    topics = {topic for topic, _, _ in sources}
    there = topic_ids_there(directory, topics)
    for topic, own, path in sources:
        if own is not None and there.get(topic, own) != own:
            raise UsageError(
                f"{path} has the topic ID {own}, but the partitions of {topic} in {directory} have {there[topic]}, and "
                "a broker serves those of one ID only. Write to another directory; or, if it is to be that topic's, "
                f"read a copy without {names.PARTITION_METADATA}"
            )
    known = {topic: own for topic, own, _ in sources if own is not None} | there
    new = {topic: new_topic_id(topic) for topic in topics}
    return [own or known.get(topic) or new[topic] for topic, own, _ in sources]


def new_topic_id(topic: str) -> str:
    """Return a random one, but for KRaft's own log, which has the same everywhere."""
    return names.CLUSTER_METADATA_ID if topic == names.CLUSTER_METADATA else random_id()


def check_topic_ids(directory: Destination, unnamed: Iterable[tuple[str, str]]) -> None:
    """Raises :class:`UsageError` if new partitions have another ID than the existing ones of their topic.
    ``unnamed``: the topic of each, and its directory, which has no name yet; those of one topic have one ID."""
    new = dict(unnamed)
    for topic, there in topic_ids_there(directory, new).items():
        if _topic_id_in(directory, new[topic]) not in (None, there):
            raise UsageError(
                f"{directory}: meanwhile somebody else has written partitions of {topic}, with the ID {there}, and a "
                "broker serves partitions of one ID only; nothing was added, so run this again"
            )


def _topic_id_in(directory: Destination, name: str) -> str | None:
    with suppress(UnreadableError):
        return load_partition_metadata(directory.location / name / names.PARTITION_METADATA).topic_id
    return None


def random_id() -> str:
    """Return a new topic or directory ID (``Uuid.randomUuid``): base64 for URLs, never beginning with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
