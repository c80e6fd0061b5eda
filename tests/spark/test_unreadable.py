"""What planning meets (a file that cannot be opened, a damaged transaction marker) is told in each of Spark's modes."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import datasource as spark
from pyspark.sql.types import LongType, StringType, StructField, StructType
from tests.golden import broker_data, broker_expected, json_lines, of_type
from tests.internals.remote.metadata import broker_directory
from tests.log.tiered import golden as golden_tiered

from brokerless.errors import DamageError, UnreadableError
from brokerless.spark.columns import choose_columns
from brokerless.spark.options import parse_options
from brokerless.spark.source import BrokerlessSource, PushdownReader

Rows = list[dict[str, Any]]
CORRUPT = StructField("_corrupt_record", StringType())
OFFSET = StructField("offset", LongType())
DATA = broker_data("clean")


def rows(path: Path, *fields: StructField, **options: Any) -> Rows:
    given = {"path": str(path), **{name: str(value) for name, value in options.items()}}
    reader = BrokerlessSource(given).reader(StructType(list(fields or (OFFSET,))))
    return read(reader)


def read(reader: spark.DataSourceReader) -> Rows:
    return [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]


def told(path: Path, **options: Any) -> list[dict[str, Any]]:
    """The findings that PERMISSIVE gives as rows."""
    found = rows(path, CORRUPT, mode="PERMISSIVE", **options)
    return [json.loads(row["_corrupt_record"]) for row in found if row["_corrupt_record"] is not None]


def lines(directory: str, type_: str) -> list[dict[str, Any]]:
    """What Kafka's reader found in a partition."""
    return list(of_type(json_lines(broker_expected("clean") / directory / "expected.jsonl"), type_))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two partitions that are all right."""
    for name in ("segments-0", "edges-0"):
        shutil.copytree(DATA / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def segment(data: Path) -> Path:
    """A segment in the middle of a log, whose file is no longer there."""
    log = sorted((data / "segments-0").glob("*.log"))[2]
    log.unlink()
    log.symlink_to("nowhere")
    return log


@pytest.fixture
def directory(data: Path) -> Path:
    """A partition whose directory is no longer there."""
    path = data / "payments-3"
    path.symlink_to("nowhere")
    return path


WITH_PLANS = [
    {},
    {"maxPartitionBytes": 1000},
    {"kafka.isolation.level": "read_committed"},
    {"startingTimestamp": 0},
    {"startingOffsets": '{"segments":{"0":0},"edges":{"0":0}}'},
]


@pytest.mark.parametrize("options", WITH_PLANS, ids=str)
def test_a_segment_that_cannot_be_opened_is_left_out(segment: Path, data: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UnreadableError, match=f"{segment}: there is no such file"):
        rows(data, **options)
    assert [(each["kind"], each["file"]) for each in told(data, **options)] == [("unreadable-file", str(segment))]
    records = [each for name in ("edges-0", "segments-0") for each in lines(name, "record")]
    is_control = {(each["file"], each["position"]) for each in lines("edges-0", "batch") if each["isControl"]}
    left = [
        each["offset"]
        for each in records
        if each["file"].endswith(".log")
        and each["file"] != segment.name
        and (each["file"], each["batchPosition"]) not in is_control
    ]
    for mode in ("PERMISSIVE", "DROPMALFORMED"):
        assert sorted(row["offset"] for row in rows(data, mode=mode, **options)) == sorted(left)


@pytest.mark.parametrize("table", ["batches", "segments", "transactions"])
def test_so_it_is_in_every_table(segment: Path, data: Path, table: str) -> None:
    topic = StructField("topic", StringType())
    with pytest.raises(UnreadableError, match=segment.name):
        rows(data, topic, table=table)
    assert [each["file"] for each in told(data, table=table)] == [str(segment)]
    assert {row["topic"] for row in rows(data, topic, table=table, mode="DROPMALFORMED")} <= {"edges", "segments"}


@pytest.mark.parametrize("pattern", ["", "*"])
def test_a_directory_that_cannot_be_opened_is_left_out(
    directory: Path, data: Path, pattern: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(UnreadableError, match=f"{directory}: there is no such file"):
        rows(data / pattern)
    kind = "unreadable-file" if pattern else "unreadable-directory"
    assert [(each["kind"], each["file"]) for each in told(data / pattern)] == [(kind, str(directory))]
    with caplog.at_level(logging.WARNING):
        assert rows(data / pattern, mode="DROPMALFORMED") == rows(data, subscribe="segments,edges")
    assert str(directory) in caplog.text


def test_what_is_not_asked_for_need_not_be_readable(directory: Path, data: Path) -> None:
    assert rows(data, subscribe="segments")
    assert told(data, subscribe="segments") == []
    options = parse_options({"path": str(data), "mode": "PERMISSIVE"})
    reader = PushdownReader(options, choose_columns(StructType([CORRUPT]), options))
    list(reader.pushFilters([spark.EqualTo(("topic",), "segments")]))
    assert {row["_corrupt_record"] for row in read(reader)} == {None}


def test_a_path_that_is_named_has_to_be_there(directory: Path) -> None:
    for mode in ("FAILFAST", "PERMISSIVE", "DROPMALFORMED"):
        with pytest.raises(UnreadableError, match=str(directory)):
            rows(directory, mode=mode)


@pytest.mark.parametrize("table", ["records", "batches", "segments", "transactions"])
def test_a_partition_without_a_segment_is_empty(data: Path, table: str) -> None:
    topic = StructField("topic", StringType())
    before = rows(data, topic, table=table)
    (data / "empty-0").mkdir()
    (data / "empty-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    for mode in ("FAILFAST", "PERMISSIVE", "DROPMALFORMED"):
        assert rows(data, topic, table=table, mode=mode) == before
        assert rows(data, topic, table=table, mode=mode, subscribe="empty") == []


@pytest.fixture
def marker(tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A partition with a transaction marker of which one bit is wrong, and Kafka's account of that marker."""
    shutil.copytree(DATA / "txn-1", tmp_path / "txn-1")
    batch = next(each for each in lines("txn-1", "batch") if each["isControl"])
    log = tmp_path / "txn-1" / batch["file"]
    content = bytearray(log.read_bytes())
    content[batch["position"] + batch["sizeInBytes"] - 1] ^= 1
    log.write_bytes(content)
    return tmp_path, batch


@pytest.mark.parametrize("options", [{}, {"endingOffsets": '{"txn":{"1":1}}'}, {"maxPartitionBytes": 1}], ids=str)
def test_a_damaged_marker_is_reported_once(marker: tuple[Path, dict[str, Any]], options: dict[str, Any]) -> None:
    path, batch = marker
    committed = {"kafka.isolation.level": "read_committed", **options}
    where = f"{batch['file']}, position {batch['position']}: the checksum"
    with pytest.raises(DamageError, match=where):
        rows(path, **committed)
    found = [(each["kind"], Path(each["file"]).name, each["position"]) for each in told(path, **committed)]
    assert found == [("checksum-mismatch", batch["file"], batch["position"])]


def test_a_damaged_marker_is_logged_where_no_row_reports_it(
    marker: tuple[Path, dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    path, batch = marker
    for mode in ("PERMISSIVE", "DROPMALFORMED"):
        with caplog.at_level(logging.WARNING):
            rows(path, mode=mode, **{"kafka.isolation.level": "read_committed"})
        assert f"position {batch['position']}: the checksum" in caplog.text
        caplog.clear()


def test_a_damaged_marker_is_reported_with_the_transactions(marker: tuple[Path, dict[str, Any]]) -> None:
    path, batch = marker
    with pytest.raises(DamageError, match=f"position {batch['position']}: the checksum"):
        rows(path, StructField("state", StringType()), table="transactions")
    assert [each["position"] for each in told(path, table="transactions")] == [batch["position"]]


def test_missing_first_segments_fail_a_query_or_are_a_row(tmp_path: Path) -> None:
    """By the log start offset, by an index without its log, and by what brokers know of a bucket."""
    by_start, by_index = (shutil.copytree(Path("demo/data"), tmp_path / name) for name in ("start", "index"))
    (by_start / "log-start-offset-checkpoint").write_text("0\n1\norders 0 5\n")
    for path in (by_start / "orders-0").glob("00000000000000000000.*"):
        path.unlink()
    (by_index / "orders-0" / "00000000000000000000.log").unlink()
    in_bucket = broker_directory("plain", tmp_path / "tiered")
    bucket = shutil.copytree(golden_tiered() / "plain" / "bucket", tmp_path / "bucket")
    for path in bucket.glob("append-time-*/0/00000000000000000000-*"):
        path.unlink()
    for path, options in (
        (by_start, {"subscribe": "orders"}),
        (by_index, {"subscribe": "orders"}),
        (in_bucket, {"subscribe": "append-time", "remote": bucket}),
    ):
        with pytest.raises(DamageError, match=r"missing: the log begins|is missing, although|is in the bucket"):
            rows(path, **options)
        (found,) = told(path, **options)
        assert found["severity"] == "error"
        assert found["offset"] in (0, 5)
