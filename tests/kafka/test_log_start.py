"""After ``DeleteRecords``, readers begin where a consumer of the broker does, and find times as it does."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, TopicPartition

import brokerless
from brokerless.cli import main
from tests.kafka.broker import KafkaBroker
from tests.kafka.producers import Record, consume, produce_confluent

pytestmark = pytest.mark.xdist_group("log_start")
TIME = 1_700_000_000_000
PLAIN, TRANSACTIONS, HEAD = "log-start", "log-start-transactions", "log-start-head"
TOPICS = {PLAIN: 57, TRANSACTIONS: 93, HEAD: 31}
"""Up to where records are deleted: within a batch, and within a segment."""
ISOLATIONS = ("read_uncommitted", "read_committed")


@dataclass(frozen=True)
class Deleted:
    """A running broker, and a copy of its log directory."""

    broker: KafkaBroker
    data: Path

    def partition(self, topic: str, include: str = "live") -> brokerless.Log:
        return brokerless.open(self.data, include=[include]).partition(topic, 0)  # type: ignore[list-item]


def records(first: int, count: int) -> list[Record]:
    """Timestamps go up and down: those of 40 to 49 are the latest but for one, and come again from 260 on."""
    times = [TIME + 1000 * number + (500_000 if 40 <= number < 50 else 0) for number in range(first, first + count)]
    times = [each - 800_000 if number % 9 == 4 else each for number, each in enumerate(times, first)]
    return [
        Record(b"key-%d" % number, random.Random(number).randbytes(300), timestamp=each)
        for number, each in enumerate(times, first)
    ]


def wait(is_so: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def lines_of(broker: KafkaBroker) -> set[tuple[str, int]]:
    checkpoint = broker.log_dir / "log-start-offset-checkpoint"
    lines = checkpoint.read_text().splitlines()[2:] if checkpoint.exists() else []
    return {(line.split()[0], int(line.split()[2])) for line in lines}


@pytest.fixture(scope="module")
def deleted(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deleted]:
    settings = {
        "log.flush.start.offset.checkpoint.interval.ms": "200",
        "log.retention.check.interval.ms": "300",
        "log.segment.delete.delay.ms": "600000",
    }
    with KafkaBroker(tmp_path_factory.mktemp("deleted") / "broker", settings) as broker:
        for topic in (PLAIN, HEAD):
            broker.create_topic(topic, 1, internal_segment_bytes=16_384)
            for first in range(0, 400, 20):
                produce_confluent(broker, topic, records(first, 20), ("lz4", "none", "zstd")[first // 20 % 3])
        broker.create_topic(TRANSACTIONS)
        for first, transaction in ((0, "commit"), (40, "abort"), (80, "commit"), (120, "commit"), (160, "open")):
            produce_confluent(broker, TRANSACTIONS, records(first, 40), transaction=transaction)  # type: ignore[arg-type]
        admin = broker.admin()
        asked = [TopicPartition(topic, 0, offset) for topic, offset in TOPICS.items()]
        for done in admin.delete_records(asked).values():
            done.result(30)
        wait(lambda: lines_of(broker) >= set(TOPICS.items()))
        wait(lambda: list((broker.log_dir / f"{PLAIN}-0").glob("*.log.deleted")) != [])
        yield Deleted(broker, broker.copy_log_dir(tmp_path_factory.mktemp("copy") / "data"))


def offsets_for_times(broker: KafkaBroker, topic: str, times: list[int], isolation: str) -> list[int]:
    conf = {"bootstrap.servers": broker.bootstrap, "group.id": "times", "isolation.level": isolation, "log_level": 3}
    consumer = Consumer(conf)
    try:
        return [consumer.offsets_for_times([TopicPartition(topic, 0, each)], timeout=30)[0].offset for each in times]
    finally:
        consumer.close()


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("topic", TOPICS)
def test_offsets_for_times_are_those_of_the_broker(deleted: Deleted, topic: str, isolation: Any) -> None:
    times = [0, *range(TIME - 850_000, TIME + 600_000, 7_300), TIME + 999_000]
    partition = deleted.partition(topic)
    ours = [partition.offset_for_timestamp(each, isolation=isolation) for each in times]
    theirs = offsets_for_times(deleted.broker, topic, times, isolation)
    assert [-1 if each is None else each for each in ours] == theirs
    assert len(set(theirs)) > 3


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("topic", TOPICS)
def test_records_are_what_a_consumer_gets(deleted: Deleted, topic: str, isolation: Any) -> None:
    theirs = [(each.offset, each.timestamp, each.key) for each in consume(deleted.broker, topic, isolation=isolation)]
    assert theirs[0][0] >= TOPICS[topic]
    partition = deleted.partition(topic)
    assert partition.start_offset == TOPICS[topic]
    rows = [row for batch in partition.records(isolation=isolation) for row in batch.to_pylist()]
    assert [(row["offset"], int(row["timestamp"].timestamp() * 1000), row["key"]) for row in rows] == theirs


def run(capfdbinary: pytest.CaptureFixture[bytes], *arguments: object) -> list[dict[str, Any]]:
    capfdbinary.readouterr()
    assert main([*map(str, arguments), "--json"]) == 0
    return [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]


@pytest.mark.parametrize("topic", TOPICS)
def test_all_commands_begin_at_the_log_start_offset(
    deleted: Deleted, topic: str, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    offsets = [each.offset for each in consume(deleted.broker, topic)]
    directory = deleted.data / f"{topic}-0"
    assert [row["offset"] for row in run(capfdbinary, "cat", directory)] == offsets
    assert [row["offset"] for row in run(capfdbinary, "cat", deleted.data, "-t", topic)] == offsets
    (listed,) = run(capfdbinary, "ls", directory)
    assert (listed["records"], listed["firstOffset"]) == (len(offsets), TOPICS[topic])
    by_segment = run(capfdbinary, "ls", "--segments", directory)
    assert sum(row["records"] for row in by_segment) == len(offsets)
    batches = run(capfdbinary, "batches", directory)
    assert batches[0]["baseOffset"] < TOPICS[topic]  # what files hold is all listed
    assert sum(row["batches"] for row in by_segment) == len(batches)
    capfdbinary.readouterr()
    main(["audit", "--all", str(directory)])
    lines = capfdbinary.readouterr().out.decode().splitlines()
    audited = next(line for line in lines if line.startswith(directory.name)).split()
    assert audited[3].replace(",", "") == str(len(offsets))
    assert int(audited[2]) == len(batches)
    assert f"{TOPICS[topic]}..{listed['lastOffset']}" in audited
    (exported,) = run(capfdbinary, "export", directory, "--to", tmp_path / "exported")
    assert (exported["startOffset"], exported["records"]) == (TOPICS[topic], len(offsets))
    files = sorted((tmp_path / "exported").rglob("*.parquet"))
    assert [row for file in files for row in pq.read_table(file)["offset"].to_pylist()] == offsets


@pytest.mark.parametrize("topic", TOPICS)
def test_deleted_records_are_read_where_they_are_asked_for(
    deleted: Deleted, topic: str, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    directory, include = deleted.data / f"{topic}-0", ("--include", "deleted")
    files = [path for path in sorted(directory.glob("*.log")) if not path.name.endswith(".deleted")]
    held = [row["offset"] for file in files for row in run(capfdbinary, "cat", file)]
    assert held[0] < TOPICS[topic]
    assert [row["offset"] for row in run(capfdbinary, "cat", directory, *include)] == held
    listed = run(capfdbinary, "ls", directory, *include)
    assert listed[0]["records"] == len(held)
    waiting = sorted(path.name for path in directory.glob("*.log.deleted"))
    assert [row["state"] for row in listed] == ["live", *(["deleted"] if waiting else [])]
    segments = [row["file"].rpartition("/")[2] for row in run(capfdbinary, "ls", "--segments", directory, *include)]
    assert segments == [*(file.name for file in files), *waiting]
    capfdbinary.readouterr()
    main(["audit", str(directory), *include])
    assert f" {len(held)} " in capfdbinary.readouterr().out.decode().splitlines()[1]
    (exported,) = run(capfdbinary, "export", directory, "--to", tmp_path / "exported", *include)
    assert exported["records"] == len(held)
    assert deleted.partition(topic, "deleted").start_offset == int(files[0].stem)


@pytest.mark.parametrize("topic", TOPICS)
def test_what_is_converted_has_the_same_log_start(
    deleted: Deleted, topic: str, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    directory = deleted.data / f"{topic}-0"
    offsets = [each.offset for each in consume(deleted.broker, topic)]
    (converted,) = run(capfdbinary, "convert", directory, "--to", tmp_path / "to", "--codec", "gzip")
    assert converted["startOffset"] == TOPICS[topic]
    assert [row["offset"] for row in run(capfdbinary, "cat", tmp_path / "to")] == offsets
    held = [row["offset"] for row in run(capfdbinary, "cat", tmp_path / "to", "--include", "deleted")]
    batches = [row["baseOffset"] for row in run(capfdbinary, "batches", directory) if not row["isControl"]]
    assert held[0] == max(offset for offset in batches if offset <= TOPICS[topic])  # a batch is kept whole
    run(capfdbinary, "convert", directory, "--to", tmp_path / "all", "--codec", "gzip", "--include", "deleted")
    everything = [row["offset"] for row in run(capfdbinary, "cat", directory, "--include", "deleted")]
    assert [row["offset"] for row in run(capfdbinary, "cat", tmp_path / "all")] == everything
