"""Aborted transactions of which only the transaction index knows, by the recorded answers of a broker's consumers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.golden import broker_data
from tests.log.producer.gone_marker_logs import CONSUMED, INDEXED, TOPICS, committed, consumed, index_of, log_directory
from tests.log.whole_batches import batch, batches, marker

import brokerless
from brokerless.format import layouts
from brokerless.format.read.batch_headers import Batches, read_headers
from brokerless.log.directory import PartitionPath, resolve
from brokerless.log.partition import transactions_of
from brokerless.log.producer.recorded_aborts import RecordedAborts
from brokerless.log.storage.location import Location
from brokerless.log.tail import look_committed

ABORTED = {0, 1, 2}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return log_directory(tmp_path / "data")


def paths(directory: Path, topic: str) -> PartitionPath:
    (found,) = resolve(Location(str(directory / f"{topic}-0"))).partitions
    return found


def entries(*rows: tuple[int, int, int]) -> bytes:
    """Entries of a transaction index: producer ID, first and last offset."""
    made = np.zeros(len(rows), layouts.TRANSACTION_INDEX_ENTRY)
    for name, values in zip(("producer_id", "first_offset", "last_offset"), zip(*rows, strict=True), strict=True):
        made[name] = values
    made["last_stable_offset"] = made["last_offset"] + 1
    return made.tobytes()


def test_a_consumer_passes_over_them_as_long_as_the_index_is_there() -> None:
    for topic in INDEXED:
        assert not ABORTED & set(consumed(topic))
    assert set(CONSUMED["unclean"]["followed"]["kafka"]) > ABORTED
    assert CONSUMED["unclean"]["last"]["kafka"] == []
    assert set(CONSUMED["clean"]["segment"]["kafka"]) > ABORTED


@pytest.mark.parametrize("topic", TOPICS)
def test_readers_give_what_a_consumer_gets(directory: Path, topic: str) -> None:
    offsets, found = committed(directory, topic)
    assert offsets == consumed(topic)
    kinds = ["abort-marker-missing"] if topic in INDEXED else ["missing-log"]
    assert [each.kind for each in found if each.kind not in ("missing-segment", "offset-gap")][:1] == kinds


def test_the_transactions_are_told_apart(directory: Path) -> None:
    rows = brokerless.open(directory).partition("followed", 0).transactions(on_damage=lambda _: None).to_pylist()
    assert [(each["firstOffset"], each["lastOffset"], each["state"], each["records"]) for each in rows] == [
        (0, 4, "aborted", 3),
        (6, 8, "committed", 2),
    ]


@pytest.mark.parametrize("topic", INDEXED)
@pytest.mark.parametrize("content", [b"", b"\0" * 33, b"\xff" * 34, b"\0\1" + bytes(32), entries((0, 4, 0))])
def test_an_index_that_is_empty_or_impossible_says_nothing(directory: Path, topic: str, content: bytes) -> None:
    index_of(directory, topic).write_bytes(content)
    offsets, found = committed(directory, topic)
    assert offsets == CONSUMED["unclean"][topic]["kafka"]
    assert "abort-marker-missing" not in [each.kind for each in found]


@pytest.mark.parametrize("row", [(0, 0, 3), (0, 0, 5), (0, 6, 8), (0, 0, 12), (7, 0, 4)])
def test_an_entry_that_the_log_contradicts_says_nothing(directory: Path, row: tuple[int, int, int]) -> None:
    """Where batches have the marker's offset, or the log ends before it, or the producer is another one."""
    index_of(directory, "followed").write_bytes(entries(row))
    assert committed(directory, "followed")[0] == CONSUMED["unclean"]["followed"]["kafka"]


def test_an_index_is_only_read_where_a_marker_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the index is read")

    monkeypatch.setattr("brokerless.log.producer.recorded_aborts.load_transaction_index", refuse)
    partition = paths(broker_data("clean"), "txn")
    assert any(each.transaction_index is not None for each in partition.segments)
    assert {each.state for each in transactions_of(partition).ended} == {"aborted", "committed"}


def test_records_before_the_entry_were_not_aborted(directory: Path) -> None:
    index_of(directory, "followed").write_bytes(entries((0, 2, 4)))
    assert committed(directory, "followed")[0] == [0, 1, 3, 5, 6, 7, 9]


def test_a_damaged_marker_is_as_good_as_none(tmp_path: Path) -> None:
    transactional = layouts.TRANSACTIONAL_BIT
    broken = marker(1, (7, 0), commit=False)
    broken[-1] ^= 1
    log = tmp_path / "data" / "orders-0"
    log.mkdir(parents=True)
    parts = (
        batch(0, producer=(7, 0, 0), attributes=transactional),
        broken,
        batch(2, producer=(7, 0, 1), attributes=transactional),
        marker(3, (7, 0), commit=True),
    )
    (log / f"{0:020}.log").write_bytes(batches(*parts).tobytes())
    assert committed(tmp_path / "data", "orders")[0] == [0, 2]
    (log / f"{0:020}.txnindex").write_bytes(entries((7, 0, 1)))
    assert committed(tmp_path / "data", "orders")[0] == [2]


def test_a_log_that_grows_is_followed_with_its_indexes(directory: Path) -> None:
    log = directory / "followed-0" / f"{0:020}.log"
    data = log.read_bytes()
    log.write_bytes(data[: 77 * 3])  # up to where the marker was
    before = look_committed(paths(directory, "followed"))
    assert before.stable_offset == 0
    log.write_bytes(data)
    now = look_committed(paths(directory, "followed"), before)
    assert now.transactions is not None
    assert now.stable_offset == 10
    ended = [(each.first_offset, each.last_offset, each.state) for each in now.transactions.ended]
    assert ended == [(0, 4, "aborted"), (6, 8, "committed")]
    again = look_committed(paths(directory, "followed"), now)
    assert again.transactions is now.transactions


def test_no_entry_is_looked_at_twice(directory: Path) -> None:
    index_of(directory, "followed").write_bytes(entries(*((0, 0, 4) for _ in range(3))))
    assert committed(directory, "followed")[0] == CONSUMED["unclean"]["followed"]["kafka"]  # offsets have to grow
    recorded = RecordedAborts(paths(directory, "last").segments)
    recorded.follow(headers(batch(0, producer=(1, 0, 0), attributes=layouts.TRANSACTIONAL_BIT)), ())
    pending = recorded.follow(headers(batch(5)), [1])
    assert list(pending.producers) == [1]
    assert pending.take(1, None, 4) is None
    taken = pending.take(1, (0, 2))
    assert taken is not None
    assert (taken.first_offset, taken.last_offset, taken.position) == (0, 4, 0)
    assert pending.take(1, (0, 2)) is None
    assert pending.taken == [taken]


def headers(data: np.ndarray) -> Batches:
    return read_headers(data, np.zeros(1, np.int64))
