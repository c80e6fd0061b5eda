"""Three real brokers start on what ``restore --to`` wrote into their log directories: the same records at the same
offsets, committed and not, in all replicas, which do not truncate, whoever leads; groups go on where they were."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from brokerless.cli import main
from tests.kafka.broker import KafkaBroker
from tests.kafka.cluster import Cluster, wait_for
from tests.kafka.live import some_records
from tests.kafka.producers import Record, consume, produce_confluent

pytestmark = pytest.mark.xdist_group("kafka")
REPLICAS = [[1, 2, 3], [3, 1, 2]]
COMMITTED = {0: 40, 1: 77}


def log_digests(cluster: Cluster) -> list[dict[str, str]]:
    """Of each broker, the hashes of the topic's logs, without what is appended later."""
    found: list[dict[str, str]] = []
    for node in cluster.brokers.values():
        logs = sorted(node.log_dir.glob("orders-restored-*/*.log"))
        found.append({f"{log.parent.name}/{log.name}": hashlib.sha256(log.read_bytes()).hexdigest() for log in logs})
    return found


def test_brokers_start_on_what_was_restored(kafka: KafkaBroker, tmp_path: Path) -> None:
    kafka.create_topic("orders-restored", 2, retention_ms=-1, internal_segment_bytes=20_000)
    for seed, outcome in enumerate(("commit", "abort", "none", "commit")):
        produce_confluent(kafka, "orders-restored", some_records(seed, 300, 2, largest=3000), "lz4", outcome)  # type: ignore[arg-type]
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "of orders", "enable.auto.commit": False})
    at = [TopicPartition("orders-restored", number, offset) for number, offset in COMMITTED.items()]
    consumer.commit(offsets=at, asynchronous=False)
    consumer.close()
    everything = {number: consume(kafka, "orders-restored", number) for number in COMMITTED}
    committed = {number: consume(kafka, "orders-restored", number, "read_committed") for number in COMMITTED}
    source = kafka.copy_log_dir(tmp_path / "source")
    with Cluster(tmp_path / "cluster") as cluster:
        cluster.create_topic("orders-restored", REPLICAS, retention_ms=-1)
        produce_confluent(cluster.alive, "orders-restored", some_records(9, 20, 2))  # what is replaced
        consumer = Consumer({"bootstrap.servers": cluster.alive.bootstrap, "group.id": "of others"})
        consumer.commit(offsets=at, asynchronous=False)  # so that there are __consumer_offsets
        consumer.close()
        cluster.stop(1, 2, 3)
        to = [part for node in cluster.brokers.values() for part in ("--to", str(node.log_dir))]
        topics = ["-t", "orders-restored", "-t", "__consumer_offsets"]
        assert main(["restore", str(source), *topics, *to]) == 1  # there are records, which --replace is for
        assert main(["restore", str(source), *topics, *to, "--replace", "--apply"]) == 0
        before = log_digests(cluster)
        assert before[0] == before[1] == before[2]
        assert len(before[0]) > 4
        cluster.start(1, 2, 3)
        cluster.wait_for_replicas("orders-restored", 3)
        for number in COMMITTED:
            assert consume(cluster.alive, "orders-restored", number) == everything[number]
            assert consume(cluster.alive, "orders-restored", number, "read_committed") == committed[number]
        consumer = Consumer({"bootstrap.servers": cluster.alive.bootstrap, "group.id": "of orders"})
        found = consumer.committed([TopicPartition("orders-restored", number) for number in COMMITTED], timeout=30)
        consumer.close()
        assert {each.partition: each.offset for each in found} == COMMITTED
        more = [Record(b"k", b"after what was restored", (), 1_700_000_000_000, number) for number in COMMITTED]
        ends = produce_confluent(cluster.alive, "orders-restored", more, acks=-1)
        cluster.stop(1)
        wait_for(lambda: {leads(cluster, 0), leads(cluster, 1)} <= {2, 3}, lambda: "another leader")
        for number in COMMITTED:
            after = consume(cluster.alive, "orders-restored", number)
            assert after[:-1] == everything[number]
            assert after[-1].value == b"after what was restored"
            assert after[-1].offset == ends[number]
        output = "".join(node.output.read_text(errors="replace") for node in cluster.brokers.values())
        assert "runcat" not in output
        assert "-stray" not in output


def leads(cluster: Cluster, partition: int) -> int:
    return (
        cluster.admin()
        .list_topics("orders-restored", timeout=10)
        .topics["orders-restored"]
        .partitions[partition]
        .leader
    )
