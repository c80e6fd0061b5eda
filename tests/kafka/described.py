"""A real cluster of three brokers and a controller, what it said of itself, and its disks after it was killed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicCollection, TopicPartition
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

from tests.kafka.cluster import Cluster

TOPICS = {"orders": [[1, 2, 3], [2, 3, 1]], "alone": [[3]]}
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@dataclass
class Known:
    """What the running cluster said."""

    disks: list[Path] = field(default_factory=list[Path])
    cluster_id: str = ""
    topic_ids: dict[str, str] = field(default_factory=dict[str, str])
    replicas: dict[tuple[str, int], list[int]] = field(default_factory=dict[tuple[str, int], list[int]])
    nodes: dict[int, int] = field(default_factory=dict[int, int])
    configs: dict[str, str] = field(default_factory=dict[str, str])
    acls: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    end_offsets: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])


def described(directory: Path) -> Known:
    """Starts the cluster, fills it, asks it, and kills it. ``disks``: of brokers 1 to 3, and of the controller."""
    found = Known()
    with Cluster(directory / "cluster", AUTHORIZER) as cluster:
        for topic, replicas in TOPICS.items():
            cluster.create_topic(topic, replicas, retention_ms=-1, segment_bytes=1_048_576)
            cluster.wait_for_replicas(topic, len(replicas[0]))
        bootstrap = ",".join(each.bootstrap for each in cluster.brokers.values())
        producer = Producer({"bootstrap.servers": bootstrap})
        for topic, replicas in TOPICS.items():
            for number in range(5 * len(replicas)):
                producer.produce(topic, b"v", b"k", partition=number // 5)
        assert not producer.flush(30)
        set_up(cluster, bootstrap)
        ask(cluster, found)
        cluster.kill_all()
        found.disks = cluster.disks(directory / "disks")
        found.disks.append(cluster.controller.copy_log_dir(directory / "disks" / "controller"))
    return found


def set_up(cluster: Cluster, bootstrap: str) -> None:
    admin = cluster.admin()
    acl = AclBinding(
        ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, "User:alice", "*", AclOperation.READ,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    upsertion = UserScramCredentialUpsertion("alice", credential, b"secret", b"salt-of-alice")
    for futures in (admin.create_acls([acl]), admin.alter_user_scram_credentials([upsertion])):
        for done in futures.values():
            done.result(30)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("orders", 1, 3)], asynchronous=False)
    consumer.close()


def ask(cluster: Cluster, found: Known) -> None:
    admin = cluster.admin()
    described = admin.describe_cluster().result(30)
    found.cluster_id = described.cluster_id
    found.nodes = {each.id: each.port for each in described.nodes}
    names = TopicCollection([*TOPICS, "__consumer_offsets"])
    for topic, future in admin.describe_topics(names).items():
        of_topic = future.result(30)
        found.topic_ids[topic] = str(of_topic.topic_id).translate(str.maketrans("+/", "-_"))  # as Kafka has it
        for each in of_topic.partitions:
            found.replicas[topic, each.id] = [node.id for node in each.replicas]
            ends = admin.list_offsets({TopicPartition(topic, each.id): latest()})
            found.end_offsets[topic, each.id] = next(iter(ends.values())).result(30).offset
    (configs,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, "orders")]).values()
    dynamic = 1  # ConfigSource.DYNAMIC_TOPIC_CONFIG
    found.configs = {name: each.value for name, each in configs.result(30).items() if each.source == dynamic}
    anything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    found.acls = {(each.name, each.principal) for each in admin.describe_acls(anything).result(30)}


def latest() -> Any:
    from confluent_kafka.admin import OffsetSpec

    return OffsetSpec.latest()
