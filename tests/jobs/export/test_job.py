"""Exported partitions: what readers of Parquet get is what Kafka's own readers get of the log, each record once."""

from __future__ import annotations

import base64
import hashlib
import os
import pickle
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from tests.golden import broker_data, broker_expected, json_lines, of_type
from tests.jobs.exports import exported, facts, listing, partition, table
from tests.log.whole_batches import batch

from brokerless.findings import Finding
from brokerless.jobs.export.commit import ExportedPartition
from brokerless.jobs.export.job import export, plan, run
from brokerless.jobs.export.tasks import Export
from brokerless.jobs.run.types import RunOptions
from brokerless.kafka_names import COMPRESSION_TYPES
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location

pytestmark = pytest.mark.xdist_group("exported")
NAMES = [path.parent.name for path in sorted(broker_data("clean").glob("*-*/leader-epoch-checkpoint"))]
DAY = 86_400_000


def as_expected(row: dict[str, Any], line: dict[str, Any]) -> bool:
    """Whether a row is what Kafka's reader says in a line of ``expected.jsonl``."""

    def same(name: str) -> bool:
        data = row[name]
        if f"{name}Sha256" in line:
            return hashlib.sha256(data).hexdigest() == line[f"{name}Sha256"]
        return data == (None if line[name] is None else base64.b64decode(line[name]))

    headers = [(each["key"], each["value"]) for each in row["headers"]]
    told = [(key, None if value is None else base64.b64decode(value)) for key, value in line["headers"]]
    types = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
    timestamp = int(row["timestamp"].timestamp() * 1000) if row["timestamp"] is not None else None
    own = (row["offset"], timestamp, types[row["timestampType"]])
    return own == (line["offset"], line["timestamp"], line["timestampType"]) and same("key") and same("value") and (
        headers == told
    )  # fmt: skip


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that a broker had."""
    to = tmp_path_factory.mktemp("everything") / "out"
    exported(broker_data("clean"), to)
    return to


@pytest.fixture(scope="module")
def rows(everything: Path) -> list[dict[str, Any]]:
    return table(everything)


@pytest.mark.parametrize("name", NAMES)
def test_every_record_that_kafkas_reader_gives_is_there(rows: list[dict[str, Any]], name: str) -> None:
    topic, _, partition = name.rpartition("-")
    lines = json_lines(broker_expected("clean") / name / "expected.jsonl")
    wanted = [
        line for line in of_type(lines, "record") if line.get("control") is None and line["file"].endswith(".log")
    ]
    if name == "head-deleted-0":  # DeleteRecords took what was before
        wanted = [line for line in wanted if line["offset"] >= 105]
    found = [row for row in rows if (row["topic"], row["partition"]) == (topic, int(partition))]
    assert len(found) == len(wanted)
    assert all(map(as_expected, found, wanted))


def test_with_read_committed_there_is_what_a_java_consumer_got(tmp_path: Path) -> None:
    exported(broker_data("clean"), tmp_path, Export(isolation="read_committed"))
    (expected,) = json_lines(broker_expected("clean") / "read-committed.json")
    rows = table(tmp_path)
    for name, told in expected["read_committed"].items():
        found = [row["offset"] for row in rows if f"{row['topic']}-{row['partition']}" == name]
        assert found == told["offsets"], name
    # DeleteRecords took what was before.
    assert min(row["offset"] for row in rows if row["topic"] == "head-deleted") == 105


def test_columns_are_those_of_spark_sql_kafka_and_values_stay_bytes(everything: Path) -> None:
    schema = ds.dataset(everything, partitioning="hive").schema
    assert [(field.name, str(field.type)) for field in schema] == [
        ("key", "binary"), ("value", "binary"), ("partition", "int32"), ("offset", "int64"),
        ("timestamp", "timestamp[ms, tz=UTC]"), ("timestampType", "int32"),
        ("headers", "list<element: struct<key: string not null, value: binary>>"), ("topic", "string"),
    ]  # fmt: skip


def test_each_date_has_the_records_of_its_day_in_utc(everything: Path, tmp_path: Path) -> None:
    exported(broker_data("clean"), tmp_path, Export(by_date=True))
    rows = table(tmp_path)
    assert facts(rows) == facts(table(everything))
    dated = [row for row in rows if row["date"] is not None]
    assert len({row["date"] for row in dated}) > 3
    assert all(row["date"] == row["timestamp"].astimezone(UTC).date().isoformat() for row in dated)


def test_records_without_a_date_are_in_hives_partition_for_null(tmp_path: Path) -> None:
    times = [-1, 0, -62_135_596_800_001, 253_402_300_800_000, -62_135_596_800_000, 253_402_300_799_999, DAY - 1, DAY]
    log = b"".join(batch(offset, timestamp=each).tobytes() for offset, each in enumerate(times))
    source = partition(tmp_path / "t-0", log)
    findings: list[Finding] = []
    exported(source, tmp_path / "out", Export(by_date=True), findings)
    assert [each.kind for each in findings] == ["timestamp-before-1970"]
    found = {path.parent.name: pq.read_table(path, partitioning=None) for path in (tmp_path / "out").rglob("*.parquet")}
    offsets = {name: each.column("offset").to_pylist() for name, each in found.items()}
    assert offsets == {
        "date=__HIVE_DEFAULT_PARTITION__": [0, 2, 3], "date=1970-01-01": [1, 6], "date=1970-01-02": [7],
        "date=0001-01-01": [4], "date=9999-12-31": [5],
    }  # fmt: skip
    null = found["date=__HIVE_DEFAULT_PARTITION__"].column("timestamp").cast("int64")
    assert null.to_pylist() == [times[0], times[2], times[3]]


def test_more_dates_than_files_are_written_at_once_give_each_record_once(tmp_path: Path) -> None:
    days = [(number * 37) % 53 for number in range(150)]
    log = b"".join(batch(offset, timestamp=day * DAY).tobytes() for offset, day in enumerate(days))
    source = partition(tmp_path / "t-0", log)
    (result,) = exported(source, tmp_path / "out", Export(by_date=True, file_bytes=1))
    assert len(result.files) == 150
    rows = table(tmp_path / "out")
    assert [row["offset"] for row in rows] == list(range(150))
    assert all(row["timestamp"].timestamp() * 1000 == days[row["offset"]] * DAY for row in rows)


def test_files_end_near_the_size_that_is_asked_for(tmp_path: Path) -> None:
    values = [os.urandom(1000) for _ in range(2000)]
    log = b"".join(batch(offset, value=value).tobytes() for offset, value in enumerate(values))
    source = partition(tmp_path / "t-0", log)
    (result,) = exported(source, tmp_path / "out", Export(file_bytes=200_000))
    assert 8 <= len(result.files) <= 11
    assert all(200_000 <= each.size < 260_000 for each in result.files[:-1])
    assert [each.first_offset for each in result.files[1:]] == [each.last_offset + 1 for each in result.files[:-1]]
    assert [row["value"] for row in table(tmp_path / "out")] == values


@pytest.mark.parametrize("codec", COMPRESSION_TYPES)
def test_files_are_compressed_as_asked(codec: str, tmp_path: Path) -> None:
    exported(broker_data("clean") / "codec-none-0", tmp_path, Export(codec=codec))
    (path,) = tmp_path.rglob("*.parquet")
    found = pq.read_metadata(path).row_group(0).column(1).compression
    assert found.lower() == {"none": "uncompressed"}.get(codec, codec)


def test_a_large_partition_is_several_tasks_that_are_committed_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from brokerless.jobs.export import tasks as planning
    from brokerless.jobs.run import job

    monkeypatch.setattr(planning, "_TASK_BYTES", 1)
    source = str(broker_data("clean") / "segments-0")
    planned = plan(resolve(Location(source)).partitions, [source], Location.of(tmp_path / "out"), Export())
    assert len(planned.tasks) == len(list(Path(source).glob("*.log")))
    assert [each.start for each in planned.tasks[1:]] == [each.end for each in planned.tasks[:-1]]

    def backwards(work: Callable[..., Any], tasks: Any, **_: Any) -> Any:
        for index in reversed(range(len(tasks))):
            yield index, pickle.loads(pickle.dumps(run(pickle.loads(pickle.dumps(tasks[index])), lambda _: None)))
            assert bool(listing(tmp_path / "out")) == (index == 0)

    with monkeypatch.context() as patched:
        patched.setattr(job, "run", backwards)
        (result,) = list(export(planned, [].append))
    exported(Path(source), tmp_path / "whole")
    assert facts(table(tmp_path / "out")) == facts(table(tmp_path / "whole"))
    assert result.records == len(table(tmp_path / "out"))


def test_a_dry_run_says_the_same_and_writes_nothing(tmp_path: Path) -> None:
    source = broker_data("clean") / "codec-gzip-0"
    dry = exported(source, tmp_path / "out", Export(dry_run=True))
    assert not (tmp_path / "out").exists()
    wet = exported(source, tmp_path / "out")

    def counts(results: list[ExportedPartition]) -> list[Any]:
        return [(each.records, each.size, each.start_offset, each.next_offset, len(each.files)) for each in results]

    assert counts(dry) == counts(wet)


def test_progress_adds_up_to_what_there_is_to_read(tmp_path: Path) -> None:
    source = str(broker_data("clean"))
    done: list[int] = []
    planned = plan(resolve(Location(source)).partitions, [source], Location.of(tmp_path / "out"), Export())
    list(export(planned, [].append, RunOptions(done.append)))
    assert sum(done) <= sum(task.size for task in planned.tasks) <= sum(done) + 100_000  # a preallocated segment
