"""What Spark wrote as Parquet is loaded as it was; and files are loaded on Spark as without it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.golden import broker_data

import brokerless
from brokerless.cli import main
from brokerless.errors import BrokerlessError, UsageError
from brokerless.interchange import input_files
from brokerless.interchange.input_files import InputFiles
from brokerless.jobs.load.job import load_files
from brokerless.jobs.load.loader import Loaded, Loading
from brokerless.jobs.load.routing import Routing
from brokerless.jobs.run.types import RunOptions
from brokerless.log.names import COMMIT_LOCK
from brokerless.log.storage.location import Location
from brokerless.tables.batcher import BatchSettings

TOPICS = ["segments", "edges", "codec-lz4"]
COLUMNS = ["topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers"]


def rows(path: Path) -> list[dict[str, Any]]:
    batches = [
        batch
        for partition in brokerless.open(path).partitions
        if partition.paths[0].topic in TOPICS
        for batch in partition.records(COLUMNS)
    ]
    table = pa.Table.from_batches(batches)
    at = table.schema.get_field_index("timestamp")
    return table.set_column(at, "timestamp", table["timestamp"].cast(pa.int64())).to_pylist()


@pytest.mark.parametrize("timestamps", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
def test_sparks_parquet_is_loaded_as_it_was(spark: SparkSession, timestamps: str, tmp_path: Path) -> None:
    setting = "spark.sql.parquet.outputTimestampType"
    before = spark.conf.get(setting)
    spark.conf.set(setting, timestamps)
    try:
        options = {"subscribe": ",".join(TOPICS), "includeHeaders": True}
        records = spark.read.format("brokerless").options(**options).load(str(broker_data("clean")))
        ordered = records.repartitionByRange(3, "topic", "partition").sortWithinPartitions(
            "topic", "partition", "offset"
        )
        ordered.write.parquet(str(tmp_path / "parquet"))
    finally:
        spark.conf.set(setting, before)
    assert len(list((tmp_path / "parquet").glob("*.parquet"))) > 1
    assert main(["load", str(tmp_path / "parquet"), "--to", str(tmp_path / "log"), "--codec", "zstd"]) == 0
    assert rows(tmp_path / "log") == rows(broker_data("clean"))


def record_files(directory: Path, **columns: bool) -> list[str]:
    """Three files of records, two of Parquet and one of JSON Lines, with keys here and there."""
    directory.mkdir()
    paths = [directory / name for name in ("b.parquet", "a.parquet", "c.jsonl")]
    for file, path in enumerate(paths):
        numbers = range(file * 5000, file * 5000 + 5000)
        found: dict[str, list[Any]] = {
            "topic": [("t", "u")[number % 3 == 0] for number in numbers],
            "key": [None if number % 2 else f"k{number % 50}" for number in numbers],
            "value": [f"value {number} " + "x" * (number % 40) for number in numbers],
        }
        if columns.get("offset"):
            found["offset"] = [number * 2 + 7 for number in numbers]
        if columns.get("timestamp"):
            found["timestamp"] = [1_700_000_000_000 + number for number in numbers]
        if path.suffix == ".parquet":
            pq.write_table(pa.table(found), path, row_group_size=1700)
        else:
            lines = (dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True))
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return list(map(str, paths))


def records(directory: Path) -> dict[str, list[dict[str, Any]]]:
    return {
        each.name: [row for batch in each.records(COLUMNS) for row in pa.Table.from_batches([batch]).to_pylist()]
        for each in brokerless.open(directory).partitions
    }


def names(directory: Path) -> set[str]:
    """Of all that is in a log directory but the lock that is taken for a commit of several partitions."""
    return {path.name for path in directory.iterdir()} - {COMMIT_LOCK}


def told(loaded: Loaded) -> Loaded:
    """Without sizes, as batches end where a file ends."""
    return replace(loaded, partitions=tuple(replace(each, size_in_bytes=0) for each in loaded.partitions))


@pytest.mark.parametrize(
    ("columns", "placement", "codec", "magic"),
    [
        ({}, Routing(partitions=5, timestamp=3), "zstd", 2),
        ({"offset": True, "timestamp": True}, Routing("one", partition=3), "none", 2),
        ({"timestamp": True}, Routing(start_offset=100), "lz4", 1),
        ({}, Routing(partitions=3), "gzip", 0),
    ],
    ids=str,
)
def test_files_are_loaded_on_spark_as_in_one_process(
    columns: dict[str, bool],
    placement: Routing,
    codec: str,
    magic: int,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = record_files(tmp_path / "in", **columns)
    settings = BatchSettings(codec, message_format=magic)
    done: list[int] = []
    monkeypatch.setattr(input_files, "_PART", 40_000)
    parts = InputFiles(files).split(1000)
    assert len(parts) > 2 * len(files)
    assert sum(size for _, size in parts) == sum(Path(each).stat().st_size for each in files)

    would = load_files(
        InputFiles(files),
        Location(str(tmp_path / "there")),
        Loading(placement, settings, dry_run=True),
        RunOptions(spark=spark),
    )
    assert not (tmp_path / "there").exists()
    there = load_files(
        InputFiles(files),
        Location(str(tmp_path / "there")),
        Loading(placement, settings),
        RunOptions(done.append, spark),
    )
    here = load_files(InputFiles(files), Location(str(tmp_path / "here")), Loading(placement, settings))

    assert told(there) == told(would) == told(here)
    assert {f"{each.topic}-{each.partition}": each.size_in_bytes for each in there.partitions} == {
        Path(each.paths[0].path).name: each.paths[0].size for each in brokerless.open(tmp_path / "there").partitions
    }
    assert records(tmp_path / "there") == records(tmp_path / "here")
    assert abs(sum(done) - sum(Path(each).stat().st_size for each in files)) < 100  # rounded for each batch
    log = brokerless.open(tmp_path / "there")
    assert [each for each in log.verify() if each.severity != "info"] == []
    ids = {(path.parent.name[0], path.read_text()) for path in (tmp_path / "there").glob("*/partition.metadata")}
    assert len(ids) == len({each.topic for each in there.partitions})
    assert names(tmp_path / "there") == names(tmp_path / "here")


def _rows(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


REFUSED: dict[str, tuple[list[list[dict[str, Any]]], str]] = {
    "the first of several": (
        [[{"value": "a", "timestamp": number} for number in each] for each in ([1, 2], [-5, 6], [-7])],
        "1.jsonl, line 1, timestamp: is -5 ms, and Kafka has none before 1970",
    ),
    "an order": (
        [[{"value": "a", "offset": 5}], [{"value": "a", "offset": 9}], [{"value": "a", "offset": 9}]],
        "2.jsonl, line 1, offset: is 9 and follows 9 in its partition; offsets have to rise, so sort by them",
    ),
    "columns": (
        [[{"value": "a", "offset": 5}], [{"value": "a"}], [{"offset": 7}]],
        "1.jsonl, line 1, offset: is there in some parts of the input and not in others",
    ),
    "no JSON": ([[{"value": "a"}], [{"value": "a"}, {}]], "1.jsonl, line 2: there is no 'value'"),
}


@pytest.mark.parametrize(("files", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_on_spark_is_refused_as_in_one_process(
    files: list[list[dict[str, Any]]], reason: str, spark: SparkSession, tmp_path: Path
) -> None:
    paths = [_rows(tmp_path / f"{number}.jsonl", rows) for number, rows in enumerate(files)]
    for place in (spark, "none"):
        with pytest.raises(BrokerlessError) as raised:
            load_files(
                InputFiles(paths), Location(str(tmp_path / "to")), Loading(Routing("t")), RunOptions(spark=place)
            )
        assert reason in str(raised.value)
        assert not [path for path in tmp_path.glob("to/*") if path.name != ".lock"]
        assert place == "none" or not (tmp_path / "to").exists()


def test_what_is_refused_in_a_part_of_a_file_has_its_place_in_the_file(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_files, "_PART", 1000)
    times = [-9 if number == 777 else number for number in range(1000)]
    lines = _rows(tmp_path / "lines.jsonl", [{"value": "a", "timestamp": time} for time in times])
    words = _rows(tmp_path / "words.jsonl", [{"value": "a"}] * 500)
    with Path(words).open("a") as file:
        file.write("no JSON\n" + '{"value": "b"}\n' * 500)
    pq.write_table(pa.table({"value": ["a"] * 1000, "timestamp": times}), tmp_path / "a.parquet", row_group_size=50)
    for path, reason in (
        (lines, "lines.jsonl, line 778, timestamp: is -9 ms"),
        (words, "words.jsonl, line 501: this is not JSON"),
        (str(tmp_path / "a.parquet"), "a.parquet, row 777 (from 0), timestamp: is -9 ms"),
    ):
        assert len(InputFiles([path]).split(1000)) > 3
        with pytest.raises(BrokerlessError) as raised:
            load_files(
                InputFiles([path]), Location(str(tmp_path / "to")), Loading(Routing("t")), RunOptions(spark=spark)
            )
        assert reason in str(raised.value)


def test_partitions_that_are_there_are_refused_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    paths = [_rows(tmp_path / f"{number}.jsonl", [{"value": "a"}]) for number in range(2)]
    load_files(InputFiles(paths), Location(str(tmp_path / "to")), Loading(Routing("t")), RunOptions(spark=spark))
    before = records(tmp_path / "to")
    for dry_run in (True, False):
        with pytest.raises(UsageError, match="t-0: this partition exists already; write to another directory"):
            load_files(
                InputFiles(paths),
                Location(str(tmp_path / "to")),
                Loading(Routing("t"), dry_run=dry_run),
                RunOptions(spark=spark),
            )
    assert records(tmp_path / "to") == before
    with pytest.raises(UsageError, match="stdin can be read by this process only"):
        load_files(InputFiles(["-"]), Location(str(tmp_path / "to")), Loading(Routing("t")), RunOptions(spark=spark))
