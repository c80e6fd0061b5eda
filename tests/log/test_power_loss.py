"""When the power fails, only what was synced is sure to be there: the content of files, and the names in directories.

The disk here is a list of what was synced, and each moment at which anything was synced is a moment of failure. (What
was written but not synced may be there as well: that is what ``test_kill.py`` and ``test_log_machine.py`` are about.)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.log.whole_batches import batch, batches

import brokerless
from brokerless.errors import UnreadableError
from brokerless.log.commit.log_opener import open_log
from brokerless.log.commit.partition_writer import PartitionOutput
from brokerless.log.config import LogConfig

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)


@dataclass
class Disk:
    """What was synced, by inode: the content of files, and the names in directories. ``moments``: copies of all that,
    one for each sync."""

    root: Path
    files: dict[int, bytes] = field(default_factory=dict)
    directories: dict[int, dict[str, int]] = field(default_factory=dict)
    moments: list[tuple[dict[int, bytes], dict[int, dict[str, int]]]] = field(default_factory=list)
    held: dict[int, int] = field(default_factory=dict)
    """Open, as the inode of a file that is gone would be another file's soon."""

    def hold(self, path: Path) -> int:
        inode = path.stat().st_ino
        if inode not in self.held:
            self.held[inode] = os.open(path, os.O_PATH)
        return inode

    def sync(self, descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        inode = self.hold(path)
        if path.is_dir():
            self.directories[inode] = {each.name: self.hold(each) for each in path.iterdir()}
        else:
            self.files[inode] = path.read_bytes()
        self.moments.append((dict(self.files), dict(self.directories)))

    def after_failure(self, target: Path, moment: int = -1) -> Path:
        """A directory with what there is after the power failed at a moment."""
        files, directories = self.moments[moment]

        def put(inode: int, path: Path) -> None:
            if inode in directories or (inode not in files and inode in self.directories):
                path.mkdir()
                for name, each in directories.get(inode, {}).items():
                    put(each, path / name)
            else:
                path.write_bytes(files.get(inode, b""))

        put(self.root.stat().st_ino, target)
        return target


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    root = tmp_path / "disk"
    root.mkdir()
    disk = Disk(root)
    monkeypatch.setattr("os.fsync", disk.sync)
    yield disk
    monkeypatch.undo()
    for descriptor in disk.held.values():
        os.close(descriptor)


def offsets(directory: Path) -> list[int]:
    records = brokerless.open(directory).partition("orders", 0).records(["offset"])
    return [offset for each in records for offset in each["offset"].to_pylist()]


def test_what_was_flushed_is_there(disk: Disk, tmp_path: Path) -> None:
    flushed: list[tuple[int, int]] = []
    with open_log(disk.root, "orders", 0, SMALL) as log:
        for offset in range(0, 60, 2):
            log.append(batch(offset, 2, producer=(1, 0, offset), epoch=offset // 20))
            if offset % 14 == 0:
                log.flush()
                flushed.append((len(disk.moments) - 1, log.log_end_offset))
        epochs = log.leader_epochs
    flushed.append((len(disk.moments) - 1, 60))
    assert len(flushed) > 4
    for moment, end in flushed:
        left = disk.after_failure(tmp_path / f"flushed-{moment}", moment)
        with open_log(left, "orders", 0, SMALL) as log:
            assert log.log_end_offset >= end
            assert log.leader_epochs == tuple(each for each in epochs if each[1] < log.log_end_offset)
        assert offsets(left)[:end] == list(range(end))


def test_at_any_moment_the_log_is_one_that_can_be_opened(disk: Disk, tmp_path: Path) -> None:
    with open_log(disk.root, "orders", 0, SMALL) as log:
        log.append(batches(*(batch(offset) for offset in range(12))))
        log.truncate_to(7)
        log.append(batches(*(batch(offset) for offset in range(7, 20))))
        log.delete_records_before(9)
        log.flush()
    least = 0
    for moment in range(len(disk.moments)):
        left = disk.after_failure(tmp_path / str(moment), moment)
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


def test_a_bulk_output_is_there_as_a_whole_or_not_at_all(disk: Disk, tmp_path: Path) -> None:
    with PartitionOutput(disk.root, "orders", 0, SMALL) as output:
        output.append(batches(*(batch(offset, producer=(offset, 0, 0)) for offset in range(50))))
        output.commit()
    whole = {path.name: path.read_bytes() for path in (disk.root / "orders-0").iterdir()}
    there = 0
    for moment in range(len(disk.moments)):
        left = disk.after_failure(tmp_path / str(moment), moment)
        try:
            brokerless.open(left).partition("orders", 0)
        except UnreadableError:
            continue
        there += 1
        assert {path.name: path.read_bytes() for path in (left / "orders-0").iterdir()} == whole
        assert (left / "recovery-point-offset-checkpoint").read_bytes() == b"0\n1\norders 0 50\n"
    assert 0 < there < len(disk.moments)


def test_a_failure_while_a_log_is_recovered_is_recovered_from(disk: Disk, tmp_path: Path) -> None:
    with open_log(disk.root, "orders", 0, SMALL) as log:
        log.append(batches(*(batch(offset) for offset in range(20))))
    partition = disk.root / "orders-0"
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (disk.root / name).unlink()
    damaged = sorted(partition.glob("*.log"))[1]
    with damaged.open("r+b") as file:
        file.truncate(damaged.stat().st_size - 3)
    end = int(damaged.stem) + 4
    for path in (disk.root, partition, *partition.iterdir(), *disk.root.glob("*-checkpoint")):
        descriptor = os.open(path, os.O_RDONLY)
        disk.sync(descriptor)
        os.close(descriptor)
    before = len(disk.moments)
    with open_log(disk.root, "orders", 0, SMALL) as log:
        assert log.log_end_offset == end
    assert len(disk.moments) > before
    for moment in range(before, len(disk.moments)):
        left = disk.after_failure(tmp_path / str(moment), moment)
        with open_log(left, "orders", 0, SMALL) as log:
            assert log.log_end_offset == end
        assert offsets(left) == list(range(end))
