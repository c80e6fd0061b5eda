"""Of segments that overlap, the first has an offset; ``tests/spark/test_overlaps.py`` reads them one by one."""

from __future__ import annotations

from pathlib import Path

from tests.log.odd_logs import batch, log_name, numbered

import brokerless
from brokerless import Finding


def read(
    path: Path, *segments: tuple[int, list[tuple[int, int]]]
) -> tuple[list[int], list[tuple[int | None, int | None]]]:
    """The offsets that are read of segments, each a base offset and its batches, and where overlaps are reported."""
    partition = path / "segments-0"
    partition.mkdir()
    for base, batches in segments:
        (partition / log_name(base)).write_bytes(b"".join(batch(one, numbered(one, end)) for one, end in batches))
    found: list[Finding] = []
    rows = brokerless.open(partition).records(["offset"], on_damage=found.append).read_all()
    assert {each.kind for each in found} <= {"offset-overlap"}
    return rows["offset"].to_pylist(), [(each.position, each.offset) for each in found]


def test_a_later_segment_gives_what_earlier_ones_do_not_have(tmp_path: Path) -> None:
    offsets, found = read(tmp_path, (0, [(0, 10)]), (5, [(5, 10), (10, 15)]), (15, [(15, 20)]))
    assert offsets == [*range(20)]
    assert found == [(0, 5)]


def test_a_batch_that_two_segments_have_together_gives_nothing(tmp_path: Path) -> None:
    offsets, found = read(tmp_path, (0, [(0, 5)]), (5, [(5, 10)]), (10, [(3, 8), (8, 12)]))
    assert offsets == [*range(12)]
    assert [offset for _, offset in found] == [3]
