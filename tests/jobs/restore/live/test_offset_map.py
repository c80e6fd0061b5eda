"""The offset map: runs, what a kill leaves of it, and which maps are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from brokerless.errors import UsageError
from brokerless.jobs.restore.live.offset_map import JSON_LINES, PARQUET, OffsetMap, OffsetRun, check_map, open_map

ID = "GGfzE_HvRoGT7m9N-0_chw"
START = {
    "source": ["/backup"],
    "clusterId": "c",
    "isolation": "read_committed",
    "until": None,
    "topics": {"t": {"topicId": ID, "starts": {"0": 0, "1": 100}}},
}


def add_all(map_: OffsetMap, *offsets: tuple[int, int], partition: int = 0) -> None:
    for source, target in offsets:
        map_.add(("t", partition), source, target)


def test_offsets_that_follow_each_other_on_both_sides_are_one_run(tmp_path: Path) -> None:
    with open_map(tmp_path, START) as map_:
        add_all(map_, (5, 0), (6, 1), (8, 2), (9, 3), (10, 7))
        add_all(map_, (0, 100), partition=1)
        map_.write()
        assert list(map_.runs()) == [
            OffsetRun("t", 0, 5, 6, 0), OffsetRun("t", 0, 8, 9, 2), OffsetRun("t", 0, 10, 10, 7),
            OffsetRun("t", 1, 0, 0, 100),
        ]  # fmt: skip


def test_a_map_that_is_opened_again_goes_on_where_it_was_written(tmp_path: Path) -> None:
    with open_map(tmp_path, START) as map_:
        assert map_.is_new
        add_all(map_, (5, 0), (6, 1))
        map_.write()
        add_all(map_, (7, 2))  # never written, as after a kill
    with open_map(tmp_path, {**START, "topics": {"t": {"topicId": ID, "starts": {"0": 2, "1": 100}}}}) as map_:
        assert not map_.is_new
        at = map_.positions["t", 0]
        assert (at.source, at.target, at.records) == (7, 2, 2)
        assert map_.start["topics"]["t"]["starts"] == {"0": 0, "1": 100}
        add_all(map_, (7, 2))
        map_.write()
        assert list(map_.runs()) == [OffsetRun("t", 0, 5, 7, 0)]


@pytest.mark.parametrize("cut", range(1, 70, 11))
def test_a_line_that_a_kill_cut_short_is_none(tmp_path: Path, cut: int) -> None:
    with open_map(tmp_path, START) as map_:
        add_all(map_, (5, 0))
        map_.write()
        whole = (tmp_path / "journal.jsonl").read_bytes()
        add_all(map_, (6, 1))
        map_.write()
    (tmp_path / "journal.jsonl").write_bytes((tmp_path / "journal.jsonl").read_bytes()[:-cut])
    with open_map(tmp_path, START) as map_:
        assert map_.positions["t", 0].source == 6
    assert (tmp_path / "journal.jsonl").read_bytes() == whole


def test_the_tables_have_all_runs(tmp_path: Path) -> None:
    with open_map(tmp_path, START) as map_:
        add_all(map_, (5, 0), (8, 1))
        map_.write()
        map_.write_tables()
    rows = [
        {"topic": "t", "partition": 0, "sourceFirst": 5, "sourceLast": 5, "targetFirst": 0},
        {"topic": "t", "partition": 0, "sourceFirst": 8, "sourceLast": 8, "targetFirst": 1},
    ]
    assert pq.read_table(tmp_path / PARQUET).to_pylist() == rows
    assert [json.loads(line) for line in (tmp_path / JSON_LINES).read_text().splitlines()] == rows


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"source": ["/other"]}, "its source is"),
        ({"clusterId": "d"}, "its clusterId is"),
        ({"until": 5}, "its until is not set, and not 1970-01-01T00:00:00.005Z"),
        ({"topics": {"u": START["topics"]["t"]}}, "this map is of the topics t"),  # type: ignore[index]
        ({"topics": {"t": {"topicId": "AAAAAAAAAAAAAAAAAAAAAg", "starts": {}}}}, "deleted and created again"),
    ],
)
def test_a_map_of_another_restore_is_refused(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    with open_map(tmp_path, START):
        pass
    with pytest.raises(UsageError, match=reason), open_map(tmp_path, {**START, **change}):
        pass


def test_a_map_of_another_target_is_refused_before_anything_is_planned(tmp_path: Path) -> None:
    with open_map(tmp_path, START):
        pass
    settings = {name: value for name, value in START.items() if name != "topics"}
    check_map(tmp_path, settings)
    with pytest.raises(UsageError, match="its clusterId is"):
        check_map(tmp_path, {**settings, "clusterId": "d"})


@pytest.mark.parametrize(
    "text",
    [
        b"", b"{}\n", b"no JSON\n", b"\xff\n", b'{"offsetMap":2,"topics":{}}\n', b'{"offsetMap":1,"topics":[]}\n',
        b'{"offsetMap":1,"topics":{"t":{"topicId":"x","starts":{"-1":0}}}}\n', b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_map_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "journal.jsonl").write_bytes(text)
    with pytest.raises(UsageError, match="no map of a restore"), open_map(tmp_path, START):
        pass


@pytest.mark.parametrize(
    "line",
    [
        b"nothing\n",
        b'{"topic":"t","partition":0,"sourceFirst":5,"sourceLast":4,"targetFirst":0}\n',
        b'{"topic":"t","partition":0,"sourceFirst":-5,"sourceLast":4,"targetFirst":0}\n',
        b'{"topic":"t","partition":7,"sourceFirst":5,"sourceLast":6,"targetFirst":0}\n',
        b'{"topic":"t","partition":1,"sourceFirst":5,"sourceLast":6,"targetFirst":99}\n',
    ],
)
def test_runs_that_cannot_be_are_refused(tmp_path: Path, line: bytes) -> None:
    with open_map(tmp_path, START):
        pass
    with (tmp_path / "journal.jsonl").open("ab") as file:
        file.write(line)
    with pytest.raises(UsageError, match="give another directory"), open_map(tmp_path, START):
        pass


def test_two_restores_do_not_share_a_map(tmp_path: Path) -> None:
    with open_map(tmp_path, START), pytest.raises(UsageError, match="another restore writes"):
        open_map(tmp_path, START).__enter__()
