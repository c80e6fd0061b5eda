"""Spark's rows of real Kafka's files are what Kafka's own reader says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from tests.golden import BROKERS, broker_data, broker_expected, first_at_their_offsets, json_lines, of_type
from tests.spark.golden_rows import by_file, collect, compare_batches, compare_records

import brokerless

DEMO = Path(__file__).parents[2] / "demo" / "data" / "orders-0"

RECORDS = """
    file string, batchPosition long, offset long, timestamp timestamp, timestampType int, key binary, value binary,
    headers array<struct<key: string, value: binary>>, sequence int, isControl boolean, _corrupt_record string
"""
BATCHES = (
    "file string, position long, baseOffset long, lastOffset long, count int, maxTimestamp timestamp, isValid boolean"
)


def expected_of(log: Path) -> list[dict[str, object]]:
    return [line for line in json_lines(log.parent / "expected.jsonl") if line.get("file") == log.name]


def test_records_and_damages_of_all_cases_are_kafkas(spark: SparkSession, case_logs: list[Path]) -> None:
    # Some of the payloads are bombs, and Kafka's reader has them all: here they are damage.
    reader = spark.read.format("brokerless").options(mode="PERMISSIVE", includeControl="true", maxBatchBytes=16 << 20)
    rows = by_file(collect(reader.schema(RECORDS).load([str(log) for log in case_logs])))
    for log in case_logs:
        found, lines = rows.get(str(log), []), expected_of(log)
        told = [json.loads(row["_corrupt_record"]) for row in found if row["_corrupt_record"] is not None]
        damages = {damage["position"]: damage["kind"] for damage in told}
        # Where the bytes cannot begin a batch, Kafka's reader ends in silence; inside of a wrapper, a consumer throws.
        silent = ("limit-exceeded", "no-batches", "message-checksum-mismatch")
        bombs = {position for position, kind in damages.items() if kind in silent}
        known = {line["position"] for line in of_type(lines, "batch")}
        (end,) = {line["position"] for line in of_type(lines, "end")}
        goes_on = any(row["batchPosition"] not in {*known, None} for row in found)
        # Where the chain of sizes breaks, Kafka's reader ends, in silence if the size is too large.
        bombs |= {end} if goes_on else set()
        phases = ("batches", "ensureValid", "records")
        errors = {line["position"] for line in of_type(lines, "error") if line["phase"] in phases}
        try:
            read = [row for row in found if row["_corrupt_record"] is None and row["batchPosition"] in known]
            given = {(row["batchPosition"], row["offset"]) for row in read}
            wrong_inside = {position for position, kind in damages.items() if kind == "message-checksum-mismatch"}
            records = [
                line
                for line in first_at_their_offsets(lines)
                if line["batchPosition"] not in wrong_inside or (line["batchPosition"], line["offset"]) in given
            ]
            compare_records(read, [*records, *of_type(lines, "error")], bombs)
            assert damages.keys() - bombs <= errors <= damages.keys()
        except BaseException as error:
            error.add_note(f"in {log}")
            raise


def test_batches_of_all_cases_are_kafkas(spark: SparkSession, case_logs: list[Path]) -> None:
    reader = spark.read.format("brokerless").option("table", "batches").option("mode", "DROPMALFORMED")
    reader = reader.option("maxBatchBytes", 128 << 20)  # wrapper messages, which are looked into, have up to 100 MB
    rows = by_file(collect(reader.load([str(log) for log in case_logs])))
    for log in case_logs:
        listed = list(of_type(expected_of(log), "batch"))
        known = {line["position"] for line in listed}
        compare_batches([row for row in rows.get(str(log), []) if row["position"] in known], listed)


@pytest.mark.parametrize("broker", BROKERS)
def test_records_and_batches_of_a_brokers_log_directory_are_kafkas(spark: SparkSession, broker: str) -> None:
    reader = spark.read.format("brokerless").option("mode", "PERMISSIVE").option("includeControl", "true")
    reader = reader.option("include", "deleted")
    data = broker_data(broker)
    records = by_file(collect(reader.schema(RECORDS).load(str(data)).where("_corrupt_record is null")))
    batches = by_file(collect(reader.schema(BATCHES).option("table", "batches").load(str(data))))
    compared = 0
    for expected in sorted(broker_expected(broker).glob("*/expected.jsonl")):
        lines = json_lines(expected)
        for log in sorted((data / expected.parent.name).glob("*.log")):
            own = [line for line in lines if line.get("file") == log.name]
            compare_records(records.pop(str(log), []), own)
            compare_batches(batches.pop(str(log), []), of_type(own, "batch"))
            compared += 1
    assert compared
    assert not records
    assert not batches


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_isolation_gives_what_a_consumer_of_the_live_broker_got(spark: SparkSession, isolation: str) -> None:
    expected = json.loads((broker_expected("clean") / "read-committed.json").read_bytes())[isolation]
    reader = spark.read.format("brokerless").schema("topic string, partition int, offset long")
    for options in ({}, {"subscribe": "txn,compacted-txn", "minPartitions": 40}):
        frame = reader.options(**options).option("kafka.isolation.level", isolation).load(str(broker_data("clean")))
        offsets = frame.groupBy("topic", "partition").agg(f.sort_array(f.collect_list("offset"))).collect()
        ours = {f"{topic}-{partition}": found for topic, partition, found in offsets}
        for name, want in expected.items():
            if not options or name.rpartition("-")[0] in options["subscribe"].split(","):
                assert ours.get(name, []) == want["offsets"], name


@pytest.mark.parametrize("partitions", ["1", "40"])
def test_what_follows_a_broken_size_is_read_by_all_splits(spark: SparkSession, tmp_path: Path, partitions: str) -> None:
    """4,000 bytes were lost in the third of four segments: the records that are there are those of intact batches."""
    shutil.copytree(DEMO, tmp_path / "orders-0")
    log = tmp_path / "orders-0" / "00000000000000000656.log"
    data = bytearray(log.read_bytes())
    data[10000:14000] = bytes(4000)
    log.write_bytes(data)
    reader = spark.read.format("brokerless").option("minPartitions", partitions)
    rows = reader.option("mode", "DROPMALFORMED").load(str(tmp_path)).select("offset").collect()
    every = brokerless.open(DEMO).records(["offset"]).read_all()["offset"].to_pylist()
    assert sorted(row["offset"] for row in rows) == [each for each in every if not 792 <= each <= 876]
    with pytest.raises(Exception, match=r"checksum of the batch does not match|no batch has this size"):
        reader.option("mode", "FAILFAST").load(str(tmp_path)).select("offset").collect()
