"""What a start makes of indexes that it believes; ``tests/states`` has a real broker's answers to the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.log.recovery.partitions import index
from tests.log.whole_batches import batch, batches, marker

import brokerless
from brokerless.format import layouts
from brokerless.log.commit.log_opener import open_log
from brokerless.log.directory import PartitionPath, resolve
from brokerless.log.recovery.misleading_indexes import misled, misread_age, shown_aborted
from brokerless.log.recovery.trust import Flushed, TrustedSegment, trusted
from brokerless.log.storage.location import Location
from brokerless.log.storage.segment_files import list_files


def opened(partition: Path) -> PartitionPath:
    (found,) = resolve(Location(str(partition))).partitions
    return found


def effects(partition: Path) -> list[tuple[str, int, str]]:
    """What a broker gets wrong after a clean stop: the effect, the segment, and the file."""
    files = list_files(partition)
    found = misled(opened(partition), files, trusted(files, Flushed(0, was_clean=True)))
    return [(each.effect, each.base_offset, Path(each.finding.file).name) for each in found]


def test_intact_indexes_mislead_nobody(partition: Path) -> None:
    assert effects(partition) == []


@pytest.mark.parametrize("kind", ["missing", "empty"])
def test_aborted_records_are_shown_without_their_index(partition: Path, kind: str) -> None:
    path = index(partition, 73, "txnindex")
    path.unlink() if kind == "missing" else path.write_bytes(b"")
    assert effects(partition) == [("aborted-shown", 73, path.name)]
    (restart,) = brokerless.open(partition.parent).partition("txn", 1).restart().partitions
    assert [each.finding.severity for each in restart.misled] == ["error"]
    assert not restart.is_harmless


def test_where_a_transaction_began_is_not_known_behind_a_lost_segment(tmp_path: Path) -> None:
    transactional, log = layouts.TRANSACTIONAL_BIT, tmp_path / "orders-0"
    with open_log(tmp_path, "orders", 0) as writer:
        writer.append(batch(0, producer=(1, 0, 0), attributes=transactional))
        writer.roll()
        writer.append(batches(marker(1, (1, 0), commit=True), batch(2)))
        writer.roll()
        writer.append(batch(3, producer=(1, 0, 1), attributes=transactional))
        writer.append(batches(marker(4, (1, 0), commit=False), batch(5)))
    bases = list_files(log).offsets("log")
    assert list(shown_aborted(opened(log), bases)) == []
    for path in log.glob(f"{bases[1]:020}.*"):
        path.unlink()
    assert list(shown_aborted(opened(log), bases)) == []


def test_nothing_is_shown_by_a_segment_that_is_recovered(partition: Path) -> None:
    index(partition, 73, "txnindex").unlink()
    assert list(shown_aborted(opened(partition), [0, 1, 142])) == []


def test_a_log_without_transactions_is_not_read(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the log is read")

    monkeypatch.setattr("brokerless.log.recovery.misleading_indexes.transactions_of", refuse)
    assert list(shown_aborted(opened(partition.parent / "segments-0"), [0, 169, 342, 543])) == []


def test_a_time_index_of_full_size_makes_its_segment_old(partition: Path) -> None:
    path = index(partition, 1, "timeindex")
    path.write_bytes(path.read_bytes() + bytes(1200))
    age = misread_age(list_files(partition), 1)
    assert age is not None
    assert (age.effect, age.finding.kind, age.finding.severity) == ("retention", "retention-misread", "error")
    assert ("retention", 1, path.name) in effects(partition)


def test_the_end_is_hidden_behind_an_entry_past_it(partition: Path) -> None:
    path = index(partition, 142, "index")
    path.write_bytes(path.read_bytes()[:-4] + (1 << 20).to_bytes(4, "big"))
    assert ("end-hidden", 142, path.name) in effects(partition)


def test_lookups_go_past_records(partition: Path) -> None:
    path = index(partition, 1, "index")
    first, second = path.read_bytes()[:8], path.read_bytes()[8:16]
    path.write_bytes(first[:4] + second[4:] + path.read_bytes()[8:])
    assert ("lookup", 1, path.name) in effects(partition)


def test_a_segment_that_is_recovered_anyway_misleads_nobody(partition: Path) -> None:
    index(partition, 1, "txnindex").unlink()
    files = list_files(partition)
    assert list(misled(opened(partition), files, [TrustedSegment(1, "not-flushed")])) == []
