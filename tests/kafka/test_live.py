"""What brokerless reads of logs that a real broker wrote just now, beside what four others make of the same logs.

Judges: what clients were given to write; Kafka's reader; Kafka's dump tool; librdkafka's consumer; aiokafka's parser.
The same is asked of ``demo/data``, which holds compacted logs and the internal topics of a broker that was shut down.
"""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from aiokafka.record.memory_records import MemoryRecords
from confluent_kafka import Consumer, TopicPartition

import brokerless
from brokerless import Finding
from brokerless.clusters.directory_state import load_directory_state
from brokerless.jobs.audit.job import audit_directory, audit_partition
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from brokerless.schemas import BATCHES, RECORDS, TIMESTAMP_TYPES
from tests.golden import of_type
from tests.kafka.broker import KafkaBroker
from tests.kafka.live import TIME, TOPICS, Live, some_records, write_everything, write_transactions
from tests.kafka.oracle import as_line, dump, read_logs
from tests.kafka.producers import consume, produce_confluent

DEMO = Path(__file__).parents[2] / "demo" / "data"
PARTITIONS = [(topic, partition) for topic, count in TOPICS.items() for partition in range(count)]

pytestmark = pytest.mark.xdist_group("kafka")


@pytest.fixture(scope="module")
def live(kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Live:
    sent = write_everything(kafka)
    data = kafka.copy_log_dir(tmp_path_factory.mktemp("live") / "data")
    for each in data.glob("*-*"):  # what others did to their topics is not what these judges look at
        if each.is_dir() and not each.name.startswith(("live-", "__")):
            shutil.rmtree(each)
    return Live(kafka, data, sent)


@pytest.fixture(scope="module", params=["live", "demo"])
def data(request: pytest.FixtureRequest) -> Path:
    if request.param == "demo":
        request.getfixturevalue("kafka_jars")
        return DEMO
    return request.getfixturevalue("live").data


def test_every_record_that_a_client_wrote_is_read_as_it_was_written(live: Live) -> None:
    for (topic, partition), sent in live.sent.items():
        rows = read_records(live.data / f"{topic}-{partition}")
        assert [row["offset"] for row in rows] == list(range(len(sent)))
        for row in rows:
            record = sent[row["offset"]]
            assert (row["topic"], row["partition"]) == (topic, partition)
            assert (row["key"], row["value"]) == (record.key, record.value)
            assert [(header["key"], header["value"]) for header in row["headers"]] == list(record.headers)
            if topic == "live-append-time":
                assert row["timestampType"] == 1
                assert row["timestamp"] > TIME
            else:
                assert (row["timestampType"], row["timestamp"]) == (0, record.timestamp)


def test_batches_and_records_are_what_kafkas_reader_gives(data: Path) -> None:
    lines = read_logs(data.glob("*/*.log"))
    batches = by_file(read_batches(data))
    records = by_file(read_records(data, control=True))
    for path, expected in lines.items():
        assert not list(of_type(expected, "error"))
        ours = [strings(row) for row in batches.get(path, [])]
        wanted = [strings(line) for line in of_type(expected, "batch")]
        assert [{key: row[key] for key in wanted[0]} for row in ours] == wanted if wanted else ours == []
        assert [as_line(row) for row in records.get(path, [])] == [
            {key: value for key, value in line.items() if key not in ("type", "control")}
            for line in of_type(expected, "record")
        ]
    assert sum(len(rows) for rows in records.values()) > 1000


def test_batches_and_records_are_what_kafkas_dump_tool_prints(data: Path) -> None:
    files = sorted(data.glob("*/*.log"))
    batches = by_file(read_batches(data))
    records = by_file(read_records(data, control=True))
    about = dict(dumped(dump(files, "--deep-iteration")))
    assert list(about) == files
    for path, lines in about.items():
        printed = [fields(line) for line in lines if line.startswith("baseOffset: ")]
        assert printed == [as_dumped_batch(row) for row in batches.get(path, [])]
        printed = [fields(line) for line in lines if line.startswith("| offset: ")]
        assert printed == [as_dumped_record(row) for row in records.get(path, [])]


@pytest.mark.parametrize(("topic", "partition"), PARTITIONS)
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_records_are_what_a_consumer_of_the_running_broker_gets(
    topic: str, partition: int, isolation: Any, live: Live
) -> None:
    rows = read_records(live.data / f"{topic}-{partition}", isolation=isolation)
    got = consume(live.broker, topic, partition, isolation)
    assert got
    assert [(row["offset"], row["timestamp"], row["key"], row["value"]) for row in rows] == [
        (record.offset, record.timestamp, record.key, record.value) for record in got
    ]
    assert [[(header["key"], header["value"]) for header in row["headers"]] for row in rows] == [
        list(record.headers) for record in got
    ]


def test_records_are_what_aiokafkas_parser_gives(data: Path) -> None:
    for path, rows in by_file(read_records(data, control=True)).items():
        ours = [
            (row["offset"], row["timestamp"], row["timestampType"], row["key"], row["value"], row["isControl"])
            for row in rows
        ]
        theirs = [
            (record.offset, record.timestamp, record.timestamp_type, record.key, record.value, control)
            for record, control in aiokafka_records(path)
        ]
        assert ours == theirs, path
        assert [[(header["key"], header["value"]) for header in row["headers"]] for row in rows] == [
            [tuple(header) for header in record.headers] for record, _ in aiokafka_records(path)
        ]


def test_verify_finds_nothing_wrong_with_what_a_broker_keeps(data: Path) -> None:
    found = [finding for partition in brokerless.open(data).partitions for finding in partition.verify()]
    assert [finding for finding in found if finding.severity != "info"] == []


def test_an_audit_has_no_errors_in_the_log_directory_of_a_running_broker(live: Live) -> None:
    directory = resolve(Location(str(live.broker.log_dir)))
    notes = load_directory_state(directory)
    assert "broker-running" in {each.kind for each in audit_directory(directory, notes, ())}
    for partition in directory.partitions:
        each = audit_partition(partition, notes.of(partition))
        assert not [finding for finding in each.findings if finding.severity == "error"]
        if each.topic in TOPICS:
            assert each.summary.records >= len(live.sent.get((each.topic, each.partition or 0), {}))
            assert {finding.kind for finding in each.findings} <= {"transaction-open"}


@pytest.mark.parametrize(("topic", "partition"), [("live-mixed", 1), ("live-segments", 0)])
def test_offsets_for_timestamps_are_the_brokers(topic: str, partition: int, live: Live) -> None:
    consumer = Consumer({"bootstrap.servers": live.broker.bootstrap, "group.id": "times", "log_level": 3})
    log = brokerless.open(live.data).partition(topic, partition)
    times = [0, 1, TIME - 5_000_000, TIME, TIME + 1, TIME + 55_000, TIME + 150_001, TIME + 10**9]
    try:
        for time in times:
            (answer,) = consumer.offsets_for_times([TopicPartition(topic, partition, time)], timeout=30)
            ours = log.offset_for_timestamp(time)
            assert (-1 if ours is None else ours) == answer.offset, time  # -1: the end, no record is as late
    finally:
        consumer.close()


def test_transactions_are_what_the_producers_did(live: Live) -> None:
    rows = brokerless.open(live.data).partition("live-transactions", 0).transactions().to_pylist()
    controls = [
        line["control"]["type"]
        for lines in read_logs(sorted((live.data / "live-transactions-0").glob("*.log"))).values()
        for line in of_type(lines, "record")
        if "control" in line
    ]
    ended = [row["state"] for row in rows if row["state"] != "open"]
    # A broker writes markers when it comes to it, so those of different producers may change places.
    assert sorted(controls) == ["ABORT"] * 3 + ["COMMIT"] * 5
    assert ended == [{"COMMIT": "committed", "ABORT": "aborted"}[control] for control in controls]
    assert len(rows) == len(ended) + 1  # one hangs
    assert [row["records"] for row in rows if row["state"] == "open"] == [3]


def test_a_log_is_read_while_its_broker_writes_it(live: Live) -> None:
    topic = "live-growing"
    live.broker.create_topic(topic, internal_segment_bytes=20_000)
    expected = 0
    for number in range(3):
        expected += len(produce_confluent(live.broker, topic, some_records(400 + number, 300, largest=500), "lz4"))
        rows = read_records(live.broker.log_dir / f"{topic}-0")
        assert [row["offset"] for row in rows] == list(range(expected))


def test_what_a_killed_broker_leaves_is_read_as_kafkas_reader_does(kafka_jars: Path, tmp_path: Path) -> None:
    with KafkaBroker(tmp_path / "broker") as broker:
        broker.create_topic("plain", internal_segment_bytes=8192)
        produce_confluent(broker, "plain", some_records(500, 200, largest=300), "zstd", batch_size=1000)
        write_transactions(broker, "transactional")
        broker.kill()
        assert not (broker.log_dir / ".kafka_cleanshutdown").exists()
        left = broker.copy_log_dir(tmp_path / "left")
        broker.start()  # and recovers
        committed = {
            topic: [record.offset for record in consume(broker, topic, isolation="read_committed")]
            for topic in ("plain", "transactional")
        }
    assert (broker.log_dir / ".kafka_cleanshutdown").exists()

    active = sorted((left / "plain-0").glob("*.index"))[-1]
    assert active.stat().st_size > 1 << 20, "the index of a running broker's active segment is preallocated"
    records = by_file(read_records(left, control=True))
    for path, expected in read_logs(left.glob("*/*.log")).items():
        ours = [(row["offset"], row["batchPosition"]) for row in records.get(path, [])]
        assert ours == [(line["offset"], line["batchPosition"]) for line in of_type(expected, "record")]
    for topic, offsets in committed.items():
        rows = read_records(left / f"{topic}-0", isolation="read_committed")
        assert [row["offset"] for row in rows] == offsets
        assert errors(brokerless.open(left).partition(topic, 0)) == []


# Our side.


def read_records(path: Path, **options: Any) -> list[dict[str, Any]]:
    found: list[Finding] = []
    rows = to_rows(brokerless.open(path).records(on_damage=found.append, **options), RECORDS)
    assert [finding for finding in found if finding.severity == "error"] == []
    return rows


def read_batches(path: Path) -> list[dict[str, Any]]:
    return to_rows(brokerless.open(path).batches(), BATCHES)


def to_rows(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> list[dict[str, Any]]:
    """Rows with timestamps in milliseconds."""
    table = pa.Table.from_batches(batches, schema)
    for at, field in enumerate(schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(at, field.name, table.column(at).cast(pa.int64()))
    return table.to_pylist()


def by_file(rows: list[dict[str, Any]]) -> dict[Path, list[dict[str, Any]]]:
    files: dict[Path, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        files[Path(row["file"])].append(row)
    return files


def errors(partition: brokerless.Log) -> list[Finding]:
    return [finding for finding in partition.verify() if finding.severity == "error"]


# Kafka's reader.


def strings(row: dict[str, Any]) -> dict[str, Any]:
    """A batch without what a line of Kafka's reader has of its own."""
    return {key: value for key, value in row.items() if key not in ("type", "file", "fieldErrors")}


# Kafka's dump tool.

FIELD = re.compile(r"(\w+): (\[[^]]*\]|OptionalLong\S+|\S+)")


def dumped(text: str) -> Iterator[tuple[Path, list[str]]]:
    """The lines about each file."""
    parts = re.split(r"^Dumping (.*)$", text, flags=re.MULTILINE)
    for path, lines in zip(parts[1::2], parts[2::2], strict=True):
        yield Path(path), lines.splitlines()


def fields(line: str) -> dict[str, str]:
    """The fields of a printed line, without what control records say after their headers."""
    found = FIELD.findall(line)
    return dict(found if line.startswith("baseOffset") else found[:6])


def as_dumped_batch(row: dict[str, Any]) -> dict[str, str]:
    horizon = row["deleteHorizonMs"]
    return {
        **{name: str(row[name]) for name in ("baseOffset", "lastOffset", "count", "baseSequence", "lastSequence")},
        **{
            name: str(row[name])
            for name in ("producerId", "producerEpoch", "partitionLeaderEpoch", "position", "magic")
        },
        "isTransactional": str(row["isTransactional"]).lower(),
        "isControl": str(row["isControl"]).lower(),
        "deleteHorizonMs": "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]",
        row["timestampType"]: str(row["maxTimestamp"]),
        "size": str(row["sizeInBytes"]),
        "compresscodec": row["compression"],
        "crc": str(row["checksum"]),
        "isvalid": str(row["isValid"]).lower(),
    }


def as_dumped_record(row: dict[str, Any]) -> dict[str, str]:
    return {
        "offset": str(row["offset"]),
        TIMESTAMP_TYPES[row["timestampType"]]: str(row["timestamp"]),
        "keySize": str(-1 if row["key"] is None else len(row["key"])),
        "valueSize": str(-1 if row["value"] is None else len(row["value"])),
        "sequence": str(row["sequence"]),
        "headerKeys": f"[{','.join(header['key'] for header in row['headers'])}]",
    }


# aiokafka's parser.


def aiokafka_records(path: Path) -> Iterator[tuple[Any, bool]]:
    records = MemoryRecords(path.read_bytes())
    while (batch := records.next_batch()) is not None:
        assert batch.validate_crc()
        for record in batch:
            yield record, batch.is_control_batch
