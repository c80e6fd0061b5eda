"""Three brokers under load are backed up into a bucket, encrypted, while one is killed and replicas move. Their disks
are gone, and brokers start on the backup: on all of its data, and on the bucket."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

import brokerless
from brokerless.cli import main
from tests.jobs.backup.rsa_keys import key_files
from tests.kafka.broker import KafkaBroker
from tests.kafka.cluster import Cluster
from tests.kafka.jars import check, run
from tests.kafka.load import Load, check_served, clients, create_topics
from tests.kafka.rebuilt import complaints, mapping, nodes_of, running, use_plugins_layout
from tests.kafka.tiered import serves_remote, wait_for
from tests.s3 import S3

pytestmark = [pytest.mark.xdist_group("s3"), pytest.mark.slow(reason="a cluster of three brokers starts three times")]

SETTINGS = {
    "log.cleaner.backoff.ms": "50", "log.retention.check.interval.ms": "200", "file.delete.delay.ms": "100",
    "offsets.topic.replication.factor": "3", "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2", "unclean.leader.election.enable": "false",
}  # fmt: skip
POSITION = 120


def reassign(cluster: Cluster, scratch: Path, topic: str, replicas: list[int]) -> None:
    plan = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": replicas}]}
    (scratch / "plan.json").write_text(json.dumps(plan))
    where = ("--bootstrap-server", cluster.alive.bootstrap)
    arguments = (*where, "--reassignment-json-file", str(scratch / "plan.json"), "--execute")
    check(run("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", *arguments))


@contextmanager
def meanwhile(cluster: Cluster, scratch: Path, number: int) -> Iterator[None]:
    """What happens to the cluster during a run; nothing from the seventh on."""
    steps: list[Callable[[], object]] = [
        lambda: cluster.kill(3),
        lambda: cluster.start(3),
        lambda: reassign(cluster, scratch, "plain", [2, 3]),
        lambda: cluster.kill(1),
        lambda: cluster.start(1),
        lambda: reassign(cluster, scratch, "plain", [1, 2, 3]),
    ]
    thread = threading.Thread(target=steps[number] if number < len(steps) else bool)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def group(broker: KafkaBroker) -> Consumer:
    return Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers", "enable.auto.commit": False})


def check_goes_on(broker: KafkaBroker, before: Load) -> None:
    """All is served, the group is where it was, and the same transactional producers write again."""
    check_served(broker, before)
    (position,) = group(broker).committed([TopicPartition("plain", 0)], timeout=60)
    assert position.offset == POSITION
    with clients(broker.bootstrap) as after:
        after.wait_for(40, 4)


@dataclass(frozen=True)
class BackedUp:
    """The backup's last snapshot, the private key of it, and what was acknowledged before that run."""

    url: str
    place: str
    private: Mapping[str, Path]
    before: Load


@pytest.fixture(scope="module")
def backed_up(s3: S3, kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> BackedUp:
    root = tmp_path_factory.mktemp("backed-up")
    place = s3.url("three-brokers")
    private, public = key_files(root, "ops")
    options = ["--to", place, "--public-key", f"ops={public['ops']}", "--one-key"]
    with Cluster(root / "cluster", SETTINGS) as cluster:
        create_topics(cluster)
        disks = [str(each.log_dir) for each in (*cluster.brokers.values(), *cluster.controllers.values())]
        with clients(",".join(each.bootstrap for each in cluster.brokers.values())) as load:
            codes: list[int] = []
            # Where a leader is killed, what nobody acknowledged is left out and named, and so is a marker that does not
            # come: exit code 1. Then another run follows, as a timer has it.
            while len(codes) < 6 or (codes[-1] == 1 and len(codes) < 10):
                number = len(codes)
                load.wait_for(200 * (number + 1), 10 * (number + 1))
                if number == 1:
                    positions = [TopicPartition("plain", 0, POSITION)]
                    group(cluster.alive).commit(offsets=positions, asynchronous=False)
                before = load.copy()
                with meanwhile(cluster, root, number):
                    codes.append(main(["backup", *disks, *options, "--name", f"run-{number}"]))
    assert (codes[-1], max(codes) <= 1) == (0, True)
    shutil.rmtree(root / "cluster")
    assert main(["check", place, "--read", "all"]) == 0
    return BackedUp(f"{place}@run-{number}", place, private, before)


def test_brokers_start_on_all_that_a_backup_has(backed_up: BackedUp, tmp_path: Path) -> None:
    rebuilt = brokerless.rebuild(
        backed_up.url, tmp_path / "to", mapping=mapping(tmp_path / "nodes.json", (1, 2, 3), (1,)), spread=True,
        key_pairs=backed_up.private, apply=True,
    )  # fmt: skip
    assert rebuilt.lost == ()
    nodes = nodes_of(tmp_path, rebuilt)
    with running(nodes) as broker:
        check_goes_on(broker, backed_up.before)
        assert complaints(nodes) == []


def test_brokers_start_on_the_bucket_of_a_backup(s3: S3, backed_up: BackedUp, tmp_path: Path) -> None:
    rebuilt = brokerless.rebuild(
        backed_up.url, tmp_path / "to", mapping=mapping(tmp_path / "nodes.json", (1, 2, 3), (1,)), spread=True,
        in_bucket=True, read_only_credentials=True, key_pairs=backed_up.private, apply=True,
    )  # fmt: skip
    assert rebuilt.lost == ()
    local = {each.parent.name for each in (tmp_path / "to").glob("node-*/*-0/*.log") if each.stat().st_size}
    assert "plain-0" not in local
    url = f"{s3.endpoint}/{backed_up.place.removeprefix('s3://')}"
    nodes = nodes_of(tmp_path, rebuilt)
    use_plugins_layout(nodes, {"url": url, "key": str(backed_up.private["ops"])})
    with running(nodes) as broker:
        wait_for(lambda: serves_remote(broker, "plain", 0), "remote records are served")
        check_goes_on(broker, backed_up.before)
        assert complaints(nodes) == []
