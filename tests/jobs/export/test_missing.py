"""A segment that was missing is exported when it is there: exactly its records, and nothing twice."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.examples import some_quick
from tests.golden import broker_data
from tests.jobs.exports import exported, facts, listing, table

import brokerless
from brokerless.api.loading import load
from brokerless.cli import main
from brokerless.findings import Finding
from brokerless.interchange.input_files import InputFiles
from brokerless.jobs.export import commit as commits
from brokerless.jobs.export import tasks as plans
from brokerless.jobs.export.tasks import Export

CLEAN = broker_data("clean")
SEGMENTS = [0, 169, 342, 543]
"""Where the segments of ``segments-0`` begin, which has 700 records."""
SETTINGS = [Export(), Export(by_date=True), Export(isolation="read_committed"), Export(file_bytes=2000)]


@pytest.fixture(params=[1 << 30, 1], ids=["one task", "a task for each segment"])
def task_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "_TASK_BYTES", request.param)


def copy(to: Path, *without: int) -> Path:
    """The partition without some of its segments."""
    to.mkdir(parents=True)
    for path in (CLEAN / "segments-0").iterdir():
        if path.name.split(".")[0] not in [f"{base:020}" for base in without]:
            shutil.copy(path, to)
    return to


def offsets(to: Path) -> list[int]:
    return [row["offset"] for row in table(to)]


def marks(to: Path) -> dict[str, Any]:
    return json.loads((to / "topic=segments" / "_brokerless.json").read_text())["partitions"]["0"]


def kinds(found: list[Finding]) -> list[tuple[str, int | None]]:
    return [(each.kind, each.offset) for each in found]


@pytest.mark.usefixtures("task_bytes")
@pytest.mark.parametrize("settings", some_quick(SETTINGS, 2))
def test_an_intact_copy_brings_what_was_missing(settings: Export, tmp_path: Path) -> None:
    out, found = tmp_path / "out", list[Finding]()
    (first,) = exported(copy(tmp_path / "a" / "segments-0", 169), out, settings, found)
    assert kinds(found) == [("missing-segment", 169)]
    assert offsets(out) == [*range(169), *range(342, 700)]
    assert (first.missing, first.next_offset) == (((169, 342),), 700)
    assert marks(out)["missing"] == [[169, 341]]
    before = listing(out)

    again = list[Finding]()
    assert exported(tmp_path / "a" / "segments-0", out, settings, again) == []
    assert kinds(again) == [("missing-segment", 169)]  # for as long as it is so

    (filled,) = exported(copy(tmp_path / "b" / "segments-0"), out, settings)
    assert (filled.filled, filled.records, filled.start_offset, filled.next_offset) == (((169, 342),), 173, 700, 700)
    assert offsets(out) == [*range(700)]
    assert before.items() <= listing(out).items()
    assert not {"missing", "filling", "until"} & marks(out).keys()
    exported(CLEAN / "segments-0", tmp_path / "whole", settings)
    assert facts(table(out)) == facts(table(tmp_path / "whole"))
    assert exported(tmp_path / "b" / "segments-0", out, settings) == []


@pytest.mark.usefixtures("task_bytes")
@pytest.mark.parametrize("settings", some_quick(SETTINGS, 2))
def test_two_missing_segments_come_one_after_the_other_with_new_records(settings: Export, tmp_path: Path) -> None:
    out = tmp_path / "out"
    exported(copy(tmp_path / "a" / "segments-0", 169, 342), out, settings, [])
    assert marks(out)["missing"] == [[169, 542]]
    (result,) = exported(copy(tmp_path / "b" / "segments-0", 342), out, settings, found := list[Finding]())
    assert (result.filled, kinds(found)) == (((169, 342),), [("missing-segment", 342)])
    assert marks(out)["missing"] == [[342, 542]]
    (result,) = exported(copy(tmp_path / "c" / "segments-0", 169), out, settings, [])
    assert result.filled == ((342, 543),)
    assert offsets(out) == [*range(700)]
    assert "missing" not in marks(out)


@pytest.mark.usefixtures("task_bytes")
def test_a_hole_is_filled_and_new_records_are_taken_in_one_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    exported(copy(tmp_path / "a" / "segments-0", 169, 543), out, None, [])
    assert offsets(out) == [*range(169), *range(342, 543)]
    (result,) = exported(copy(tmp_path / "b" / "segments-0"), out)
    assert (result.filled, result.start_offset, result.next_offset) == (((169, 342),), 543, 700)
    assert offsets(out) == [*range(700)]


def test_what_was_removed_before_it_was_exported_comes_from_a_backup(tmp_path: Path) -> None:
    out = tmp_path / "out"
    exported(copy(tmp_path / "a" / "segments-0", 169, 342, 543), out)
    exported(copy(tmp_path / "b" / "segments-0", 0, 169), out, None, found := list[Finding]())
    assert kinds(found) == [("missing-offsets", 342)]
    assert exported(tmp_path / "b" / "segments-0", out) == []  # said once, as retention does it
    exported(copy(tmp_path / "c" / "segments-0"), out)
    assert offsets(out) == [*range(700)]


def test_a_dry_run_leaves_the_hole_open(tmp_path: Path) -> None:
    out = tmp_path / "out"
    exported(copy(tmp_path / "a" / "segments-0", 169), out, None, [])
    before = listing(out), marks(out)
    (result,) = exported(copy(tmp_path / "b" / "segments-0"), out, Export(dry_run=True))
    assert (result.filled, result.records) == (((169, 342),), 173)
    assert (listing(out), marks(out)) == before


@pytest.mark.parametrize("settings", some_quick(SETTINGS, 2))
def test_a_run_that_was_killed_as_it_filled_is_made_good(
    settings: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    exported(copy(tmp_path / "a" / "segments-0", 169), out, settings, [])
    intact = copy(tmp_path / "b" / "segments-0")
    publish = commits.parquet_files.publish_file

    def killed(*arguments: Any) -> None:
        publish(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(commits.parquet_files, "publish_file", killed)
        with pytest.raises(KeyboardInterrupt):
            exported(intact, out, settings)
    assert marks(out)["filling"] == [[169, 341]]
    exported(intact, out, settings)
    assert offsets(out) == [*range(700)]
    assert "filling" not in marks(out)


def test_what_is_filled_is_loaded_in_order(tmp_path: Path) -> None:
    exported(copy(tmp_path / "a" / "segments-0", 169), tmp_path / "out", None, [])
    exported(copy(tmp_path / "b" / "segments-0"), tmp_path / "out")
    load(InputFiles([str(tmp_path / "out")]), str(tmp_path / "log"))
    read = [row for batch in brokerless.open(tmp_path / "log").records() for row in batch["offset"].to_pylist()]
    assert read == [*range(700)]


def test_the_command_says_so(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    missing, intact = copy(tmp_path / "a" / "segments-0", 169), copy(tmp_path / "b" / "segments-0")
    to = ("--to", str(tmp_path / "out"))
    for expected in (1, 1):
        assert main(["export", str(missing), *to]) == expected
        assert b"offsets 169 to 341 are missing before this segment" in capfdbinary.readouterr().err
    assert main(["export", str(intact), *to, "--json"]) == 0
    out, err = capfdbinary.readouterr()
    assert b"segments-0: offsets 169 to 341 were missing or damaged in an earlier run and are exported now" in err
    assert json.loads(out)["filled"] == [[169, 341]]
