"""The last record below an offset, by Kafka's reader, and what is known of a record that was read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.golden import Case, broker_data, cases
from tests.jobs.exports import partition
from tests.log.whole_batches import batch, marker
from tests.spark.test_plan import kafkas

from brokerless.log.directory import PartitionPath, resolve
from brokerless.log.storage.location import Location
from brokerless.tables.last_record import LastRecord, last_record, other_record


def opened(path: Path) -> PartitionPath:
    (found,) = resolve(Location(str(path))).partitions
    return found


@pytest.mark.parametrize("name", ["segments-0", "compacted-none-0", "head-deleted-0"])
def test_it_is_the_one_that_kafkas_reader_finds(name: str) -> None:
    own = opened(broker_data("clean") / name)
    lines = [(line["offset"], line["timestamp"]) for line in kafkas("clean", name)]
    for number in range(0, len(lines), 37):
        for before in (lines[number][0] + 1, lines[number][0]):
            expected = max((each for each in lines if each[0] < before), default=None)
            found = last_record(own, before)
            if expected is not None and expected[0] >= (own.start_offset or 0):
                assert found is not None
                assert found[:2] == expected
                assert other_record(own, found) is None


@pytest.mark.parametrize("case", cases("formats"), ids=str)
def test_it_is_found_in_any_format(case: Case) -> None:
    """By its checksum, and where that is another one, by its timestamp, which v0 does not have."""
    for log in sorted(case.path.glob("*.log")):
        own = opened(log)
        found = last_record(own, 1 << 40)
        assert found is not None
        assert other_record(own, found) is None
        other = other_record(own, found._replace(checksum=0, timestamp=-1 if found.timestamp < 0 else 1))
        is_single_v0 = found.timestamp < 0 and "v0-none" in case.name
        assert (other is not None) == (found.timestamp >= 0 or is_single_v0)


def test_a_control_record_counts_and_a_damaged_batch_does_not(tmp_path: Path) -> None:
    broken = batch(3).tobytes()
    data = batch(0, 2).tobytes() + marker(2, (7, 0), commit=True, timestamp=5).tobytes() + broken[:-1] + b"?"
    found = last_record(opened(partition(tmp_path / "t-0", data)), 10)
    assert found is not None
    assert found[:2] == (2, 5)


def test_what_is_not_there_is_not_another_record(tmp_path: Path) -> None:
    own = opened(partition(tmp_path / "t-0", batch(0, 5).tobytes() + batch(8).tobytes()))
    known = last_record(own, 9)
    assert known is not None
    for gone in (known._replace(offset=7, checksum=1), known._replace(offset=20, checksum=1)):
        assert other_record(own, gone) is None
    assert last_record(own, 0) is None
    assert other_record(replace(own, segments=()), known) is None


def test_a_batch_that_was_written_again_has_its_record(tmp_path: Path) -> None:
    own = opened(partition(tmp_path / "t-0", batch(0, 5, 100).tobytes()))
    assert other_record(own, LastRecord(4, 104, 1)) is None
    assert other_record(own, LastRecord(4, -1, 1)) is None  # from v0, which has no timestamps
    other = other_record(own, LastRecord(4, 99, 1))
    assert other is not None
    assert other.cut_at is None
    assert "of 1970-01-01T00:00:00.099Z when it was read" in other.reason
