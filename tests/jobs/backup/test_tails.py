"""What brokers write after a cut is known, also where another leader has cut a log back meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.jobs.backup.simulated.logs import Batch, ReplicaLog

from brokerless.jobs.backup.cut import end_and_epochs
from brokerless.jobs.backup.tails import PartitionTail, furthest
from brokerless.log.directory import PartitionPath, resolve
from brokerless.log.storage.location import Location

MARKER = (b"\0\0\0\1", bytes(6))


def append(log: ReplicaLog, count: int, epoch: int = 0) -> None:
    for _ in range(count):
        log.append(Batch(log.end, log.end, ((log.end, b"k", b"v"),), epoch))


def end_transaction(log: ReplicaLog, epoch: int) -> int:
    at = log.end
    log.append(
        Batch(at, at, ((at, *MARKER),), epoch, producer=7, producer_epoch=0, is_transactional=True, is_marker=True)
    )
    return at


def elect(log: ReplicaLog, epoch: int, end: int) -> None:
    log.truncate(end)
    log.epochs.append((epoch, end))
    log.write_epochs()


def listed(log: ReplicaLog) -> PartitionPath:
    (found,) = resolve(Location(str(log.directory))).partitions
    return found


def tail_since_now(logs: Sequence[ReplicaLog]) -> PartitionTail:
    found = end_and_epochs(listed(logs[0]))
    assert found is not None
    return PartitionTail(lambda: [listed(each) for each in logs], *found)


@pytest.fixture
def log(tmp_path: Path) -> ReplicaLog:
    found = ReplicaLog(tmp_path / "orders-0", "A" * 22)
    found.make()
    append(found, 10)
    return found


def test_a_marker_is_new_if_another_leader_wrote_it_where_the_cut_had_something_else(log: ReplicaLog) -> None:
    """Offset 8 was before the cut; what is there now came after it, whether the log is shorter or longer than then."""
    tail = tail_since_now([log])
    elect(log, 1, 8)
    at = end_transaction(log, 1)
    assert tail.follow()
    assert (tail.start, [each.offset for each in tail.markers]) == (8, [at])
    append(log, 5, 1)
    assert tail.follow()
    assert [each.offset for each in tail.markers] == [at]


def test_a_log_that_is_cut_back_while_it_is_followed_is_read_again(log: ReplicaLog) -> None:
    tail = tail_since_now([log])
    end_transaction(log, 0)
    assert tail.follow()
    assert [each.offset for each in tail.markers] == [10]
    elect(log, 1, 6)
    at = end_transaction(log, 1)
    append(log, 9, 1)
    assert tail.follow()
    assert (tail.start, [each.offset for each in tail.markers]) == (6, [at])


def test_what_was_there_at_the_cut_is_not_new_under_a_leader_that_kept_it(log: ReplicaLog) -> None:
    end_transaction(log, 0)
    tail = tail_since_now([log])
    elect(log, 1, log.end)
    append(log, 2, 1)
    assert tail.follow()
    assert (tail.start, tail.markers) == (11, [])


def test_the_last_leader_goes_furthest_not_the_longest_log(log: ReplicaLog, tmp_path: Path) -> None:
    """A broker that was away has more than the new leader, which nobody else ever had."""
    other = log.copy_to(tmp_path / "b" / "orders-0")
    append(log, 30)
    elect(other, 1, 8)
    end_transaction(other, 1)
    assert furthest([listed(log), listed(other)]) == listed(other)


def test_what_retention_deleted_of_what_came_in_is_known_to_be_missing(log: ReplicaLog) -> None:
    tail = tail_since_now([log])
    end_transaction(log, 0)
    log.roll()
    append(log, 1)
    list(log.expire())
    assert tail.follow()
    assert (tail.start, tail.begin, tail.markers) == (10, 11, [])
