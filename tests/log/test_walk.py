"""A log is walked through from its first segment to its last, and what is missing is said where it is missed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.log.odd_logs import batch, log_name, numbered

from brokerless import Finding
from brokerless.errors import UnreadableError
from brokerless.log.directory import PartitionPath, resolve
from brokerless.log.ranges import EVERYTHING, Range
from brokerless.log.storage.location import Location
from brokerless.log.walk import check_ends, walk, walk_part


def log_of(directory: Path, *spans: tuple[int, int], start: int | None = None) -> PartitionPath:
    """A log with a segment for each span of offsets, and perhaps a log start offset."""
    partition = directory / "walked-0"
    partition.mkdir()
    for first, end in spans:
        (partition / log_name(first)).write_bytes(batch(first, numbered(first, end)) if first < end else b"")
    if start is not None:
        (directory / "log-start-offset-checkpoint").write_text(f"0\n1\nwalked 0 {start}\n")
    (found,) = resolve(Location(str(directory))).partitions
    return found


def told(found: list[Finding]) -> list[tuple[str, int | None]]:
    return [(each.kind, each.offset) for each in found]


def test_what_is_missing_is_said_between_the_segments_where_it_was(tmp_path: Path) -> None:
    partition = log_of(tmp_path, (5, 10), (20, 25), (25, 30), start=3)
    steps: list[object] = []
    for each in walk(partition, lambda finding: steps.append((str(finding.kind), finding.offset))):
        steps.append(each.segment.base_offset)
    assert steps == [("missing-segment", 3), 5, ("missing-segment", 10), 20, 25]


def test_only_what_is_missing_of_the_requested_offsets_is_said(tmp_path: Path) -> None:
    partition, found = log_of(tmp_path, (5, 10), (20, 25), (30, 35), start=3), list[Finding]()
    assert [each.segment.base_offset for each in walk(partition, found.append, Range(20, 27))] == [20]
    assert told(found) == [("missing-segment", 25)]
    found.clear()
    assert len(list(walk(partition, found.append, EVERYTHING, Range(20, 25)))) == 3
    assert told(found) == []


def test_a_part_of_a_log_has_no_ends(tmp_path: Path) -> None:
    partition, found = log_of(tmp_path, (5, 10), (20, 25), start=3), list[Finding]()
    assert len(list(walk_part(partition, found.append))) == 2
    assert told(found) == [("missing-segment", 10)]
    found.clear()
    check_ends(partition, found.append)
    assert told(found) == [("missing-segment", 3)]


def test_who_knows_that_nothing_is_missing_spares_the_look(tmp_path: Path) -> None:
    partition, found = log_of(tmp_path, (0, 10), (10, 15), (20, 25)), list[Finding]()
    reached = {0: 9, 10: 14, 20: 24}
    for each in walk(partition, found.append):
        each.skips_gap = each.reaches_next(reached[each.segment.base_offset])
        assert each.skips_gap == (each.segment.base_offset != 10)
    assert told(found) == [("missing-segment", 15)]
    found.clear()
    for each in walk(partition, found.append):
        each.skips_gap = True
    assert not found


def test_where_it_cannot_be_known_what_is_missing_the_walk_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cleaner's checkpoint would say whether compaction took the offsets."""

    def denied(*_: object) -> None:
        raise UnreadableError("cleaner-offset-checkpoint", "not readable")

    monkeypatch.setattr("brokerless.log.offset_gaps.recorded_offset", denied)
    partition, found = log_of(tmp_path, (0, 10), (20, 25), (25, 30)), list[Finding]()
    assert [each.segment.base_offset for each in walk(partition, found.append)] == [0, 20, 25]
    assert [each.kind for each in found] == ["unreadable-file"]
