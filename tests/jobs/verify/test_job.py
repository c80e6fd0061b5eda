"""Verify as a job finds what reading partition by partition finds, in the same order, wherever its tasks run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.golden import broker_data

import brokerless
from brokerless.errors import UnreadableError
from brokerless.findings import Finding
from brokerless.jobs.run import job
from brokerless.jobs.run.types import RunOptions
from brokerless.jobs.verify import job as verify_job
from brokerless.jobs.verify.job import verify
from brokerless.log.directory import PartitionPath

BROKERS = ("clean", "old-formats", "unclean")


def partitions(path: str | Path) -> list[PartitionPath]:
    return list(brokerless.open(path).paths)


def one_by_one(path: str | Path) -> list[Finding]:
    """By the partition, which the golden archive's tests hold to what Kafka's reader does."""
    return [finding for each in brokerless.open(path).partitions for finding in each.verify()]


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A log directory with damage of all kinds, in several segments of several partitions."""
    source = broker_data("unclean")
    for name in ("busy-0", "busy-1", "busy-small-0", "busy-txn-0", "busy-prealloc-0"):
        shutil.copytree(source / name, tmp_path / name)
    shutil.copytree(broker_data("clean") / "segments-0", tmp_path / "segments-0")
    for log in sorted(tmp_path.glob("*/*.log"))[::2]:
        data = bytearray(log.read_bytes())
        for position in range(70, len(data), 1 << 14):
            data[position] ^= 1
        log.write_bytes(data)
    # Offsets of one segment reach into the next; another one goes back below where it should begin.
    first, second, third, *_ = sorted((tmp_path / "segments-0").glob("*.log"))
    second.write_bytes(second.read_bytes() + third.read_bytes())
    (tmp_path / "busy-1" / "00000000000000009999.log").write_bytes(first.read_bytes())
    return tmp_path


def test_a_job_finds_what_is_found_partition_by_partition(damaged: Path) -> None:
    for path in (*map(broker_data, BROKERS), damaged):
        assert list(verify(partitions(path))) == one_by_one(path), path
    assert {"checksum-mismatch", "offset-order"} <= {finding.kind for finding in one_by_one(damaged)}


@pytest.mark.slow(reason="starts processes")
def test_processes_find_the_same_and_all_bytes_are_counted(damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "SOME_BYTES", 0)
    read: list[int] = []

    sound = partitions(broker_data("clean"))

    found = list(verify(sound + partitions(damaged), running=RunOptions(read.append, processes=2)))

    assert found == one_by_one(damaged)
    assert sum(read) > sum(segment.log.size or 0 for each in sound for segment in each.segments)


def test_more_findings_than_a_task_keeps_are_found_all_the_same(damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_job, "MOST", 2)

    assert list(verify(partitions(damaged))) == one_by_one(damaged)


def test_a_path_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    source = broker_data("unclean") / "busy-0"
    logs = sorted(source.glob("*.log"))
    copy = tmp_path / logs[0].name
    shutil.copy(logs[0], copy)
    paths = partitions(copy) + partitions(source)
    copy.unlink()

    first, *others = verify(paths)

    assert isinstance(first, UnreadableError)
    assert str(copy) in str(first)
    assert others == one_by_one(source)
