"""Each offset once, as a consumer gets it, whatever part of a log is read, and by whatever means.

What a consumer gets is what the real one got in ``tests/kafka/test_consumed_cases.py``."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from tests.format.twin import write_batch, write_record
from tests.log.odd_logs import batch, falling_offsets, log_name, numbered, write_odd_log

import brokerless
from brokerless import Finding
from brokerless.log.offsets_once.records import repeated_offsets
from brokerless.log.storage.location import Location

CONSUMED = {
    "last-offset-delta-zero": [2, 3, 4, 5, 8, 9, 10, 11, 14, 15, 16, 17, 18],
    "overlapping-batches": [*range(40)],
    "overlapping-rests": [*range(36)],
    "overlapping-wrappers": [*range(100, 125)],
    "repeating-wrapper-v0": [0, 10, 12, 13],
    "repeating-wrapper-v1": [0, 10, 12, 13],
    "records-at-one-offset": [0, 1, 5, 6],
}
COUNTED = [each for each in CONSUMED if each != "records-at-one-offset"]
"""Those that headers, and messages within wrappers, are enough to count."""


def read(path: Path, **options: Any) -> tuple[list[int], list[Finding]]:
    found: list[Finding] = []
    batches = brokerless.open(path).records(["offset"], on_damage=found.append, **options)
    return [offset for each in batches for offset in each.column("offset").to_pylist()], found


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("name", CONSUMED)
def test_any_range_has_each_offset_once(name: str, jobs: int, tmp_path: Path) -> None:
    path, consumed = write_odd_log(name, tmp_path), CONSUMED[name]
    offsets, found = read(path, jobs=jobs)
    assert offsets == consumed
    assert "offset-overlap" in {each.kind for each in found}
    assert {each.severity for each in found} == {"warning"}
    for start in range(consumed[0], consumed[-1] + 2):
        for end in (start + 1, start + 5):
            offsets, _ = read(path, jobs=jobs, start_offset=start, end_offset=end)
            assert offsets == [each for each in consumed if start <= each < end]


@pytest.mark.parametrize("name", COUNTED)
def test_segments_count_what_records_yields(name: str, tmp_path: Path) -> None:
    found: list[Finding] = []
    (partition,) = brokerless.open(write_odd_log(name, tmp_path)).partitions
    (row,) = partition.segments(on_damage=found.append).to_pylist()
    assert row["records"] == len(CONSUMED[name])
    assert (row["firstOffset"], row["lastOffset"]) == (CONSUMED[name][0], CONSUMED[name][-1])
    assert "offset-overlap" in {each.kind for each in found}
    assert partition.end_offset == CONSUMED[name][-1] + 1


def test_segments_that_overlap_count_each_offset_once(tmp_path: Path) -> None:
    """As many records as the whole log yields; a range begins with the last segment that begins at or before it."""
    path = write_odd_log("overlapping-segments", tmp_path)
    rows = brokerless.open(path).segments(on_damage=lambda _: None).to_pylist()
    assert [row["records"] for row in rows] == [20, 10, 10]
    offsets, found = read(path)
    assert offsets == [*range(40)]
    assert {each.kind for each in found} == {"offset-overlap"}
    for start in range(40):
        assert read(path, start_offset=start)[0] == [*range(start, 40)]


def test_records_past_the_last_offset_are_reported_for_each_batch(tmp_path: Path) -> None:
    (partition,) = brokerless.open(write_odd_log("last-offset-delta-zero", tmp_path)).partitions
    for found in (list(partition.verify()), read(tmp_path)[1]):
        positions = [each.offset for each in found if each.kind == "records-past-last-offset"]
        assert positions == [2, 4, 8, 14]


def test_the_offsets_that_earlier_batches_have(tmp_path: Path) -> None:
    parts = [(0, 10), (20, 30), (5, 25), (40, 50), (0, 60), (12, 14)]
    made = [batch(first, numbered(first, end)) for first, end in parts]
    path = tmp_path / log_name(0)
    path.write_bytes(b"".join(made))
    positions = [sum(map(len, made[:row])) for row in range(len(made))]
    with Location(str(path)).open() as file:
        assert repeated_offsets(file) == {
            positions[2]: [(5, 10), (20, 25)],
            positions[4]: [(0, 30), (40, 50)],
            positions[5]: [(12, 14)],
        }
    offsets, _ = read(path)
    assert sorted(offsets) == [*range(60)]


def test_a_batch_far_ahead_hides_nothing(tmp_path: Path) -> None:
    """A damaged base offset, which no checksum covers."""
    path = tmp_path / log_name(0)
    path.write_bytes(b"".join(batch(each, numbered(0, 10)) for each in (0, 1 << 40, 10, 20)))
    offsets, found = read(path)
    assert offsets == [*range(10), *range(1 << 40, (1 << 40) + 10), *range(10, 30)]
    assert [(each.kind, each.severity, each.offset) for each in found] == [
        ("offset-order", "warning", 10),
        ("offset-order", "warning", 20),
    ]


@pytest.mark.parametrize("name", ["overlapping-headers", "overlapping-headers-gzip"])
def test_what_counts_is_the_records_and_not_what_headers_say(name: str, tmp_path: Path) -> None:
    (partition,) = brokerless.open(write_odd_log(name, tmp_path)).partitions
    assert read(tmp_path) == ([*range(45)], [])
    assert [row["records"] for row in partition.segments(on_damage=pytest.fail).to_pylist()] == [30, 15]
    for start in range(45):
        assert read(tmp_path, start_offset=start)[0] == [*range(start, 45)]


@pytest.mark.parametrize("name", ["wrong-inner-crc-v0", "wrong-inner-crc-v1"])
def test_a_message_with_a_wrong_checksum_is_left_out_alone(name: str, tmp_path: Path) -> None:
    offsets, found = read(write_odd_log(name, tmp_path))
    assert offsets == [0, 1, 3, 4]
    assert [(each.kind, each.severity) for each in found] == [("message-checksum-mismatch", "error")]


@pytest.mark.parametrize("codec", [0, 1])
def test_records_of_a_huge_batch_that_have_one_offset_are_read_once(codec: int, tmp_path: Path) -> None:
    """It is decoded in several parts, each of which would have a first record at that offset."""
    payload = write_record(None, None) * 100_000
    batch = write_batch(gzip.compress(payload) if codec else payload, count=100_000, attributes=codec, base_offset=5)
    path = tmp_path / f"{5:020}.log"
    path.write_bytes(batch + write_batch(write_record(b"next", None), base_offset=6))
    found: list[Finding] = []
    batches = brokerless.open(path).records(["offset", "key"], on_damage=found.append)
    assert [row for each in batches for row in each.to_pylist()] == [
        {"offset": 5, "key": None},
        {"offset": 6, "key": b"next"},
    ]
    assert [(each.kind, each.position) for each in found] == [("records-past-last-offset", 0), ("offset-overlap", 0)]


def test_offsets_that_go_back_within_a_batch_are_read_and_reported(tmp_path: Path) -> None:
    path = tmp_path / log_name(0)
    path.write_bytes(batch(0, numbered(0, 10)) + falling_offsets() + batch(15, numbered(15, 20)))
    offsets, found = read(path)
    assert offsets == [*range(10), 10, 13, 12, 11, 14, *range(15, 20)]
    for findings in (found, list(brokerless.open(path).verify())):
        assert [(each.kind, each.severity, each.offset) for each in findings] == [("offset-order", "warning", 12)]
