"""When the power fails, only what was synced is sure to be there: the content of files, and the names in directories.
Of the rest, any part may be (:mod:`tests.power`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import pytest
from tests.log.whole_batches import batch, batches
from tests.power import FailingDisk

import brokerless
from brokerless.errors import UnreadableError, UsageError
from brokerless.log.commit.log_opener import open_log
from brokerless.log.commit.partition_writer import NewPartition, PartitionWriter
from brokerless.log.config import LogConfig

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FailingDisk]:
    root = tmp_path / "disk"
    root.mkdir()
    disk = FailingDisk(root)
    yield disk
    disk.close()


def failures(disk: FailingDisk, to: Path, numbers: Iterable[int]) -> Iterator[tuple[int, Path]]:
    """What is left after failures at some moments: without all that was not synced, and with a part of it."""
    to.mkdir()
    for number in numbers:
        for share in (0.0, None):
            left = to / f"{number}-{share}"
            disk.after_failure(left, disk.moments[number], Random(number), share)
            yield number, left


def offsets(directory: Path) -> list[int]:
    records = brokerless.open(directory).partition("orders", 0).records(["offset"])
    return [offset for each in records for offset in each["offset"].to_pylist()]


def test_what_was_flushed_is_there(disk: FailingDisk, tmp_path: Path) -> None:
    flushed: list[tuple[int, int]] = []
    with disk.watched(), open_log(disk.root, "orders", 0, SMALL) as log:
        for offset in range(0, 60, 2):
            log.append(batch(offset, 2, producer=(1, 0, offset), epoch=offset // 20))
            if offset % 14 == 0:
                log.flush()
                flushed.append((len(disk.moments) - 1, log.log_end_offset))
        epochs = log.leader_epochs
    flushed.append((len(disk.moments) - 1, 60))
    assert len(flushed) > 4
    ends = dict(flushed)
    for moment, left in failures(disk, tmp_path / "left", ends):
        end = ends[moment]
        with open_log(left, "orders", 0, SMALL) as log:
            assert log.log_end_offset >= end
            assert log.leader_epochs == tuple(each for each in epochs if each[1] < log.log_end_offset)
        assert offsets(left)[:end] == list(range(end))


def test_at_any_moment_the_log_is_one_that_can_be_opened(disk: FailingDisk, tmp_path: Path) -> None:
    with disk.watched(), open_log(disk.root, "orders", 0, SMALL) as log:
        log.append(batches(*(batch(offset) for offset in range(12))))
        log.truncate_to(7)
        log.append(batches(*(batch(offset) for offset in range(7, 20))))
        log.delete_records_before(9)
        log.flush()
    least = 0
    last = len(disk.moments) - 1
    for _, left in failures(disk, tmp_path / "left", [*range(0, last, 3), last]):
        if not (left / "orders-0").is_dir():
            continue
        recovery_point = (left / "recovery-point-offset-checkpoint").exists()
        with open_log(left, "orders", 0, SMALL) as log:
            end = log.log_end_offset
            assert log.log_start_offset <= end
        found = offsets(left)
        assert found == list(range(found[0], found[0] + len(found))) if found else True
        assert not [each for each in brokerless.open(left).verify() if each.severity in ("error", "warning")]
        least = max(least, end) if recovery_point else least
    assert least == 20


def test_a_bulk_output_is_there_as_a_whole_or_not_at_all(disk: FailingDisk, tmp_path: Path) -> None:
    with disk.watched(), PartitionWriter(NewPartition(disk.root, "orders", 0, SMALL)) as output:
        output.append(batches(*(batch(offset, producer=(offset, 0, 0)) for offset in range(50))))
        output.commit()
    whole = {path.name: path.read_bytes() for path in (disk.root / "orders-0").iterdir()}
    there = 0
    for _, left in failures(disk, tmp_path / "left", range(len(disk.moments))):
        try:
            brokerless.open(left).partition("orders", 0)
        except (UnreadableError, UsageError):  # no directory yet, or an empty one
            continue
        there += 1
        assert {path.name: path.read_bytes() for path in (left / "orders-0").iterdir()} == whole
        assert (left / "recovery-point-offset-checkpoint").read_bytes() == b"0\n1\norders 0 50\n"
    assert 0 < there < 2 * len(disk.moments)


def test_a_failure_while_a_log_is_recovered_is_recovered_from(disk: FailingDisk, tmp_path: Path) -> None:
    with open_log(disk.root, "orders", 0, SMALL) as log:
        log.append(batches(*(batch(offset) for offset in range(20))))
    partition = disk.root / "orders-0"
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (disk.root / name).unlink()
    damaged = sorted(partition.glob("*.log"))[1]
    with damaged.open("r+b") as file:
        file.truncate(damaged.stat().st_size - 3)
    end = int(damaged.stem) + 4
    disk.sync_all()
    before = len(disk.moments)
    with disk.watched(), open_log(disk.root, "orders", 0, SMALL) as log:
        assert log.log_end_offset == end
    assert len(disk.moments) > before
    for _, left in failures(disk, tmp_path / "left", range(before, len(disk.moments))):
        with open_log(left, "orders", 0, SMALL) as log:
            assert log.log_end_offset == end
        assert offsets(left) == list(range(end))
