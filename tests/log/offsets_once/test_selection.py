"""Of intact batches that overlap in one replica, salvage and merge keep what ``cat`` shows, as a consumer gets it.

A real consumer judges such logs in ``tests/kafka/test_consumed_cases.py``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.format.twin import write_batch, write_record
from tests.log.odd_logs import GZIP, Files, T, batch, log_name, numbered

import brokerless
from brokerless.format.read.batch_headers import read_headers
from brokerless.format.read.batch_scan import scan_batches
from brokerless.log.names import Include

Recover = Callable[[Path, Path], Any]


def after(offset: int, end: int, codec: int = 0, epoch: int = 0) -> bytes:
    """A batch whose values say that it is not the first of the log with its offsets."""
    return batch(offset, numbered(offset, end, "later"), T + offset, codec=codec, epoch=epoch)


def compacted(base_offset: int, deltas: list[int], last: int) -> bytes:
    payload = b"".join(write_record(b"k%d" % each, b"v", offset_delta=each) for each in deltas)
    return write_batch(
        payload, base_offset=base_offset, last_offset_delta=last, count=len(deltas), base_timestamp=T, max_timestamp=T
    )


@dataclass(frozen=True)
class Overlap:
    """``offsets``: those that are kept; ``reported``: where batches begin of which not all is."""

    files: Files
    offsets: list[int]
    reported: list[int]


def one_file(data: bytes, offsets: list[int], *reported: int) -> Overlap:
    return Overlap({log_name(0): data}, offsets, list(reported))


FIRST = batch(0, numbered(0, 10))
OVERLAPS = {
    "the later goes on": one_file(FIRST + after(5, 15) + after(15, 20), [*range(20)], 10),
    "of which one offset is there": one_file(FIRST + after(9, 19) + after(19, 24), [*range(24)], 10),
    "compressed": one_file(
        batch(0, numbered(0, 10), codec=GZIP) + after(5, 15, GZIP) + after(15, 20), [*range(20)], 10
    ),
    "at the end": one_file(FIRST + after(10, 20) + after(17, 27), [*range(27)], 20),
    "one after the other": one_file(FIRST + after(5, 15) + after(12, 22) + after(18, 30), [*range(30)], 10, 15, 22),
    "inside": one_file(FIRST + after(3, 7) + after(10, 15), [*range(15)], 3),
    "inside, after others": one_file(FIRST + after(10, 20) + after(12, 15) + after(20, 25), [*range(25)], 12),
    "the same offsets": one_file(FIRST + after(0, 10) + after(10, 15), [*range(15)], 0),
    "from the same offset on": one_file(FIRST + after(0, 12) + after(12, 15), [*range(15)], 10),
    "in a higher leader epoch": one_file(
        FIRST + after(5, 15, epoch=1) + after(15, 20, epoch=1), [*range(20)], 10
    ),
    "in the next segment": Overlap(
        {log_name(0): FIRST, log_name(8): after(8, 18) + after(18, 23)}, [*range(23)], [10]
    ),
    "compacted": one_file(
        compacted(0, [0, 2, 4], 9) + compacted(5, [0, 1, 6], 6) + after(12, 15), [0, 2, 4, 5, 6, 11, 12, 13, 14]
    ),
}  # fmt: skip


def rows(path: Path, on_damage: Any) -> list[dict[str, Any]]:
    reader = brokerless.open(path).records(["offset", "timestamp", "key", "value"], on_damage=on_damage)
    return [row for each in reader for row in each.to_pylist()]


def write(files: Files, directory: Path) -> Path:
    path = directory / "odd-0"
    path.mkdir(parents=True)
    for name, data in files.items():
        (path / name).write_bytes(data)
    return directory


@pytest.mark.parametrize("name", OVERLAPS)
@pytest.mark.parametrize("replicas", [0, 1, 2])
def test_what_overlaps_is_kept_once_as_a_consumer_gets_it(name: str, replicas: int, tmp_path: Path) -> None:
    case, to = OVERLAPS[name], tmp_path / "to"
    source = write(case.files, tmp_path / "source")
    found: list[brokerless.Finding] = []
    if replicas:
        others = [write(case.files, tmp_path / f"replica-{number}") for number in range(1, replicas)]
        results = brokerless.merge([source, *others], to, on_damage=found.append)
    else:
        results = brokerless.open(source).salvage(str(to), on_damage=found.append)
    assert [result.losses for result in results] == [()]
    saved = rows(to / "odd-0", pytest.fail)
    assert [row["offset"] for row in saved] == case.offsets
    assert saved == rows(source / "odd-0", lambda _: None)
    reported = [each.offset or 0 for each in found if each.kind == "offset-overlap"]
    assert sorted(reported) == sorted(case.reported * max(1, replicas))
    assert [each for each in brokerless.open(to).verify() if each.severity != "info"] == []


def test_a_wrong_offset_does_not_become_an_overlap(tmp_path: Path) -> None:
    """A batch that fits between its neighbours belongs there, whatever its offset says."""
    wrong = bytearray(after(10, 20))
    wrong[:8] = (5).to_bytes(8, "big")
    source = write({log_name(0): FIRST + bytes(wrong) + after(20, 30)}, tmp_path / "source")
    found: list[brokerless.Finding] = []
    (result,) = brokerless.open(source).salvage(str(tmp_path / "to"), on_damage=found.append)
    assert [(each.first_offset, each.last_offset, each.causes) for each in result.losses] == [
        (10, 19, ("offset-misplaced",))
    ]
    assert [(each.kind, each.offset) for each in found] == [("offset-misplaced", 5)]


def test_wrong_offsets_that_are_alike_do_not_overlap_each_other(tmp_path: Path) -> None:
    """Each begins inside of the one before it and goes on after it, but none after a batch that belongs there."""
    wrong = [bytearray(after(first, last)) for first, last in [(20, 25), (25, 45), (45, 80)]]
    for each in wrong:
        each[:8] = (1).to_bytes(8, "big")
    data = FIRST + after(10, 20) + b"".join(map(bytes, wrong))
    source = write({log_name(0): data, log_name(80): after(80, 90)}, tmp_path / "source")
    found: list[brokerless.Finding] = []
    (result,) = brokerless.open(source).salvage(str(tmp_path / "to"), on_damage=found.append)
    assert [row["offset"] for row in rows(tmp_path / "to" / "odd-0", found.append)] == [*range(20), *range(80, 90)]
    assert [(each.first_offset, each.last_offset) for each in result.losses] == [(20, 79)]


BELOW = {
    "after the end": (FIRST + after(10, 20) + after(5, 24), [*range(20)], [(20, None)]),
    "in a gap of another one": (compacted(0, [0, 5, 9], 9) + after(10, 20) + after(3, 6), [0, 5, 9], [(1, 4)]),
    "in both": (compacted(0, [0, 5, 9], 9) + after(10, 20) + after(3, 22), [0, 5, 9], [(1, 4), (6, 8), (20, None)]),
}


@pytest.mark.parametrize("name", BELOW)
@pytest.mark.parametrize("is_merged", [False, True])
def test_what_is_left_out_of_a_last_batch_below_the_one_before_is_named_as_lost(
    name: str, is_merged: bool, tmp_path: Path
) -> None:
    """Its offset may be wrong, so it is not taken; but nobody else has its offsets. With them, all of the gap that they
    are in is named, as far as its neighbours show it."""
    data, kept, lost = BELOW[name]
    source, to = write({log_name(0): data}, tmp_path / "source"), tmp_path / "to"
    found: list[brokerless.Finding] = []
    report = found.append
    results = (
        brokerless.merge([source], to, on_damage=report)
        if is_merged
        else brokerless.open(source).salvage(str(to), on_damage=report)
    )
    assert [row["offset"] for row in rows(to / "odd-0", found.append)] == sorted({*kept, *range(10, 20)})
    assert [(each.first_offset, each.last_offset) for result in results for each in result.losses] == lost
    assert [each.kind for each in found] == ["offset-overlap"]


CHECKPOINTED = {
    "in a file that another one follows": (
        {log_name(0): FIRST + after(39, 40), log_name(40): after(40, 41)}, [*range(10), 39, 40]
    ),
    "after a batch that others contain": (
        {log_name(0): batch(0, numbered(0, 20)) + after(5, 10) + after(20, 30)}, [*range(30)]
    ),
}  # fmt: skip
"""Logs that go on after what a killed broker had recorded in its checkpoints."""


@pytest.mark.parametrize("name", CHECKPOINTED)
@pytest.mark.parametrize("end", [0, 10, 20])
@pytest.mark.parametrize("replicas", [0, 1])
def test_what_came_after_the_last_checkpoint_is_kept(name: str, end: int, replicas: int, tmp_path: Path) -> None:
    files, offsets = CHECKPOINTED[name]
    source, to = write(files, tmp_path / "source"), tmp_path / "to"
    for checkpoint in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (source / checkpoint).write_text(f"0\n1\nodd 0 {end}\n")
    found: list[brokerless.Finding] = []
    if replicas:
        brokerless.merge([source], to, on_damage=found.append)
    else:
        brokerless.open(source).salvage(str(to), on_damage=found.append)
    assert [row["offset"] for row in rows(to / "odd-0", pytest.fail)] == offsets
    assert not [each for each in found if each.kind == "offset-misplaced"]


def test_a_batch_after_one_of_a_wrong_offset_is_kept(tmp_path: Path) -> None:
    """The wrong one fits between its neighbours, which says that the offsets of the last one are right."""
    wrong = bytearray(after(10, 20))
    wrong[:8] = (4).to_bytes(8, "big")
    source = write({log_name(0): FIRST + bytes(wrong) + after(20, 30)}, tmp_path / "source")
    (source / "recovery-point-offset-checkpoint").write_text("0\n1\nodd 0 0\n")
    (result,) = brokerless.open(source).salvage(str(tmp_path / "to"), on_damage=lambda _: None)
    assert [(each.first_offset, each.last_offset) for each in result.losses] == [(10, 19)]
    assert [row["offset"] for row in rows(tmp_path / "to" / "odd-0", lambda _: None)] == [*range(10), *range(20, 30)]


STRETCHED = batch(0, numbered(0, 10), last_offset_delta=19, codec=GZIP)
SECOND = batch(10, numbered(10, 20, "second"), T + 10)


def salvaged(
    files: Files,
    directory: Path,
    on_damage: Callable[..., Any] = pytest.fail,
    include: tuple[Include, ...] = (),
    partial: int = 0,
) -> tuple[list[tuple[int, int]], list[int]]:
    """The first and last offset of each batch, by their headers, and the offsets of the records."""
    source, to = directory / "from" / "odd-0", directory / "to"
    source.mkdir(parents=True)
    for name, data in files.items():
        (source / name).write_bytes(data)
    (result,) = brokerless.open(source.parent).salvage(str(to), on_damage=on_damage, include=include)
    assert (result.losses, result.partial) == ((), partial)
    ranges: list[tuple[int, int]] = []
    for path in sorted((to / "odd-0").glob("*.log")):
        buffer = np.fromfile(path, np.uint8)
        batches = read_headers(buffer, scan_batches(buffer).positions)
        ranges += list(zip(batches.entry_offset.tolist(), batches.last_offset.tolist(), strict=True))
    reader = brokerless.open(to).records(["offset"], on_damage=on_damage)
    return ranges, [row["offset"] for each in reader for row in each.to_pylist()]


def test_a_batch_ends_where_the_next_one_of_its_file_begins(tmp_path: Path) -> None:
    assert salvaged({log_name(0): STRETCHED + SECOND}, tmp_path) == ([(0, 9), (10, 19)], [*range(20)])


def test_a_batch_ends_where_the_next_segment_begins(tmp_path: Path) -> None:
    assert salvaged({log_name(0): STRETCHED, log_name(10): SECOND}, tmp_path) == ([(0, 9), (10, 19)], [*range(20)])


def test_without_others_a_header_stays(tmp_path: Path) -> None:
    after = batch(20, numbered(20, 30))
    assert salvaged({log_name(0): STRETCHED + after}, tmp_path) == ([(0, 19), (20, 29)], [*range(10), *range(20, 30)])


def test_a_batch_without_records_gives_way(tmp_path: Path) -> None:
    empty = batch(10, [], last_offset_delta=9)
    data = batch(0, numbered(0, 10)) + empty + SECOND
    assert salvaged({log_name(0): data}, tmp_path) == ([(0, 9), (10, 19)], [*range(20)])


def test_what_waits_for_its_deletion_does_not_bring_back_what_a_cleaner_removed(tmp_path: Path) -> None:
    cleaned = batch(0, numbered(0, 2), last_offset_delta=9, deltas=[0, 3])
    before = b"".join(batch(each, numbered(each, each + 1)) for each in range(10))
    files = {log_name(0): cleaned + SECOND, log_name(0) + ".deleted": before}
    reported: list[brokerless.Finding] = []
    ranges, offsets = salvaged(files, tmp_path, reported.append, include=("delete",))
    assert (ranges, offsets) == ([(0, 9), (10, 19)], [0, 3, *range(10, 20)])
    assert {each.kind for each in reported} == {"offset-overlap"}


def test_of_one_that_also_overlaps_its_records_the_rest_is_kept(tmp_path: Path) -> None:
    first = batch(0, numbered(0, 4), last_offset_delta=13, deltas=[0, 1, 2, 6])
    second = batch(6, numbered(0, 7, "second"), T + 6, deltas=[0, 1, 2, 3, 4, 5, 8])
    reported: list[brokerless.Finding] = []
    result = salvaged({log_name(0): first + second}, tmp_path, reported.append, partial=1)
    assert result == ([(0, 2), (6, 6), (7, 11), (14, 14)], [0, 1, 2, 6, 7, 8, 9, 10, 11, 14])
    assert [(each.kind, each.offset) for each in reported] == [("offset-overlap", 7)]


def test_records_in_the_gaps_of_a_batch_are_kept(tmp_path: Path) -> None:
    """The broker serves them to a consumer that begins there."""
    first = batch(0, numbered(0, 4), deltas=[0, 4, 5, 6])
    files = {log_name(0): first, log_name(1): after(1, 3) + after(1, 6)}
    reported: list[brokerless.Finding] = []
    ranges, offsets = salvaged(files, tmp_path, reported.append, partial=1)
    assert (ranges, offsets) == ([(0, 0), (1, 2), (3, 3), (4, 6)], [*range(7)])
    assert [(each.kind, each.offset) for each in reported] == [("offset-overlap", 3)]
    found = [row["offset"] for row in rows(tmp_path / "from" / "odd-0", lambda _: None)]
    assert sorted(found) == [*range(7)]
    (merged,) = brokerless.merge([tmp_path / "from"], tmp_path / "merged", on_damage=lambda _: None)
    assert merged.losses == ()
    assert [row["offset"] for row in rows(tmp_path / "merged" / "odd-0", pytest.fail)] == [*range(7)]
