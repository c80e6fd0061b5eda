"""Directories whose paths hold columns are loaded: what was exported is the log again, record by record."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.examples import some_quick
from tests.golden import broker_data
from tests.jobs.exports import exported, partition
from tests.log.whole_batches import batch

import brokerless
from brokerless.api.loading import load
from brokerless.errors import UnreadableError, UsageError
from brokerless.interchange.hive_paths import merge
from brokerless.interchange.input_files import InputFiles
from brokerless.jobs.export.tasks import Export
from brokerless.jobs.load.routing import Routing
from brokerless.log.names import parse_partition_directory
from brokerless.tables.rows import RowError

COLUMNS = ["topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers"]


def rows(path: Path) -> list[dict[str, Any]]:
    return [row for part in brokerless.open(path).records(COLUMNS) for row in part.to_pylist()]


@pytest.mark.parametrize("by_date", some_quick([True, False]))
def test_an_export_is_loaded_as_the_same_records(by_date: bool, tmp_path: Path) -> None:
    exported(broker_data("clean"), tmp_path / "out", Export(by_date, file_bytes=20_000))
    with pytest.raises(UsageError, match=r"Kafka's own|KRaft's own"):
        load(InputFiles([str(tmp_path / "out")]), str(tmp_path / "log"))
    for internal in (tmp_path / "out").glob("topic=__*"):
        shutil.rmtree(internal)
    load(InputFiles([str(tmp_path / "out")]), str(tmp_path / "log"))
    wanted = [row for row in rows(broker_data("clean")) if row["timestampType"] >= 0 and row["topic"][:2] != "__"]
    assert rows(tmp_path / "log") == wanted
    assert len({row["topic"] for row in wanted}) > 20
    assert all(parse_partition_directory(path.name) for path in (tmp_path / "log").iterdir() if path.is_dir())


def test_dates_that_alternate_are_put_together_by_offset(tmp_path: Path) -> None:
    days = [number * 37 % 40 for number in range(500)]
    log = b"".join(batch(offset, timestamp=day * 86_400_000).tobytes() for offset, day in enumerate(days))
    exported(partition(tmp_path / "t-0", log), tmp_path / "out", Export(by_date=True))
    (loaded,) = load(InputFiles([str(tmp_path / "out")]), str(tmp_path / "log")).partitions
    assert (loaded.records, loaded.first_offset, loaded.last_offset) == (500, 0, 499)
    assert rows(tmp_path / "log") == rows(tmp_path / "t-0")


def batches(*parts: list[int]) -> Any:
    return lambda: (pa.RecordBatch.from_pydict({"offset": pa.array(part, pa.int64())}) for part in parts)


@pytest.mark.parametrize(
    "inputs",
    [
        [], [[[]]], [[[1, 2, 3]]], [[[1], [2], [3]], [[4, 5]]], [[[1, 5], [9]], [[2, 3], [4, 10]], [[7], [], [8]]],
        [[[1, 100]], [[2]], [[3]], [[50]]], [[[], [5]], [[1], []]],
    ],
)  # fmt: skip
def test_merging_sorts_by_offset(inputs: list[list[list[int]]]) -> None:
    starts = [min([offset for part in parts for offset in part], default=0) for parts in inputs]
    merged = [
        offset for each in merge(starts, [batches(*parts) for parts in inputs]) for offset in each["offset"].to_pylist()
    ]
    assert merged == sorted(offset for parts in inputs for part in parts for offset in part)


def write(path: Path, columns: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def test_topic_and_partition_of_a_path_are_columns_where_the_file_has_none(tmp_path: Path) -> None:
    write(tmp_path / "topic=a%20b" / "x.parquet", {"value": [b"1"]})
    with pytest.raises(RowError, match="'a b' is not a valid topic name"):
        load(InputFiles([str(tmp_path)]), str(tmp_path / "log"))
    write(tmp_path / "in" / "topic=a" / "partition=3" / "part-0.parquet", {"value": [b"1", b"2"]})
    write(tmp_path / "in" / "topic=b" / "part-0.parquet", {"value": [b"1"], "topic": ["own"], "partition": [7]})
    (tmp_path / "in" / "topic=b" / "_notes.json").write_text("{")
    loaded = load(InputFiles([str(tmp_path / "in")]), str(tmp_path / "log2")).partitions
    assert [(each.topic, each.partition, each.records) for each in loaded] == [("a", 3, 2), ("own", 7, 1)]


@pytest.mark.parametrize(
    ("name", "columns", "error"),
    [
        ("year=2026/x.parquet", {"value": [b"1"]}, "has directories in it .year=2026"),
        ("topic=a/partition=x/x.parquet", {"value": [b"1"]}, "'x' is not a partition number"),
        ("topic=a/x.csv", {"value": [b"1"]}, "no file in it ends with"),
        ("topic=a/partition-0-00000000000000000000.parquet", {"value": [b"1"]}, "has no offsets"),
        ("topic=a/partition-0-00000000000000000000.parquet", {"value": [b"1"], "offset": ["1"]}, "offset|no offsets"),
        ("topic=a/partition-0-00000000000000000000.parquet", {"value": [b"1", b"2"], "offset": [2, 1]}, "do not rise"),
    ],
)
def test_what_cannot_be_loaded_is_refused(name: str, columns: dict[str, Any], error: str, tmp_path: Path) -> None:
    write(tmp_path / "in" / name, columns)
    if "partition-0" in name:  # it takes two to be put together
        write(tmp_path / "in" / name.replace("000.p", "009.p"), {"value": [b"9"], "offset": [9]})
    with pytest.raises((UsageError, UnreadableError, RowError), match=error):
        load(InputFiles([str(tmp_path / "in")]), str(tmp_path / "log"))


@pytest.fixture
def two_topics(tmp_path: Path) -> Path:
    for topic in ("clicks", "orders"):
        log = b"".join(batch(offset, timestamp=offset * 20_000_000).tobytes() for offset in range(20))
        exported(partition(tmp_path / f"{topic}-3", log), tmp_path / "exp", Export(by_date=True))
    return tmp_path


def loaded_topics(directory: Path) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in rows(directory):
        found.setdefault(f"{row['topic']}-{row['partition']}", []).append(row["offset"])
    return found


@pytest.mark.parametrize(
    "paths",
    [
        ["exp/topic=clicks", "exp/topic=orders"],
        ["exp/topic=clicks/", "exp/topic=*ders"],
        ["exp/topic=clicks/*/*.parquet", "exp/topic=orders/*"],
        ["exp"],
    ],
)
def test_topics_are_known_from_the_paths_however_they_are_given(paths: list[str], two_topics: Path) -> None:
    load(InputFiles([str(two_topics / path) + "/" * path.endswith("/") for path in paths]), str(two_topics / "log"))
    assert loaded_topics(two_topics / "log") == {name: list(range(20)) for name in ("clicks-3", "orders-3")}


def test_a_relative_path_says_its_topic_as_well(two_topics: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(two_topics / "exp" / "topic=clicks")
    load(InputFiles(["."]), str(two_topics / "log"))
    assert loaded_topics(two_topics / "log") == {"clicks-3": list(range(20))}


def test_directories_above_that_are_no_columns_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "topic=no" / "inner").mkdir(parents=True)
    path = tmp_path / "topic=no" / "inner" / "lines.jsonl"
    path.write_text('{"value": "one"}\n')
    with pytest.raises((UsageError, UnreadableError), match="topic"):
        load(InputFiles([str(path)]), str(tmp_path / "log"))


def test_a_topic_that_is_asked_for_counts_more_than_a_path(two_topics: Path) -> None:
    load(InputFiles([str(two_topics / "exp" / "topic=clicks")]), str(two_topics / "log"), Routing("other"))
    assert loaded_topics(two_topics / "log") == {"other-3": list(range(20))}
