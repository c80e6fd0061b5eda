"""Restores a broker's topics into the log directories of a stopped cluster, starts that, and looks at what it serves.

``python -m tests.kafka.restored_disks DIRECTORY VERSION`` does it with another version than the newest, 3.9.1.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from brokerless.cli import main
from tests.kafka.broker import KafkaBroker
from tests.kafka.cluster import Cluster, wait_for
from tests.kafka.jars import NEWEST, check, run
from tests.kafka.live import some_records
from tests.kafka.producers import Record, consume, produce_confluent

TOPIC = "orders-restored"
REPLICAS = [[1, 2, 3], [3, 1, 2]]
COMMITTED = {0: 40, 1: 77}
PROTOCOLS = {NEWEST: ("classic", "consumer")}
"""Of groups of Kafka's own consumer, those that a broker of this version has without further settings (KIP-848)."""


def check_restored(broker: KafkaBroker, directory: Path) -> None:
    """``broker`` gets the topics that are restored into a cluster of the same version in ``directory``."""
    small = "internal_segment_bytes" if broker.version == NEWEST else "segment_bytes"
    broker.create_topic(TOPIC, 2, retention_ms=-1, **{small: 20_000})
    for seed, outcome in enumerate(("commit", "abort", "none", "commit")):
        produce_confluent(broker, TOPIC, some_records(seed, 300, 2, largest=3000), "lz4", outcome)  # type: ignore[arg-type]
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "of orders", "enable.auto.commit": False})
    at = [TopicPartition(TOPIC, number, offset) for number, offset in COMMITTED.items()]
    consumer.commit(offsets=at, asynchronous=False)
    consumer.close()
    everything = {number: consume(broker, TOPIC, number) for number in COMMITTED}
    committed = {number: consume(broker, TOPIC, number, "read_committed") for number in COMMITTED}
    protocols = PROTOCOLS.get(broker.version, ("classic",))
    first = {protocol: java_group(broker, protocol, 200) for protocol in protocols}
    source = broker.copy_log_dir(directory / "source")
    with Cluster(directory / "cluster", version=broker.version) as cluster:
        cluster.create_topic(TOPIC, REPLICAS, retention_ms=-1)
        produce_confluent(cluster.alive, TOPIC, some_records(9, 20, 2))  # what is replaced
        consumer = Consumer({"bootstrap.servers": cluster.alive.bootstrap, "group.id": "of others"})
        consumer.commit(offsets=at, asynchronous=False)  # so that there are __consumer_offsets
        consumer.close()
        cluster.stop(1, 2, 3)
        to = [part for node in cluster.brokers.values() for part in ("--to", str(node.log_dir))]
        topics = ["-t", TOPIC, "-t", "__consumer_offsets"]
        assert main(["restore", str(source), *topics, *to]) == 1  # there are records, which --replace is for
        assert main(["restore", str(source), *topics, *to, "--replace", "--apply"]) == 0
        before = log_digests(cluster)
        assert before[0] == before[1] == before[2]
        assert len(before[0]) > 4
        cluster.start(1, 2, 3)
        cluster.wait_for_replicas(TOPIC, 3)
        for number in COMMITTED:
            assert consume(cluster.alive, TOPIC, number) == everything[number]
            assert consume(cluster.alive, TOPIC, number, "read_committed") == committed[number]
        found = cluster.alive.committed("of orders", [(TOPIC, number) for number in COMMITTED])
        assert {number: offset for (_, number), offset in found.items()} == COMMITTED
        of_all = sorted((number, each.offset) for number, records in committed.items() for each in records)
        for protocol in protocols:  # each record once, before or after
            rest = java_group(cluster.alive, protocol, len(of_all) - len(first[protocol]))
            assert sorted([*first[protocol], *rest]) == of_all, (protocol, len(of_all), first[protocol], rest)
        more = [Record(b"k", b"after what was restored", (), 1_700_000_000_000, number) for number in COMMITTED]
        ends = produce_confluent(cluster.alive, TOPIC, more, acks=-1)
        cluster.stop(1)
        wait_for(lambda: {leads(cluster, 0), leads(cluster, 1)} <= {2, 3}, lambda: "another leader")
        for number in COMMITTED:
            after = consume(cluster.alive, TOPIC, number)
            assert after[:-1] == everything[number]
            assert after[-1].value == b"after what was restored"
            assert after[-1].offset == ends[number]
        warned = [line for node in cluster.brokers.values() for line in node.warnings()]
        assert [line for line in warned if "runcat" in line or "-stray" in line] == []


def java_group(broker: KafkaBroker, protocol: str, count: int) -> list[tuple[int, int]]:
    """Partition and offset of what a member of a group of Kafka's own consumer gets, which then commits."""
    arguments = (broker.bootstrap, TOPIC, f"of java, {protocol}", protocol, str(count))
    lines = check(run("ConsumeGroup", *arguments, version=broker.version, helper=True)).decode().splitlines()
    return [(int(partition), int(offset)) for partition, offset in map(str.split, lines)]


def log_digests(cluster: Cluster) -> list[dict[str, str]]:
    """Of each broker, the hashes of the topic's logs, without what is appended later."""
    found: list[dict[str, str]] = []
    for node in cluster.brokers.values():
        logs = sorted(node.log_dir.glob(f"{TOPIC}-*/*.log"))
        found.append({f"{log.parent.name}/{log.name}": hashlib.sha256(log.read_bytes()).hexdigest() for log in logs})
    return found


def leads(cluster: Cluster, partition: int) -> int:
    return cluster.admin().list_topics(TOPIC, timeout=10).topics[TOPIC].partitions[partition].leader


if __name__ == "__main__":
    with KafkaBroker(Path(sys.argv[1]) / "broker", version=sys.argv[2]) as other:
        check_restored(other, Path(sys.argv[1]))
    print("no difference")
