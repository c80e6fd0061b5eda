"""The harness itself: what is produced into a real broker is what Kafka's reader, its dump tool and a consumer see."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from tests.golden import cases
from tests.kafka.broker import KafkaBroker, crash
from tests.kafka.cluster import wait_for
from tests.kafka.oracle import dump, read_log
from tests.kafka.producers import PRODUCERS, Record, consume, produce_confluent

CODECS = ("none", "zstd")
RECORDS = [
    Record(b"key", b"value", (("a", b"1"), ("b", None), ("", b"")), 1_700_000_000_000),
    Record(None, b"no key", (), 1_700_000_000_001),
    Record(b"tombstone", None, (), 1_700_000_000_002),
    Record(b"large", b"x" * 2000, (), 1_700_000_000_003),
]


def test_readers_of_this_harness_say_what_the_golden_archive_says(kafka_jars: Path) -> None:
    chosen = cases("formats")
    lines = read_log(*(case.log for case in chosen))
    assert lines == [line for case in chosen for line in case.expected()]


@pytest.mark.parametrize("client", PRODUCERS)
def test_what_each_client_produces_is_in_the_log(client: str, kafka: KafkaBroker) -> None:
    topic = f"harness-{client}"
    kafka.create_topic(topic)
    for number, codec in enumerate(CODECS):
        first = number * len(RECORDS)
        assert PRODUCERS[client](kafka, topic, RECORDS, codec) == list(range(first, first + len(RECORDS)))

    lines = read_log(*kafka.logs(topic))
    batches = [line for line in lines if line["type"] == "batch"]
    records = [line for line in lines if line["type"] == "record"]
    assert {batch["compression"] for batch in batches} == set(CODECS)
    assert all(batch["isValid"] for batch in batches)
    assert [base64.b64decode(record["key"]) if record["key"] else None for record in records] == [
        record.key for record in RECORDS
    ] * len(CODECS)
    assert [record["timestamp"] for record in records] == [record.timestamp for record in RECORDS] * len(CODECS)

    text = dump(kafka.logs(topic), "--deep-iteration", "--print-data-log")
    assert text.count("| offset: ") == len(records)

    seen = consume(kafka, topic)
    assert [(record.key, record.value, record.headers) for record in seen] == [
        (record.key, record.value, record.headers) for record in RECORDS
    ] * len(CODECS)


@pytest.mark.parametrize("client", PRODUCERS)
def test_consumers_see_transactions_as_their_isolation_says(client: str, kafka: KafkaBroker) -> None:
    topic = f"harness-transactions-{client}"
    kafka.create_topic(topic)
    for number, (codec, end) in enumerate([("lz4", "commit"), ("none", "abort")], 1):
        PRODUCERS[client](kafka, topic, RECORDS, codec, end)
        # A client is told that a transaction has ended before its marker is in the log.
        wait_for(lambda: len(controls(kafka, topic)) == number, lambda: f"{topic}: {controls(kafka, topic)}")  # noqa: B023
    produce_confluent(kafka, topic, RECORDS[:1])
    produce_confluent(kafka, topic, RECORDS[:2], transaction="open")
    produce_confluent(kafka, topic, RECORDS[:1])

    assert [record.offset for record in consume(kafka, topic)] == [0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13]
    assert [record.offset for record in consume(kafka, topic, isolation="read_committed")] == [0, 1, 2, 3, 10]

    assert controls(kafka, topic) == ["COMMIT", "ABORT"]


def controls(kafka: KafkaBroker, topic: str) -> list[str]:
    return [line["control"]["type"] for line in read_log(*kafka.logs(topic)) if "control" in line]


def test_a_stopped_broker_leaves_its_jvm_and_nothing_else_to_the_next(kafka_jars: Path, tmp_path: Path) -> None:
    first, second = KafkaBroker(tmp_path / "first"), KafkaBroker(tmp_path / "second")
    with first:
        assert first.process is not None
        jvm = first.process.pid
        first.create_topic("of-the-first")
        produce_confluent(first, "of-the-first", RECORDS)
    assert (first.log_dir / ".kafka_cleanshutdown").exists()
    second.start()
    assert second.process is not None
    assert second.process.pid == jvm
    assert set(second.admin().list_topics(timeout=10).topics) == set()
    assert "of-the-first" not in second.tail()
    second.kill()
    with first:  # on what it had, in a JVM of its own
        assert first.process is not None
        assert first.process.pid != jvm
        assert [each.value for each in consume(first, "of-the-first")] == [each.value for each in RECORDS]


def test_a_crashed_broker_leaves_what_a_killed_one_does_and_its_jvm(kafka_jars: Path, tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path / "broker")
    with broker:
        assert broker.process is not None
        jvm = broker.process.pid
        broker.create_topic("crashed")
        produce_confluent(broker, "crashed", RECORDS)
        running = {path: path.read_bytes() for path in (broker.log_dir / "crashed-0").iterdir()}
        crash(broker)
    assert not (broker.log_dir / ".kafka_cleanshutdown").exists()
    assert {path: path.read_bytes() for path in (broker.log_dir / "crashed-0").iterdir()} == running
    assert max(map(len, running.values())) > 1 << 20, "the index of a running broker's active segment is preallocated"
    with broker:
        assert broker.process is not None
        assert broker.process.pid == jvm
        assert [each.value for each in consume(broker, "crashed")] == [each.value for each in RECORDS]
        assert re.search("partition=crashed-0.* Recovering unflushed segment", broker.output.read_text())


def test_a_broker_that_fails_ends_its_jvm(kafka_jars: Path, tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path / "broker", {"log.segment.bytes": "none"})
    broker.format = lambda: None  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match=r"ended while it started: .*Not a number of type INT"):
        broker.start()
