"""The table of docs/benchmarks.md."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import benchmarks.__main__ as program
import pytest
from benchmarks.data import RECORDS
from benchmarks.machine import describe_machine, find_caches
from benchmarks.measure import Result
from benchmarks.page import HEADER, PAGE, write_results

from benchmarks import machine as machines
from tests.benchmarks.test_benchmarks import side, workload

ORDER = ["read", "read-fast", "start"]
OLD = "| `read` | 1.00 M/s | 1.00 M/s | 1.00 | | | them 0.9 | 2026-01-02, 1 cores, 3 runs |\n"
LAST = "| `start` | 0.10 s | 0.20 s | 2.00 | | | them 0.9 | 2026-01-02, 1 cores, 3 runs |\n"
WHEN = "2026-03-04, 2 cores"
WORKLOAD = workload(side(), side())


MACHINE = "a processor; L1 48K; a copy of 1 GiB: 9.3 GB/s; load 0.1"


def page(*rows: str, machine: str = "") -> str:
    return "# Benchmarks\n\n" + HEADER + "".join(rows) + machine + "\n**Why**: | `read` | is fast.\n"


def last_rows(of: str) -> str:
    return f"\nThe rows of 2026-03-04: {of}.\n"


def test_a_row_is_replaced_and_others_stay() -> None:
    result = Result(WORKLOAD, "cpu", [3e6, 1e6, 2e6], [1e6, 1e6, 1e6], (9, 10), floor=[4e6, 4e6, 4e6])
    new = "| `read` | 2.00 M/s | 1.00 M/s | 2.00 | 0.900 | 0.50 | them 1.0 | 2026-03-04, 2 cores, 3 runs, cpu |\n"
    written = write_results(page(OLD, LAST, machine=last_rows("another")), [result], ORDER, WHEN, MACHINE)
    assert written == page(new, LAST, machine=last_rows(MACHINE))


def test_a_new_row_stands_where_its_workload_does() -> None:
    result = Result(replace(WORKLOAD, name="read-fast", unit="s"), "wall", [0.5], [2.0])
    new = "| `read-fast` | 0.50 s | 2.00 s | 4.00 | | | them 1.0 | 2026-03-04, 2 cores, 1 runs |\n"
    written = write_results(page(OLD, LAST), [result], ORDER, WHEN, MACHINE)
    assert written == page(OLD, new, LAST, machine=last_rows(MACHINE))


def test_the_page_has_rows_of_workloads_only_and_writing_none_changes_nothing() -> None:
    text = PAGE.read_text()
    names = [each.name for family in program.FAMILIES for each in family.workloads(RECORDS)]
    assert write_results(text, [], names, WHEN, MACHINE) == text
    table = text.partition(HEADER)[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `([^`]+)`", table, flags=re.MULTILINE)) <= {*names}


def test_the_machine_is_described_by_what_speed_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "_COPIED", 1 << 24)
    assert re.fullmatch(r".+; .+; a copy of 1 GiB: [0-9]+\.[0-9] GB/s; load [0-9.]+", describe_machine())


def test_a_cores_caches_are_listed_but_that_of_instructions(tmp_path: Path) -> None:
    for number, (level, kind, size) in enumerate(
        (("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2048K"))
    ):
        (tmp_path / f"index{number}").mkdir()
        for name, value in (("level", level), ("type", kind), ("size", size)):
            (tmp_path / f"index{number}" / name).write_text(f"{value}\n")
    assert [*find_caches(tmp_path)] == ["L1 48K", "L2 2048K"]


def test_figures_of_fewer_records_are_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        program.main(["--only", "headers", "--records", "1000", "--write"])
    assert "figures of 4,000,000 records" in capsys.readouterr().err
