"""DataFrames become logs in S3: the files that they become on a disk, all of a write or nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from tests.cli.test_s3 import download, files
from tests.cli.test_s3_writing import comparable
from tests.kafka.oracle import run_dump
from tests.kafka.test_serving import WRONG
from tests.s3 import S3
from tests.spark.test_sink import by_kafka
from tests.spark.test_stream_sink import forget_last_commit, put

import brokerless
from brokerless.log import names


def rows(spark: SparkSession, tasks: int, *more: str) -> DataFrame:
    return spark.range(0, 3000, numPartitions=tasks).selectExpr("cast(id % 3 as int) as partition", *more)


def save(df: DataFrame, to: str, s3: S3, **options: str) -> None:
    options = {"topic": "orders", "segment.bytes": "65536", **options}
    df.write.format("brokerless").mode("append").options(**options).option(
        "storageOptions", json.dumps(s3.storage_options)
    ).save(to)


def offsets(url: str, s3: S3) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for log in brokerless.open(url, storage_options=s3.storage_options).partitions:
        parts = log.records(["offset"])
        found[log.name] = [each for part in parts for each in part["offset"].to_pylist()]
    return found


def test_what_is_written_there_is_what_is_written_on_a_disk(
    spark: SparkSession, s3: S3, kafka_jars: Path, tmp_path: Path
) -> None:  # fmt: skip
    # Each task has rows of all partitions, which are put together; a second write adds a topic in one piece each, and
    # a third one continues what the first has written.
    many = rows(spark, 2, "cast(id as string) as key", "repeat(cast(id as string), 20) as value",
                "timestamp_millis(id) as timestamp")  # fmt: skip
    target = s3.url("sink")
    for to in (str(tmp_path / "out"), target):
        save(many, to, s3)
        save(many.coalesce(1), to, s3, topic="others")
        save(many.where("partition = 0"), to, s3)
    fetched = download(s3, target, tmp_path / "fetched")
    assert comparable(files(fetched)) == comparable(files(tmp_path / "out"))
    assert len([*fetched.glob("orders-0/*.log")]) > 1
    expected = {f"{topic}-{each}": [*range(1000)] for topic in ("orders", "others") for each in range(3)}
    expected["orders-0"] = [*range(2000)]
    assert offsets(target, s3) == expected
    by_kafkas_reader = by_kafka(fetched, "orders", "others")
    assert {name: [line["offset"] for line in lines] for name, lines in by_kafkas_reader.items()} == expected
    said = run_dump(sorted(fetched.glob("orders-*/*.[lits]*")))
    assert (said.returncode, WRONG.search(said.stdout.decode(errors="replace"))) == (0, None)


def test_a_write_that_fails_leaves_nothing(spark: SparkSession, s3: S3) -> None:
    target = s3.url("failed-sink")
    failing = rows(spark, 1, "if(id = 2999, cast(raise_error('no') as string), 'x') as value")
    with pytest.raises(Exception, match="no"):
        save(failing, target, s3)
    unordered = rows(spark, 2, "'x' as value", "cast(if(id >= 1500, 1, 0) as bigint) as offset")
    with pytest.raises(PythonException):
        save(unordered, target, s3)
    fs = s3.file_system()
    fs.invalidate_cache()
    assert fs.find(f"{s3.bucket}/failed-sink") == []


def test_every_row_of_a_stream_is_written_once(spark: SparkSession, s3: S3, tmp_path: Path) -> None:
    target = s3.url("stream")

    def run() -> None:
        df = spark.readStream.schema("key string, value string").option("maxFilesPerTrigger", 1)
        writer = df.json(str(tmp_path / "in")).writeStream.format("brokerless").trigger(availableNow=True)
        options = {"topic": "t", "partitions": "2", "checkpointLocation": str(tmp_path / "checkpoint")}
        query = writer.options(**options, storageOptions=json.dumps(s3.storage_options)).start(target)
        assert query.awaitTermination(240)
        assert query.exception() is None

    def written() -> list[int]:
        logs = brokerless.open(target, storage_options=s3.storage_options)
        assert [each for each in logs.verify() if each.severity != "info"] == []
        assert offsets(target, s3) == {name: [*range(len(each))] for name, each in offsets(target, s3).items()}
        return sorted(int(value) for batch in logs.records(["value"]) for value in batch["value"].to_pylist())

    put(tmp_path, "a", 0, 20)
    put(tmp_path, "b", 20, 30)
    run()
    assert written() == [*range(50)]

    forget_last_commit(tmp_path)  # as if the query had been killed between our commit and Spark's
    put(tmp_path, "c", 50, 10)
    run()
    assert written() == [*range(60)]
    fs = s3.file_system()
    fs.invalidate_cache()
    assert {path.split("/")[2] for path in fs.find(f"{s3.bucket}/stream")} & {names.COMMIT_JOURNAL, "t-0", "t-1"} == {
        "t-0",
        "t-1",
    }
    assert not [path for path in fs.find(f"{s3.bucket}/stream") if "-delete/" in path]


def test_a_bucket_that_is_not_there_is_reported_before_anything_is_read(spark: SparkSession, s3: S3) -> None:
    with pytest.raises((AnalysisException, PythonException), match=f"s3://nobody/out/{names.COMMIT_LOCK}: "):
        save(rows(spark, 1, "'x' as value"), "s3://nobody/out", s3)
