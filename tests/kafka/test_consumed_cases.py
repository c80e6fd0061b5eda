"""Oracle: a real consumer of the newest Kafka, with a broker started on the files. Each record that it gets is in our
tables once, and where it throws, or comes no further, ``verify`` reports an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import brokerless
from tests.golden import Case, cases
from tests.kafka.consumed_cases import ConsumedCase, consume_cases, is_served
from tests.kafka.producers import Consumed, Isolation
from tests.log.odd_logs import ODD_LOGS, Files

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.slow(reason="a broker starts twice on a hundred logs")]


@dataclass(frozen=True)
class Judged:
    files: Files
    found: dict[str, ConsumedCase]
    is_recovered: bool


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
WRITERS: dict[str, Callable[[brokerless.Log, Path], object]] = {
    "salvage": lambda log, to: log.salvage(str(to), on_damage=lambda _: None),
    "convert": lambda log, to: log.convert(str(to), codec="gzip", on_damage=lambda _: None),
    "compact": lambda log, to: log.compact(str(to), topics=["odd"], on_damage=lambda _: None),
}
"""What writes logs of others. Those of what is damaged are of salvage alone."""
REWRITTEN = [
    *(("salvage", name) for name in (*ODD_LOGS, *DAMAGED)),
    *((writer, name) for writer in ("convert", "compact") for name in ODD_LOGS if name.startswith("overlapping")),
]
NAMES = [*ODD_LOGS, *GOLDEN]


def files_of(name: str) -> Files:
    known = GOLDEN.get(name) or DAMAGED.get(name)
    return {path.name: path.read_bytes() for path in known.logs} if known else ODD_LOGS[name]


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


@pytest.fixture(scope="module")
def judged(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judged]:
    """What the consumer got of each case. Logs without damage are recovered first, which makes their indexes."""
    files = {name: files_of(name) for name in NAMES}
    recovered = [name.startswith(("overflow", "formats/")) for name in NAMES]
    for writer, name in REWRITTEN:
        of_writer = rewritten(writer, name, tmp_path_factory.mktemp("rewritten"))
        if of_writer:
            files[f"{writer} {name}"] = of_writer
            recovered.append(True)
    found = consume_cases(tmp_path_factory.mktemp("consumed") / "broker", list(files.values()), recovered)
    return {
        name: Judged(files[name], each, is_recovered)
        for name, each, is_recovered in zip(files, found, recovered, strict=True)
    }


def rows_of(directory: Path, isolation: Isolation) -> list[Consumed]:
    columns = ["offset", "timestamp", "key", "value", "headers"]
    reader = brokerless.open(directory).records(columns, isolation=isolation, on_damage=lambda _: None)
    return [
        Consumed(
            row["offset"],
            row["timestamp"],
            row["key"],
            row["value"],
            tuple((each["key"], each["value"]) for each in row["headers"]),
        )
        for batch in reader
        for row in batch.set_column(1, "timestamp", batch.column("timestamp").cast("int64")).to_pylist()
    ]


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
    if name in ODD_LOGS:
        assert found.records == expected
    else:
        assert len({each.offset for each in found.records}) == len(found.records)
        assert {each.value for each in found.records} <= {each.value for each in expected}
        broken = any(each.kind not in _WHOLE for each in brokerless.open(tmp_path).verify() if each.severity == "error")
        assert broken or len(found.records) == len({each.offset for each in expected})


_WHOLE = ("checksum-mismatch", "batch-size-invalid", "no-batches", "zero-tail")
"""Kinds of damage that take whole batches."""
