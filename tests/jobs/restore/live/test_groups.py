"""Committed offsets are translated to the first restored record that a group has not read."""

from __future__ import annotations

import pytest

from brokerless.jobs.restore.live.groups import source_groups, translate
from brokerless.jobs.restore.live.offset_map import OffsetRun
from brokerless.jobs.restore.results import GroupRestore

RUNS = [
    OffsetRun("t", 0, 10, 19, 100),
    OffsetRun("t", 1, 0, 0, 7),
    OffsetRun("t", 0, 30, 34, 110),
    OffsetRun("t", 0, 35, 35, 200),
]
STARTS = {("t", 0): 100, ("t", 1): 7, ("t", 2): 50}


@pytest.mark.parametrize(
    ("partition", "committed", "expected"),
    [
        (0, 0, 100),  # before the source begins
        (0, 10, 100),
        (0, 15, 105),
        (0, 20, 110),  # what was there is no record, or damaged
        (0, 29, 110),
        (0, 34, 114),
        (0, 35, 200),
        (0, 36, 201),  # all is read
        (0, 10**12, 201),
        (1, 1, 8),
        (2, 5, 50),  # nothing was restored
    ],
)
def test_an_offset_becomes_that_of_the_next_record(partition: int, committed: int, expected: int) -> None:
    (found,) = translate([GroupRestore("g", "t", partition, committed, None)], RUNS, STARTS)
    assert found.target_offset == expected


def test_many_groups_are_translated_at_once() -> None:
    groups = [GroupRestore(f"g{n}", "t", 0, offset, None) for n, offset in enumerate((36, 12, 30, 12))]
    assert [each.target_offset for each in translate(groups, RUNS, STARTS)] == [201, 102, 110, 102]


def test_offsets_of_other_topics_are_passed_over() -> None:
    rows = [{"group": "g", "topic": topic, "partition": 0, "offset": 5} for topic in ("t", "u")]
    assert source_groups(rows, [("t", 0)]) == [GroupRestore("g", "t", 0, 5, None)]
