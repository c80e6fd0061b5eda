"""Positions that coordinators' records say, and the records that set them; real groups are in
``tests/kafka/test_revived_groups.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import brokerless
from brokerless.errors import raise_errors
from brokerless.format.messages.writer import encode
from brokerless.internals.groups.positions import GroupPosition, LostPosition, lost_positions, read_positions
from brokerless.internals.messages import messages
from brokerless.internals.records import CONSUMER_OFFSETS, SHARE_GROUP_STATE, decode_record
from brokerless.writing import BatchBuilder, open_log

TOPIC_ID = "MAAAAAAAQkyAAAAAAAAAAQ"
OTHER_ID = "MAAAAAAAQkyAAAAAAAAAAg"
TOPICS = {TOPIC_ID: "orders"}
Fields = dict[str, Any]


def record(topic: str, type_id: int, version: int, key: Fields, value: Fields | None) -> tuple[bytes, bytes | None]:
    known = messages(topic)
    head = type_id.to_bytes(2, "big") + encode(known.keys[type_id], 0, key)
    if value is None:
        return head, None
    return head, version.to_bytes(2, "big") + encode(known.values[type_id], version, value)


def committed(group: str, partition: int, offset: int, topic_id: str | None = None) -> tuple[bytes, bytes | None]:
    value: Fields = {"offset": offset, "leaderEpoch": 4, "metadata": "m", "commitTimestamp": 5}
    if topic_id is not None:
        value["topicId"] = topic_id
    key = {"group": group, "topic": "orders", "partition": partition}
    return record(CONSUMER_OFFSETS, 1, 3 if topic_id is None else 4, key, value)


def batches(*spans: tuple[int, int, int]) -> list[Fields]:
    return [
        {"firstOffset": first, "lastOffset": last, "deliveryState": state, "deliveryCount": 1}
        for first, last, state in spans
    ]


SHARE_KEY = {"groupId": "shared", "topicId": TOPIC_ID, "partition": 0}


def snapshot(start: int, *spans: tuple[int, int, int]) -> tuple[bytes, bytes | None]:
    value: Fields = {
        "snapshotEpoch": 7, "stateEpoch": 1, "leaderEpoch": 2, "startOffset": start, "createTimestamp": 5,
        "writeTimestamp": 5, "stateBatches": batches(*spans),
    }  # fmt: skip
    return record(SHARE_GROUP_STATE, 0, 0, SHARE_KEY, value)


def update(start: int, *spans: tuple[int, int, int]) -> tuple[bytes, bytes | None]:
    value = {"snapshotEpoch": 7, "leaderEpoch": -1, "startOffset": start, "stateBatches": batches(*spans)}
    return record(SHARE_GROUP_STATE, 1, 0, SHARE_KEY, value)


def positions(directory: Path, topic: str, *records: tuple[bytes, bytes | None]) -> list[GroupPosition]:
    builder = BatchBuilder(1 << 20)
    for key, value in records:
        builder.append(1_790_000_000_000, key, value)
    directory.mkdir(exist_ok=True)
    with open_log(directory, topic, 3) as log:
        log.append(np.frombuffer(builder.close(), np.uint8))
    return list(read_positions(brokerless.open(directory).paths, TOPICS, raise_errors))


def test_the_last_commit_of_a_group_counts_and_one_of_an_earlier_topic_does_not(tmp_path: Path) -> None:
    key, _ = committed("gone", 0, 0)
    found = positions(
        tmp_path, CONSUMER_OFFSETS, committed("a", 0, 9), committed("a", 0, 5), committed("b", 1, 8, TOPIC_ID),
        committed("c", 1, 8, OTHER_ID), committed("gone", 0, 3), (key, None),
    )  # fmt: skip
    assert [(each.group, each.partition, each.offset) for each in found] == [("a", 0, 5), ("b", 1, 8)]
    assert {each.source for each in found} == {(CONSUMER_OFFSETS, 3)}
    lost = list(lost_positions(found, lambda at: (2, 5) if at.partition == 0 else (0, 7)))
    assert [(each.position.group, each.end_offset) for each in lost] == [("b", 7)]
    assert not list(lost_positions(found, lambda _: None))


@pytest.mark.parametrize(("reset_to", "offset"), [("end", 3), ("start", 1)])
def test_a_commit_is_written_with_the_offset_and_without_the_epoch(tmp_path: Path, reset_to: Any, offset: int) -> None:
    (found,) = positions(tmp_path, CONSUMER_OFFSETS, committed("b", 1, 8, TOPIC_ID))
    key, value = LostPosition(found, 1, 3).record(reset_to, 99)
    written = decode_record(CONSUMER_OFFSETS, key, value)
    assert written.key_data == {"group": "b", "topic": "orders", "partition": 1}
    assert written.data == {
        "offset": offset, "leaderEpoch": -1, "metadata": "m", "commitTimestamp": 99, "topicId": TOPIC_ID,
    }  # fmt: skip


def test_a_share_group_is_as_far_as_the_records_that_it_got_by_snapshot_and_updates(tmp_path: Path) -> None:
    records = snapshot(2, (2, 9, 0)), update(-1, (4, 5, 2)), update(4, (8, 30, 2))
    (found,) = positions(tmp_path, SHARE_GROUP_STATE, *records)
    assert (found.group, found.topic, found.partition, found.offset) == ("shared", "orders", 0, 31)
    written = decode_record(SHARE_GROUP_STATE, *LostPosition(found, 0, 10).record("end", 99)).data
    assert written is not None
    assert (written["startOffset"], written["snapshotEpoch"], written["stateEpoch"]) == (4, 8, 1)
    spans = [tuple(each.values())[:3] for each in written["stateBatches"]]
    assert spans == [(4, 5, 2), (6, 7, 0), (8, 9, 2)]
    again = decode_record(SHARE_GROUP_STATE, *LostPosition(found, 1, 10).record("start", 99)).data
    assert again is not None
    assert (again["startOffset"], again["stateBatches"]) == (1, [])


def test_a_share_group_without_a_start_offset_or_whose_state_was_removed_has_no_position(tmp_path: Path) -> None:
    key, _ = snapshot(0)
    assert not positions(tmp_path / "a", SHARE_GROUP_STATE, snapshot(-1))
    assert not positions(tmp_path / "b", SHARE_GROUP_STATE, snapshot(8), (key, None))
    assert not positions(tmp_path / "c", SHARE_GROUP_STATE, update(8, (9, 9, 2)))
