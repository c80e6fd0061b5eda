"""DataFrames become logs in S3: the files that they become on a disk, all of a write or nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from tests.cli.test_s3 import download, files
from tests.cli.test_s3_writing import comparable
from tests.s3 import S3

import brokerless
from brokerless.log import names


def rows(spark: SparkSession, tasks: int, *more: str) -> DataFrame:
    return spark.range(0, 3000, numPartitions=tasks).selectExpr("cast(id % 3 as int) as partition", *more)


def save(df: DataFrame, to: str, s3: S3, **options: str) -> None:
    options = {"topic": "orders", "segment.bytes": "32768", **options}
    df.write.format("brokerless").mode("append").options(**options).option(
        "storageOptions", json.dumps(s3.storage_options)
    ).save(to)


def offsets(url: str, s3: S3) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for log in brokerless.open(url, storage_options=s3.storage_options).partitions:
        parts = log.records(["offset"])
        found[f"{log.topic}-{log.partition}"] = [each for part in parts for each in part["offset"].to_pylist()]
    return found


def test_what_is_written_there_is_what_is_written_on_a_disk(
    spark: SparkSession, s3: S3, tmp_path: Path
) -> None:  # fmt: skip
    # Each task has rows of all partitions, which are put together; a second write adds a topic in one piece each.
    many = rows(spark, 2, "cast(id as string) as key", "repeat(cast(id as string), 20) as value",
                "timestamp_millis(id) as timestamp")  # fmt: skip
    target = s3.url("sink")
    for to in (str(tmp_path / "out"), target):
        save(many, to, s3)
        save(many.coalesce(1), to, s3, topic="others")
    fetched = download(s3, target, tmp_path / "fetched")
    assert comparable(files(fetched)) == comparable(files(tmp_path / "out"))
    assert len([*fetched.glob("orders-0/*.log")]) > 1
    expected = {f"{topic}-{each}": [*range(1000)] for topic in ("orders", "others") for each in range(3)}
    assert offsets(target, s3) == expected

    with pytest.raises(PythonException, match="orders-0: this partition is there, and what is in an object store"):
        save(many, target, s3)
    assert files(download(s3, target, tmp_path / "again")) == files(fetched)


def test_a_write_that_fails_leaves_nothing(spark: SparkSession, s3: S3) -> None:
    target = s3.url("failed-sink")
    failing = rows(spark, 2, "if(id = 2999, cast(raise_error('no') as string), 'x') as value")
    with pytest.raises(Exception, match="no"):
        save(failing, target, s3)
    unordered = rows(spark, 2, "'x' as value", "cast(if(id >= 1500, 1, 0) as bigint) as offset")
    with pytest.raises(PythonException):
        save(unordered, target, s3)
    fs = s3.file_system()
    fs.invalidate_cache()
    assert fs.find(f"{s3.bucket}/failed-sink") == []


def test_streams_are_refused(spark: SparkSession, s3: S3, tmp_path: Path) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("cast(value as string) as value")
    writer = stream.writeStream.format("brokerless").options(topic="t", partition=0)
    with pytest.raises(Exception, match="each batch of a stream continues partitions"):
        writer.option("checkpointLocation", str(tmp_path)).start(s3.url("stream")).awaitTermination(60)


def test_a_bucket_that_is_not_there_is_told_before_anything_is_read(spark: SparkSession, s3: S3) -> None:
    with pytest.raises((AnalysisException, PythonException), match=f"s3://nobody/out/{names.COMMIT_LOCK}: "):
        save(rows(spark, 1, "'x' as value"), "s3://nobody/out", s3)
