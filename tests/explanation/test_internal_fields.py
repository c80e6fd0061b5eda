"""The fields of Kafka's own records and control records are what their decoders read."""

from __future__ import annotations

import random
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from tests.explanation.tree import check_tiles
from tests.golden import broker_data

import brokerless
from brokerless.explanation.builder import FieldBudget, build
from brokerless.explanation.field import Field, problems
from brokerless.explanation.internal_fields import take_internal_key, take_internal_value, take_message
from brokerless.format.control import KRAFT_VOTERS, MESSAGES, encode_data
from brokerless.format.messages.writer import encode
from brokerless.internals.messages import messages as layouts_of
from brokerless.internals.records import SHARE_GROUP_STATE, TOPICS, decode_record
from brokerless.kafka_names import DELIVERY_STATES


def internal_records() -> Iterator[tuple[str, bytes | None, bytes | None]]:
    """Those of a real broker, of each key and each length of a value one."""
    seen: set[tuple[Any, ...]] = set()
    for partition in brokerless.open(broker_data("clean")).partitions:
        topic = partition.paths[0].topic
        if topic in TOPICS:
            for batch in partition.records(["key", "value"]):
                for row in batch.to_pylist():
                    key, value = row["key"], row["value"]
                    mark = (topic, key and key[:2], value and (value[:3], len(value)))
                    if mark not in seen:
                        seen.add(mark)
                        yield topic, key, value


def walk(fields: tuple[Field, ...]) -> Iterator[Field]:
    """Yield the fields that have no others."""
    for each in fields:
        yield from walk(each.children) if each.children else (each,)


def scalars(value: Any) -> list[Any]:
    """All values of decoded JSON, in order; null and empty ones, of which there are no fields, are left out."""
    if isinstance(value, dict):
        return [each for inner in value.values() for each in scalars(inner)]
    if isinstance(value, list):
        return [each for inner in value for each in scalars(inner)]
    return [] if value in (None, "") else [value]


def values(fields: tuple[Field, ...]) -> list[Any]:
    """The same of fields: without lengths, versions, types and tags."""
    found: list[Any] = []
    for each in fields:
        is_frame = each.name.endswith(("_length", "_present")) or each.name in (
            "version", "type", "frame_version", "tagged_fields", "tag", "size",
        )  # fmt: skip
        if each.children:
            found += values(each.children)
        elif not is_frame:
            found.append(b64encode(each.value).decode() if isinstance(each.value, bytes) else each.value)
    return found


def test_what_a_broker_wrote_has_a_field_for_each_value() -> None:
    compared = 0
    for topic, key, value in internal_records():
        decoded = decode_record(topic, key, value)
        for data, fill, said in (
            (key, take_internal_key(topic), decoded.key),
            (value, take_internal_value(topic, key), decoded.payload),
        ):
            if not data or fill is None:
                continue
            fields = build(data, 0, fill, FieldBudget())
            check_tiles(fields, 0, len(data), data)
            assert not list(problems(fields))
            if decoded.type != "GROUP_METADATA" and said is not None:  # which has messages within messages
                ours = sorted(map(repr, values(fields)))
                assert ours == sorted(map(repr, scalars(said["data"])))
                compared += 1
    assert compared > 60


def test_whatever_is_changed_in_them_nothing_is_raised_and_what_is_refused_is_not_as_expected() -> None:
    chance = random.Random(5)
    refused = 0
    for topic, key, value in internal_records():
        for _ in range(4):
            data = bytearray(value or b"\0")
            data[chance.randrange(len(data))] = chance.randrange(256)
            del data[chance.randint(0, len(data)) or len(data) :]
            fill = take_internal_value(topic, key)
            if fill is not None and data:
                fields = build(bytes(data), 0, fill, FieldBudget())
                check_tiles(fields, 0, len(data), bytes(data))
                if decode_record(topic, key, bytes(data)).problem is not None:
                    assert list(problems(fields)) or fields[-1].note.startswith("after the message")
                    refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    ("type_id", "epoch"), [(0, {"stateEpoch": 1, "createTimestamp": 5, "writeTimestamp": 5}), (1, {})]
)
def test_states_of_records_in_share_groups_have_kafkas_names(type_id: int, epoch: dict[str, int]) -> None:
    states = [*range(len(DELIVERY_STATES)), 99, -1]
    spans = [{"firstOffset": at, "lastOffset": at, "deliveryState": at, "deliveryCount": 1} for at in states]
    value: dict[str, Any] = {"snapshotEpoch": 1, "leaderEpoch": 2, "startOffset": 0, "stateBatches": spans, **epoch}
    data = bytes(2) + encode(layouts_of(SHARE_GROUP_STATE).values[type_id], 0, value)
    fill = take_internal_value(SHARE_GROUP_STATE, type_id.to_bytes(2, "big"))
    assert fill is not None
    found = [each for each in walk(build(data, 0, fill, FieldBudget())) if each.name == "deliveryState"]
    assert [(each.value, each.note) for each in found] == list(zip(states, (*DELIVERY_STATES, "", ""), strict=True))


VOTERS = {
    "version": 0,
    "voters": [
        {
            "voterId": 1,
            "voterDirectoryId": "AAAAAAAAAAAAAAAAAAAAAQ",
            "endpoints": [{"name": "CONTROLLER", "host": "localhost", "port": 9093}],
            "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
        }
    ],
}


def test_the_values_of_control_records_are_those_that_are_decoded() -> None:
    data = encode_data(KRAFT_VOTERS, VOTERS)
    fields = build(data, 0, lambda builder: take_message(builder, MESSAGES[KRAFT_VOTERS], 0), FieldBudget())
    check_tiles(fields, 0, len(data), data)
    assert values(fields) == scalars(VOTERS)[1:]  # without the version
    for end in range(1, len(data)):
        cut = build(data[:end], 0, lambda builder: take_message(builder, MESSAGES[KRAFT_VOTERS], 0), FieldBudget())
        check_tiles(cut, 0, end, data[:end])
        assert list(problems(cut))
