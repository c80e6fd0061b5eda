"""Lists a running cluster: its partitions with their offsets, and what it says of groups, settings, ACLs and users."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from brokerless.errors import ClusterError, UsageError
from brokerless.jobs.diff.copied_partition import CopiedPartition
from brokerless.jobs.restore.live.connection import (
    TIMEOUT_S,
    ClusterConnection,
    load_config,
    load_library,
    topic_id_text,
)
from brokerless.kafka_names import TopicPartition
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import RUNNING_CLUSTER, hide_credentials

CLIENT_ID = "brokerless-diff"
ClientConfig = str | Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class RunningPartition(CopiedPartition):
    """A partition of a running cluster. Its log start offset is ``begin``, and its high watermark is ``end``."""

    client: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def bootstrap(self) -> str:
        return self.url.removeprefix(RUNNING_CLUSTER).partition("/")[0]


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """What a running cluster says of itself besides its records. What it does not let this client know is None."""

    url: str
    groups: Mapping[str, Mapping[TopicPartition, int]] | None
    """The positions of each group."""
    settings: Mapping[str, str | None] | None
    """The value of each setting, by what it is called, as in ``broker 1: log.retention.ms``."""
    topics: Mapping[str, str]
    """What each topic has, as a text, by its name."""
    acls: Collection[str] | None
    """Each ACL as a text."""
    users: Collection[str] | None
    """Each user with a mechanism, as a text."""
    denied: Mapping[str, str]
    """The reason for each part that the cluster does not let this client know, by the part's name."""
    hidden: Collection[str] = ()
    """The topics and brokers (``broker 1``) whose settings this client may not describe."""


def is_live(path: object) -> bool:
    """Return whether a path names a running cluster."""
    return isinstance(path, str) and path.startswith(RUNNING_CLUSTER)


def connect(url: str, client: ClientConfig = None) -> ClusterConnection:
    """Return an open connection. Raises :class:`UsageError` for what is no address, :class:`ClusterError` if nobody
    answers there."""
    bootstrap = url.removeprefix(RUNNING_CLUSTER)
    if "@" in bootstrap:
        raise UsageError(f"{hide_credentials(url)}: a login is not a part of the address; give it by --command-config")
    if not bootstrap or "/" in bootstrap:
        raise UsageError(f"{url}: this is no address; give kafka://HOST:PORT, and topics with -t")
    _check_ports(url, bootstrap)
    config = load_config(client) if isinstance(client, str) else dict(client or {})
    connection = ClusterConnection(bootstrap, config, client_id=CLIENT_ID)
    try:
        connection.open()
    except ClusterError as error:
        if "security.protocol" in config or error.has_remedy:
            raise
        advice = "if its listener needs TLS or a login, give the client's settings by --command-config"
        raise ClusterError(f"{error}; {advice}") from error
    return connection


def _check_ports(url: str, bootstrap: str) -> None:
    """Raise :class:`UsageError` for a port that is none: librdkafka takes the rest of its division by 65,536."""
    for each in bootstrap.split(","):
        _, colon, port = each.rpartition("]")[2].rpartition(":")
        if colon and not (re.fullmatch(r"[0-9]{1,5}", port) and 0 < int(port) < 1 << 16):
            raise UsageError(f"{url}: {port!r} is no port; give kafka://HOST:PORT, such as kafka://broker:9092")


def list_partitions(connection: ClusterConnection) -> LogDirectory:
    """Return all partitions of a cluster with their offsets. Raises :class:`ClusterError`."""
    library = load_library()
    metadata = connection.ask(lambda left: connection.admin.list_topics(timeout=left))
    places = [(topic, number) for topic, each in sorted(metadata.topics.items()) for number in sorted(each.partitions)]
    begins, ends = (_offsets(connection, places, spec) for spec in ("earliest", "latest"))
    ids = topic_ids(connection, sorted(metadata.topics))
    policies = _described(connection, [(library.admin.ResourceType.TOPIC, each) for each in sorted(metadata.topics)])
    url = RUNNING_CLUSTER + connection.bootstrap
    found: list[PartitionPath] = []
    for topic, number in places:
        own = policies.get(("TOPIC", topic), {}).get("cleanup.policy")
        name = f"{url}/{topic}-{number}"
        found.append(
            RunningPartition(
                topic, number, Location(name), url=name, client=connection.config, topic_id=ids.get(topic),
                begin=begins[topic, number], end=ends[topic, number],
                cleanup_policy=None if own is None else own.value,
            )
        )  # fmt: skip
    return LogDirectory(Location(url), "log-directory", tuple(found))


def describe(connection: ClusterConnection, partitions: Collection[PartitionPath]) -> RunningCluster:
    """Return what a cluster says of itself, as far as it lets this client know. ``partitions``: of which topics."""
    denied: dict[str, str] = {}
    refusal = _refusal_of_a_part(connection)

    def known(part: str, read: Any) -> Any:
        try:
            if refusal is not None:
                raise refusal
            return read()
        except ClusterError as error:
            denied[part] = str(error)
            return None

    topics = {each.topic or "" for each in partitions}
    settings, hidden = _settings(connection, topics)
    return RunningCluster(
        RUNNING_CLUSTER + connection.bootstrap,
        groups=known("groups", lambda: _groups(connection)),
        settings=settings,
        topics=_topics(connection, topics),
        acls=known("acls", lambda: _acls(connection)),
        users=known("users", lambda: _users(connection)),
        denied=denied,
        hidden=hidden,
    )


def _refusal_of_a_part(connection: ClusterConnection) -> ClusterError | None:
    """Return why this client may not describe the cluster, if it may not: it then lists some groups only
    (``KafkaApis.handleListGroupsRequest``, 4.4.0), confluent-kafka 2.16 takes the refusal of ACLs for none, and that
    of users ends the process."""
    operations = load_library().admin.AclOperation

    def ask(left: float) -> Any:
        asked = connection.admin.describe_cluster(include_authorized_operations=True, request_timeout=left)
        return asked.result().authorized_operations

    try:
        described = connection.ask(ask) or ()
    except ClusterError as error:
        return error
    if operations.DESCRIBE in described:
        return None
    return ClusterError("the client's user may not describe the cluster (ACL)")


def _offsets(connection: ClusterConnection, places: list[TopicPartition], at: str) -> dict[TopicPartition, int]:
    library = load_library()
    spec = getattr(library.admin.OffsetSpec, at)()
    asked = {library.TopicPartition(*each): spec for each in places}
    if not asked:
        return {}

    def ask(left: float) -> dict[TopicPartition, int]:
        futures = connection.admin.list_offsets(asked, request_timeout=left)
        return {(each.topic, each.partition): int(future.result().offset) for each, future in futures.items()}

    return connection.ask(ask)


def topic_ids(connection: ClusterConnection, topics: list[str]) -> dict[str, str]:
    """Return the IDs of topics; none of those that this client may not describe, and none of Kafka before 2.8."""
    if not topics:
        return {}
    library = load_library()
    futures = connection.admin.describe_topics(library.TopicCollection(topics), request_timeout=TIMEOUT_S)
    found: dict[str, str] = {}
    for topic, future in futures.items():
        try:
            own = future.result().topic_id
        except library.KafkaException:
            continue
        if own is not None:
            found[topic] = topic_id_text(own)
    return found


def undescribed_topics(url: str, client: ClientConfig, topics: Collection[str]) -> set[str]:
    """Return those topics that this client may not describe, so that nobody knows whether they are there."""
    if not topics:
        return set()
    connection, library = connect(url, client), load_library()
    asked = library.TopicCollection(sorted(topics))
    found: set[str] = set()
    for topic, future in connection.admin.describe_topics(asked, request_timeout=TIMEOUT_S).items():
        try:
            future.result()
        except library.KafkaException as error:
            if error.args[0].code() == library.KafkaError.TOPIC_AUTHORIZATION_FAILED:
                found.add(topic)
    return found


def _described(
    connection: ClusterConnection, resources: list[tuple[Any, str]]
) -> dict[tuple[str, str], dict[str, Any]]:
    """The settings of resources, by their types and names; none of what this client may not describe."""
    library = load_library()
    asked = [library.admin.ConfigResource(*each) for each in resources]
    found: dict[tuple[str, str], dict[str, Any]] = {}
    futures = connection.admin.describe_configs(asked, request_timeout=TIMEOUT_S) if asked else {}
    for resource, future in futures.items():
        try:
            found[resource.restype.name, resource.name] = future.result()
        except library.KafkaException:
            continue
    return found


def _settings(connection: ClusterConnection, topics: Collection[str]) -> tuple[dict[str, str | None], frozenset[str]]:
    """Return what was set of topics and brokers while the cluster ran, without secrets, not what brokers' files say;
    and of which of them this client may not know."""
    library = load_library()
    kinds, sources = library.admin.ResourceType, library.admin.ConfigSource
    brokers = [(kinds.BROKER, str(each)) for each in connection.brokers]
    found: dict[str, str | None] = {}
    described = _described(connection, [*((kinds.TOPIC, each) for each in sorted(topics)), *brokers])
    hidden = {each for each in topics if ("TOPIC", each) not in described}
    of_brokers = {f"broker {each}" for _, each in brokers if ("BROKER", each) not in described}
    hidden |= {"broker default", *of_brokers} if of_brokers else set()
    for (kind, name), own in described.items():
        names = {
            sources.DYNAMIC_TOPIC_CONFIG.value: name,
            sources.DYNAMIC_BROKER_CONFIG.value: f"broker {name}",
            sources.DYNAMIC_DEFAULT_BROKER_CONFIG.value: "broker default",
        }
        for each in own.values():
            of = names.get(each.source)
            if of is not None and (kind == "BROKER") == of.startswith("broker "):
                found[f"{of}: {each.name}"] = each.value
    return found, frozenset(hidden)


def _topics(connection: ClusterConnection, topics: Collection[str]) -> dict[str, str]:
    metadata = connection.ask(lambda left: connection.admin.list_topics(timeout=left))
    found: dict[str, str] = {}
    for name in sorted(topics & metadata.topics.keys()):
        own = metadata.topics[name].partitions
        replicas = max((len(each.replicas) for each in own.values()), default=0)
        found[name] = f"of {len(own)} partitions with {replicas} replicas"
    return found


def _groups(connection: ClusterConnection) -> dict[str, dict[TopicPartition, int]]:
    library = load_library()

    def ask(left: float) -> list[str]:
        found = connection.admin.list_consumer_groups(request_timeout=left).result()
        if found.errors and not found.valid:
            raise found.errors[0]
        return sorted(each.group_id for each in found.valid)

    positions: dict[str, dict[TopicPartition, int]] = defaultdict(dict)
    for group in connection.ask(ask):
        asked = [library.ConsumerGroupTopicPartitions(group)]
        future = connection.admin.list_consumer_group_offsets(asked, request_timeout=TIMEOUT_S)[group]
        for each in connection.ask(lambda _, future=future: future.result()).topic_partitions:
            if each.offset >= 0:
                positions[group][each.topic, each.partition] = each.offset
    return dict(positions)


def _acls(connection: ClusterConnection) -> list[str]:
    library = load_library()
    admin = library.admin
    every = admin.AclBindingFilter(
        admin.ResourceType.ANY,
        None,
        admin.ResourcePatternType.ANY,
        principal=None,
        host=None,
        operation=admin.AclOperation.ANY,
        permission_type=admin.AclPermissionType.ANY,
    )
    found: list[str] = []
    for each in connection.ask(lambda left: connection.admin.describe_acls(every, request_timeout=left).result()):
        kind = "CLUSTER" if each.restype.name == "BROKER" else each.restype.name  # librdkafka's name of it
        pattern = each.resource_pattern_type.name
        what = f"{kind} {each.name}" + ("" if pattern == "LITERAL" else f" ({pattern})")
        found.append(
            f"{each.permission_type.name} {each.operation.name} on {what} to {each.principal} from {each.host}"
        )
    return sorted(found)


def _users(connection: ClusterConnection) -> list[str]:
    def ask(left: float) -> dict[str, Any]:
        return connection.admin.describe_user_scram_credentials(request_timeout=left).result()

    found = connection.ask(ask)
    return sorted(
        f"{name} ({each.mechanism.name.replace('_', '-')})"
        for name, own in found.items()
        for each in own.scram_credential_infos
    )
