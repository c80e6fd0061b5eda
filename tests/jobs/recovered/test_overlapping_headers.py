"""Where headers go on over other batches, salvage ends them at their last records; what a consumer gets of such logs is
in tests/kafka."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.log.odd_logs import GZIP, Files, T, batch, log_name, numbered

import brokerless
from brokerless.format.read.batch_headers import read_headers
from brokerless.format.read.batch_scan import scan_batches
from brokerless.log.names import Include

STRETCHED = batch(0, numbered(0, 10), last_offset_delta=19, codec=GZIP)
SECOND = batch(10, numbered(10, 20, "second"), T + 10)


def saved(
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
    reader = brokerless.open(to).records(["offset"], on_damage=pytest.fail)
    return ranges, [row["offset"] for each in reader for row in each.to_pylist()]


def test_a_batch_ends_where_the_next_one_of_its_file_begins(tmp_path: Path) -> None:
    assert saved({log_name(0): STRETCHED + SECOND}, tmp_path) == ([(0, 9), (10, 19)], [*range(20)])


def test_a_batch_ends_where_the_next_segment_begins(tmp_path: Path) -> None:
    assert saved({log_name(0): STRETCHED, log_name(10): SECOND}, tmp_path) == ([(0, 9), (10, 19)], [*range(20)])


def test_without_others_a_header_stays(tmp_path: Path) -> None:
    after = batch(20, numbered(20, 30))
    assert saved({log_name(0): STRETCHED + after}, tmp_path) == ([(0, 19), (20, 29)], [*range(10), *range(20, 30)])


def test_a_batch_without_records_gives_way(tmp_path: Path) -> None:
    empty = batch(10, [], last_offset_delta=9)
    data = batch(0, numbered(0, 10)) + empty + SECOND
    assert saved({log_name(0): data}, tmp_path) == ([(0, 9), (10, 19)], [*range(20)])


def test_what_waits_for_its_deletion_does_not_bring_back_what_a_cleaner_removed(tmp_path: Path) -> None:
    cleaned = batch(0, numbered(0, 2), last_offset_delta=9, deltas=[0, 3])
    before = b"".join(batch(each, numbered(each, each + 1)) for each in range(10))
    files = {log_name(0): cleaned + SECOND, log_name(0) + ".deleted": before}
    reported: list[brokerless.Finding] = []
    ranges, offsets = saved(files, tmp_path, reported.append, include=("delete",))
    assert (ranges, offsets) == ([(0, 9), (10, 19)], [0, 3, *range(10, 20)])
    assert {each.kind for each in reported} == {"offset-overlap"}


def test_of_one_that_also_overlaps_its_records_the_rest_is_kept(tmp_path: Path) -> None:
    first = batch(0, numbered(0, 4), last_offset_delta=13, deltas=[0, 1, 2, 6])
    second = batch(6, numbered(0, 7, "second"), T + 6, deltas=[0, 1, 2, 3, 4, 5, 8])
    reported: list[brokerless.Finding] = []
    result = saved({log_name(0): first + second}, tmp_path, reported.append, partial=1)
    assert result == ([(0, 6), (7, 14)], [0, 1, 2, 6, 7, 8, 9, 10, 11, 14])
    assert [(each.kind, each.offset) for each in reported] == [("offset-overlap", 7)]
