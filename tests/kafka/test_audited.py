"""What the audit says of partitions by Kafka's own topics, and what a broker then does with them at its next start."""

from __future__ import annotations

import base64
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from brokerless.clusters.directory_state import load_directory_state
from brokerless.findings import Finding
from brokerless.jobs.audit.advice import abort_command
from brokerless.jobs.audit.job import audit_directory, audit_partition
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from tests.cli.conftest import Run, run  # noqa: F401 - a fixture
from tests.kafka.broker import KafkaBroker, crash
from tests.kafka.jars import check
from tests.kafka.jars import run as kafka_run

pytestmark = pytest.mark.xdist_group("audited")

TOPICS = ("deleted", "lost", "read", "ongoing", "orphaned")
TIMEOUT_MS = 2000
WORKING, GONE = "active", "gone"
"""Transactional ids; each is in a partition of its own of __transaction_state: 0, and 1."""
ANOTHER_ID = base64.urlsafe_b64encode(bytes(range(16))).decode().rstrip("=")


def audit(directory: Path) -> list[Finding]:
    """What is said of a log directory as a whole."""
    resolved = resolve(Location(str(directory)))
    notes = load_directory_state(resolved)
    audits = [audit_partition(each, notes.of(each)) for each in resolved.partitions]
    return list(audit_directory(resolved, notes, audits))


def said(findings: list[Finding], kind: str) -> list[tuple[str, int | None]]:
    """Where findings of a kind are: the name of the partition's directory, and the offset."""
    places = [(Path(each.file), each.offset) for each in findings if each.kind == kind]
    return [((path.parent if path.suffix else path).name, offset) for path, offset in places]


def produce(broker: KafkaBroker, topic: str, count: int, transactional_id: str | None = None) -> Producer:
    """With a transactional id, in a transaction that is left open."""
    conf: dict[str, object] = {"bootstrap.servers": broker.bootstrap}
    if transactional_id is not None:
        conf |= {"transactional.id": transactional_id, "transaction.timeout.ms": TIMEOUT_MS}
    producer = Producer(conf)
    if transactional_id is not None:
        producer.init_transactions(20)
        producer.begin_transaction()
    for number in range(count):
        producer.produce(topic, value=b"value %d" % number, partition=0)
    producer.flush(20)
    return producer


def consume(broker: KafkaBroker, topic: str, count: int) -> None:
    """A group reads some records, and commits."""
    consumer = Consumer({
        "bootstrap.servers": broker.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    })  # fmt: skip
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        messages = []
        while len(messages) < count:
            messages += consumer.consume(count - len(messages), 1)
        consumer.commit(message=messages[-1], asynchronous=False)
    finally:
        consumer.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Stopped; two transactions were left open, a group has read 7 of 10 records."""
    settings = {
        # Not much less than the default: a coordinator that aborts a transaction before its own broker is unfenced
        # takes the partition for deleted, and writes no marker (4.4.0).
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "6000",
        "transaction.state.log.num.partitions": "2",
    }
    with KafkaBroker(tmp_path_factory.mktemp("audited"), settings) as broker:
        for topic in TOPICS:
            broker.create_topic(topic)
            if topic in ("deleted", "lost", "read"):
                produce(broker, topic, 10)
        consume(broker, "read", 7)
        left = produce(broker, "orphaned", 3, GONE), produce(broker, "ongoing", 4, WORKING)
        crash(broker)
        del left
        yield broker


def test_by_kafkas_own_topics(broker: KafkaBroker) -> None:
    data = broker.log_dir
    findings = audit(data)
    assert said(findings, "group-lag") == [("read-0", None)]
    assert "'readers' is 3 offsets behind" in str(next(each for each in findings if each.kind == "group-lag"))
    assert said(findings, "transaction-ongoing") == [("ongoing-0", 0), ("orphaned-0", 0)]
    bad = ("topic-unknown", "replica-missing", "replica-elsewhere", "transaction-orphaned", "group-offset-beyond-end")
    assert not [each for each in findings if each.kind in bad]


def test_a_log_that_is_shorter_than_what_was_read_of_it(broker: KafkaBroker, tmp_path: Path) -> None:
    copy = broker.copy_log_dir(tmp_path / "copy")
    (log,) = (copy / "read-0").glob("*.log")
    log.write_bytes(b"")
    assert said(audit(copy), "group-offset-beyond-end") == [("read-0", 7)]


def test_a_broker_with_another_number_has_no_replicas_here(broker: KafkaBroker, tmp_path: Path) -> None:
    copy = broker.copy_log_dir(tmp_path / "copy")
    meta = copy / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=2"))
    there = {name for name, _ in said(audit(copy), "replica-elsewhere")}
    assert {f"{topic}-0" for topic in TOPICS} <= there


def test_one_topic_alone_is_judged_by_kafkas_own_topics_too(
    broker: KafkaBroker,
    tmp_path: Path,
    run: Run,  # noqa: F811
) -> None:
    copy = broker.copy_log_dir(tmp_path / "copy")
    result = run("audit", copy, "-t", "ongoing", "--json")
    assert [each["offset"] for each in result.json if each["kind"] == "transaction-ongoing"] == [0]


def test_a_broker_then_does_what_was_said(broker: KafkaBroker) -> None:
    data = broker.log_dir
    metadata = data / "deleted-0" / "partition.metadata"
    lines = metadata.read_text().splitlines()
    metadata.write_text("\n".join([lines[0], f"topic_id: {ANOTHER_ID}"]) + "\n")
    shutil.rmtree(data / "lost-0")
    (state,) = (data / "__transaction_state-1").glob("*.log")
    state.write_bytes(b"")
    findings = audit(data)
    assert said(findings, "topic-unknown") == [("deleted-0", None)]
    assert said(findings, "transaction-ongoing") == [("ongoing-0", 0)]
    assert said(findings, "transaction-orphaned") == [("orphaned-0", 0)]
    missing = [each.message for each in findings if each.kind == "partition-missing" and each.file == str(data)]
    assert [name for name in ("deleted-0", "lost-0") if any(f" {name}:" in each for each in missing)] == [
        "deleted-0",
        "lost-0",
    ]
    assert len(missing) == 2

    broker.start()
    try:
        # The other one is taken for stray; it and the lost one are made anew.
        assert [path.name.split(".")[0] for path in data.glob("deleted-0.*-stray")] == ["deleted-0"]
        broker.wait_for_leaders("lost", 1)
        assert broker.watermarks("lost") == broker.watermarks("deleted") == {0: (0, 0)}
        # The coordinator ends the transaction of which it knows, and only that.
        until(lambda: {"transaction-ongoing", "transaction-decided"}.isdisjoint(each.kind for each in audit(data)))
        (orphaned,) = (each for each in audit(data) if each.kind == "transaction-orphaned")
        assert said([orphaned], "transaction-orphaned") == [("orphaned-0", 0)]
        abort = abort_command(orphaned)
        assert abort is not None
        tool, *arguments = shlex.split(abort.replace("HOST:9092", broker.bootstrap))
        assert tool == "kafka-transactions.sh"
        check(kafka_run("org.apache.kafka.tools.TransactionsCommand", *arguments, alone=True))
        until(lambda: not said(audit(data), "transaction-orphaned"))
    finally:
        broker.stop()


def until(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.3)
