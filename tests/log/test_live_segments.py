"""A log is read while its files are replaced and deleted, at every moment at which that can be: no offset comes twice,
in another order, or not at all if the log still has it at the end."""

# ruff: noqa: F811 - a fixture of another directory
from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run, run  # noqa: F401 - a fixture
from tests.jobs.exports import exported, table
from tests.log.cleaner import EVERY, SIZE, clean, delete, left, write_log, write_segment
from tests.opening import replace_call
from tests.sources import sources_of

import brokerless
from brokerless.findings import Finding
from brokerless.jobs.audit.job import audit_partition
from brokerless.jobs.merge import job as merge_job
from brokerless.jobs.recovered import open_files
from brokerless.jobs.salvage import job as salvage_job
from brokerless.log import live_segments
from brokerless.log.directory import resolve
from brokerless.log.storage import segment_files
from brokerless.log.storage.files import File
from brokerless.log.storage.location import Location

Change = Callable[[Path], None]
CHANGES: dict[str, list[Change]] = {
    "one is cleaned": [lambda path: clean(path, [10])],
    "two become one": [lambda path: clean(path, [10, 20])],
    "all closed ones become one": [lambda path: clean(path, [0, 10, 20, 30])],
    "again and again": [
        lambda path: clean(path, [0, 10]),
        lambda path: clean(path, [20, 30]),
        lambda path: clean(path, [0, 20], lambda each: each % 9 == 0),
    ],
    "nothing is left of the first": [lambda path: clean(path, [0, 10, 20], lambda each: each >= 25)],
    "the first are deleted": [lambda path: delete(path, [0]), lambda path: delete(path, [10])],
    "cleaned and deleted": [lambda path: clean(path, [10, 20]), lambda path: delete(path, [0, 10])],
    "a roll, and a cleaning of what was active": [
        lambda path: (write_segment(path, 50, range(50, 55)), clean(path, [30, 40]))[0]
    ],
}


LATER = functools.partial(pytest.param, marks=pytest.mark.slow(reason="at each file"))


@pytest.fixture(params=CHANGES)
def changes(request: pytest.FixtureRequest) -> list[Change]:
    return CHANGES[request.param]


@pytest.fixture(params=[0, 1, LATER(2), LATER(3), LATER(4)], ids=lambda number: f"at file {number}")
def at(request: pytest.FixtureRequest) -> int:
    return request.param


def records(path: Path, **options: Any) -> list[int]:
    found: list[Finding] = []
    rows = brokerless.open(path).records(["offset"], on_damage=found.append, **options)
    offsets = [offset for batch in rows for offset in batch["offset"].to_pylist()]
    assert {each.kind for each in found} <= {"deleted-meanwhile"}
    return offsets


def batches(path: Path) -> list[int]:
    return [row for batch in brokerless.open(path).batches(["baseOffset"]) for row in batch["baseOffset"].to_pylist()]


def export(path: Path) -> list[int]:
    to, found = path.parents[1] / "exported", list[Finding]()
    exported(path, to, found=found)
    assert {each.kind for each in found} <= {"deleted-meanwhile"}
    return [row["offset"] for row in table(to)]


def convert(path: Path) -> list[int]:
    to = path.parents[1] / "converted"
    brokerless.open(path).partitions[0].convert(to, codec="lz4", batch_size=500)
    found: list[Finding] = []
    rows = brokerless.open(to / path.name).records(["offset"], on_damage=found.append)
    offsets = [offset for batch in rows for offset in batch["offset"].to_pylist()]
    # The output has the segments that were listed; nothing in one that became empty says that compaction emptied it.
    assert {each.kind for each in found} <= ({"missing-segment"} if left(path)[0] >= 25 else set())
    return offsets


def salvage(path: Path) -> list[int]:
    to, found = path.parents[1] / "salvaged", list[Finding]()
    note_cleaning(path)
    tasks = salvage_job.plan(sources_of(path), to, salvage_job.Salvage())
    (result,) = salvage_job.salvage(tasks, found.append)
    assert (result.losses, result.damaged, found) == ((), 0, [])
    return records(to / path.name)


def salvage_of_many(path: Path) -> list[int]:
    """Of which not all stay open."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_files, "_LASTING", 2)
        patch.setattr(open_files, "_RECENT", 1)
        return salvage(path)


def tables(path: Path) -> list[int]:
    to = path.parents[1] / "tables"
    tasks = salvage_job.plan(sources_of(path), to, salvage_job.Salvage(parquet=True))
    list(salvage_job.salvage(tasks, pytest.fail))
    return [row["offset"] for row in table(to)]


def merge(path: Path) -> list[int]:
    to, found = path.parents[1] / "merged", list[Finding]()
    note_cleaning(path)
    other = path.parents[1] / "other" / path.name
    shutil.copytree(path, other)
    note_cleaning(other)
    tasks = merge_job.plan(sources_of(path, other), to, merge_job.Merge())
    (result,) = merge_job.merge(tasks, found.append)
    assert (result.losses, result.divergences, set(result.damaged)) == ((), (), {0})
    return records(to / path.name)


def note_cleaning(path: Path) -> None:
    (path.parent / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 10\n")


READERS: dict[str, Callable[[Path], list[int]]] = {
    "records": records,
    "committed": lambda path: records(path, isolation="read_committed"),
    "from an offset": lambda path: records(path, start_offset=5),
    "batches": batches,
    "export": export,
    "convert": convert,
    "salvage": salvage,
    "salvage of many": salvage_of_many,
    "tables": tables,
    "merge": merge,
}


@pytest.fixture
def force(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, int, list[Change]], None]:
    """Makes changes happen when a partition's n-th file is about to be opened, and the others each one file later."""

    def set_up(path: Path, at: int, changes: list[Change]) -> None:
        waiting, opened = list(changes), set[str]()

        def open_file(location: Location) -> File:
            name = location.path
            opened.add(name)
            if waiting and len(opened) > at + len(changes) - len(waiting) and name.startswith(str(path)):
                waiting.pop(0)(path)
            return real(location)

        real = replace_call(monkeypatch, live_segments, "open", open_file)

    return set_up


@pytest.mark.parametrize("reader", READERS)
def test_each_offset_comes_once_and_none_is_missing(
    reader: str, at: int, changes: list[Change], force: Callable[..., None], tmp_path: Path
) -> None:
    path = write_log(tmp_path / "logs" / "t-0")
    force(path, at, changes)
    offsets = READERS[reader](path)
    assert offsets == sorted(set(offsets))
    wanted = [each for each in left(path) if reader != "from an offset" or each >= 5]
    assert {each for each in wanted if each in EVERY} <= set(offsets)


def test_a_file_that_waits_for_its_deletion_is_read_as_it_was_listed(
    force: Callable[..., None], tmp_path: Path
) -> None:
    path = write_log(tmp_path / "t-0")
    force(path, 1, [lambda path: clean(path, [0, 10, 20], is_forgotten=False)])
    assert records(path) == list(EVERY)
    write = brokerless.open(path).partitions[0]
    delete(path, [30], is_forgotten=False)
    found = {row["file"] for batch in write.records(["file"]) for row in batch.to_pylist()}
    assert sorted(found) == [segment.log.path for segment in write.paths[0].segments]


def test_an_open_file_stays_what_it_was(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0")
    opened = live_segments.open_segments(resolve(Location(str(path))).partitions[0], pytest.fail)
    first = next(opened)
    before = first.file.read(0, first.file.size).tobytes()
    clean(path, [0, 10])
    assert first.file.read(0, first.file.size).tobytes() == before
    assert [(each.segment.base_offset, each.start > 0) for each in opened] == [
        (0, True),
        (20, False),
        (30, False),
        (40, False),
    ]


@pytest.mark.parametrize("job", ["verify", "audit", "ls"])
def test_jobs_find_nothing_wrong(
    job: str,
    at: int,
    changes: list[Change],
    force: Callable[..., None],
    tmp_path: Path,
    run: Run,
) -> None:
    path = write_log(tmp_path / "t-0")
    force(path, at, changes)
    if job == "ls":
        assert run("ls", "--segments", path).exit_code == 0
        return
    partition = brokerless.open(path).partitions[0]
    found = list(partition.verify() if job == "verify" else audit_partition(partition.paths[0], {}).findings)
    assert not [each for each in found if each.severity == "error"]


def test_cat_and_batches_go_on_where_files_were_replaced(
    at: int,
    changes: list[Change],
    force: Callable[..., None],
    tmp_path: Path,
    run: Run,
) -> None:
    path = write_log(tmp_path / "t-0")
    force(path, at, changes)
    result = run("cat", "--json", path)
    offsets = [row["offset"] for row in result.json]
    assert result.exit_code == 0
    assert offsets == sorted(set(offsets))
    assert {*left(path)} & {*EVERY} <= set(offsets)


def test_what_was_deleted_meanwhile_is_reported(force: Callable[..., None], tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0")
    force(path, 1, [lambda path: delete(path, [0, 10])])
    found: list[Finding] = []
    rows = brokerless.open(path).records(["offset"], on_damage=found.append)
    assert sum(batch.num_rows for batch in rows) == len(EVERY) - SIZE
    assert [(each.severity, each.kind, each.offset) for each in found] == [("warning", "deleted-meanwhile", 10)]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_partition_that_was_deleted_meanwhile_is_not_verified(
    at: int, force: Callable[..., None], tmp_path: Path, run: Run
) -> None:
    path, other = write_log(tmp_path / "t-0"), write_log(tmp_path / "t-1")
    before = {row["kind"] for row in run("verify", "--json", tmp_path).json}
    force(path, at, [shutil.rmtree])
    assert {row["kind"] for row in run("verify", "--json", tmp_path).json} <= before == {"time-index-mismatch"}
    assert not path.exists()
    force(other, at, [shutil.rmtree])  # then nothing is left, as where a disk is gone
    assert "unreadable-file" in {row["kind"] for row in run("verify", "--json", tmp_path).json}


def test_for_an_audit_what_was_deleted_meanwhile_is_nothing_wrong(force: Callable[..., None], tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0")
    force(path, 1, [lambda path: delete(path, [0, 10])])
    found = audit_partition(brokerless.open(path).partitions[0].paths[0], {}).findings
    assert [each.severity for each in found if each.kind == "deleted-meanwhile"] == ["info"]


def test_a_listing_during_a_replacement_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two renames, the log has neither the old file nor the new one."""
    path = write_log(tmp_path / "t-0")
    clean(path, [10, 20], is_forgotten=False)
    swap = (path / f"{10:020}.log").rename(path / f"{10:020}.log.swap")
    waited = list[float]()

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            swap.rename(swap.with_suffix(""))

    monkeypatch.setattr(segment_files.time, "sleep", sleep)
    assert [each.base_offset for each in resolve(Location(str(path))).partitions[0].segments] == [0, 10, 30, 40]
    assert len(waited) == 4  # it is alike twice


def test_where_a_compaction_was_cut_short_reading_does_not_wait_for_ever(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0")
    (path / f"{10:020}.log").rename(path / f"{10:020}.log.swap")
    found: list[Finding] = []
    rows = brokerless.open(path).records(["offset"], on_damage=found.append)
    offsets = [offset for batch in rows for offset in batch["offset"].to_pylist()]
    assert offsets == list(EVERY)
    assert found == []


def test_a_segment_that_gets_its_name_while_it_is_read_is_read_once(force: Callable[..., None], tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0")
    swap = (path / f"{10:020}.log").rename(path / f"{10:020}.log.swap")
    force(path, 1, [lambda path: swap.rename(swap.with_suffix(""))])
    rows = brokerless.open(path).records(["offset"])
    assert [offset for batch in rows for offset in batch["offset"].to_pylist()] == list(EVERY)


def test_what_lies_there_is_listed_again_by_its_names(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0")
    (path / f"{10:020}.log").rename(path / f"{10:020}.log.swap")
    log = resolve(Location(str(tmp_path)))
    (partition,) = log.partitions
    lying = live_segments.as_it_lies(partition)
    assert [each.base_offset for each in lying.segments] == [0, 20, 30, 40]
    assert live_segments.directory_as_it_lies(log).partitions == (lying,)
    assert live_segments.list_again(lying, print) == lying
    assert live_segments.list_again(partition, print) == partition


def test_a_segment_is_looked_at_again_with_what_lies_beside_it(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0")
    _, segment, *_ = resolve(Location(str(path))).partitions[0].segments
    assert live_segments.segment_now(segment) == (segment, ())
    clean(path, [10], is_forgotten=False)
    now, beside = live_segments.segment_now(segment)
    assert now != segment
    assert now in resolve(Location(str(path))).partitions[0].segments
    assert [each.name for each in beside] == [f"{10:020}.{each}.deleted" for each in ("index", "log", "timeindex")]
    delete(path, [10])
    assert live_segments.segment_now(segment) == (None, ())


def test_a_partition_that_goes_is_reported(tmp_path: Path) -> None:
    path = write_log(tmp_path / "logs" / "t-0")
    found: list[Finding] = []
    read = brokerless.open(path).records(["offset"], on_damage=found.append)
    next(read)
    path.rename(path.with_name("t-0.4d8e-delete"))
    assert sum(batch.num_rows for batch in read) < len(EVERY)
    assert {each.kind for each in found} == {"unreadable-file"}
