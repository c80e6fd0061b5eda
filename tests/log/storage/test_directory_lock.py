"""Who holds what is asked of a process of its own: a process never is in its own way."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerless.errors import UsageError
from brokerless.log import names
from brokerless.log.commit.log_opener import open_log
from brokerless.log.commit.partition_writer import NewPartition, PartitionWriter
from brokerless.log.storage.directory_lock import NO_BROKER, lock_directory

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX)
print(flush=True)
input()
"""
TAKE = """
import fcntl, sys
file = open(sys.argv[1], "r+")
try:
    fcntl.lockf(file, (fcntl.LOCK_EX if sys.argv[2] == "exclusive" else fcntl.LOCK_SH) | fcntl.LOCK_NB)
except OSError:
    sys.exit(3)
"""


def can_be_taken(directory: Path, how: str) -> bool:
    return subprocess.run([sys.executable, "-c", TAKE, str(directory / names.LOCK), how], check=False).returncode == 0


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Path]:
    """A log directory that another process holds, as a broker does."""
    (tmp_path / names.LOCK).touch()
    command = [sys.executable, "-c", HOLD, str(tmp_path / names.LOCK)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield tmp_path
        process.communicate(b"\n")


def test_where_a_broker_runs_nothing_is_written(held: Path) -> None:
    before = sorted(held.iterdir())
    with pytest.raises(UsageError, match="a broker, or another process that writes, is running"):
        open_log(held, "orders", 0)
    with pytest.raises(UsageError, match="a broker, or another process that writes, is running"):
        PartitionWriter(NewPartition(held, "orders", 0))
    assert sorted(held.iterdir()) == before


def test_no_broker_starts_while_a_log_is_open(tmp_path: Path) -> None:
    with open_log(tmp_path, "orders", 0), open_log(tmp_path, "orders", 1):
        assert not can_be_taken(tmp_path, "shared")
    assert can_be_taken(tmp_path, "exclusive")


def test_partitions_can_be_written_side_by_side_but_no_broker_starts_meanwhile(tmp_path: Path) -> None:
    first, second = (
        PartitionWriter(NewPartition(tmp_path, "orders", 0)),
        PartitionWriter(NewPartition(tmp_path, "orders", 1)),
    )
    assert can_be_taken(tmp_path, "shared")
    first.commit()
    assert not can_be_taken(tmp_path, "exclusive")
    second.abandon()
    assert can_be_taken(tmp_path, "exclusive")


def test_the_mark_of_a_clean_stop_is_away_while_a_log_is_open(tmp_path: Path) -> None:
    mark = tmp_path / names.CLEAN_SHUTDOWN
    mark.write_bytes(b'{"version":0,"brokerEpoch":219}')
    first = open_log(tmp_path, "orders", 0)
    second = open_log(tmp_path, "orders", 1)
    assert not mark.exists()
    first.close()
    assert not mark.exists()
    second.close()
    assert mark.read_bytes() == b'{"version":0,"brokerEpoch":219}'


def test_the_mark_does_not_come_back_where_something_has_to_be_recovered(tmp_path: Path) -> None:
    (tmp_path / names.CLEAN_SHUTDOWN).write_bytes(NO_BROKER)
    first, second = open_log(tmp_path, "orders", 0), open_log(tmp_path, "orders", 1)
    first.abandon()
    second.close()
    assert not (tmp_path / names.CLEAN_SHUTDOWN).exists()


def test_a_directory_with_partitions_and_no_mark_gets_none(tmp_path: Path) -> None:
    (tmp_path / "other-0").mkdir()
    with lock_directory(tmp_path, exclusive=True) as held:
        assert not held.was_clean
    assert not (tmp_path / names.CLEAN_SHUTDOWN).exists()


def test_a_log_is_open_for_writing_once(tmp_path: Path) -> None:
    one, other = open_log(tmp_path, "orders", 0), open_log(tmp_path, "orders", 1)
    with pytest.raises(UsageError, match="open for writing already"):
        open_log(tmp_path, "orders", 0)
    one.close()
    other.close()
    open_log(tmp_path, "orders", 0).close()
