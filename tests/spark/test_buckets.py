"""Spark reads buckets of tiered storage: executors decrypt their own chunks, with keys that came with their tasks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.internals.remote.metadata import broker_directory, events
from tests.jobs.backup.disks import DEMO, earlier
from tests.log.tiered import Case, cases, copy_of, key_pairs
from tests.log.tiered.test_bucket import split

import brokerless

KEYS = json.dumps({name: str(file) for name, file in key_pairs().items()})


@pytest.mark.parametrize(
    "case", [each for each in cases() if each.set == "compressed-encrypted"], ids=lambda each: each.id
)
def test_records(case: Case, spark: SparkSession) -> None:
    reader = spark.read.format("brokerless").option("keyPairs", KEYS).option("subscribe", case.topic)
    expected = case.expected["read_uncommitted"]
    remote = reader.load(str(case.bucket))
    assert remote.count() == expected["remote"]["records"]
    whole = reader.option("remote", str(case.bucket)).load(str(case.data)).select("offset", "value").collect()
    assert len({each.offset for each in whole}) == len(whole) == expected["all"]["records"]


def test_a_snapshot_of_a_backup_is_read_as_the_disk_is(spark: SparkSession, tmp_path: Path) -> None:
    brokerless.backup(earlier(tmp_path / "earlier", 2), tmp_path / "backup", name="first", segment_size=20_000)
    brokerless.backup(DEMO, tmp_path / "backup", segment_size=20_000)
    for path, of in ((f"{tmp_path}/backup@first", tmp_path / "earlier"), (f"{tmp_path}/backup@latest", DEMO)):
        reader = (
            spark.read.format("brokerless")
            .option("kafka.isolation.level", "read_committed")
            .option("subscribe", "orders")
        )
        ours, theirs = (
            sorted((each.partition, each.offset, each.value) for each in reader.load(str(one)).collect())
            for one in (path, of)
        )
        assert ours == theirs
        assert ours


def test_no_text_has_a_key(spark: SparkSession, tmp_path: Path) -> None:
    case = next(each for each in cases() if each.set == "encrypted")
    frame = spark.read.format("brokerless").option("keyPairs", KEYS).load(str(case.bucket))
    plan = frame._jdf.queryExecution().toString()
    assert "PRIVATE" not in plan
    assert key_pairs()["key1"].read_text().splitlines()[3] not in plan


def test_several_buckets_are_one(spark: SparkSession, tmp_path: Path) -> None:
    """A list in JSON names them, also where the segments of one partition are in both."""
    case = next(each for each in cases() if each.set == "plain" and each.topic == "trimmed")
    buckets = split("plain", tmp_path)
    reader = spark.read.format("brokerless").option("subscribe", case.topic)
    frame = reader.option("remote", json.dumps([str(each) for each in buckets])).load(str(case.data))
    offsets = [each.offset for each in frame.select("offset").collect()]
    assert len(set(offsets)) == len(offsets) == case.expected["read_uncommitted"]["all"]["records"]
    with pytest.raises(Exception, match="expected JSON such as"):
        reader.option("remote", "[1]").load(str(case.data)).count()


@pytest.mark.parametrize("change", ["damaged", "old"])
def test_the_intact_copy_is_read_and_what_old_metadata_has_as_begun(
    spark: SparkSession, tmp_path: Path, change: str
) -> None:
    data, bucket = broker_directory("killed", tmp_path / "data"), copy_of("killed", tmp_path / "bucket")
    if change == "damaged":
        states = {each["segmentId"]: each["state"] for each in events("killed")}
        path = next(
            each for each in bucket.rglob(f"{4071:020}-*.log") if states[each.name[21:43]] == "COPY_SEGMENT_FINISHED"
        )
        content = bytearray(path.read_bytes())
        content[600_000] ^= 1
        path.write_bytes(content)
    else:
        (log,) = data.glob("__remote_log_metadata-*/*.log")
        positions = [row["position"] for batch in brokerless.open(log).batches() for row in batch.to_pylist()]
        log.write_bytes(log.read_bytes()[: positions[len(positions) // 2]])
    reader = spark.read.format("brokerless").option("subscribe", "killed").option("remote", str(bucket))
    offsets = [each.offset for each in reader.load(str(data)).select("offset").collect()]
    assert sorted(offsets) == list(range(8284))
