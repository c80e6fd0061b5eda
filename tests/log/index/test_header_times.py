"""Clients have written batches whose header has an earlier time than their records. What a range of times passes over
by such headers is reported where it shows, and read where nothing is passed over."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from tests.log.whole_batches import batch, batches, with_largest

import brokerless
from brokerless import Finding
from brokerless.cli import main
from brokerless.errors import raise_errors
from brokerless.format.read.decoder import Decoder
from brokerless.log import partition
from brokerless.log.index.header_times import PASSED_OVER, HeaderTimes
from brokerless.log.segment import all_decoded, scan
from brokerless.log.storage.location import Location

TIME = 1_600_000_000_000
SINCE = TIME + 15
"""What is as late by its own timestamp begins in the second batch."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Four batches of two records, 20 ms from one to the next: the headers of the second and the last are wrong."""
    made = [batch(each, 2, TIME + 10 * each) for each in range(0, 8, 2)]
    with_largest(made[1], TIME + 20)
    with_largest(made[3], -1)
    (tmp_path / "ev-0").mkdir()
    (tmp_path / "ev-0" / f"{0:020d}.log").write_bytes(batches(*made).tobytes())
    return tmp_path


def offsets_of_times(log: Path) -> list[int]:
    table = brokerless.open(log).records(["offset", "timestamp"]).read_all()
    return [row["offset"] for row in table.to_pylist() if row["timestamp"].timestamp() * 1000 >= SINCE]


def compare(path: Path, times: HeaderTimes) -> list[Finding | None]:
    """What is found of a file whose batches are decoded one by one."""
    found: list[Finding | None] = []
    with Location(str(path)).open() as file:
        for chunk in scan(file, raise_errors):
            times.follow(chunk.batches, chunk.base)
            for row in range(len(chunk.batches)):
                found += map(times.compare, all_decoded(Decoder(), chunk, chunk.batches.take(slice(row, row + 1))))
    return found


def test_the_first_such_batch_is_named_once_and_all_are_counted(log: Path) -> None:
    times = HeaderTimes("x.log")
    (finding,) = filter(None, compare(log / "ev-0" / f"{0:020d}.log", times))
    assert (finding.kind, finding.severity, finding.offset) == ("timestamp-above-header", "warning", 2)
    assert (finding.expected, finding.found) == (f"{TIME + 20} at most", str(TIME + 21))
    assert [each.message for each in times.findings()] == [f"{finding.message}, in 2 batches"]


def test_headers_that_are_right_are_no_finding(tmp_path: Path) -> None:
    path, times = tmp_path / f"{0:020d}.log", HeaderTimes("x.log")
    path.write_bytes(batches(*(batch(each, 2, TIME) for each in range(0, 8, 2))).tobytes())
    assert not any(compare(path, times))
    assert list(times.findings()) == []


def test_where_batches_are_passed_over_the_finding_says_what_reads_them(log: Path) -> None:
    (finding,) = filter(None, compare(log / "ev-0" / f"{0:020d}.log", HeaderTimes("x.log", PASSED_OVER)))
    assert finding.message.endswith("--no-prune reads all")


def _sql(log: Path, *, prune: bool, report: Callable[[Finding], None]) -> list[int]:
    time = datetime.fromtimestamp(SINCE / 1000, UTC).isoformat()
    query = f"SELECT \"offset\" FROM records WHERE timestamp >= '{time}' ORDER BY 1"
    return brokerless.open(log).sql(query, prune=prune, on_damage=report).read_all()["offset"].to_pylist()


def _dataset(log: Path, *, prune: bool, report: Callable[[Finding], None], name: str = "records") -> list[int]:
    since = ds.field("timestamp") >= datetime.fromtimestamp(SINCE / 1000, UTC)
    table = brokerless.open(log).dataset(name, prune=prune, on_damage=report)
    return table.to_table(["offset"], since)["offset"].to_pylist()


def _records(log: Path, *, prune: bool, report: Callable[[Finding], None], jobs: int = 1) -> list[int]:
    opened = brokerless.open(log).topic("ev")
    found = opened.records(["offset"], start_timestamp=SINCE, prune=prune, on_damage=report, jobs=jobs)
    return found.read_all()["offset"].to_pylist()


@pytest.mark.parametrize(
    "read", [_records, partial(_records, jobs=2), _sql, _dataset, partial(_dataset, name="ev")],
    ids=["records", "threads", "sql", "dataset", "topic"],
)  # fmt: skip
def test_a_pruned_read_reports_what_it_meets_and_one_that_is_not_has_all(
    read: Callable[..., list[int]], log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition, "THREADS_FROM", 0)
    found: list[Finding] = []
    pruned = read(log, prune=True, report=found.append)
    assert {each.kind for each in found} == {"timestamp-above-header"}
    assert "prune=False reads all" in str(found[0])
    found.clear()
    everything = read(log, prune=False, report=found.append)
    assert everything == offsets_of_times(log)
    assert not found
    assert set(everything) - set(pruned) == {6, 7}


def test_the_command_line_ends_with_1_and_names_the_option(
    log: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    arguments = ["cat", str(log), "--from", str(datetime.fromtimestamp(SINCE / 1000, UTC)), "-f", "%o "]
    assert main(arguments) == 1
    pruned = capfdbinary.readouterr()
    assert b"--no-prune reads all" in pruned.err
    assert main([*arguments, "--no-prune"]) == 0
    everything = capfdbinary.readouterr()
    assert everything.err == b""
    assert list(map(int, everything.out.split())) == offsets_of_times(log)
    assert list(map(int, pruned.out.split())) == [each for each in offsets_of_times(log) if each < 6]
