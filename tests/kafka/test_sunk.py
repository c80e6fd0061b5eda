"""A real broker serves what Spark wrote into its stopped directory, appends to it, and Spark goes on behind it; and it
serves partitions that tasks of ``brokerless load`` made of parts of one file each."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import brokerless
from brokerless.interchange import input_files
from brokerless.interchange.input_files import InputFiles
from brokerless.jobs.load.job import load_files
from brokerless.jobs.load.loader import Loading
from brokerless.jobs.load.routing import Routing
from brokerless.jobs.run.types import RunOptions
from brokerless.log.config import LogConfig
from brokerless.log.storage.location import Location
from brokerless.spark.row_order import arrange
from brokerless.tables.batcher import BatchSettings
from tests.kafka.broker import KafkaBroker
from tests.kafka.oracle import run_dump
from tests.kafka.producers import Consumed, Record, consume, produce_confluent
from tests.kafka.test_serving import MENDING, WRONG
from tests.spark.conftest import spark as _spark

spark = _spark
COUNT, PARTITIONS, START = 4000, 3, 1_767_225_600_000
FORMATS = ("parquet", "jsonl")
"""Of files that are loaded, and the topics of their records."""


def write(session: SparkSession, directory: Path, first: int, topic: str = "sunk") -> None:
    """``COUNT`` rows, whose keys decide where they go, from number ``first`` on."""
    df = session.range(first, first + COUNT, numPartitions=4).selectExpr(
        "concat('user-', id % 100) as key",
        "concat('value ', id) as value",
        f"timestamp_millis({START} + id) as timestamp",
        "array(struct('number' as key, cast(cast(id as string) as binary) as value)) as headers",
    )
    options = {"topic": topic, "compression.type": "lz4", "segment.bytes": 20_000}
    arrange(df, PARTITIONS).write.format("brokerless").mode("append").options(**options).save(str(directory))


def check(broker: KafkaBroker, numbers: list[int]) -> list[int]:
    """Every row is served once, in order of time within its partition; where each partition ends."""
    seen: list[int] = []
    ends: list[int] = []
    for partition in range(PARTITIONS):
        records = [each for each in consume(broker, "sunk", partition) if each.key != b"producer"]
        found = [int((each.value or b"")[6:]) for each in records]
        assert [(each.key, each.timestamp, each.headers) for each in records] == [
            (b"user-%d" % (number % 100), START + number, (("number", b"%d" % number),)) for number in found
        ]
        assert found == sorted(found)
        seen += found
        ends.append(len(records))
    assert sorted(seen) == numbers
    return ends


def dumped(broker: KafkaBroker) -> str:
    """What Kafka's dump tool says of all logs and indexes, where it compares these."""
    suffixes, topics = (".log", ".index", ".timeindex", ".snapshot"), ("sunk", *FORMATS)
    paths = [path for topic in topics for path in sorted(broker.log_dir.glob(f"{topic}-*/*"))]
    paths = [path for path in paths if path.suffix in suffixes]
    done = run_dump(paths)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")


def load_parts(session: SparkSession, broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file for each topic, and several tasks for each file, whose rows go to a partition that was lost."""
    rows = [
        {"key": f"user-{number % 100}", "value": f"value {number}", "timestamp": START + number}
        for number in range(COUNT)
    ]
    files = {each: broker.directory / f"records.{each}" for each in FORMATS}
    pq.write_table(pa.Table.from_pylist([{"topic": "parquet", **row} for row in rows]), files["parquet"], 300)
    files["jsonl"].write_text("".join(json.dumps({"topic": "jsonl", **row}) + "\n" for row in rows))
    monkeypatch.setattr(input_files, "_PART", 10_000)
    for path in files.values():
        assert len(InputFiles([str(path)]).split(100)) > 3
        shutil.rmtree(broker.log_dir / f"{path.suffix[1:]}-0")
    both, config = InputFiles(list(map(str, files.values()))), LogConfig(segment_bytes=20_000, index_interval_bytes=500)
    load_files(
        both,
        Location(str(broker.log_dir)),
        Loading(Routing(partition=0), BatchSettings("lz4"), config),
        RunOptions(spark=session),
    )


def check_parts(broker: KafkaBroker) -> None:
    for topic in FORMATS:
        assert consume(broker, topic) == [
            Consumed(number, START + number, b"user-%d" % (number % 100), b"value %d" % number, ())
            for number in range(COUNT)
        ]
        assert len(broker.logs(topic)) > 1


def test_a_broker_serves_what_spark_wrote_and_both_go_on(
    spark: SparkSession, kafka_jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = KafkaBroker(tmp_path / "broker")
    with broker:
        broker.create_topic("sunk", PARTITIONS, retention_ms=-1)
        for topic in FORMATS:
            broker.create_topic(topic, 2, retention_ms=-1)
        with pytest.raises(Exception, match="a broker, or another process that writes, is running"):
            write(spark, broker.log_dir, 0)
    write(spark, broker.log_dir, 0)
    load_parts(spark, broker, monkeypatch)
    assert not WRONG.search(dumped(broker))
    broker.output.write_bytes(b"")
    with broker:
        ends = check(broker, list(range(COUNT)))
        check_parts(broker)
        assert all(len(broker.logs("sunk", partition)) > 1 for partition in range(PARTITIONS))
        assert produce_confluent(broker, "sunk", [Record(b"producer", b"behind", (), START)]) == [ends[0]]
        topics = ("sunk", *FORMATS)
        said = [line for line in broker.output.read_text().splitlines() if any(f"{each}-" in line for each in topics)]
        assert said
        assert not [line for line in said if MENDING.search(line)]
    write(spark, broker.log_dir, COUNT)
    assert not WRONG.search(dumped(broker))
    with broker:
        again = check(broker, list(range(2 * COUNT)))
        assert produce_confluent(broker, "sunk", [Record(b"producer", b"behind", (), START)]) == [again[0] + 1]
    assert not [each for each in brokerless.open(broker.log_dir).verify() if each.severity == "error"]
