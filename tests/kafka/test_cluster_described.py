"""What ``cluster`` makes of the disks of killed brokers is what the running cluster said of itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
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

import brokerless
from brokerless.jobs.cluster.job import ClusterDescription
from tests.kafka.cluster import CONTROLLER, Cluster

pytestmark = pytest.mark.xdist_group("cluster-described")
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


@pytest.fixture(scope="module")
def known(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Known]:
    directory = tmp_path_factory.mktemp("described")
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
        yield found


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


def description(disks: list[Path]) -> ClusterDescription:
    return brokerless.cluster(disks)


def test_the_identity_the_nodes_and_the_voters_are_those_of_the_cluster(known: Known) -> None:
    found = description(known.disks)
    assert found.cluster_id == known.cluster_id
    (cluster,) = found.table("cluster").to_pylist()
    assert cluster["voters"] == [CONTROLLER]
    ports = {row["nodeId"]: [each.rpartition(":")[2] for each in row["endPoints"]] for row in found.rows["nodes"]}
    assert {node: [str(port)] for node, port in known.nodes.items()} == {node: ports[node] for node in known.nodes}
    assert [row["disks"] for row in found.rows["nodes"]] == [[str(disk)] for disk in known.disks]
    assert not found.findings


def test_topics_have_their_ids_replicas_and_ends(known: Known) -> None:
    found = description(known.disks)
    assert {row["topic"]: row["topicId"] for row in found.rows["topics"]} == known.topic_ids
    partitions = {(row["topic"], row["partition"]): row for row in found.rows["partitions"]}
    assert {place: row["replicas"] for place, row in partitions.items()} == known.replicas
    assert {place: row["endOffset"] for place, row in partitions.items()} == known.end_offsets
    for place, row in partitions.items():
        assert row["disks"] == [str(known.disks[node - 1]) for node in sorted(known.replicas[place])]


def test_configs_acls_users_and_groups_are_there(known: Known) -> None:
    found = description(known.disks)
    configs = {row["name"]: row["value"] for row in found.rows["configs"] if row["resourceName"] == "orders"}
    assert configs == known.configs
    assert {(row["resourceName"], row["principal"]) for row in found.rows["acls"]} == known.acls
    assert known.acls == {("orders", "User:alice")}
    assert [(row["name"], row["mechanism"], row["iterations"]) for row in found.rows["users"]] == [
        ("alice", "SCRAM-SHA-256", 4096)
    ]
    offsets = [(row["group"], row["topic"], row["partition"], row["offset"]) for row in found.rows["offsets"]]
    assert offsets == [("readers", "orders", 1, 3)]


def test_the_disk_of_any_broker_knows_all_of_it(known: Known) -> None:
    whole = description(known.disks)
    for disk in known.disks[:3]:
        alone = description([disk])
        for name in ("topics", "configs", "acls", "users"):
            columns = ("topic", "topicId") if name == "topics" else tuple(whole.table(name).column_names)
            assert alone.table(name).select(columns) == whole.table(name).select(columns)


def test_what_is_on_no_disk_is_reported(known: Known) -> None:
    found = description([known.disks[0], known.disks[1], known.disks[3]]).findings
    assert {each.kind for each in found} == {"partition-missing"}
    assert any("alone-0" in each.message for each in found)


def test_what_the_cluster_does_not_know_is_reported(known: Known, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    shutil.copytree(known.disks[2], disk)
    (disk / "alone-0").rename(disk / "alone-7")
    shutil.copytree(disk / "orders-0", disk / "other-0")
    metadata = (disk / "other-0" / "partition.metadata").read_text()
    (disk / "other-0" / "partition.metadata").write_text(metadata.replace(known.topic_ids["orders"], "A" * 21 + "g"))
    found = sorted((each.kind, Path(each.file).name) for each in description([*known.disks[:2], disk]).findings)
    assert found == [("partition-missing", "disk-1"), ("partition-unknown", "alone-7"), ("topic-unknown", "other-0")]
