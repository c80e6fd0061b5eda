"""What spark-sql-kafka reads from a running broker, brokerless reads from its files, with the same options, and in the
same micro-batches."""

from __future__ import annotations

import itertools
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from tests.archive import QUICK
from tests.kafka.broker import KafkaBroker
from tests.kafka.jars import CACHE, ivy, java
from tests.kafka.producers import Record, produce_confluent, produce_java
from tests.once import made_once
from tests.require import require
from tests.spark.connector import CONNECTOR

TIME = 1_700_000_000_000
LATE = 4_000_000_000_000


def by_partition(topic: str, first: int, second: int) -> str:
    return json.dumps({topic: {"0": first, "1": second}})


def records(partition: int, first: int, count: int) -> list[Record]:
    return [
        Record(
            key=None if number % 7 == 0 else f"key-{number}".encode(),
            value=None if number % 5 == 0 else b"value " * (number % 40),
            headers=tuple((f"h{each}", None if each == 2 else b"\xff%d" % number) for each in range(number % 4)),
            timestamp=TIME + 1000 * number,
            partition=partition,
        )
        for number in range(first, first + count)
    ]


def produce(broker: KafkaBroker, topic: str) -> None:
    for partition in (0, 1):
        produce_java(broker, topic, records(partition, 0, 60), "zstd")
        produce_confluent(broker, topic, records(partition, 60, 30), "lz4", transaction="commit")
        produce_confluent(broker, topic, records(partition, 90, 20), "none", transaction="abort")
        produce_confluent(broker, topic, records(partition, 110, 40), "snappy")


def delete_records(broker: KafkaBroker, topic: str) -> None:
    """Up to within a batch of a topic whose timestamps go up and down, the first of several segments."""
    broker.create_topic(topic, 1, internal_segment_bytes=16_384)
    for first in range(0, 200, 20):
        times = [TIME + 1000 * number + 400_000 * (number in range(20, 25)) for number in range(first, first + 20)]
        values = [random.Random(each).randbytes(300) for each in times]
        made = [Record(b"", value, timestamp=at) for value, at in zip(values, times, strict=True)]
        produce_confluent(broker, topic, made, "none", transaction="abort" if first % 40 else "none")
    admin = broker.admin()  # kept alive until its futures are done
    for done in admin.delete_records([TopicPartition(topic, 0, 33)]).values():
        done.result(30)
    checkpoint, give_up = broker.log_dir / "log-start-offset-checkpoint", time.monotonic() + 30
    while f"{topic} 0 33" not in checkpoint.read_text().splitlines():
        assert time.monotonic() < give_up
        time.sleep(0.1)


def produce_values(broker: KafkaBroker, topic: str, name: str, count: int) -> None:
    made = [Record(b"", f"{name}{number}".encode(), timestamp=TIME) for number in range(count)]
    produce_confluent(broker, topic, made, "none")


def make_again(broker: KafkaBroker, counts: Mapping[str, int]) -> None:
    """Deletes topics, and makes them with so many other records: all that a client can do to shorten a log."""
    admin = broker.admin()
    for done in admin.delete_topics([*counts], operation_timeout=20).values():
        done.result(30)
    for topic, count in counts.items():
        broker.create_topic(topic, 1)
        produce_values(broker, topic, "new", count)


def values(topic: str, name: str, offsets: range) -> list[list[Any]]:
    return [[topic, offset, f"{name}{offset}"] for offset in offsets]


def check_continued(began: list[Any], ended: list[Any]) -> None:
    """What both do with topics that were made again, of which 10 records were read, with failOnDataLoss and without:
    spark-sql-kafka knows one by fewer offsets alone; ours by the topic's ID, so that it misses no record of the new one
    (docs/cookbook.md)."""
    both = values("again-longer", "old", range(10)) + values("again-shorter", "old", range(10))
    assert began == [both, both]
    theirs, ours, their_rest, our_rest = ended
    assert re.search("again-shorter-0.* from 10 to 4", theirs), theirs
    assert "made again" in ours, ours
    assert their_rest == values("again-longer", "new", range(10, 20)), "no error says that the first ten are missing"
    assert our_rest == values("again-longer", "new", range(20)) + values("again-shorter", "new", range(4))


def connector() -> Path:
    """The jar of spark-sql-kafka, fetched if it is not there yet."""

    def fetch(target: Path) -> None:
        command = [java(), *QUICK, "-cp", str(ivy()), "org.apache.ivy.Main", "-warn", "-cache", str(target / "cache")]
        command += ["-dependency", *CONNECTOR, "-confs", "default", "-notransitive"]
        command += ["-retrieve", str(target / "[artifact]-[revision].[ext]")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        require(done.returncode == 0, f"spark-sql-kafka's jar cannot be fetched: {(done.stdout + done.stderr)[-500:]}")

    _, artifact, version = CONNECTOR
    return made_once(CACHE / f"{artifact}-{version}", fetch) / f"{artifact}-{version}.jar"


def test_the_same_options_give_the_same_rows(kafka: KafkaBroker, quick_spark: str, tmp_path: Path) -> None:
    topic = "spark-connector"
    kafka.create_topic(topic, partitions=2)
    produce(kafka, topic)
    deleted = "deleted-records"
    delete_records(kafka, deleted)
    starts: list[dict[str, Any]] = [
        {},
        {"startingOffsets": by_partition(topic, 7, -2)},
        {"startingTimestamp": str(TIME + 95_000)},
        {"startingOffsetsByTimestamp": by_partition(topic, TIME + 20_500, TIME)},
    ]
    ends: list[dict[str, Any]] = [
        {},
        {"endingOffsets": by_partition(topic, 100, -1)},
        {"endingTimestamp": str(TIME + 112_000)},
        {"endingOffsetsByTimestamp": by_partition(topic, TIME + 120_000, LATE)},
    ]
    committed, headers = {"kafka.isolation.level": "read_committed"}, {"includeHeaders": "true"}
    # Each start with each kind of end once or twice: what one of them means does not depend on the other.
    pairs = [(start, ends[(at + more) % 4]) for at, start in enumerate(starts) for more in (0, 1)]
    read: list[dict[str, Any]] = [
        {**start, **end, **both}
        for (start, end), both in zip(
            pairs, itertools.cycle([{}, headers, committed, {**headers, **committed}, committed]), strict=False
        )
    ]
    read += [
        {**headers, **committed},
        {**starts[1], **ends[1], **committed, "minPartitions": "7"},
        {**starts[1], **ends[1], "maxRecordsPerPartition": "9"},
        {"startingOffsets": "earliest", "endingOffsets": "latest", "failOnDataLoss": "false"},
        {**starts[1], **starts[3], **ends[1], **ends[3], "startingTimestamp": str(TIME + 140_000)},
        {"startingTimestamp": str(LATE), "startingOffsetsByTimestampStrategy": "latest"},
    ]
    streams: list[dict[str, Any]] = [
        {},
        {"startingOffsets": by_partition(topic, 30, -2), "maxOffsetsPerTrigger": "61", **headers, **committed},
        {**starts[2], "maxOffsetsPerTrigger": "40"},
    ]
    refused = [
        {"startingTimestamp": str(LATE)},
        {"startingOffsets": "latest"},
        {"endingOffsets": "earliest"},
        {"startingOffsets": json.dumps({topic: {"0": 7}})},
        {"startingOffsets": by_partition(topic, 50, 50), "endingOffsets": by_partition(topic, 40, 60)},
    ]
    read = [
        *({"subscribe": topic, **options} for options in read),
        {"assign": json.dumps({topic: [1]}), "startingOffsets": json.dumps({topic: {"1": 33}})},
        {"subscribePattern": "spark-conn.*"},
    ]
    times = [TIME - 1, TIME + 25_500, TIME + 41_000, TIME + 140_000, TIME + 410_000, LATE]
    read += [
        {"subscribe": deleted, "startingOffsetsByTimestampStrategy": "latest", **limit, **level}
        for level in ({}, committed)
        for limit in (
            {},
            *({"startingTimestamp": str(each)} for each in (times[1::2] if level else times)),
            *({"endingTimestamp": str(each)} for each in (times[::2] if level else times)),
            *({"endingOffsetsByTimestamp": json.dumps({deleted: {"0": each}})} for each in times[1:3]),
        )
    ]
    refused = [
        *({"subscribe": topic, **options} for options in refused),
        {"subscribe": topic, "assign": json.dumps({topic: [1]})},
        {"subscribe": deleted, "startingOffsets": json.dumps({deleted: {"0": 32}})},
        {"subscribe": deleted, "startingTimestamp": str(TIME + 410_000)},
    ]
    cases = [*read, *refused]
    streams = [{"subscribe": topic, **options} for options in streams]
    streams += [{"subscribe": deleted, "startingOffsets": "earliest", **level} for level in ({}, committed)]
    counts = {"again-longer": 20, "again-shorter": 4}
    for name in counts:
        kafka.create_topic(name, 1)
        produce_values(kafka, name, "old", 10)
    asked = {
        "cases": cases,
        "continued": {"subscribe": ",".join(counts), "startingOffsets": "earliest"},
        "checkpoints": str(tmp_path / "checkpoints"),
        "copies": str(tmp_path / "copies"),
        "streams": streams,
        "servers": kafka.bootstrap,
        "path": str(kafka.log_dir),
        "ivy": str(CACHE / "ivy"),
        "connector": str(connector()),
    }
    program = [sys.executable, str(Path(__file__).with_name("connector.py"))]
    with (tmp_path / "stderr").open("w+") as errors, subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{json.dumps(asked)}\n")
        process.stdin.flush()
        if process.stdout.readline() == "BEGAN\n":
            make_again(kafka, counts)
        output, _ = process.communicate("\n", timeout=280)
    printed = (tmp_path / "stderr").read_text()
    resolved = "unresolved dependenc" not in printed and "UNRESOLVED" not in printed
    require(resolved, f"spark-sql-kafka's jars cannot be fetched: {printed[-500:]}")
    assert process.returncode == 0, printed[-3000:]
    answered = json.loads(output)
    check_continued(answered["began"], answered["ended"])
    for options, (theirs, ours) in zip(streams, answered["streams"], strict=True):
        for position in ours[1]:  # spark-sql-kafka knows neither IDs of topics nor what it read last
            position.pop("@lastRecords", None)
            assert position.pop("@topicIds").keys() == position.keys(), options
        assert ours == theirs, options
    assert [len(theirs[0]) for theirs, _ in answered["streams"]] == [1, 5, 4, 1, 1]
    answers = answered["answers"]
    for options, (theirs, ours) in zip(read, answers[: len(read)], strict=True):
        assert ours == theirs, options
        assert theirs[0] != "error", (options, theirs)
    for options, (theirs, ours) in zip(refused, answers[len(read) :], strict=True):
        assert (theirs[0], ours[0]) == ("error", "error"), options
    assert sum(len(theirs[1]) for theirs, _ in answers[: len(read)]) > 1000
