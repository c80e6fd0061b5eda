"""Oracle: the snapshots and transaction indexes that brokers wrote beside their logs. ``test_producer_checks.py`` holds
the same state to Kafka's own ``ProducerStateManager``, step by step."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.golden import broker_data
from tests.log.producer_batches import ABORT, batch, control, marker, parse

from brokerless.format import layouts
from brokerless.log.producer.snapshot import load_producer_snapshot
from brokerless.log.producer.state import (
    EXPIRATION_MS,
    ProducerState,
    Update,
    aborted_entry,
    load_state,
    snapshots_out_of_range,
    stray_snapshots,
)
from brokerless.log.storage.location import Location

GOLDEN_BROKERS_RAN_AT = 1_795_225_000_000
"""ms. Producers with timestamps a day older were forgotten whenever a broker was started again."""


def by_producer(snapshot: bytes) -> dict[int, tuple[int, ...]]:
    entries = np.frombuffer(snapshot, layouts.PRODUCER_SNAPSHOT_ENTRY, offset=layouts.PRODUCER_SNAPSHOT_HEADER.itemsize)
    return {int(entry["producer_id"]): entry.tolist() for entry in entries}


def check_snapshot(state: ProducerState, path: Path) -> bool:
    """Whether it is the same byte for byte; if not, how it may differ."""
    expected = path.read_bytes()
    if state.snapshot() == expected:
        return True
    ours, theirs = by_producer(state.snapshot()), by_producer(expected)
    forgotten = set(ours) - set(theirs)
    assert all(ours[each][5] < GOLDEN_BROKERS_RAN_AT - EXPIRATION_MS for each in forgotten)
    assert {each: entry for each, entry in ours.items() if each not in forgotten} == theirs
    return False


@pytest.mark.parametrize(
    ("broker", "same_bytes", "snapshots"), [("clean", 55, 65), ("unclean", 4, 5), ("old-formats", 45, 45)]
)
def test_following_a_log_gives_the_snapshots_and_transaction_indexes_that_its_broker_wrote(
    broker: str, same_bytes: int, snapshots: int
) -> None:
    same = compared = 0
    for directory in sorted(path for path in broker_data(broker).iterdir() if path.is_dir()):
        if directory.name.startswith("compacted") and broker != "old-formats":
            continue  # snapshots tell of batches that compaction took away
        logs = sorted(directory.glob("*.log"))
        noted = sorted(int(path.stem) for path in directory.glob("*.snapshot"))
        state = ProducerState(int(logs[0].stem))
        if state.end_offset in noted:
            state = load_state(
                load_producer_snapshot(Location(str(logs[0].with_suffix(".snapshot")))), state.end_offset
            )
        for log in logs:
            batches, buffer = parse(log.read_bytes())
            index = b""
            for row in range(len(batches)):
                one = batches.take(slice(row, row + 1))
                for offset in [each for each in noted if state.end_offset <= each <= one.entry_offset[0]]:
                    same += check_snapshot(state, directory / f"{offset:020}.snapshot")
                    noted.remove(offset)
                    compared += 1
                update = state.update(one, buffer)
                assert update.refused is None
                index += b"".join(aborted_entry(each) for each in update.completed if each.is_aborted)
            written = log.with_suffix(".txnindex")
            assert index == (written.read_bytes() if written.exists() else b"")
        for offset in noted:
            assert offset == state.end_offset
            same += check_snapshot(state, directory / f"{offset:020}.snapshot")
            compared += 1
    assert same >= same_bytes
    assert compared >= snapshots


def follow(*batches: bytes) -> tuple[ProducerState, Update]:
    state = ProducerState()
    return state, state.update(*parse(b"".join(batches)))


def test_the_last_stable_offset_is_where_the_first_undecided_transaction_begins() -> None:
    state, update = follow(
        batch(0, 7, sequence=0, count=10, transactional=True),
        batch(10, 8, sequence=0, count=10, transactional=True),
        marker(20, 7, type_id=ABORT),
    )
    (aborted,) = update.completed
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (7, 0, 20)
    assert (aborted.is_aborted, aborted.last_stable_offset) == (True, 10)
    assert (state.first_unstable_offset, state.end_offset) == (10, 21)
    (committed,) = state.update(*parse(marker(21, 8))).completed
    assert (committed.first_offset, committed.is_aborted, committed.last_stable_offset) == (10, False, 22)
    assert (state.first_unstable_offset, state.end_offset) == (None, 22)


def test_a_marker_without_a_transaction_completes_none() -> None:
    state, update = follow(marker(5, 7, epoch=3, coordinator_epoch=2, timestamp=99))
    assert update == Update([])
    assert (state.producers[7].epoch, state.producers[7].coordinator_epoch, state.producers[7].timestamp) == (3, 2, 99)


def test_an_empty_control_batch_which_compaction_left_changes_nothing_of_its_producer() -> None:
    state, _ = follow(batch(0, 7, sequence=0, timestamp=50))
    before = state.snapshot()
    assert state.update(*parse(control(10, 7, 5, count=0, timestamp=70))) == Update([])
    assert state.snapshot() == before
    assert state.end_offset == 11


def test_batches_without_producers_move_the_end_only() -> None:
    state, update = follow(batch(0, count=10), batch(10, count=5))
    assert (update, state.end_offset, state.producers) == (Update([]), 15, {})
    assert state.update(*parse(b"")) == Update([])
    assert state.end_offset == 15


@pytest.mark.parametrize(
    ("bad", "exception"),
    [
        (marker(10, 7, type_id=2), "IllegalArgumentException"),
        (marker(10, 7, key=b"\0\0\0"), "InvalidRecordException"),
        (marker(10, 7, key=b"\xff\xff\0\0"), "InvalidRecordException"),
        (marker(10, 7, value=b"\xff\xff\0\0\0\0"), "InvalidRecordException"),
        (marker(10, 7, value=b"\0\0\0\0\0"), "InvalidRecordException"),
        (control(10, 7, 0, count=1, records=b"\x7f"), "InvalidRecordException"),
        (control(10, 7, 0, count=1), "InvalidRecordException"),
        (batch(10, 7, sequence=5), "InvalidTxnStateException"),
    ],
)
def test_what_stops_kafkas_recovery_stops_here_with_all_before_it_done(bad: bytes, exception: str) -> None:
    written = [batch(0, 7, sequence=0, count=5, transactional=True), batch(5, count=5), bad, batch(11, 9)]
    untouched, _ = follow(written[0])
    before = untouched.snapshot()
    state, update = follow(*written)
    assert untouched.refusal(*parse(b"".join(written[1:]))) == replace(update.refused, row=1)
    assert (untouched.snapshot(), untouched.end_offset, untouched.first_unstable_offset) == (before, 5, 0)
    assert update.completed == []
    assert update.refused is not None
    assert (update.refused.exception, update.refused.row, update.refused.offset) == (exception, 2, 10)
    assert state.end_offset == 10
    assert set(state.producers) == {7}
    assert state.first_unstable_offset == 0


def test_the_last_five_batches_of_an_epoch_are_known() -> None:
    state, _ = follow(*(batch(at, 7, sequence=at) for at in range(8)))
    assert [each.first_sequence for each in state.producers[7].batches] == [3, 4, 5, 6, 7]
    state.update(*parse(batch(8, 7, epoch=1, sequence=0, count=3)))
    (only,) = state.producers[7].batches
    assert (only.first_sequence, only.last_sequence, only.first_offset, only.last_offset) == (0, 2, 8, 10)


def test_producers_expire_unless_they_have_a_transaction_open() -> None:
    now = 10 * EXPIRATION_MS
    state, _ = follow(
        batch(0, 1, sequence=0, timestamp=now - EXPIRATION_MS),
        batch(1, 2, sequence=0, timestamp=now - EXPIRATION_MS + 1),
        batch(2, 3, sequence=0, timestamp=0, transactional=True),
    )
    state.expire(now)
    assert set(state.producers) == {2, 3}
    state.expire(now, expiration_ms=1)
    assert set(state.producers) == {3}


def test_a_snapshot_of_nothing_is_one_without_entries() -> None:
    assert by_producer(ProducerState(17).snapshot()) == {}


@st.composite
def logs(draw: st.DrawFn) -> list[bytes]:
    """Batches and markers of three producers, in any order that a leader could have written."""
    written: list[bytes] = []
    offset = 0
    producers = {each: {"epoch": 0, "sequence": 0, "open": False} for each in (1, 2, 3)}
    for _ in range(draw(st.integers(0, 25))):
        producer_id = draw(st.sampled_from([-1, 1, 2, 3]))
        if producer_id < 0:
            written.append(batch(offset))
            offset += 1
            continue
        producer = producers[producer_id]
        if producer["open"] and draw(st.booleans()):
            written.append(
                marker(offset, producer_id, producer["epoch"], draw(st.sampled_from([0, 1])), timestamp=offset)
            )
            producer["open"] = False
            offset += 1
        else:
            count = draw(st.integers(1, 5))
            transactional = producer["open"] or draw(st.booleans())
            sequence = producer["sequence"]
            written.append(batch(offset, producer_id, producer["epoch"], sequence, count, transactional, offset))
            producer |= {"sequence": sequence + count, "open": transactional}
            offset += count
    return written


@examples(100)
@given(logs(), st.data())
def test_a_log_may_be_followed_in_any_pieces_and_from_any_snapshot(written: list[bytes], data: st.DataObject) -> None:
    whole, update = follow(*written)
    cut = data.draw(st.integers(0, len(written)))
    state, before = follow(*written[:cut])
    with tempfile.NamedTemporaryFile() as file:
        file.write(state.snapshot())
        file.flush()
        loaded = load_state(load_producer_snapshot(Location(file.name)), state.end_offset)
    after = loaded.update(*parse(b"".join(written[cut:])))
    assert before.completed + after.completed == update.completed
    assert loaded.snapshot() == whole.snapshot()
    assert (loaded.end_offset, loaded.first_unstable_offset) == (whole.end_offset, whole.first_unstable_offset)


def test_snapshots_outside_of_the_log_go_and_those_without_a_segment_but_for_the_last() -> None:
    assert snapshots_out_of_range([0, 5, 10, 20, 30], log_start=5, log_end=20) == [0, 5, 30]
    assert stray_snapshots([0, 5, 10, 20, 30], [0, 10]) == [5, 20]
    assert stray_snapshots([0, 5, 10], [0, 10]) == [5]
    assert stray_snapshots([5, 7], []) == [5]
    assert stray_snapshots([], [0]) == []
