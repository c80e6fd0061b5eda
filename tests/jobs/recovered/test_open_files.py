"""What is recovered is written as it was found, though a broker replaces, deletes or cuts the files between the two."""

# ruff: noqa: F811 - a fixture of another directory
from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run, run  # noqa: F401 - a fixture
from tests.log.cleaner import EVERY, clean, delete, left, write_log, write_segment
from tests.sources import sources_of

import brokerless
from brokerless.errors import UnreadableError
from brokerless.findings import Finding
from brokerless.jobs.recovered import open_files, writing
from brokerless.jobs.recovered.open_files import LogFile, OpenFiles, open_lone
from brokerless.jobs.salvage import carve as carving
from brokerless.jobs.salvage import job
from brokerless.jobs.salvage.job import Salvage, SalvageResult, plan, salvage
from brokerless.log.directory import resolve
from brokerless.log.live_segments import ReplacedError
from brokerless.log.storage.location import Location

Change = Callable[[Path], object]
CHANGES: dict[str, Change] = {
    "compacted": lambda path: clean(path, [0, 10, 20, 30]),
    "deleted": lambda path: delete(path, [0, 10]),
    "rolled and compacted": lambda path: (write_segment(path, 50, range(50, 55)), clean(path, [30, 40])),
}


@pytest.fixture(params=CHANGES)
def change(request: pytest.FixtureRequest) -> Change:
    return CHANGES[request.param]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = write_log(tmp_path / "logs" / "t-0")
    (path.parent / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 10\n")
    return path


def salvaged(path: Path, how: Salvage | None = None) -> tuple[SalvageResult, list[Finding], list[int]]:
    found: list[Finding] = []
    to = path.parents[1] / "to"
    (result,) = salvage(plan(sources_of(path.parent), to, how or Salvage()), found.append)
    return result, found, offsets(to / path.name)


def offsets(path: Path) -> list[int]:
    rows = brokerless.open(path).records(["offset"], on_damage=lambda _: None)
    return [offset for batch in rows for offset in batch["offset"].to_pylist()]


def before(name: str, module: Any, change: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """A change happens once, right before a function of a module is called for the first time."""
    function, waiting = getattr(module, name), [change]

    def changed(*arguments: Any, **options: Any) -> Any:
        while waiting:
            waiting.pop()()
        return function(*arguments, **options)

    monkeypatch.setattr(module, name, changed)


def test_between_finding_and_writing_nothing_changes(
    path: Path, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    before("write_batches", writing, lambda: change(path), monkeypatch)
    result, found, rows = salvaged(path)
    assert (rows, result.losses, found) == (list(EVERY), (), [])


@pytest.mark.parametrize("lasting", [0, 3])
def test_more_files_than_can_be_open_are_found_again(
    path: Path, change: Change, lasting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_files, "_LASTING", lasting)
    monkeypatch.setattr(open_files, "_RECENT", 1)
    before("write_batches", writing, lambda: change(path), monkeypatch)
    result, found, rows = salvaged(path)
    assert (result.losses, found) == ((), [])
    assert rows == sorted(set(rows))
    assert {*left(path)} <= set(rows)


def test_before_a_task_begins_files_may_be_others_than_those_of_the_plan(
    path: Path, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    before("run_task", job, lambda: change(path), monkeypatch)
    result, found, rows = salvaged(path)
    assert (rows, result.losses, found) == (left(path), (), [])


def test_a_first_compaction_after_the_plan_explains_its_holes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = path.parent / "cleaner-offset-checkpoint"
    line = checkpoint.read_text()
    checkpoint.unlink()

    def compact() -> None:
        clean(path, [0, 10, 20, 30], lambda each: each in (0, 39))
        clean(path, [0], lambda each: each == 0)
        checkpoint.write_text(line)

    before("run_task", job, compact, monkeypatch)
    assert salvaged(path)[0].losses == ()


def test_where_files_change_all_the_time_what_has_their_names_is_taken(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_files, "PAUSE_S", 0)
    tries = list[object]()

    def list_again(files: Any) -> Any:
        tries.append(files)
        clean(path, [0], lambda each: each >= len(tries) // 4)
        return files

    before("run_task", job, lambda: clean(path, [0], lambda each: each > 0), monkeypatch)
    monkeypatch.setattr(job, "list_files_again", list_again)
    assert salvaged(path)[2] == left(path)
    assert len(tries) == open_files.TRIES


def test_a_partition_that_goes_is_a_finding(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_files, "PAUSE_S", 0)
    before("run_task", job, lambda: path.rename(path.with_name("t-0.4d8e-delete")), monkeypatch)
    result, found, rows = salvaged(path)
    assert {each.kind for each in found} == {"unreadable-file"}
    assert rows == []
    assert {each.causes for each in result.losses} == {("unreadable-file",)}


def test_a_file_that_is_cut_after_its_batches_were_found_is_a_finding(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = path / f"{40:020}.log"
    before("write_batches", writing, lambda: os.truncate(last, last.stat().st_size // 2), monkeypatch)
    result, found, rows = salvaged(path)
    assert {each.kind for each in found} == {"file-shrunk"}
    assert {each.file for each in found} == {str(last)}
    assert rows == left(path)[:-1]  # the last one is half a batch
    losses = [(each.first_offset, each.last_offset, each.causes) for each in result.losses]
    assert losses == [(rows[-1] + 1, 49, ("file-shrunk",))]


def test_carving_goes_on_where_files_are_replaced_and_deleted(
    path: Path, change: Change, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = sorted(path.glob("*.log"))
    before("group", carving, lambda: change(path), monkeypatch)
    done = run("carve", *logs, "--to", tmp_path / "carved")
    assert (done.exit_code, done.err) == (0, "")
    found = [each for partition in sorted((tmp_path / "carved").glob("carved-*")) for each in offsets(partition)]
    assert sorted(found) == list(EVERY)


def test_a_log_that_waits_for_its_deletion_is_carved_and_one_that_is_gone_is_a_finding(
    path: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = sorted(path.glob("*.log"))
    delete(path, [0], is_forgotten=False)
    before("carve", carving, lambda: (path / logs[1].name).unlink(), monkeypatch)
    done = run("carve", *logs, "--to", tmp_path / "carved")
    assert done.exit_code == 1
    assert str(logs[1]) in done.err
    assert len(done.err.splitlines()) == 1
    found = [each for partition in sorted((tmp_path / "carved").glob("carved-*")) for each in offsets(partition)]
    assert sorted(found) == [each for each in EVERY if not 10 <= each < 20]


def test_a_file_is_the_one_that_was_listed_or_none(path: Path) -> None:
    (partition,) = resolve(Location(str(path))).partitions
    sources = open_files.sources_of(partition)
    clean(path, [10])
    with OpenFiles(sources) as files, pytest.raises(ReplacedError):
        files.open()
    with OpenFiles(sources, any_of_name=True) as files:
        assert files.open().get(1).size == (path / f"{10:020}.log").stat().st_size


def test_what_is_not_there_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError):
        open_lone(Location(str(tmp_path / "1.log")))
    with OpenFiles([LogFile(Location(str(tmp_path / "1.log")), 0, 0)]) as files, pytest.raises(UnreadableError):
        files.open().get(0)
