"""Three brokers are backed up by three runs, each on the host of one, as a set: under load, and again after it, as
parts that are cut one after the other may divide a transaction. Their disks are gone, and brokers start on what is
rebuilt of the second one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import brokerless
from brokerless.jobs.backup.job import BackupResult
from tests.kafka.cluster import Cluster
from tests.kafka.load import check_served, clients, create_topics
from tests.kafka.rebuilt import complaints, mapping, nodes_of, running
from tests.kafka.test_backed_up_cluster import SETTINGS

pytestmark = pytest.mark.slow(reason="a cluster of three brokers starts twice")

PATIENCE_MS = 60_000
"""A broker that a busy machine keeps from saying that it is there would lose what it leads, between the parts of two
hosts: a partition is in no part then, and named."""


def store_set(cluster: Cluster, place: Path, name: str) -> list[BackupResult]:
    disks = [each.log_dir for each in cluster.brokers.values()]
    return [brokerless.backup(each, place, leader_only=True, set_name=name) for each in disks]


def test_brokers_start_on_a_set_of_three_hosts(kafka_jars: Path, tmp_path: Path) -> None:
    place = tmp_path / "backup"
    with Cluster(tmp_path / "cluster", SETTINGS, session_ms=PATIENCE_MS) as cluster:
        create_topics(cluster)
        with clients(",".join(each.bootstrap for each in cluster.brokers.values())) as load:
            load.wait_for(200, 10)
            store_set(cluster, place, "busy")
            load.wait_for(400, 20)
        parts = store_set(cluster, place, "still")
    shutil.rmtree(tmp_path / "cluster")
    nodes_of_parts = [{each.node_id for each in part.snapshot.partitions} for part in parts]
    assert nodes_of_parts == [{1}, {2}, {3}]
    snapshots = {each.name: each for each in brokerless.Backup(place).snapshots()}
    assert snapshots.keys() == {"busy", "still"}
    snapshot = snapshots["still"]
    assert snapshot.missing == ()
    assert {each.topic for each in snapshot.partitions} >= {"plain", "left", "right", "table", "__transaction_state"}
    assert brokerless.Backup(place).check(read="all").findings == ()
    rebuilt = brokerless.rebuild(
        f"{place}@still", tmp_path / "to", mapping=mapping(tmp_path / "nodes.json", (1, 2, 3), (1,)), spread=True,
        apply=True,
    )  # fmt: skip
    assert rebuilt.lost == ()
    nodes = nodes_of(tmp_path, rebuilt)
    with running(nodes) as broker:
        check_served(broker, load)
        with clients(broker.bootstrap) as after:
            after.wait_for(40, 4)
        assert complaints(nodes) == []
