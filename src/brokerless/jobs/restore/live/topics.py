"""Describes and creates topics on a running cluster."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokerless.errors import ClusterError
from brokerless.findings import Finding, Kind
from brokerless.jobs.restore.live.connection import TIMEOUT_S, ClusterConnection, describe, load_library, topic_id_text
from brokerless.log.settings.topic import TopicSettings

REPLICATION = "default.replication.factor"
_OF_BROKER = {
    "cleanup.policy": "log.cleanup.policy",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.type": "log.message.timestamp.type",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.difference.max.ms": "log.message.timestamp.difference.max.ms",
    "segment.bytes": "log.segment.bytes",
    "compression.type": "compression.type",
    "min.insync.replicas": "min.insync.replicas",
    REPLICATION: REPLICATION,
    "retention.bytes": "log.retention.bytes",
}
"""What a topic's settings are by default, among a broker's (``ServerTopicConfigSynonyms``, 4.4.0)."""
_RETENTION = (("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000))
"""The first that is set counts, times so many ms (``LogConfig``, 4.4.0)."""
_NOT_OF_TOPIC = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
"""Settings that name brokers of the source."""


@dataclass(frozen=True, slots=True)
class TargetTopic:
    """A topic of the cluster."""

    topic: str
    topic_id: str
    partition_count: int
    """How many partitions it has."""
    replicas: int
    """How many replicas are in sync, of the partition that has the fewest."""
    settings: TopicSettings
    """All its settings, defaults among them."""


def describe_topics(connection: ClusterConnection, topics: Sequence[str]) -> dict[str, TargetTopic]:
    """Those of some topics that are there. Raises :class:`ClusterError`."""
    library = load_library()
    admin, found = connection.admin, dict[str, tuple[str, int, int]]()
    missing = library.KafkaError.UNKNOWN_TOPIC_OR_PART

    def ask(left: float) -> dict[str, tuple[str, int, int]]:
        answers = admin.describe_topics(library.TopicCollection(list(topics)), request_timeout=left)
        for name, future in answers.items():
            try:
                described = future.result(left + 1)
                replicas = min((len(each.isr) for each in described.partitions), default=0)
                found[name] = topic_id_text(described.topic_id), len(described.partitions), replicas
            except library.KafkaException as error:
                if error.args[0].code() != missing:
                    raise
        return found

    connection.ask(ask)
    resources = [library.admin.ConfigResource(library.admin.ConfigResource.Type.TOPIC, name) for name in found]
    settings = _describe_configs(connection, resources)
    return {name: TargetTopic(name, *found[name], settings.get(name, {})) for name in found}


def default_settings(connection: ClusterConnection) -> TopicSettings:
    """Return what counts for a topic that sets nothing itself, by one of the brokers."""
    library = load_library()
    broker = str(connection.brokers[0])
    resource = library.admin.ConfigResource(library.admin.ConfigResource.Type.BROKER, broker)
    of_broker = _describe_configs(connection, [resource]).get(broker, {})
    found = {name: of_broker[synonym] for name, synonym in _OF_BROKER.items() if synonym in of_broker}
    for name, factor in _RETENTION:
        if name in of_broker:
            value = int(of_broker[name])
            found["retention.ms"] = str(value if value < 0 else value * factor)
            break
    return found


def check_new_topics(
    connection: ClusterConnection, topics: Mapping[str, tuple[int, TopicSettings]]
) -> Iterator[Finding]:
    """Yield why the cluster would not create topics, as it says itself; none is created."""
    for name, reason in _create(connection, topics, validate_only=True):
        text = f"{name} cannot be created: {reason}; create it with kafka-topics, with settings that this cluster takes"
        yield Kind.TARGET_TOPIC_REFUSED.at(connection.bootstrap, f"{text}, and run this again")


def create_topics(connection: ClusterConnection, topics: Mapping[str, tuple[int, TopicSettings]]) -> None:
    """Creates topics, by name with their number of partitions and own settings, and waits until all have leaders. The
    number of replicas is the cluster's default. Raises :class:`ClusterError`; those before it are there then."""
    for name, reason in _create(connection, topics, validate_only=False):
        text = f"{name} was not created: {reason}; create it with kafka-topics, with settings that "
        raise ClusterError(f"{connection.bootstrap}: {text}this cluster takes, and run this again")
    wait_for_leaders(connection, topics)


def _create(
    connection: ClusterConnection, topics: Mapping[str, tuple[int, TopicSettings]], *, validate_only: bool
) -> Iterator[tuple[str, str]]:
    """Yield the topics that were not created, and why."""
    library = load_library()
    new = [
        library.admin.NewTopic(name, num_partitions=count, replication_factor=-1, config=own_settings(settings))
        for name, (count, settings) in topics.items()
    ]
    if not new:
        return
    existing = library.KafkaError.TOPIC_ALREADY_EXISTS
    how: dict[str, Any] = {"operation_timeout": TIMEOUT_S, "validate_only": validate_only}
    for name, future in connection.admin.create_topics(new, **how).items():
        try:
            future.result(2 * TIMEOUT_S)
        except library.KafkaException as error:
            if error.args[0].code() != existing:  # our own request, tried twice
                yield name, describe(error)


def own_settings(settings: TopicSettings) -> dict[str, str]:
    """Return a topic's own settings without those that are about the source's brokers."""
    return {name: value for name, value in settings.items() if name not in _NOT_OF_TOPIC}


def wait_for_leaders(connection: ClusterConnection, topics: Iterable[str]) -> None:
    """Raises :class:`ClusterError` for the first partition that has none in time."""
    give_up = time.monotonic() + TIMEOUT_S
    waiting = list(topics)
    while waiting:
        known = connection.ask(lambda left: connection.admin.list_topics(timeout=left)).topics
        waiting = [name for name in waiting if name not in known or not _is_led(known[name])]
        if waiting and time.monotonic() > give_up:
            text = "it has partitions without a leader; see kafka-topics --describe --unavailable-partitions"
            raise ClusterError(f"{connection.bootstrap}: {waiting[0]}: {text}")
        if waiting:
            time.sleep(0.1)


def _is_led(topic: Any) -> bool:
    return (
        topic.error is None and bool(topic.partitions) and all(each.leader >= 0 for each in topic.partitions.values())
    )


def _describe_configs(connection: ClusterConnection, resources: Sequence[Any]) -> dict[str, dict[str, str]]:
    def ask(left: float) -> dict[str, dict[str, str]]:
        answers = connection.admin.describe_configs(list(resources), request_timeout=left)
        return {
            resource.name: {
                name: entry.value for name, entry in future.result(left + 1).items() if entry.value is not None
            }
            for resource, future in answers.items()
        }

    return connection.ask(ask) if resources else {}
