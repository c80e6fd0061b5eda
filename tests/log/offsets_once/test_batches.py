"""Of batches that overlap, each offset comes once; what a consumer gets of it is in tests/kafka."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.log import whole_batches
from tests.log.odd_logs import GZIP, batch, log_name, numbered

from brokerless.findings import Finding
from brokerless.format.read.batch_headers import checksums_match
from brokerless.log.directory import resolve
from brokerless.log.live_segments import open_segments
from brokerless.log.offsets_once.batches import OffsetsOnce, earlier_offsets
from brokerless.log.segment import scan
from brokerless.log.storage.location import Location


def taken(
    path: Path, step: int, earlier: Sequence[tuple[int, int]] = (), next_base_offset: int | None = None
) -> tuple[list[tuple[int, int]], list[Finding]]:
    """First and last offset of each batch, and what is reported."""
    told: list[Finding] = []
    found: list[tuple[int, int]] = []
    with Location(str(path)).open() as file:
        once = OffsetsOnce(file, told.append, earlier=earlier, next_base_offset=next_base_offset)
        for chunk in map(once.take, scan(file, told.append, step=step)):
            assert checksums_match(chunk.buffer, chunk.batches).all()
            ends = zip(chunk.batches.entry_offset.tolist(), chunk.batches.last_offset.tolist(), strict=True)
            found += list(ends)
    return found, told


@pytest.mark.parametrize("step", [1, 1 << 20])
@pytest.mark.parametrize(
    ("batches", "expected", "reported"),
    [
        ([(0, 10), (10, 10)], [(0, 9), (10, 19)], []),
        ([(0, 10), (10, 10), (10, 5)], [(0, 9), (10, 19)], [10]),
        ([(0, 10), (5, 10)], [(0, 9), (10, 14)], [5]),
        ([(0, 5), (10, 5), (0, 20)], [(0, 4), (10, 14), (5, 9), (15, 19)], [0]),
    ],
)
def test_each_offset_comes_once(
    batches: list[tuple[int, int]], expected: list[tuple[int, int]], reported: list[int], step: int, tmp_path: Path
) -> None:
    made = [whole_batches.batch(first, count) for first, count in batches]
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(np.concatenate(made).tobytes())
    found, told = taken(path, step)
    assert found == expected
    assert [(each.kind, each.offset) for each in told] == [("offset-overlap", each) for each in reported]


@pytest.mark.parametrize("step", [1, 1 << 20])
def test_what_earlier_segments_have_is_left_out(step: int, tmp_path: Path) -> None:
    path = tmp_path / log_name(10)
    path.write_bytes(batch(10, numbered(10, 20)) + batch(20, numbered(20, 30)) + batch(30, numbered(30, 40)))
    found, told = taken(path, step, [(10, 25)])
    assert found == [(25, 29), (30, 39)]
    assert [(each.kind, each.offset) for each in told] == [("offset-overlap", 10), ("offset-overlap", 20)]


@pytest.mark.parametrize("step", [1, 1 << 20])
def test_a_header_that_goes_on_over_what_comes_next_ends_at_its_last_record(step: int, tmp_path: Path) -> None:
    parts = [
        batch(0, numbered(0, 10), last_offset_delta=19, codec=GZIP),
        batch(10, numbered(10, 20)),
        batch(20, [], last_offset_delta=9),
        batch(25, numbered(25, 30), last_offset_delta=7),
        batch(40, numbered(40, 45), last_offset_delta=9),
    ]
    path = tmp_path / log_name(0)
    path.write_bytes(b"".join(parts))
    assert taken(path, step) == ([(0, 9), (10, 19), (25, 32), (40, 49)], [])
    assert taken(path, step, next_base_offset=49) == ([(0, 9), (10, 19), (25, 32), (40, 44)], [])


def test_the_offsets_that_segments_before_have_are_those_of_their_records(tmp_path: Path) -> None:
    directory = tmp_path / "odd-0"
    directory.mkdir()
    (directory / log_name(0)).write_bytes(batch(0, numbered(0, 10)))
    (directory / log_name(5)).write_bytes(batch(5, numbered(5, 15), last_offset_delta=40))
    (directory / log_name(12)).write_bytes(batch(12, numbered(12, 20)))
    (directory / log_name(30)).write_bytes(batch(30, numbered(30, 40)))
    (partition,) = resolve(Location(str(directory))).partitions
    found = {each.segment.base_offset: earlier_offsets(each) for each in open_segments(partition, pytest.fail)}
    assert found == {0: [], 5: [(5, 10)], 12: [(12, 15)], 30: []}
