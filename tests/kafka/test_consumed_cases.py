"""Oracle: a real consumer of the newest Kafka, with a broker started on the files. Each record that it gets is in our
tables once, and where it throws, or comes no further, ``verify`` reports an error."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

import brokerless
from brokerless.cli import main
from tests.golden import Case, cases
from tests.kafka.consumed_cases import (
    ConsumedCase,
    Question,
    consume_cases,
    consume_served,
    is_served,
    record,
    shortened,
)
from tests.kafka.producers import Consumed, Isolation
from tests.log.awkward_logs import AWKWARD_LOGS
from tests.log.odd_logs import ODD_LOGS, Files

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.slow(reason="a broker starts twice on a hundred logs")]


@dataclass(frozen=True)
class Judged:
    files: Files
    found: dict[str, ConsumedCase]
    is_recovered: bool
    served: dict[str, ConsumedCase]
    """What the consumer got of the same files from ``brokerless serve``."""


def golden_cases() -> Iterator[Case]:
    """All kinds of logs, and some of the many damaged ones; a broker ends that loads a broken wrapper message."""
    damaged = [each for each in cases("damaged") if "-v2-" in each.name]
    for each in [*cases("formats", "specials"), *damaged[::8]]:
        is_log = bool(each.logs) and all(path.suffix == ".log" for path in each.logs)
        if is_log and is_served({path.name: path.read_bytes() for path in each.logs}):
            yield each


def damaged_cases() -> Iterator[Case]:
    """Damaged logs, whatever a broker would make of them: what is saved of them is what is served."""
    for each in cases("damaged")[::12]:
        if each.logs and all(path.suffix == ".log" for path in each.logs):
            yield each


GOLDEN = {each.name: each for each in golden_cases()}
DAMAGED = {each.name: each for each in damaged_cases()}


def load_export(log: brokerless.Log, to: Path) -> None:
    """Through Parquet."""
    assert main(["export", log.path, "--to", str(to / "exported")]) == 0
    assert main(["load", str(to / "exported"), "--to", str(to), "--codec", "zstd"]) == 0


def load_lines(log: brokerless.Log, to: Path) -> None:
    """Through JSON Lines."""
    to.mkdir()
    with (to / "lines.jsonl").open("wb") as file, redirect_stdout(io.TextIOWrapper(file)):
        assert main(["cat", log.path, "--json"]) == 0
    assert main(["load", str(to / "lines.jsonl"), "--to", str(to), "--topic", "odd", "--codec", "gzip"]) == 0


def convert_back(log: brokerless.Log, to: Path) -> None:
    """Through the format before headers."""
    log.convert(str(to / "old"), message_format=1, codec="snappy", batch_size=16_384)
    brokerless.open(to / "old").convert(str(to), message_format=2, codec="lz4", batch_size=0)


WRITERS: dict[str, Callable[[brokerless.Log, Path], object]] = {
    "salvage": lambda log, to: log.salvage(str(to), on_damage=lambda _: None),
    "convert": lambda log, to: log.convert(str(to), codec="gzip", on_damage=lambda _: None),
    "compact": lambda log, to: log.compact(str(to), topics=["odd"], on_damage=lambda _: None),
    "load-export": load_export,
    "load-lines": load_lines,
    "convert-back": convert_back,
}
"""What writes logs of others. Those of what is damaged are of salvage alone."""
OVERLAPPING = [name for name in ODD_LOGS if name.startswith(("overlapping", "repeating"))]
REFUSED = ["overlapping-gaps-of-segments"]
"""Logs with batches in another order than that of their offsets: nothing but salvage sorts."""
REWRITTEN = [
    *(("salvage", name) for name in (*ODD_LOGS, *DAMAGED)),
    *((writer, name) for writer in ("convert", "compact") for name in OVERLAPPING if name not in REFUSED),
    *((writer, name) for writer in ("load-export", "load-lines", "convert-back") for name in AWKWARD_LOGS),
]
NAMES = [*ODD_LOGS, *AWKWARD_LOGS, *GOLDEN]
SINCE = {
    "overlapping-segments": 40,
    "overlapping-batches": 40,
    "overlapping-rests": 36,
    "overlapping-headers": 45,
    "overlapping-compacted": 15,
}
"""Logs that a consumer reads from each offset below these on as well."""
IN_BATCHES = ["overlapping-batches", "overlapping-rests", "overlapping-compacted"]


def files_of(name: str) -> Files:
    known = GOLDEN.get(name) or DAMAGED.get(name)
    return {path.name: path.read_bytes() for path in known.logs} if known else {**ODD_LOGS, **AWKWARD_LOGS}[name]


def source_of(name: str, directory: Path) -> Path:
    """A log directory with the files of a case as partition ``odd-0``."""
    path = directory / "odd-0"
    path.mkdir(parents=True)
    for file, data in files_of(name).items():
        (path / file).write_bytes(data)
    return directory


def rewritten(writer: str, name: str, directory: Path) -> Files:
    """The logs that a command writes of a case."""
    log = brokerless.open(source_of(name, directory / "from"))
    WRITERS[writer](log, directory / "to")
    return {path.name: path.read_bytes() for path in sorted((directory / "to" / "odd-0").glob("*.log"))}


def question(root: Path) -> tuple[dict[str, Files], Question]:
    """All cases by name, of which those that are written again are written in a directory. Logs without damage are
    recovered first, which makes their indexes."""
    files = {name: files_of(name) for name in NAMES}
    recovered = [name.startswith(("overflow", "formats/")) for name in NAMES]
    for number, (writer, name) in enumerate(REWRITTEN):
        of_writer = rewritten(writer, name, root / str(number))
        if of_writer:
            files[f"{writer} {name}"] = of_writer
            recovered.append(True)
    starts = {number: range(SINCE[name]) for number, name in enumerate(files) if name in SINCE}
    return files, Question([*files.values()], recovered, starts)


def record_starts() -> None:
    with tempfile.TemporaryDirectory() as directory:
        record(question(Path(directory))[1])


@pytest.fixture(scope="module")
def judged(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judged]:
    """What the consumer got of each case."""
    files, asked = question(tmp_path_factory.mktemp("rewritten"))
    recovered = asked.recovered
    found, log_dir = consume_cases(asked, tmp_path_factory.mktemp("consumed"))
    served = consume_served(asked, log_dir)
    return {
        name: Judged(files[name], each, is_recovered, of_served)
        for name, each, is_recovered, of_served in zip(files, found, recovered, served, strict=True)
    }


def rows_of(directory: Path, isolation: Isolation, start_offset: int | None = None) -> list[Consumed]:
    columns = ["offset", "timestamp", "key", "value", "headers"]
    reader = brokerless.open(directory).records(
        columns, isolation=isolation, start_offset=start_offset, on_damage=lambda _: None
    )
    return [
        consumed(row)
        for batch in reader
        for row in batch.set_column(1, "timestamp", batch.column("timestamp").cast("int64")).to_pylist()
    ]


def consumed(row: dict[str, Any]) -> Consumed:
    headers = tuple((each["key"], shortened(each["value"])) for each in row["headers"])
    return Consumed(row["offset"], row["timestamp"], shortened(row["key"]), shortened(row["value"]), headers)


@pytest.mark.parametrize("name", NAMES)
def test_each_record_of_a_consumer_is_read_once(name: str, judged: dict[str, Judged], tmp_path: Path) -> None:
    case = judged[name]
    for file, data in case.files.items():
        (tmp_path / file).write_bytes(data)
    levels: tuple[Isolation, ...] = ("read_uncommitted", "read_committed")
    for isolation in levels if case.is_recovered else levels[:1]:
        ours: dict[int, list[Consumed]] = {}
        for each in rows_of(tmp_path, isolation):
            ours.setdefault(each.offset, []).append(each)
        theirs = case.found[isolation]
        assert [ours.get(each.offset) for each in theirs.records] == [[each] for each in theirs.records]
        if theirs.passed:
            assert len(ours) >= len(theirs.records)


@pytest.mark.parametrize("name", NAMES)
def test_a_consumer_gets_the_same_from_brokerless_serve(name: str, judged: dict[str, Judged]) -> None:
    """From each offset on. Where it throws, it does so too: a damaged batch is not sent, but answered with an error."""
    case = judged[name]
    for isolation in ("read_uncommitted", "read_committed") if case.is_recovered else ("read_uncommitted",):
        theirs, ours = case.found[isolation], case.served[isolation]
        assert ours.records == theirs.records
        assert (ours.passed, ours.error is None) == (theirs.passed, theirs.error is None)
        assert ours.since == theirs.since


@pytest.mark.parametrize("name", SINCE)
def test_a_range_has_what_a_consumer_gets_that_begins_there(
    name: str, judged: dict[str, Judged], tmp_path: Path
) -> None:
    """Of segments that overlap, that is the last one that begins at or before that offset. Of batches within one file,
    it depends on the broker's version and its index which one serves an offset; here, it is the first that has it. At
    the end of a fetch, a consumer goes on after the last batch's header, and so may miss what the next segment has:
    here, there is what it gets that begins there as well."""
    source = source_of(name, tmp_path)
    since = judged[name].found["read_uncommitted"].since
    assert sorted(since) == [*range(SINCE[name])]
    for start, records in since.items():
        rows = rows_of(source, "read_uncommitted", start)
        got = {each.offset: each for begin in range(SINCE[name] - 1, start - 1, -1) for each in since[begin]}
        assert [each.offset for each in rows] == sorted(got)
        assert records == [got[each.offset] for each in records] or name in IN_BATCHES
        assert rows == [got[each] for each in sorted(got)] or name in IN_BATCHES


@pytest.mark.parametrize("name", NAMES)
def test_verify_reports_an_error_where_a_consumer_stops(name: str, judged: dict[str, Judged], tmp_path: Path) -> None:
    case = judged[name]
    for file, data in case.files.items():
        (tmp_path / file).write_bytes(data)
    found = case.found["read_uncommitted"]
    errors = [each for each in brokerless.open(tmp_path).verify() if each.severity == "error"]
    if not found.passed:
        assert errors, (found.error, found.stopped)


@pytest.mark.parametrize(("writer", "name"), REWRITTEN)
def test_a_consumer_gets_all_that_was_read_of_what_is_written(
    writer: str, name: str, judged: dict[str, Judged], tmp_path: Path
) -> None:
    """It comes to the end, and gets each record that readers get of the source, each once. Of a damaged log, those are
    left out that are in a batch which breaks off inside (``salvage --partial`` saves them)."""
    expected = rows_of(source_of(name, tmp_path), "read_uncommitted")
    case = judged.get(f"{writer} {name}")
    if case is None:  # nothing was left
        assert expected == []
        return
    found = case.found["read_uncommitted"]
    assert (found.error, found.stopped, found.passed) == (None, None, True)
    if writer == "convert-back":
        expected = [replace(each, headers=()) for each in expected]
    if name not in DAMAGED:
        assert found.records == sorted(expected, key=lambda each: each.offset)
    else:
        assert len({each.offset for each in found.records}) == len(found.records)
        assert {each.value for each in found.records} <= {each.value for each in expected}
        broken = any(each.kind not in _WHOLE for each in brokerless.open(tmp_path).verify() if each.severity == "error")
        assert broken or len(found.records) == len({each.offset for each in expected})


@pytest.mark.parametrize("name", AWKWARD_LOGS)
def test_an_export_has_what_a_consumer_gets(name: str, judged: dict[str, Judged], tmp_path: Path) -> None:
    """DuckDB and PyArrow read it. DuckDB refuses a column with a time after its last year, so PyArrow reads times."""
    theirs = judged[name].found["read_uncommitted"]
    assert theirs.passed
    source = source_of(name, tmp_path / "from")
    for how in ([], ["--by-date"]):
        to = tmp_path / f"exported{len(how)}"
        assert main(["export", str(source), "--to", str(to), *how]) == 0
        files = f"read_parquet('{to}/**/*.parquet', hive_partitioning = false)"
        rows = duckdb.execute(f'SELECT "offset", key, value, headers FROM {files} ORDER BY "offset"').fetchall()
        table = pq.ParquetDataset(to, partitioning=None).read(["offset", "timestamp"])  # pyright: ignore[reportArgumentType]
        table = table.sort_by("offset")
        names, times = ("offset", "key", "value", "headers"), table["timestamp"].cast("int64").to_pylist()
        ours = [dict(zip(names, row, strict=True)) | {"timestamp": at} for row, at in zip(rows, times, strict=True)]
        assert list(map(consumed, ours)) == theirs.records


_WHOLE = ("checksum-mismatch", "batch-size-invalid", "no-batches", "zero-tail")
"""Kinds of damage that take whole batches."""
