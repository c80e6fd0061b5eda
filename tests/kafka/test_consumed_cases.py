"""Oracle: a real consumer of the newest Kafka, with a broker started on the files. Each record that it gets is in our
tables once, and where it throws, or comes no further, ``verify`` reports an error."""

from __future__ import annotations

from collections.abc import Iterator
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


GOLDEN = {each.name: each for each in golden_cases()}
NAMES = [*ODD_LOGS, *GOLDEN]


def files_of(name: str) -> Files:
    return ODD_LOGS.get(name) or {path.name: path.read_bytes() for path in GOLDEN[name].logs}


@pytest.fixture(scope="module")
def judged(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judged]:
    """What the consumer got of each case. Logs without damage are recovered first, which makes their indexes."""
    files = {name: files_of(name) for name in NAMES}
    recovered = [name.startswith(("overflow", "formats/")) for name in NAMES]
    found = consume_cases(tmp_path_factory.mktemp("consumed") / "broker", list(files.values()), recovered)
    return {
        name: Judged(files[name], each, is_recovered)
        for name, each, is_recovered in zip(NAMES, found, recovered, strict=True)
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
