"""Of batches that overlap, each offset comes once; what a consumer gets of it is in tests/kafka."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.log import whole_batches

from brokerless.findings import Finding
from brokerless.format.read.batch_headers import checksums_match
from brokerless.jobs.recovered.offsets_once import OffsetsOnce
from brokerless.log.segment import scan
from brokerless.log.storage.location import Location


def taken(path: Path, step: int) -> tuple[list[tuple[int, int]], list[Finding]]:
    """First and last offset of each batch, and what is reported."""
    told: list[Finding] = []
    found: list[tuple[int, int]] = []
    with Location(str(path)).open() as file:
        once = OffsetsOnce(file, told.append)
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
