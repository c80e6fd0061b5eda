"""Three brokers' directories, erased at once: the cluster starts on the new ones, and all goes on but what was erased.

The cluster runs twice, before and after. What consumers, groups and producers got of the first is what they get of the
second, without the erased records; its brokers say what they do to logs as they load and replicate them.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import brokerless
from brokerless.cli import main
from brokerless.jobs.erase.key_set import KeySet
from brokerless.jobs.erase.selection import Selection
from tests.kafka.cluster import Cluster, Node, wait_for
from tests.kafka.jars import check
from tests.kafka.jars import run as run_java
from tests.kafka.producers import CODECS, Consumed, Record, consume, produce_confluent, produce_java

pytestmark = [pytest.mark.xdist_group("erased"), pytest.mark.slow(reason="a cluster of three brokers starts twice")]

BROKERS = (1, 2, 3)
REPLICAS = {"orders": [[1, 2, 3], [2, 3, 1]], "users": [[3, 1, 2]], "cleaned": [[2, 1, 3]], "idle": [[1, 3, 2]]}
IDEMPOTENT = [("orders", 0), ("orders", 1), ("idle", 0)]
PLACES = [(topic, partition) for topic, replicas in REPLICAS.items() for partition in range(len(replicas))]
ERASED = ("user-3", "user-7")
GROUP, AT = "readers", 103
LEVELS = ("read_committed", "read_uncommitted")
SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "broker.session.timeout.ms": "3000",
}
MENDING = re.compile(
    r"recovering (un)?flushed|rebuilding (the )?index|corrupt|found invalid|truncat|sanity|no checkpoint|unclean"
    r"|out of range|fenced(?!: false)|diverg",
    re.IGNORECASE,
)

Place = tuple[str, int]


@dataclass
class Erased:
    """A cluster that runs on what was erased; ``before``: its disks, ``after``: what was made of them. ``served``: what
    each client got before, by place, isolation and client. ``ends``: log end offsets. The producers are those of
    before; ``producer_id``: of the idempotent one."""

    cluster: Cluster
    before: list[Path]
    after: list[Path]
    manifest: Path
    served: dict[tuple[Place, str, str], list[Consumed]]
    ends: dict[Place, int]
    idempotent: Producer
    transactional: Producer
    producer_id: int


def java_records(node: Node, place: Place, isolation: str) -> list[Consumed]:
    arguments = (node.bootstrap, place[0], str(place[1]), isolation, "0")
    *lines, _ = map(json.loads, check(run_java("Consume", *arguments, helper=True)).splitlines())

    def decoded(value: str | None) -> bytes | None:
        return None if value is None else base64.b64decode(value)

    return [
        Consumed(
            each["offset"], each["timestamp"], decoded(each["key"]), decoded(each["value"]),
            tuple((name, decoded(value)) for name, value in each["headers"]),
        )
        for each in lines
    ]  # fmt: skip


def served(node: Node) -> dict[tuple[Place, str, str], list[Consumed]]:
    found: dict[tuple[Place, str, str], list[Consumed]] = {}
    for place in PLACES:
        for level in LEVELS:
            found[place, level, "confluent"] = consume(node, *place, level)
            found[place, level, "java"] = java_records(node, place, level)
    return found


def transactional_producer(node: Node, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(60)
    return producer


def transact(producer: Producer, end: str) -> None:
    producer.begin_transaction()
    for number in range(6):
        producer.produce("orders", key=f"user-{number % 4}", value=f"{end} {number}", partition=number % 2)
    assert producer.flush(60) == 0  # or an abort takes them out of the queue
    getattr(producer, end)(60)


def records(topic: str, count: int, largest: int = 300) -> list[Record]:
    """Keys of ten users, with headers now and then."""
    partitions = len(REPLICAS[topic])
    return [
        Record(
            b"user-%d" % (number % 10), b"%s %d " % (topic.encode(), number) + b"x" * (number * 37 % largest),
            (("trace", b"%d" % number), ("none", None)) if number % 5 == 0 else (), 1_700_000_000_000 + number,
            number // 10 % partitions,
        )
        for number in range(count)
    ]  # fmt: skip


def write(cluster: Cluster) -> tuple[Producer, Producer]:
    """Everything that clients do; the producers that stay are an idempotent and a transactional one."""
    cleaned = {"min_cleanable_dirty_ratio": 0.01, "internal_segment_bytes": 8192, "cleanup_policy": "compact"}
    cluster.create_topic("orders", REPLICAS["orders"], internal_segment_bytes=16384, index_interval_bytes=1024)
    cluster.create_topic("users", REPLICAS["users"], cleanup_policy="compact", min_compaction_lag_ms=10**12)
    cluster.create_topic("cleaned", REPLICAS["cleaned"], **cleaned)
    cluster.create_topic("idle", REPLICAS["idle"])
    node = cluster.alive
    for codec in CODECS:
        produce_confluent(node, "orders", records("orders", 200), codec, batch_size=2000, enable_idempotence=True)
    produce_java(node, "orders", records("orders", 100), "zstd", acks="all")
    conf = {"bootstrap.servers": node.bootstrap, "enable.idempotence": True, "linger.ms": 5, "batch.size": 900}
    idempotent = Producer({**conf, "compression.type": "lz4", "log_level": 0})
    for number in range(200):  # of the topic idle, nothing is left
        for topic, partition in IDEMPOTENT:
            key = ERASED[0] if topic == "idle" else f"user-{number % 10}"
            idempotent.produce(topic, key=key, value=f"idempotent {number}", partition=partition)
    assert idempotent.flush(60) == 0
    closed, kept = (transactional_producer(node, name) for name in ("closed", "kept"))
    for producer in (closed, kept):
        for end in ("commit_transaction", "abort_transaction", "commit_transaction"):
            transact(producer, end)
    produce_confluent(node, "users", records("users", 120), "zstd", batch_size=1500, acks=-1)
    for _ in range(3):
        produce_confluent(node, "cleaned", records("cleaned", 120), "lz4", batch_size=1500, acks=-1)
    return idempotent, kept


def commit(node: Node) -> None:
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": GROUP, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition("orders", 0, AT)], asynchronous=False)
    consumer.close()


def is_cleaned(node: Node) -> bool:
    """Whether the cleaner has come to the last segment of the compacted log."""
    checkpoint = node.log_dir / "cleaner-offset-checkpoint"
    end = max(int(path.stem) for path in node.logs("cleaned"))
    return checkpoint.exists() and f"cleaned 0 {end}" in checkpoint.read_text().splitlines()


@pytest.fixture(scope="module")
def erased(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Erased]:
    directory = tmp_path_factory.mktemp("erased")
    cluster = Cluster(directory / "cluster", SETTINGS)
    with cluster:
        idempotent, transactional = write(cluster)
        commit(cluster.alive)
        wait_for(lambda: all(map(is_cleaned, cluster.brokers.values())), cluster.alive.tail)
        before_served = served(cluster.alive)
        cluster.stop(*BROKERS)
        before = cluster.disks(directory / "before")
        (directory / "keys").write_text("".join(f"{key}\n" for key in ERASED))
        manifest = directory / "proof.json"
        arguments = ["erase", *before, "--to", directory / "to", "--keys", directory / "keys", "--manifest", manifest]
        assert main(list(map(str, arguments))) == 0
        after = [directory / "to" / disk.name for disk in before]
        ends = {place: end_of(after[0], place) for place in PLACES}
        for node, disk in zip(cluster.brokers.values(), after, strict=True):
            shutil.rmtree(node.log_dir)
            shutil.copytree(disk, node.log_dir)
            node.output.write_bytes(b"")
        cluster.start(*BROKERS)
        for topic in (*REPLICAS, "__consumer_offsets", "__transaction_state"):
            cluster.wait_for_replicas(topic, 3)
        producer_id = (
            brokerless.open(before[0]).partition("idle", 0).batches(["producerId"]).read_all()["producerId"][0]
        )
        yield Erased(
            cluster, before, after, manifest, before_served, ends, idempotent, transactional, producer_id.as_py()
        )  # fmt: skip


def end_of(disk: Path, place: Place) -> int:
    """The log's end offset."""
    return brokerless.open(disk).partition(*place).end_offset


def log_bytes(disk: Path, place: Place) -> bytes:
    paths = (disk / f"{place[0]}-{place[1]}").glob("*.log")
    return b"".join(path.read_bytes() for path in sorted(paths))


def is_erased(record: Consumed) -> bool:
    return record.key is not None and record.key.decode() in ERASED


def last_batch(disk: Path, place: Place, producer_id: int) -> dict[str, int]:
    columns = ["producerId", "producerEpoch", "baseSequence", "lastSequence", "lastOffset", "isControl"]
    rows = brokerless.open(disk).partition(*place).batches(columns).read_all().to_pylist()
    return [row for row in rows if row["producerId"] == producer_id and not row["isControl"]][-1]


def test_replicas_are_byte_identical_again(erased: Erased) -> None:
    for place in PLACES:
        logs = [log_bytes(disk, place) for disk in erased.after]
        assert logs[0] == logs[1] == logs[2], place
        assert end_of(erased.before[0], place) == erased.ends[place]
        assert logs[0] != log_bytes(erased.before[0], place)


def test_audit_finds_nothing_and_the_proof_holds(erased: Erased) -> None:
    for before, after in zip(erased.before, erased.after, strict=True):
        audit = brokerless.open(after).audit()
        found = audit.findings
        assert [each for each in found if each.severity != "info"] == []
        assert (after / "meta.properties").read_bytes() == (before / "meta.properties").read_bytes()
    selection = Selection(keys=KeySet.of(key.encode() for key in ERASED))
    assert brokerless.prove(erased.manifest, source=erased.before[0].parent, selection=selection).holds


def test_brokers_start_without_recovery_and_followers_truncate_nothing(erased: Erased) -> None:
    for broker in erased.cluster.brokers.values():
        lines = broker.output.read_text().splitlines()
        said = [line for line in lines if "__cluster_metadata" not in line]  # which is recovered at each start
        assert [line for line in said if MENDING.search(line)] == []
        for (topic, partition), end in erased.ends.items():
            (loaded,) = (line for line in said if "Completed load" in line and f"{topic}-{partition}," in line)
            assert f"log-end-offset {end} " in loaded


@pytest.mark.parametrize("client", ["confluent", "java"])
@pytest.mark.parametrize("level", LEVELS)
def test_consumers_get_all_other_records_at_their_offsets(erased: Erased, level: str, client: str) -> None:
    node = erased.cluster.alive
    for place in PLACES:
        found = consume(node, *place, level) if client == "confluent" else java_records(node, place, level)
        before = erased.served[place, level, client]
        assert [each for each in found if each.offset < erased.ends[place]] == [
            each for each in before if not is_erased(each)
        ], place
        assert any(map(is_erased, before)), place


def test_the_group_goes_on_at_its_committed_offset(erased: Erased) -> None:
    group = {"bootstrap.servers": erased.cluster.alive.bootstrap, "group.id": GROUP, "enable.auto.commit": False}
    consumer = Consumer({**group, "log_level": 0})
    assert erased.cluster.alive.committed(GROUP, [("orders", 0)]) == {("orders", 0): AT}
    consumer.assign([TopicPartition("orders", 0)])
    message = consumer.poll(30)
    consumer.close()
    following = [each for each in erased.served[("orders", 0), LEVELS[1], "confluent"] if each.offset >= AT]
    assert message is not None
    assert message.offset() == next(each.offset for each in following if not is_erased(each))


def test_the_producers_of_before_go_on(erased: Erased) -> None:
    """Their next batch has the sequence after the last one, which was erased as a whole in the topic idle; replicas
    stay the same."""
    node, producer = erased.cluster.alive, erased.idempotent
    last = {place: last_batch(erased.before[0], place, erased.producer_id) for place in IDEMPOTENT}
    for topic, partition in IDEMPOTENT:
        producer.produce(topic, key="after", value="after", partition=partition)
    assert producer.flush(60) == 0
    for end in ("commit_transaction", "abort_transaction"):
        transact(erased.transactional, end)
    other = transactional_producer(node, "closed")  # fences whoever had this ID before
    transact(other, "commit_transaction")
    disk = [broker.log_dir for broker in erased.cluster.brokers.values()]
    for place in PLACES:
        wait_for(lambda place=place: len({log_bytes(each, place) for each in disk}) == 1, node.tail)
        assert log_bytes(disk[0], place).startswith(log_bytes(erased.after[0], place))
    for place, before in last.items():
        now = last_batch(disk[0], place, erased.producer_id)
        assert (now["lastOffset"], now["baseSequence"]) == (erased.ends[place], before["lastSequence"] + 1)
        assert now["producerEpoch"] == before["producerEpoch"]
    values = [each.value for each in consume(node, "orders", 0, "read_committed")]
    assert values.count(b"commit_transaction 0") == 6
    assert values.count(b"abort_transaction 0") == 0
