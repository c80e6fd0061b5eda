"""A real cluster of three brokers and three controllers, what it said of itself, and its disks after it crashed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from confluent_kafka import Consumer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.kafka.broker import KafkaBroker
from tests.kafka.cluster import Cluster, wait_for
from tests.kafka.jars import NEWEST
from tests.kafka.live import some_records
from tests.kafka.producers import Consumed, Isolation, consume, produce_confluent

TOPICS = {"orders": [[1, 2, 3], [2, 3, 1]], "alone": [[3]], "payments": [[2, 1, 3]]}
GROUP, COMMITTED = "readers", {("orders", 0): 20, ("orders", 1): 3, ("payments", 0): 11}
USER, PASSWORD = "alice", "secret"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
PATIENT = {
    "broker.session.timeout.ms": "9000", "broker.heartbeat.interval.ms": "1000", "metadata.max.idle.interval.ms": "500",
}  # fmt: skip
"""Nobody is killed before the end: no broker is to be taken for dead where six processes share a busy machine."""

View = tuple[str, int, Isolation]
"""A partition as a consumer sees it."""


@dataclass
class Known:
    """What the running cluster said. ``disks``: of brokers 1 to 3; ``controllers``: of nodes 100 to 102."""

    disks: list[Path] = field(default_factory=list[Path])
    controllers: list[Path] = field(default_factory=list[Path])
    cluster_id: str = ""
    topic_ids: dict[str, str] = field(default_factory=dict[str, str])
    replicas: dict[tuple[str, int], list[int]] = field(default_factory=dict[tuple[str, int], list[int]])
    nodes: dict[int, int] = field(default_factory=dict[int, int])
    configs: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    acls: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    users: dict[str, list[tuple[str, int]]] = field(default_factory=dict[str, list[tuple[str, int]]])
    end_offsets: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    committed: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    records: dict[View, list[Consumed]] = field(default_factory=dict[View, list[Consumed]])


def described(
    directory: Path,
    *,
    is_dynamic: bool = True,
    version: str = NEWEST,
    settings: dict[str, str] | None = None,
    more: Callable[[Cluster], None] | None = None,
) -> Known:
    """Starts the cluster, fills it, also with ``more``, asks it, and has it crash."""
    found = Known()
    own = {**AUTHORIZER, **PATIENT, **(settings or {})}
    has_sasl = "sasl.enabled.mechanisms" in own
    with Cluster(
        directory / "cluster", own, controllers=3, is_dynamic=is_dynamic, has_sasl=has_sasl, version=version
    ) as cluster:
        for topic, replicas in TOPICS.items():
            cluster.create_topic(topic, replicas, retention_ms=-1, segment_bytes=1_048_576)
            cluster.wait_for_replicas(topic, len(replicas[0]))
        produce_confluent(cluster.alive, "orders", some_records(1, 400, 2, largest=20_000), "lz4", acks=-1)
        produce_confluent(cluster.alive, "alone", some_records(2, 20), acks=-1)
        for seed, outcome in enumerate(("commit", "abort", "commit", "open")):
            produce_confluent(cluster.alive, "payments", some_records(seed, 30), "zstd", outcome)  # type: ignore[arg-type]
        set_up(cluster)
        if more is not None:
            more(cluster)
        ask(cluster.alive, found)
        wait_for_the_metadata(cluster.alive)
        cluster.crash()
        found.disks = cluster.disks(directory / "disks")
        found.controllers = [
            each.copy_log_dir(directory / "disks" / f"controller-{number}")
            for number, each in cluster.controllers.items()
        ]
    return found


def wait_for_the_metadata(broker: KafkaBroker) -> None:
    """Until the metadata ends with a batch that says nothing: what half of it is lost of has all that was asked for."""

    def size() -> int:
        return sum(each.stat().st_size for each in broker.logs("__cluster_metadata"))

    before = size()
    wait_for(lambda: size() > before, broker.tail)


def set_up(cluster: Cluster) -> None:
    admin = cluster.admin()
    acl = AclBinding(
        ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, f"User:{USER}", "*", AclOperation.READ,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    upsertion = UserScramCredentialUpsertion(USER, credential, PASSWORD.encode(), b"salt-of-alice")
    for futures in (admin.create_acls([acl]), admin.alter_user_scram_credentials([upsertion])):
        for done in futures.values():
            done.result(30)
    config = {"bootstrap.servers": cluster.alive.bootstrap, "group.id": GROUP, "enable.auto.commit": False}
    consumer = Consumer(config)
    offsets = [TopicPartition(*place, offset) for place, offset in COMMITTED.items()]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def ask(broker: KafkaBroker, found: Known) -> None:
    """Asks a cluster, by one of its brokers, for all that it is to be the same in afterwards."""
    admin = broker.admin()
    described = admin.describe_cluster().result(30)
    found.cluster_id = described.cluster_id
    found.nodes = {each.id: each.port for each in described.nodes}
    names = list(admin.list_topics(timeout=30).topics)
    for topic, future in admin.describe_topics(TopicCollection(names)).items():
        of_topic = future.result(30)
        found.topic_ids[topic] = str(of_topic.topic_id).translate(str.maketrans("+/", "-_"))  # as Kafka has it
        for each in of_topic.partitions:
            found.replicas[topic, each.id] = [node.id for node in each.replicas]
        # A broker knows a new leader epoch of a topic before the partition does: whoever asks between them asks again.
        ends = broker.watermarks(topic, [each.id for each in of_topic.partitions])
        found.end_offsets.update({(topic, number): end for number, (_, end) in ends.items()})
    dynamic = 1  # ConfigSource.DYNAMIC_TOPIC_CONFIG
    for resource, configs in admin.describe_configs(
        [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in found.topic_ids]
    ).items():
        own = {name: each.value for name, each in configs.result(30).items() if each.source == dynamic}
        found.configs[resource.name] = own
    anything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    found.acls = {(each.name, each.principal) for each in admin.describe_acls(anything).result(30)}
    for user, each in admin.describe_user_scram_credentials().result(30).items():
        found.users[user] = [(str(one.mechanism), one.iterations) for one in each.scram_credential_infos]
    found.committed = broker.committed(GROUP, COMMITTED)
    for topic, number in found.replicas:
        for isolation in get_args(Isolation) if not topic.startswith("__") else ():
            found.records[topic, number, isolation] = consume(broker, topic, number, isolation)
