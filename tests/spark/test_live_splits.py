"""Spark's tasks read what was planned, or the same offsets of what has taken its place, wherever a compaction comes in
between: listing, look, plan or read. What retention took ends a query as ``failOnDataLoss`` says."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType
from tests.log.cleaner import EVERY, clean, delete, left, write_log, write_segment
from tests.opening import replace_call
from tests.spark.stream.test_log_tracker import Query

from brokerless.errors import UnreadableError
from brokerless.log import live_segments
from brokerless.log.storage.files import File
from brokerless.log.storage.location import Location
from brokerless.spark.source import BrokerlessSource

OFFSET = StructType([StructField("offset", LongType())])
SIZES = [{}, {"maxPartitionBytes": 200}, {"maxRecordsPerPartition": 3}]
LATER = functools.partial(pytest.param, marks=pytest.mark.slow(reason="at each file"))
COMMITTED = {"kafka.isolation.level": "read_committed"}

Change = Callable[[Path], object]
CHANGES: dict[str, Change] = {
    "shorter": lambda path: clean(path, [10], lambda each: each in (12, 18)),
    "much shorter": lambda path: clean(path, [30], lambda each: each == 39),
    "longer": lambda path: clean(path, [10, 20, 30], lambda each: each != 13),
    "another first batch": lambda path: clean(path, [0], lambda each: each > 2),
    "one of several": lambda path: clean(path, [0, 10, 20, 30]),
    "twice": lambda path: (clean(path, [0, 10]), clean(path, [0, 20, 30], lambda each: each % 3 == 0)),
    "what was active": lambda path: (write_segment(path, 50, range(50, 53)), clean(path, [30, 40])),
}


@pytest.fixture(params=CHANGES)
def change(request: pytest.FixtureRequest) -> Change:
    return CHANGES[request.param]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = write_log(tmp_path / "logs" / "t-0")
    (path.parent / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 10\n")
    return path


class Batch:
    """A query that is planned; what it reads."""

    def __init__(self, path: Path, schema: StructType = OFFSET, **options: Any) -> None:
        given = {"path": str(path), **{name: str(value) for name, value in options.items()}}
        self.reader = BrokerlessSource(given).reader(schema)
        self.tasks = pickle.loads(pickle.dumps(self.reader.partitions()))

    def rows(self) -> list[dict[str, Any]]:
        return [row for task in self.tasks for batch in self.reader.read(task) for row in batch.to_pylist()]  # type: ignore[union-attr]


def check(offsets: list[int], path: Path) -> None:
    assert offsets == sorted(set(offsets))
    assert {*left(path)} & {*EVERY} <= set(offsets)


@pytest.mark.parametrize("options", [*SIZES, COMMITTED, {"mode": "PERMISSIVE"}], ids=str)
def test_files_are_replaced_between_plan_and_read(options: dict[str, Any], change: Change, path: Path) -> None:
    query = Batch(path.parent, **options)
    change(path)
    check([row["offset"] for row in query.rows()], path)


@pytest.mark.parametrize("options", SIZES, ids=str)
def test_batches_are_found_again_by_their_offsets(options: dict[str, Any], change: Change, path: Path) -> None:
    query = Batch(path, StructType([StructField("baseOffset", LongType())]), table="batches", **options)
    change(path)
    check([row["baseOffset"] for row in query.rows()], path)


def test_segments_that_became_one_have_one_row(path: Path) -> None:
    fields = [StructField("file", StringType()), StructField("baseOffset", LongType())]
    query = Batch(path, StructType(fields), table="segments")
    clean(path, [10, 20])
    assert [Path(row["file"]).stem.lstrip("0") for row in query.rows()] == ["", "10", "30", "40"]


@pytest.mark.parametrize("options", [*SIZES, COMMITTED], ids=str)
def test_a_stream_reads_on_where_files_were_replaced_after_its_plan(
    options: dict[str, Any], change: Change, path: Path
) -> None:
    query = Query(path.parent, **options)
    start = {"t": {"0": 5}}
    tasks = query.reader.partitions(start, {"t": {"0": 47}})
    change(path)
    offsets = [row["offset"] for task in tasks for batch in query.reader.read(task) for row in batch.to_pylist()]
    assert offsets == sorted(set(offsets))
    assert {each for each in left(path) if 5 <= each < 47} <= set(offsets) <= {*range(5, 47)}


@pytest.mark.parametrize("options", [*SIZES, COMMITTED], ids=str)
@pytest.mark.parametrize("at", [0, LATER(3), 6, LATER(9), 12, LATER(15)])
def test_a_stream_reads_on_where_files_are_replaced_while_it_looks_plans_and_reads(
    at: int, options: dict[str, Any], change: Change, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the n-th file that is opened, whoever opens it."""
    query = Query(path.parent, {"t": {"0": 5}}, **options)
    opened = 0

    def open_file(location: Location) -> File:
        nonlocal opened
        opened += 1
        if opened == at + 1:
            change(path)
        return real(location)

    real = replace_call(monkeypatch, live_segments, "open", open_file)
    query.trigger()
    query.trigger()
    if opened <= at:
        change(path)
        opened = at + 1
    write_segment(path, 60, range(60, 63))
    query.trigger()
    offsets = [offset for _, _, offset in query.rows]
    assert offsets == sorted(set(offsets))
    assert {each for each in left(path) if each >= 5} <= set(offsets)


def test_what_was_listed_and_replaced_before_the_look_is_no_log_that_was_cut_back(path: Path) -> None:
    """The end of the segment that was the active one has gone from the log by the time of the look."""
    query = Query(path.parent, {"t": {"0": 50}})
    named = query.reader.tracker._named

    def list_and_clean(*arguments: Any) -> Any:
        found = named(*arguments)
        if not (path / f"{50:020}.log").exists():
            write_segment(path, 50, range(50, 53))
            clean(path, [30, 40], lambda each: each == 30)
        return found

    query.reader.tracker._named = list_and_clean
    assert [offset for _, _, offset in query.trigger()] in ([], [50, 51, 52])
    query.trigger()
    assert [offset for _, _, offset in query.rows] == [50, 51, 52]


@pytest.mark.parametrize("kind", ["batch", "stream"])
def test_what_retention_took_is_lost_as_the_option_says(kind: str, path: Path) -> None:
    def planned(**options: Any) -> Any:
        if kind == "batch":
            return Batch(path.parent, **options)
        query = Query(path.parent, **options)
        found = Batch(path.parent)
        found.reader, found.tasks = query.reader, query.reader.partitions({"t": {"0": 0}}, {"t": {"0": 50}})
        return found

    strict, lenient = planned(), planned(failOnDataLoss="false")
    delete(path, [0, 10], is_forgotten=False)
    assert [row["offset"] for row in planned(startingOffsets="earliest", failOnDataLoss="false").rows()][-30:] == [
        *range(20, 50)
    ]
    assert [row["offset"] for row in strict.rows()] == [*EVERY]  # a minute later
    delete(path, [])
    with pytest.raises(UnreadableError, match="failOnDataLoss=false"):
        strict.rows()
    assert [row["offset"] for row in lenient.rows()] == [*range(20, 50)]
