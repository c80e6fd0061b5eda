"""Backups of three brokers under load, while they are killed, and replicas move: on the last one, brokers start."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import brokerless
from tests.jobs.backup.rsa_keys import key_files
from tests.kafka.cluster import Cluster
from tests.kafka.jars import check, run
from tests.kafka.load import check_served, clients, create_topics
from tests.kafka.rebuilt import mapping, nodes_of, running

SETTINGS = {
    "log.cleaner.backoff.ms": "50", "log.retention.check.interval.ms": "200", "file.delete.delay.ms": "100",
    "offsets.topic.replication.factor": "3", "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2", "unclean.leader.election.enable": "false",
}  # fmt: skip
EXPECTED = {"replica-diverges", "transaction-cut-open"}
"""What may be found where a leader is killed: it has records that nobody acknowledged, and no marker comes to it."""


def reassign(cluster: Cluster, scratch: Path, topic: str, replicas: list[int]) -> None:
    plan = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": replicas}]}
    (scratch / "plan.json").write_text(json.dumps(plan))
    where = ("--bootstrap-server", cluster.alive.bootstrap)
    arguments = (*where, "--reassignment-json-file", str(scratch / "plan.json"), "--execute")
    check(run("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", *arguments))


@contextmanager
def meanwhile(cluster: Cluster, scratch: Path, number: int) -> Iterator[None]:
    """What happens to the cluster during a run."""
    steps = [
        lambda: cluster.kill(3),
        lambda: cluster.start(3),
        lambda: reassign(cluster, scratch, "plain", [2, 3]),
        lambda: cluster.kill(1),
        lambda: cluster.start(1),
        lambda: reassign(cluster, scratch, "plain", [1, 2, 3]),
    ]
    thread = threading.Thread(target=steps[number])
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_what_a_cluster_acknowledged_before_a_backup_is_served_after_it(kafka_jars: Path, tmp_path: Path) -> None:
    place = tmp_path / "backup"
    private, public = key_files(tmp_path, "ops")
    with Cluster(tmp_path / "cluster", SETTINGS) as cluster:
        create_topics(cluster)
        disks = [each.log_dir for each in (*cluster.brokers.values(), *cluster.controllers.values())]
        with clients(",".join(each.bootstrap for each in cluster.brokers.values())) as load:
            for number in range(6):
                load.wait_for(200 * (number + 1), 10 * (number + 1))
                before = load.copy()
                with meanwhile(cluster, tmp_path, number):
                    result = brokerless.backup(disks, place, name=f"run-{number}", public_keys=public, one_key=True)
                found = {each.kind for each in result.findings if each.severity != "info"}
                assert found <= EXPECTED, result.findings
        assert "transaction-cut-open" not in found  # nobody was killed in the last run
        cluster.kill_all()
    assert not brokerless.Backup(place).check(read="all").findings
    brokerless.merge(brokerless.open(f"{place}@run-5", key_pairs=private), tmp_path / "restored")
    nodes = mapping(tmp_path / "nodes.json", (1, 2, 3), (1,))
    rebuilt = brokerless.rebuild(tmp_path / "restored", tmp_path / "to", mapping=nodes, apply=True)
    with running(nodes_of(tmp_path, rebuilt)) as restored:
        check_served(restored, before)
