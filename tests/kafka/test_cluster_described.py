"""What ``cluster`` makes of the disks of killed brokers is what the running cluster said of itself."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import brokerless
from brokerless.clusters.description import ClusterDescription
from tests.kafka.described import COMMITTED, GROUP, Known

pytestmark = pytest.mark.xdist_group("cluster-described")


def description(disks: list[Path]) -> ClusterDescription:
    return brokerless.cluster(disks)


def test_the_identity_the_nodes_and_the_voters_are_those_of_the_cluster(known: Known) -> None:
    disks = [*known.disks, *known.controllers]
    found = description(disks)
    assert found.cluster_id == known.cluster_id
    (cluster,) = found.table("cluster").to_pylist()
    assert sorted(cluster["voters"]) == [100, 101, 102]
    assert cluster["kraftVersion"] == 1
    ports = {row["nodeId"]: [each.rpartition(":")[2] for each in row["endPoints"]] for row in found.rows["nodes"]}
    assert {node: [str(port)] for node, port in known.nodes.items()} == {node: ports[node] for node in known.nodes}
    assert [row["disks"] for row in found.rows["nodes"]] == [[str(disk)] for disk in disks]
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
    for topic, configs in known.configs.items():
        own = {row["name"]: row["value"] for row in found.rows["configs"] if row["resourceName"] == topic}
        assert own == configs
    assert {(row["resourceName"], row["principal"]) for row in found.rows["acls"]} == known.acls
    assert known.acls == {("orders", "User:alice")}
    assert [(row["name"], row["mechanism"], row["iterations"]) for row in found.rows["users"]] == [
        ("alice", "SCRAM-SHA-256", 4096)
    ]
    offsets = [(row["group"], row["topic"], row["partition"], row["offset"]) for row in found.rows["offsets"]]
    assert offsets == [(GROUP, *place, offset) for place, offset in COMMITTED.items()]


def test_the_disk_of_any_broker_knows_all_of_it(known: Known) -> None:
    whole = description(known.disks)
    for disk in known.disks:
        alone = description([disk])
        for name in ("topics", "configs", "acls", "users"):
            columns = ("topic", "topicId") if name == "topics" else tuple(whole.table(name).column_names)
            assert alone.table(name).select(columns) == whole.table(name).select(columns)


def test_what_is_on_no_disk_is_reported(known: Known) -> None:
    found = description([*known.disks[:2], known.controllers[0]]).findings
    assert {each.kind for each in found} == {"partition-missing"}
    assert any("alone-0" in each.message for each in found)


def test_what_the_cluster_does_not_know_is_reported(known: Known, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    shutil.copytree(known.disks[2], disk)
    (disk / "alone-0").rename(disk / "alone-7")
    shutil.copytree(disk / "orders-0", disk / "other-0")
    metadata = (disk / "other-0" / "partition.metadata").read_text()
    (disk / "other-0" / "partition.metadata").write_text(metadata.replace(known.topic_ids["orders"], "A" * 21 + "g"))
    found = sorted((each.kind, Path(each.file).parts[-2:]) for each in description([*known.disks[:2], disk]).findings)
    assert [kind for kind, _ in found] == ["partition-missing", "partition-unknown", "topic-unknown"]
    assert [path[0] for _, path in found[1:]] == ["alone-7", "other-0"]
