"""Which remote segments are of the same history as a log, by leader epochs and last offsets."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerless.log.checkpoint.leader_epochs import Epochs
from brokerless.log.storage.location import Location
from brokerless.log.tiered.lineage import goes_on, is_within_lineage, parse_lineage, read_lineage


@pytest.mark.parametrize(
    ("segment", "end_offset", "lineage", "expected"),
    [
        ([(0, 0), (1, 20)], 90, [(0, 0), (1, 20), (2, 100)], True),
        ([(0, 0), (1, 20), (2, 80)], 90, [(0, 0), (1, 20), (2, 80)], True),
        # more than the epoch of the log has
        ([(0, 0), (1, 20)], 100, [(0, 0), (1, 20), (2, 80)], False),
        # an epoch that the log does not have
        ([(0, 0), (1, 20)], 90, [(0, 0), (2, 20)], False),
        # an epoch begins elsewhere
        ([(0, 0), (1, 30)], 90, [(0, 0), (1, 20), (2, 100)], False),
        # the log has an epoch between
        ([(0, 0), (2, 20)], 90, [(0, 0), (1, 10), (2, 20)], False),
        # all before the log's first epoch, and all after its last
        ([(0, 0), (1, 20)], 90, [(2, 100)], False),
        ([(5, 0)], 90, [(2, 0), (3, 50)], False),
        # the log was cut at its start: what the segment has before does not matter
        ([(0, 0), (1, 20), (2, 50)], 90, [(1, 40), (2, 50), (3, 100)], True),
        ([(5, 14), (7, 15), (9, 100)], 150, [(7, 51), (9, 100)], True),
        # it begins within an epoch, and before it
        ([(1, 30)], 40, [(0, 0), (1, 20)], True),
        ([(1, 10)], 40, [(0, 0), (1, 20)], False),
        # epochs in which nothing was written
        ([(0, 0), (1, 20), (2, 20), (3, 30)], 40, [(0, 0), (2, 20), (3, 30)], True),
        ([(0, 0), (2, 20)], 40, [(0, 0), (1, 0), (2, 20), (3, 50), (4, 50)], True),
        ([(1, 0), (2, 20)], 50, [(0, 0), (1, 0), (2, 20), (3, 50), (4, 50)], False),
        ([], 40, [(0, 0)], True),
        ([(0, 0)], 40, [], True),
    ],
)
def test_what_is_of_the_same_history(segment: Epochs, end_offset: int, lineage: Epochs, expected: bool) -> None:
    assert is_within_lineage(segment, end_offset, lineage) is expected


def test_checkpoints(tmp_path: Path) -> None:
    assert list(parse_lineage(b"0\n2\n0 0\n3 17\n")) == [(0, 0), (3, 17)]
    for wrong in (b"", b"0\n1\nx y\n", b"\xff\xfe", b"0\n1\n1\n"):
        assert list(parse_lineage(wrong)) == []
    assert list(read_lineage(Location(str(tmp_path / "none")))) == []


@pytest.mark.parametrize(
    ("newer", "newer_last", "older", "older_end", "expected"),
    [
        ([(0, 0), (4, 611)], 700, [(0, 0)], 484, True),
        ([(0, 0), (4, 611)], 700, [(0, 0), (2, 484)], 494, False),
        # in a layout without manifests nobody knows where the last segment ends
        ([(0, 0), (4, 611)], None, [(0, 0)], 484, True),
        ([(0, 0), (4, 611)], None, [(0, 0), (2, 484)], 494, False),
        ([(0, 0)], None, [(0, 0)], 484, True),
        ([], None, [(0, 0)], 484, True),
    ],
)
def test_a_bucket_goes_on_after_a_log_that_has_nothing_else(
    newer: Epochs, newer_last: int | None, older: Epochs, older_end: int, *, expected: bool
) -> None:
    assert goes_on(newer, newer_last, older, older_end) == expected
