"""Real brokers start on rebuilt directories, and serve what the killed cluster had: topics with their ids, settings,
ACLs, users, committed offsets, and every record at its offset."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import brokerless
from brokerless.jobs.rebuild.plan import Rebuild
from brokerless.jobs.rebuild.server_properties import server_properties
from tests.internals.dumps import decoded_records, dumped_records
from tests.kafka.broker import KafkaBroker, free_ports
from tests.kafka.cluster import wait_for
from tests.kafka.described import AUTHORIZER, TOPICS, Known, ask
from tests.kafka.jars import NEWEST, OLD_FORMATS, command
from tests.kafka.oracle import dump

pytestmark = pytest.mark.xdist_group("cluster-described")
METADATA = "__cluster_metadata-0"
SCRAM = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
}
SHORT_SESSIONS = {"broker.session.timeout.ms": "6000", "unclean.leader.election.enable": "false"}


class RebuiltNode(KafkaBroker):
    """A node with the settings that ``rebuild`` prints, and whatever else the tests' brokers have."""

    def __init__(self, directory: Path, rebuilt: Rebuild, node_id: int, version: str, more: Mapping[str, str]) -> None:
        node = next(each for each in rebuilt.nodes if each.node_id == node_id)
        own = server_properties(rebuilt, node)
        settings = {"controller.quorum.voters": "", **own, **more}
        super().__init__(directory / f"process-{node_id}", settings, version)
        self.log_dir = Path(own["log.dirs"])
        self.bootstrap = node.listeners[0].address

    def begin(self) -> None:
        with self.output.open("ab") as output:
            line = command("kafka.Kafka", str(self.properties), version=self.version)
            self.process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=output, stderr=output)


@contextmanager
def running(nodes: Sequence[RebuiltNode]) -> Iterator[Sequence[RebuiltNode]]:
    with ExitStack() as stack:
        for each in nodes:
            stack.callback(each.kill)
            each.begin()
        for each in nodes:
            each.wait_until_ready()
        yield nodes


def records(disks: Sequence[Path]) -> dict[tuple[str, int], list[tuple[Any, ...]]]:
    """Of each partition, the records in the longest of its replicas."""
    found: dict[tuple[str, int], list[tuple[Any, ...]]] = {}
    for each in (partition for disk in disks for partition in brokerless.open(disk).partitions):
        if each.topic in TOPICS:
            rows = [
                tuple(row.values())
                for batch in each.records(["offset", "timestamp", "key", "value"])
                for row in batch.to_pylist()
            ]
            place = str(each.topic), int(each.partition or 0)
            found[place] = max(found.get(place, []), rows, key=len)
    return found


def consumed(bootstrap: str, place: tuple[str, int], count: int, **settings: str) -> list[tuple[Any, ...]]:
    config = {"bootstrap.servers": bootstrap, "group.id": "any", "enable.auto.commit": False}
    consumer = Consumer({**config, **{name.replace("_", "."): each for name, each in settings.items()}})
    consumer.assign([TopicPartition(*place, 0)])
    rows: list[tuple[Any, ...]] = []
    give_up = time.monotonic() + 90
    while len(rows) < count and time.monotonic() < give_up:
        for message in consumer.consume(count, 1.0):
            assert message.error() is None, message.error()
            rows.append((message.offset(), message.key(), message.value()))
    consumer.close()
    return rows


def mapping(directory: Path) -> Path:
    """Three nodes with new addresses, each a broker and a voter; the first has a listener for SCRAM as well."""
    with free_ports(7) as ports:
        nodes: list[dict[str, Any]] = [
            {
                "id": number,
                "roles": ["broker", "controller"],
                "listeners": {
                    "PLAINTEXT": f"127.0.0.1:{ports[number]}",
                    "CONTROLLER": f"127.0.0.1:{ports[number + 3]}",
                },
            }
            for number in (1, 2, 3)
        ]
        nodes[0]["listeners"]["SASL"] = f"127.0.0.1:{ports[0]}"
        nodes[0]["protocols"] = {"SASL": "SASL_PLAINTEXT"}
    file = directory / "nodes.json"
    file.write_text(json.dumps({"nodes": nodes}))
    return file


def test_a_cluster_whose_controllers_are_gone_serves_all_that_it_had(known: Known, tmp_path: Path) -> None:
    disks = known.disks[:3]
    rebuilt = brokerless.rebuild(
        disks, tmp_path / "to", mapping=mapping(tmp_path), quorum="dynamic", data="link", apply=True
    )
    assert not [each for each in rebuilt.findings if each.severity == "error"]
    (snapshot,) = (tmp_path / "to" / "node-1" / METADATA).glob("*.checkpoint")
    theirs = dumped_records(dump([snapshot], "--cluster-metadata-decoder"))
    ours = decoded_records("__cluster_metadata", snapshot)
    assert {at: said[1] for at, said in theirs.items() if said} == {at: said.payload for at, said in ours.items()}
    before = records(disks)
    sasl = next(each.address for each in rebuilt.nodes[0].listeners if each.name == "SASL")
    nodes = [
        RebuiltNode(tmp_path, rebuilt, number, NEWEST, {**AUTHORIZER, **SHORT_SESSIONS, **SCRAM})
        for number in (1, 2, 3)
    ]
    with running(nodes):
        found = Known()
        ask(_AsCluster(nodes[0]), found)  # type: ignore[arg-type]
        assert found.cluster_id == known.cluster_id
        assert found.topic_ids == known.topic_ids
        assert {place: sorted(each) for place, each in found.replicas.items()} == {
            place: sorted(each) for place, each in known.replicas.items()
        }
        assert found.configs == known.configs
        assert found.acls == known.acls
        assert found.end_offsets == known.end_offsets
        for place, rows in before.items():
            expected = [(offset, key, value) for offset, _, key, value in rows]
            assert consumed(nodes[0].bootstrap, place, len(rows)) == expected
        login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "alice"}
        alice = Consumer(
            {
                "bootstrap.servers": sasl,
                "group.id": "of-alice",
                **{name.replace("_", "."): each for name, each in login.items()},
                "sasl.password": "secret",
            }
        )
        assert "orders" in alice.list_topics(timeout=60).topics
        alice.close()
        group = Consumer({"bootstrap.servers": nodes[0].bootstrap, "group.id": "readers"})
        (committed,) = group.committed([TopicPartition("orders", 1)], timeout=60)
        assert committed.offset == 3
        group.close()
        producer = Producer({"bootstrap.servers": nodes[0].bootstrap, "acks": "all"})
        producer.produce("orders", b"after", partition=0)
        assert not producer.flush(60)
    assert not list((tmp_path / "to").glob("*/*-stray"))


class _AsCluster:
    """What ``ask`` needs of a cluster."""

    def __init__(self, node: RebuiltNode) -> None:
        self.node = node

    def admin(self) -> Any:
        return self.node.admin()


def one_broker(directory: Path, version: str) -> Path:
    """The disk of a killed broker with a topic of 40 records."""
    with KafkaBroker(directory / "broker", version=version) as broker:
        broker.create_topic("orders", 2, retention_ms=-1)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(40):
            producer.produce("orders", b"v%d" % number, b"k", partition=number % 2)
        assert not producer.flush(30)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers", "enable.auto.commit": False})
        consumer.commit(offsets=[TopicPartition("orders", 1, 7)], asynchronous=False)
        consumer.close()
        log = max((broker.log_dir / METADATA).glob("*.log"))
        size = log.stat().st_size  # a later batch, such as a no-op's, is the one that will be cut
        wait_for(lambda: log.stat().st_size > size, broker.tail)
        broker.kill()
    return broker.log_dir


@pytest.mark.parametrize("version", [OLD_FORMATS, NEWEST])
def test_directories_alone_and_a_damaged_metadata_log_are_enough_to_start_with(
    kafka_jars: Path, tmp_path: Path, version: str
) -> None:
    disk = one_broker(tmp_path, version)
    before = records([disk])
    cut = shutil.copytree(disk, tmp_path / "cut", ignore=shutil.ignore_patterns(".lock"))
    log = max((cut / METADATA).glob("*.log"))
    log.write_bytes(log.read_bytes()[:-30])  # within its last batch
    (cut / METADATA / f"{1:020}-{1:010}.checkpoint").write_bytes(b"no snapshot")
    for name, options in (("cut", {"data": "in-place"}), ("alone", {"without_metadata": True})):
        source = shutil.copytree(disk if name == "alone" else cut, tmp_path / f"disk-{name}")
        rebuilt = brokerless.rebuild(
            source, tmp_path / name / "to", mapping=_one(tmp_path, name), quorum="dynamic", apply=True, **options
        )
        node = RebuiltNode(tmp_path / name, rebuilt, 1, version, {})
        with running([node]):
            for place, rows in before.items():
                expected = [(offset, key, value) for offset, _, key, value in rows]
                assert consumed(node.bootstrap, place, len(rows)) == expected
            group = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "readers"})
            (committed,) = group.committed([TopicPartition("orders", 1)], timeout=60)
            assert committed.offset == 7
            group.close()
        assert not list(node.log_dir.glob("*-stray"))


def _one(directory: Path, name: str) -> Path:
    with free_ports(2) as ports:
        listeners = {"PLAINTEXT": f"127.0.0.1:{ports[0]}", "CONTROLLER": f"127.0.0.1:{ports[1]}"}
    file = directory / f"{name}.json"
    file.write_text(json.dumps({"nodes": [{"id": 1, "roles": ["broker", "controller"], "listeners": listeners}]}))
    return file
