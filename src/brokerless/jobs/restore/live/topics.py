"""Describes and creates topics on a running cluster."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokerless.errors import ClusterError
from brokerless.jobs.restore.live.connection import TIMEOUT_S, Connection, describe, load_library
from brokerless.jobs.restore.results import Settings

_OF_BROKER = {
    "cleanup.policy": "log.cleanup.policy",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.type": "log.message.timestamp.type",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "retention.bytes": "log.retention.bytes",
}
"""What a topic's settings are by default, among a broker's (``ServerTopicConfigSynonyms``, 4.4.0)."""
_RETENTION = (("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000))
"""The first that is set counts, times so many ms (``LogConfig``, 4.4.0)."""
_NOT_OF_TOPIC = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
"""Settings that name brokers of the source."""


@dataclass(frozen=True, slots=True)
class TargetTopic:
    """A topic of the cluster: its ID, how many partitions it has, and all its settings, defaults among them."""

    topic: str
    topic_id: str
    partition_count: int
    settings: Settings


def describe_topics(connection: Connection, topics: Sequence[str]) -> dict[str, TargetTopic]:
    """Those of some topics that are there. Raises :class:`ClusterError`."""
    library = load_library()
    admin, found = connection.admin, dict[str, tuple[str, int]]()
    missing = library.KafkaError.UNKNOWN_TOPIC_OR_PART

    def ask(left: float) -> dict[str, tuple[str, int]]:
        answers = admin.describe_topics(library.TopicCollection(list(topics)), request_timeout=left)
        for name, future in answers.items():
            try:
                described = future.result(left + 1)
                found[name] = str(described.topic_id), len(described.partitions)
            except library.KafkaException as error:
                if error.args[0].code() != missing:
                    raise
        return found

    connection.ask(ask)
    resources = [library.admin.ConfigResource(library.admin.ConfigResource.Type.TOPIC, name) for name in found]
    settings = _describe_configs(connection, resources)
    return {name: TargetTopic(name, *found[name], settings.get(name, {})) for name in found}


def default_settings(connection: Connection) -> Settings:
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


def create_topics(connection: Connection, topics: Mapping[str, tuple[int, Settings]]) -> None:
    """Creates topics, by name with their number of partitions and own settings, and waits until all have leaders. The
    number of replicas is the cluster's default. Raises :class:`ClusterError`; those before it are there then."""
    library = load_library()
    new = [
        library.admin.NewTopic(name, num_partitions=count, replication_factor=-1, config=own_settings(settings))
        for name, (count, settings) in topics.items()
    ]
    if not new:
        return
    existing = library.KafkaError.TOPIC_ALREADY_EXISTS
    for name, future in connection.admin.create_topics(new, operation_timeout=TIMEOUT_S).items():
        try:
            future.result(2 * TIMEOUT_S)
        except library.KafkaException as error:
            if error.args[0].code() != existing:  # our own request, tried twice
                text = f"{name} was not created: {describe(error)}; create it with kafka-topics, with settings that "
                text += "this cluster takes, and run this again"
                raise ClusterError(f"{connection.bootstrap}: {text}") from error
    wait_for_leaders(connection, topics)


def own_settings(settings: Settings) -> dict[str, str]:
    """A topic's own settings without those that are about the source's brokers."""
    return {name: value for name, value in settings.items() if name not in _NOT_OF_TOPIC}


def wait_for_leaders(connection: Connection, topics: Iterable[str]) -> None:
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


def _describe_configs(connection: Connection, resources: Sequence[Any]) -> dict[str, dict[str, str]]:
    def ask(left: float) -> dict[str, dict[str, str]]:
        answers = connection.admin.describe_configs(list(resources), request_timeout=left)
        return {
            resource.name: {
                name: entry.value for name, entry in future.result(left + 1).items() if entry.value is not None
            }
            for resource, future in answers.items()
        }

    return connection.ask(ask) if resources else {}
