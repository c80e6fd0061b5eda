from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from brokerless import Kind
from brokerless.log.storage.location import DirectoryEntry, Location
from brokerless.log.tiered.chunk_index import ChunkIndex
from brokerless.log.tiered.manifest import Manifest
from brokerless.log.tiered.segments import (
    RemoteSegment,
    check_objects,
    check_segments,
    choose,
    needs_lineage,
    newest,
)


def segment(start: int, end: int, epochs: dict[int, int], name: str = "a", at: int = 0) -> RemoteSegment:
    chunks = ChunkIndex(10, 10, 10, 10)
    key = (name * 22)[:22]
    manifest = Manifest("t", "i" * 22, 0, key, start, end, at, tuple(epochs.items()), chunks, {}, False, None)
    log = DirectoryEntry("log", Location(f"/b/{start}-{name}.log"), False, 10)
    return RemoteSegment(start, key, {"log": log}, manifest)


def test_segments_in_a_row() -> None:
    row = [segment(0, 9, {0: 0}), segment(10, 19, {0: 10, 1: 15}), segment(20, 29, {1: 20})]
    assert not needs_lineage(row)
    log = choose(row[::-1], ())
    assert [each.start_offset for each in log.segments] == [0, 10, 20]
    assert (log.overlapping, log.findings) == (frozenset(), ())


def test_two_copies_of_a_range() -> None:
    """The one that was copied later is read."""
    log = choose([segment(0, 9, {0: 0}, "a", at=1), segment(0, 9, {0: 0}, "b", at=2)], ())
    assert [each.segment_id[0] for each in log.segments] == ["b"]
    assert [(each.kind, each.file) for each in log.findings] == [(Kind.REMOTE_SEGMENT_REPEATED, "/b/0-a.log")]


def test_the_whole_one_of_two_copies_is_read() -> None:
    """The other one was copied later, and is cut."""
    cut = segment(0, 9, {0: 0}, "b", at=2)
    cut = replace(cut, objects={"log": DirectoryEntry("log", cut.log.location, False, 9)})
    for order in (1, -1):
        log = choose([segment(0, 9, {0: 0}, "a", at=1), cut][::order], ())
        assert [each.segment_id[0] for each in log.segments] == ["a"]


def test_overlaps() -> None:
    """After a change of leaders, segments have other bounds; one within another is left out."""
    row = [segment(0, 20, {0: 0}), segment(5, 15, {0: 5}), segment(10, 30, {0: 10})]
    log = choose(row, ())
    assert [each.start_offset for each in log.segments] == [0, 10]
    assert log.overlapping == {10}
    assert [each.offset for each in log.findings] == [5]


def test_segments_of_a_lost_lineage() -> None:
    """Epoch 1 was cut at 15 by an unclean election: what was copied from there on is dangling."""
    row = [segment(0, 9, {0: 0}), segment(10, 29, {0: 10, 1: 12}), segment(15, 40, {2: 15})]
    assert needs_lineage(row)
    last = newest(row)
    assert last is row[2]
    log = choose(row, [(0, 0), (1, 12), (2, 15)])
    assert [each.start_offset for each in log.segments] == [0, 15]
    assert [(each.kind, each.severity, each.offset) for each in log.findings] == [
        (Kind.REMOTE_SEGMENT_DANGLING, "warning", 10)
    ]


def test_a_segment_of_which_objects_go_while_it_is_checked_is_deleted_and_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plain(start: int) -> RemoteSegment:
        files = {kind: tmp_path / f"{start}.{kind}" for kind in ("offset-index", "time-index")}
        for path in files.values():
            path.touch()
        objects = {kind: DirectoryEntry(path.name, Location(str(path)), False, 0) for kind, path in files.items()}
        return RemoteSegment(start, str(start), objects)  # type: ignore[arg-type]

    def delete_first(_: float) -> None:
        (tmp_path / "0.offset-index").unlink()

    row = [plain(0), plain(10)]
    monkeypatch.setattr("brokerless.log.tiered.segments.time.sleep", delete_first)
    assert [(each.kind, each.offset) for each in check_segments(row)] == [(Kind.REMOTE_OBJECT_MISSING, 10)]
    assert [next(check_objects(each)).offset for each in row] == [0, 10]
