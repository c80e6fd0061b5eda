"""Of two snapshots, segments with the same bytes are not read: not a byte of a log where all are the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.jobs.backup.disks import DEMO, earlier, objects_in

import brokerless


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two snapshots, of which the second one has more of a topic; and a third one of the same."""
    place = tmp_path / "backup"
    for disk, name in ((earlier(tmp_path / "disk", 2), "first"), (DEMO, "second"), (DEMO, "third")):
        brokerless.backup(disk, place, name=name, segment_size=20_000)
    return place


def logs(place: Path) -> list[Path]:
    return [place / each for each in objects_in(place) if each.endswith(".log")]


def segment_ids(place: Path, name: str) -> set[str]:
    """Of the segments of a topic."""
    location = brokerless.open(f"{place}@{name}").directory.location
    segments = location.file_system()[0].bucket.snapshot_state().segments
    return {one.segment_id for each in segments.values() for one in each if one.topic == "orders"}


def lose(paths: list[Path]) -> None:
    for path in paths:
        path.write_bytes(bytes(path.stat().st_size))


def test_equal_snapshots_are_compared_without_a_byte_of_data(place: Path) -> None:
    expected = {each.name: each.same for each in brokerless.diff(DEMO, f"{place}@third").partitions}
    lose(logs(place))
    found = brokerless.diff(f"{place}@second", f"{place}@third", only=["records"])
    assert found.is_same
    assert {each.name for each in found.partitions} == {*expected}
    for each in found.partitions:
        assert expected[each.name] <= each.same == each.records <= expected[each.name] + 20, "with control records"


def test_what_both_begin_with_is_not_read_and_the_rest_is(place: Path) -> None:
    before = brokerless.diff(f"{place}@first", f"{place}@third", only=["records"], topics=["orders"])
    assert {cause for each in before.partitions for cause in each.causes or {}} >= {"lagging"}
    both = segment_ids(place, "first") & segment_ids(place, "third")
    lost = [each for each in logs(place) if any(segment_id in each.name for segment_id in both)]
    assert len(lost) == len(both) > 0
    lose(lost)
    after = brokerless.diff(f"{place}@first", f"{place}@third", only=["records"], topics=["orders"])
    for one, other in zip(before.partitions, after.partitions, strict=True):
        assert (one.causes, one.same, one.extra, one.is_same) == (other.causes, other.same, other.extra, other.is_same)


def test_a_damaged_object_is_found_where_the_other_side_is_no_snapshot(place: Path) -> None:
    lose(logs(place))
    found = brokerless.diff(DEMO, f"{place}@third", only=["records"])
    assert all(each.uncompared for each in found.partitions if each.records)
