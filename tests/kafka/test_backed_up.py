"""A backup of a killed cluster's disks: brokers that start on what is restored of it serve what the cluster did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import brokerless
from tests.jobs.backup.rsa_keys import key_files
from tests.kafka.broker import free_ports
from tests.kafka.described import TOPICS, Known
from tests.kafka.producers import consume
from tests.kafka.rebuilt import (
    RebuiltNode,
    complaints,
    differences,
    goes_on,
    mapping,
    nodes_of,
    running,
    use_plugins_layout,
)
from tests.kafka.tiered import CLASS as DIRECTORY_STORAGE
from tests.kafka.tiered import printed_properties, serves_remote, wait_for

pytestmark = pytest.mark.xdist_group("cluster-described")


def test_a_cluster_that_is_restored_from_a_backup_is_the_one_that_was_killed(known: Known, tmp_path: Path) -> None:
    place = tmp_path / "backup"
    disks = [*known.disks, *known.controllers]
    result = brokerless.backup(disks, place, name="killed")
    assert result.is_complete, result.findings
    partitions = {(each.topic, each.partition): each for each in result.snapshot.partitions}
    ends = {name: each.end_offset for name, each in partitions.items() if name[0] != "__cluster_metadata"}
    assert ends == known.end_offsets
    assert {name: each.topic_id for name, each in partitions.items()}.items() >= {
        (topic, number): known.topic_ids[topic] for topic, number in known.replicas
    }.items()
    again = brokerless.backup(disks[::-1], place)
    assert (again.snapshot.new_size, again.is_complete) == (0, True)
    assert not brokerless.Backup(place).check(read="all").findings

    one = mapping(tmp_path / "nodes.json", (7,), (7,))
    rebuilt = brokerless.rebuild(f"{place}@killed", tmp_path / "to", mapping=one, quorum="dynamic", apply=True)
    assert (rebuilt.lost, [each for each in rebuilt.findings if each.severity != "info"]) == ((), [])
    with running(nodes_of(tmp_path, rebuilt)) as broker:
        assert differences(broker, known, replicas={name: [7] for name in known.replicas}) == []

    three = mapping(tmp_path / "three.json", (1, 2, 3), (1, 2, 3))
    spread = brokerless.rebuild(
        f"{place}@killed", tmp_path / "spread", mapping=three, quorum="static", spread=True, apply=True
    )
    assert (spread.lost, [each for each in spread.findings if each.severity != "info"]) == ((), [])
    nodes = nodes_of(tmp_path / "three", spread)
    with running(nodes) as broker:
        assert differences(broker, known) == []
        goes_on(broker)
        assert complaints(nodes) == []


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_broker_reads_the_segments_where_they_are(is_encrypted: bool, known: Known, tmp_path: Path) -> None:
    """It has the metadata of remote segments alone, and a remote storage of that layout, which has the key."""
    place = tmp_path / "backup"
    private, public = key_files(tmp_path, "ops") if is_encrypted else ({}, {})
    brokerless.backup(known.disks, place, segment_size=20_000, public_keys=public, one_key=is_encrypted)
    stored = {each for each in place.rglob("*") if each.is_file()}
    nodes = tmp_path / "nodes.json"
    with free_ports(2) as (port, controller_port):
        listeners = {"PLAINTEXT": f"127.0.0.1:{port}", "CONTROLLER": f"127.0.0.1:{controller_port}"}
    node = {"id": 1, "roles": ["broker", "controller"], "listeners": listeners}
    nodes.write_text(json.dumps({"nodes": [node]}))
    rebuilt = brokerless.rebuild(
        [], tmp_path / "to", from_bucket=f"{place}@latest", topics=list(TOPICS), mapping=nodes,
        abort_open_transactions=True, apply=True, key_pairs=private,
    )  # fmt: skip
    broker = RebuiltNode(tmp_path, rebuilt, 1)
    properties = printed_properties(rebuilt.server_properties(1), place)
    key = "".join(f"rsm.config.key={file}\n" for file in private.values())
    broker.properties.write_text(properties.replace(DIRECTORY_STORAGE, "PluginLayoutStorage") + key)
    with broker:
        for view, expected in known.records.items():
            topic, number, isolation = view
            wait_for(lambda place=(topic, number): serves_remote(broker, *place), "remote records are served")
            assert consume(broker, topic, number, isolation=isolation) == expected, view
    assert {each for each in place.rglob("*") if each.is_file()} == stored


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_brokers_start_on_a_snapshot_whose_topics_stay_in_the_bucket(
    is_encrypted: bool, known: Known, tmp_path: Path
) -> None:
    """Once three nodes on a copy, and once one on the backup itself, which is encrypted."""
    place, copy = tmp_path / "backup", tmp_path / "copy"
    private, public = key_files(tmp_path, "ops") if is_encrypted else ({}, {})
    disks = [*known.disks, *known.controllers]
    brokerless.backup(disks, place, name="killed", segment_size=20_000, public_keys=public, one_key=is_encrypted)
    stored = {each: each.read_bytes() for each in place.rglob("*") if each.is_file()}
    brokers = (1,) if is_encrypted else (1, 2, 3)
    options = {"read_only_credentials": True} if is_encrypted else {"copy_to": copy, "spread": True}
    rebuilt = brokerless.rebuild(
        f"{place}@killed", tmp_path / "to", in_bucket=True, mapping=mapping(tmp_path / "nodes.json", brokers, brokers),
        quorum="dynamic", key_pairs=private, apply=True, **options,
    )  # fmt: skip
    assert (rebuilt.lost, [each for each in rebuilt.findings if each.severity == "error"]) == ((), [])
    local = {each.parent.name for each in (tmp_path / "to").glob("node-*/*-*/*.log") if each.stat().st_size}
    assert local & {f"{topic}-{number}" for topic, number in known.replicas if topic in TOPICS} == {"payments-0"}
    (found,) = (each for each in rebuilt.findings if each.kind == "remote-transaction-open")
    assert "payments-0" in found.message
    nodes = nodes_of(tmp_path, rebuilt)
    keys = {"key": str(private["ops"])} if is_encrypted else {}
    use_plugins_layout(nodes, {"dir": str(place if is_encrypted else copy), **keys})
    with running(nodes) as broker:
        for place_of_topic in known.replicas:
            if place_of_topic[0] in ("orders", "alone"):
                wait_for(lambda at=place_of_topic: serves_remote(broker, *at), "remote records are served")
        compared = ("cluster_id", "acls", "users", "committed", "records")
        assert differences(broker, known, compared=compared) == []
        if not is_encrypted:
            goes_on(broker)
            assert complaints(nodes) == []
    assert {each: each.read_bytes() for each in place.rglob("*") if each.is_file()} == stored
