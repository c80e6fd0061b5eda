"""The nodes of a rebuilt cluster by a mapping file: ids, disks, listeners, and the settings that follow from them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import brokerless
from brokerless import UsageError
from brokerless.jobs.rebuild.plan import Rebuild

DEMO = Path(__file__).parents[3] / "demo" / "data"
BOTH = ["broker", "controller"]
LISTENERS = {"PLAINTEXT": "kafka1:9092", "CONTROLLER": "kafka1:9093"}


def mapped(tmp_path: Path, *nodes: dict[str, Any], **options: Any) -> Rebuild:
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps({"nodes": nodes}))
    return brokerless.rebuild(DEMO, tmp_path / "to", mapping=file, **options)


def test_a_node_gets_another_id_and_its_replicas_with_it(tmp_path: Path) -> None:
    rebuilt = mapped(tmp_path, {"id": 7, "was": 1, "roles": BOTH, "listeners": LISTENERS}, apply=True)
    found = brokerless.cluster(tmp_path / "to" / "node-7")
    assert {row["replicas"][0] for row in found.rows["partitions"]} == {7}
    assert [row["nodeId"] for row in found.rows["nodes"]] == [7]
    (node,) = rebuilt.nodes
    assert rebuilt.server_properties(node.node_id) == {
        "node.id": "7",
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "7@kafka1:9093",
        "listeners": "PLAINTEXT://kafka1:9092,CONTROLLER://kafka1:9093",
        "advertised.listeners": "PLAINTEXT://kafka1:9092",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(tmp_path / "to" / "node-7"),
    }


def test_voters_of_a_dynamic_quorum_are_in_the_metadata(tmp_path: Path) -> None:
    controllers = [
        {
            "id": number,
            "roles": ["controller"],
            "listeners": {"CTL": f"[::1]:{9000 + number}"},
            "protocols": {"CTL": "SSL"},
        }
        for number in (10, 11)
    ]
    rebuilt = mapped(tmp_path, {"id": 1, "roles": ["broker"]}, *controllers, quorum="dynamic", apply=True)
    found = brokerless.cluster([tmp_path / "to" / f"node-{number}" for number in (1, 10, 11)])
    assert found.rows["cluster"][0]["voters"] == [10, 11]
    ids = {row["nodeId"]: row["directoryId"] for row in found.rows["disks"]}
    assert rebuilt.voters is not None
    assert {each["voterId"]: each["voterDirectoryId"] for each in rebuilt.voters} == {10: ids[10], 11: ids[11]}
    properties = rebuilt.server_properties(rebuilt.nodes[0].node_id)
    assert properties["controller.quorum.bootstrap.servers"] == "[::1]:9010,[::1]:9011"
    assert "controller.quorum.voters" not in properties
    assert properties["listener.security.protocol.map"] == "CTL:SSL"


def test_a_new_broker_has_no_replicas_and_addresses_that_are_not_known_are_left_to_people(tmp_path: Path) -> None:
    rebuilt = mapped(tmp_path, {"id": 1, "roles": BOTH}, {"id": 2, "roles": ["broker"]}, apply=True)
    assert {tuple(row["replicas"]) for rows in rebuilt.cluster.partitions.values() for row in rows.values()} == {(1,)}
    assert not list((tmp_path / "to" / "node-2").glob("orders-*"))
    properties = rebuilt.server_properties(rebuilt.nodes[0].node_id)
    assert properties["listeners"] == "PLAINTEXT://HOST:PORT,CONTROLLER://HOST:PORT"
    assert properties["controller.quorum.voters"] == "1@HOST:PORT"


def test_a_disk_whose_node_is_not_mapped_is_left_out_and_its_partitions_begin_again(tmp_path: Path) -> None:
    rebuilt = mapped(tmp_path, {"id": 2, "roles": BOTH, "disks": []})
    assert {each.kind for each in rebuilt.findings} == {"disk-without-node", "partition-missing"}
    assert "broker 1, of which no disk was given" in rebuilt.lost


NODE = {"id": 1, "roles": BOTH}


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ([], "no node is a controller"),
        ([{"id": 1, "roles": ["broker"]}], "no node is a controller"),
        ([{"id": 1, "roles": ["controller"]}], "no node of the rebuilt cluster is a broker"),
        ([{"id": 1, "roles": []}], "has no roles"),
        ([NODE, NODE], "two nodes with the id 1"),
        ([NODE, {"id": 2, "roles": BOTH, "disks": [str(DEMO)]}], "is of two nodes, 1 and 2"),
        ([{"id": 1, "roles": BOTH, "disks": ["/elsewhere"]}], "was not given as a path"),
        ([{"id": -1, "roles": BOTH}], r"Expected `int` >= 0 - at `\$.nodes\[0\].id"),
        ([{"id": 1, "roles": ["zookeeper"]}], "neither broker nor controller"),
        ([{"id": 1, "roles": BOTH, "port": 1}], "unknown field `port`"),
        ([{"id": 1, "roles": BOTH, "listeners": {"PLAINTEXT": "kafka1"}}], "no host and port"),
        ([{"id": 1, "roles": BOTH, "listeners": {"PLAINTEXT": "kafka1:99999"}}], "no host and port"),
        ([{"id": 1, "roles": BOTH, "protocols": {"A": "TLS"}}], "is none of PLAINTEXT"),
    ],
)
def test_a_mapping_that_cannot_be_is_refused(tmp_path: Path, nodes: list[dict[str, Any]], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        mapped(tmp_path, *nodes)


def test_what_is_no_mapping_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "nodes.json"
    for text in ("", "[]", "{}", '{"nodes": {}}', '{"nodes": [], "more": 1}', '{"nodes": [1]}'):
        file.write_text(text)
        with pytest.raises(UsageError, match="see brokerless rebuild --help"):
            brokerless.rebuild(DEMO, tmp_path / "to", mapping=file)


def test_a_dynamic_quorum_needs_addresses_and_a_version_that_has_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the address of controller 1 is not known"):
        mapped(tmp_path, NODE, quorum="dynamic")
    source = tmp_path / "disk"
    shutil.copytree(DEMO, source)
    with pytest.raises(UsageError, match="a dynamic quorum needs"):
        brokerless.rebuild(source, tmp_path / "to", without_metadata=True, quorum="dynamic", metadata_version="3.8")
