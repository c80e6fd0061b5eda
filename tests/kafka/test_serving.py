"""A real broker starts on partitions that we wrote, serves them as its own, appends to them, and mends nothing."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position

import brokerless
from brokerless.log.checkpoint.partition_metadata import load_partition_metadata
from brokerless.log.commit.log_opener import open_log
from brokerless.log.commit.partition_writer import NewPartition, PartitionWriter
from brokerless.log.config import LogConfig
from brokerless.log.storage.location import Location
from tests.kafka.broker import KafkaBroker, crash
from tests.kafka.jars import check, run
from tests.kafka.oracle import dump_everything
from tests.kafka.producers import Consumed, Record, consume, produce_confluent
from tests.kafka.written import START, Written, everything

pytestmark = pytest.mark.xdist_group("serving")

BULK, APPENDED = "written-at-once", "written-by-and-by"
CONFIG = LogConfig(segment_bytes=64 << 10, index_interval_bytes=1024)
MENDING = re.compile(
    r"recovering (un)?flushed|rebuilding (the )?index|corrupt|found invalid|truncat|sanity|no checkpoint|unclean",
    re.IGNORECASE,
)
WRONG = re.compile(r"mismatch|do not have|out of order|isvalid: false|invalid|sanity|corrupt", re.IGNORECASE)
"""What the dump tool says of logs and indexes that are not as they should be."""


class Serving(KafkaBroker):
    """A broker, what was in its partitions' files before it started on them, and what the dump tool said of them."""

    as_written: dict[str, dict[str, bytes]]
    dumped: str


@pytest.fixture(scope="module")
def written() -> dict[str, Written]:
    return {BULK: everything(1), APPENDED: everything(2)}


@pytest.fixture(scope="module")
def broker(
    kafka_jars: Path, written: dict[str, Written], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Serving]:
    """A broker that knows two topics, whose partitions were replaced by ours while it was stopped."""
    broker = Serving(tmp_path_factory.mktemp("serving"))
    with broker:
        for topic in written:
            broker.create_topic(topic, message_timestamp_type="CreateTime", retention_ms=-1)
    ids = {}
    for topic in written:
        directory = broker.log_dir / f"{topic}-0"
        ids[topic] = load_partition_metadata(Location(str(directory / "partition.metadata"))).topic_id
        shutil.rmtree(directory)
    with PartitionWriter(NewPartition(broker.log_dir, BULK, 0, CONFIG, topic_id=ids[BULK])) as output:
        for piece in written[BULK].pieces:
            output.append(piece)
        output.commit()
    with open_log(broker.log_dir, APPENDED, 0, CONFIG, topic_id=ids[APPENDED]) as log:
        for number, piece in enumerate(written[APPENDED].pieces):
            log.append(piece)
            if number % 50 == 0:
                log.flush()
    broker.as_written = {topic: files(broker, topic) for topic in written}
    broker.dumped = dump_of_topics(broker, *written)
    broker.output.write_bytes(b"")
    with broker:
        yield broker


def files(broker: Serving, topic: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((broker.log_dir / f"{topic}-0").iterdir())}


def dump_of_topics(broker: Serving, *topics: str) -> str:
    """What Kafka's dump tool says of all files of these topics."""
    return dump_everything(path for topic in topics for path in (broker.log_dir / f"{topic}-0").iterdir())


def consumed_by_kafka(
    broker: Serving, topic: str, isolation: str, start: int, *times: int
) -> tuple[list[Consumed], dict[str, Any]]:
    arguments = (broker.bootstrap, topic, "0", isolation, str(start), *map(str, times))
    lines = check(run("Consume", *arguments, helper=True)).splitlines()
    *records, facts = [json.loads(line) for line in lines]

    def content(text: str | None) -> bytes | None:
        return None if text is None else base64.b64decode(text)

    found = [
        Consumed(
            each["offset"],
            each["timestamp"],
            content(each["key"]),
            content(each["value"]),
            tuple((name, content(value)) for name, value in each["headers"]),
        )
        for each in records
    ]
    return found, facts


def mended(broker: Serving) -> list[str]:
    """What the broker said of our partitions since its output was last emptied, as far as something was wrong."""
    said = [line for line in broker.output.read_text().splitlines() if BULK in line or APPENDED in line]
    assert said
    return [line for line in said if MENDING.search(line)]


def test_the_dump_tool_finds_nothing(broker: Serving, written: dict[str, Written]) -> None:
    text = broker.dumped
    assert not re.search(
        r"mismatch|do not have|out of order|isvalid: false|invalid|sanity|corrupt", text, re.IGNORECASE
    )
    for topic in written:
        kept = broker.as_written[topic]
        assert len([name for name in kept if name.endswith(".log")]) > 5
        assert any(name.endswith(".txnindex") and data for name, data in kept.items())


@pytest.mark.parametrize("topic", [BULK, APPENDED])
def test_consumers_get_every_record(broker: Serving, written: dict[str, Written], topic: str) -> None:
    assert consume(broker, topic) == written[topic].records
    assert consume(broker, topic, isolation="read_committed") == written[topic].committed


@pytest.mark.parametrize("topic", [BULK, APPENDED])
def test_kafkas_consumer_gets_them_from_any_offset_on_and_finds_times(
    broker: Serving, written: dict[str, Written], topic: str
) -> None:
    log = written[topic]
    times = [START - 1, *np.linspace(START, max(each.timestamp for each in log.records), 40).astype(int).tolist()]
    times += [times[-1] + 1]
    found, facts = consumed_by_kafka(broker, topic, "read_uncommitted", 0, *times)
    assert found == log.records
    assert (facts["beginning"], facts["end"]) == (0, log.end_offset)
    for time in times:
        assert facts["times"][str(time)] == log.offset_for(time), time
    middle = log.records[len(log.records) // 2].offset
    found, _ = consumed_by_kafka(broker, topic, "read_committed", middle)
    assert found == [each for each in log.committed if each.offset >= middle]


def test_librdkafka_finds_times(broker: Serving, written: dict[str, Written]) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "times"})
    try:
        for each in written[BULK].records[::500]:
            (found,) = consumer.offsets_for_times([Position(BULK, 0, each.timestamp)], timeout=30)
            assert found.offset == written[BULK].offset_for(each.timestamp)
    finally:
        consumer.close()


def test_the_broker_mended_nothing(broker: Serving, written: dict[str, Written]) -> None:
    """Neither in the files of rolled segments nor by what it says while it starts."""
    for topic in written:
        before, after = dict(broker.as_written[topic]), files(broker, topic)
        active = max(name for name in before if name.endswith(".log")).removesuffix(".log")
        del before["leader-epoch-checkpoint"]  # it leads from now on, in an epoch of its own
        for name, data in before.items():
            if not name.startswith(active):
                assert after[name] == data, name
    assert mended(broker) == []


def test_it_appends_and_restarts(broker: Serving, written: dict[str, Written]) -> None:
    """What clients write comes behind what we wrote; after a clean stop and after a kill all of it is there."""
    more = [Record(b"key", b"more %d" % number, (("a", b"b"),), START) for number in range(200)]
    for topic, log in written.items():
        offsets = produce_confluent(broker, topic, more, "lz4")
        assert offsets == list(range(log.end_offset, log.end_offset + len(more)))
        (first,) = produce_confluent(broker, topic, more[:1], transaction="commit")
        assert first == offsets[-1] + 1
    broker.stop()
    broker.output.write_bytes(b"")
    text = dump_of_topics(broker, *written)
    assert not WRONG.search(text)
    broker.start()
    assert mended(broker) == []
    crash(broker)
    broker.start()
    for topic, log in written.items():
        found = consume(broker, topic, isolation="read_committed")
        assert found[: len(log.committed)] == log.committed
        assert [each.value for each in found[len(log.committed) :]] == [each.value for each in more] + [more[0].value]
        (partition,) = brokerless.open(broker.log_dir).topic(topic).partitions
        assert [finding for finding in partition.verify() if finding.severity == "error"] == []


def test_we_append_after_a_broker_and_it_goes_on(broker: Serving, written: dict[str, Written]) -> None:
    """A stopped broker's partition, opened by us, appended to and closed, is served on."""
    topic = APPENDED
    broker.stop()
    (partition,) = brokerless.open(broker.log_dir).topic(topic).partitions
    epoch = max(max(batch["partitionLeaderEpoch"].to_pylist()) for batch in partition.batches(["partitionLeaderEpoch"]))
    with open_log(broker.log_dir, topic, 0, CONFIG) as log:
        again = everything(3, epoch, rounds=2, start_offset=log.log_end_offset)
        for piece in again.pieces:
            log.append(piece)
    broker.start()
    assert consume(broker, topic)[-len(again.records) :] == again.records
    assert consume(broker, topic, isolation="read_committed")[-len(again.committed) :] == again.committed
    assert produce_confluent(broker, topic, [Record(b"k", b"last")]) == [again.end_offset]
