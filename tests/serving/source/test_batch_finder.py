from __future__ import annotations

from pathlib import Path

import pytest
from tests.format.twin import write_batch, write_record
from tests.log import odd_logs

from brokerless.findings import Finding, Kind
from brokerless.log.directory import PartitionPath, resolve
from brokerless.log.storage.location import Location
from brokerless.serving.protocol.writer import FileRange
from brokerless.serving.source import batch_finder
from brokerless.serving.source.batch_finder import NOTHING, BatchFinder, Found, Want

BATCHES = 10
PER_BATCH = 3


def batch(first: int) -> bytes:
    records = b"".join(write_record(b"key", b"value " * 10, offset_delta=each) for each in range(PER_BATCH))
    return write_batch(records, base_offset=first, count=PER_BATCH, last_offset_delta=PER_BATCH - 1)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Two segments, each with batches of three records."""
    directory = tmp_path / "orders-0"
    directory.mkdir()
    for base in (0, BATCHES * PER_BATCH):
        data = b"".join(batch(base + PER_BATCH * each) for each in range(BATCHES))
        (directory / f"{base:020}.log").write_bytes(data)
    return directory


SIZE = len(batch(0))


def listed(directory: Path) -> PartitionPath:
    return resolve(Location(str(directory))).partitions[0]


def want(offset: int, max_bytes: int = 1 << 20, limit: int = 1 << 40, *, at_least_one: bool = True) -> Want:
    return Want(offset, limit, max_bytes, at_least_one)


def content(found: Found) -> bytes:
    return b"".join(
        Path(each.segment.log.path).read_bytes()[each.position : each.position + each.length]
        if isinstance(each, FileRange)
        else each
        for each in found.pieces
    )


@pytest.mark.parametrize("inline", [0, 1 << 16])
def test_whole_batches_of_one_segment(partition: Path, monkeypatch: pytest.MonkeyPatch, inline: int) -> None:
    monkeypatch.setattr(batch_finder, "INLINE", inline)
    finder, paths = BatchFinder(pytest.fail), listed(partition)
    for _ in range(2):  # the second time, checksums are known
        found = finder.find(paths, want(4, 3 * SIZE + 5))
        assert content(found) == batch(3) + batch(6) + batch(9)
        assert (found.size, found.used, found.next_offset) == (3 * SIZE, 3 * SIZE + 5, 12)
        assert isinstance(found.pieces[0], FileRange) == (not inline)
    assert content(finder.find(paths, want(12, SIZE))) == batch(12)
    assert content(finder.find(paths, want(27))) == batch(27)
    assert content(finder.find(paths, want(30)))[:SIZE] == batch(30)
    assert finder.find(paths, want(60)) == NOTHING


def test_the_first_batch_comes_however_large(partition: Path) -> None:
    finder, paths = BatchFinder(pytest.fail), listed(partition)
    assert content(finder.find(paths, want(0, 1))) == batch(0)
    assert finder.find(paths, want(0, 1, at_least_one=False)) == NOTHING
    assert content(finder.find(paths, want(0, SIZE, at_least_one=False))) == batch(0)


def test_a_range_ends_at_its_limit(partition: Path) -> None:
    finder, paths = BatchFinder(pytest.fail), listed(partition)
    assert content(finder.find(paths, want(0, limit=6))) == batch(0) + batch(3)


def test_a_range_ends_before_damage_and_none_begins_with_it(partition: Path) -> None:
    log = partition / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[2 * SIZE + 70] ^= 1
    log.write_bytes(data)
    findings: list[Finding] = []
    finder, paths = BatchFinder(findings.append), listed(partition)
    assert content(finder.find(paths, want(0))) == batch(0) + batch(3)
    assert not findings
    for offset in (6, 7):
        assert finder.find(paths, want(offset)).is_damaged
    assert {(each.kind, each.position) for each in findings} == {(Kind.CHECKSUM_MISMATCH, 2 * SIZE)}
    assert content(finder.find(paths, want(9, SIZE))) == batch(9)


def test_damage_is_skipped_where_that_is_requested(partition: Path) -> None:
    log = partition / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[2 * SIZE + 70] ^= 1
    data[9 * SIZE : 10 * SIZE] = bytes(SIZE)
    log.write_bytes(data)
    findings: list[Finding] = []
    finder, paths = BatchFinder(findings.append, skips_damage=True), listed(partition)
    found = finder.find(paths, want(7, SIZE))
    assert (content(found), found.next_offset) == (batch(9), 12)
    assert [each.offset for each in findings if each.kind == Kind.DAMAGE_SKIPPED] == [7]
    assert content(finder.find(paths, want(27, SIZE))) == batch(30)
    assert [each.offset for each in findings if each.kind == Kind.DAMAGE_SKIPPED] == [7, 27]


@pytest.mark.parametrize("size", [-1, 5, 2 * SIZE])
def test_offsets_where_the_chain_breaks_are_damaged(partition: Path, size: int) -> None:
    log = partition / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[2 * SIZE + 8 : 2 * SIZE + 12] = size.to_bytes(4, "big", signed=True)
    log.write_bytes(data)
    findings: list[Finding] = []
    finder, paths = BatchFinder(findings.append), listed(partition)
    assert finder.find(paths, want(7)).is_damaged
    assert findings
    assert content(finder.find(paths, want(3))) == batch(3)
    assert content(finder.find(paths, want(15, SIZE))) == batch(15)


def test_a_missing_segment_is_reported_and_passed(partition: Path) -> None:
    base = 2 * BATCHES * PER_BATCH
    (partition / f"{base:020}.log").write_bytes(batch(base))
    (partition / f"{BATCHES * PER_BATCH:020}.log").unlink()
    findings: list[Finding] = []
    finder, paths = BatchFinder(findings.append), listed(partition)
    assert content(finder.find(paths, want(40))) == batch(base)
    assert content(finder.find(paths, want(41))) == batch(base)
    assert [each.kind for each in findings] == [Kind.MISSING_SEGMENT]


OVERLAPPING = [
    # What is requested, and the offset with which the batch begins that a broker of 4.4 sends first.
    (0, 0), (5, 5), (7, 5), (10, 16), (16, 16), (17, 17), (20, 25), (24, 25), (25, 25),
]  # fmt: skip


@pytest.mark.parametrize(("offset", "first"), OVERLAPPING)
def test_of_overlapping_batches_the_one_comes_that_a_broker_finds(offset: int, first: int, tmp_path: Path) -> None:
    """After the last one of a response, whatever is before it: else a consumer would get these for ever."""
    directory = tmp_path / "odd-0"
    directory.mkdir()
    data = [odd_logs.batch(base, odd_logs.numbered(base, end)) for base, end in ((0, 15), (5, 8), (16, 25), (17, 20))]
    (directory / odd_logs.log_name(0)).write_bytes(b"".join(data))
    (directory / odd_logs.log_name(25)).write_bytes(odd_logs.batch(25, odd_logs.numbered(25, 26)))
    found = BatchFinder(pytest.fail).find(listed(directory), want(offset))
    assert int.from_bytes(content(found)[:8], "big") == first
