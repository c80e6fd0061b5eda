"""No bytes do harm; what messages say is compared with Kafka in ``tests/internals`` and ``tests/serving``."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from brokerless.format.messages.reader import MOST_ELEMENTS, UnreadableMessageError, decode
from brokerless.internals.messages import message
from brokerless.internals.records import TOPICS, decode_record

BYTES = st.binary(max_size=60)
TYPED = st.builds(lambda type_, rest: bytes([0, type_]) + rest, st.integers(0, 24), BYTES)
VERSION = st.integers(0, 3)
FRAMED = st.builds(lambda type_, version, rest: bytes([1, type_, version]) + rest, st.integers(0, 29), VERSION, BYTES)


@given(st.sampled_from(TOPICS), st.none() | BYTES | TYPED, st.none() | BYTES | TYPED | FRAMED)
@example("__cluster_metadata", None, b"\x01\x05\x02" + b"\xff" * 40)
def test_any_bytes_are_a_record_or_a_problem(topic: str, key: bytes | None, value: bytes | None) -> None:
    record = decode_record(topic, key, value)
    assert (record.problem is None) == (record.payload is not None or (value is None and record.key is not None))
    json.dumps([record.key, record.payload], allow_nan=False)


def array_of(count: int, element: bytes) -> bytes:
    """A target assignment of ``count`` topics: its version, an array, no tagged fields."""
    size, left = bytearray(), count + 1
    while left > 127:
        size.append(left & 127 | 128)
        left >>= 7
    return b"\0\0" + bytes(size) + bytes([left]) + element * count + b"\0"


def test_a_count_is_not_believed_before_there_are_bytes_for_it() -> None:
    layout = message("ConsumerGroupTargetAssignmentMemberValue")
    huge = b"\0\0\xff\xff\xff\xff\x07" + bytes(100)
    with pytest.raises(UnreadableMessageError, match="more than there can be"):
        decode(layout, 0, huge, 2)


def test_the_elements_of_a_message_are_limited_whatever_its_size() -> None:
    layout = message("ConsumerGroupTargetAssignmentMemberValue")
    topic = bytes(16) + b"\1\0"
    fields, end = decode(layout, 0, array_of(1000, topic), 2)
    assert len(fields["topicPartitions"]) == 1000
    assert end == len(array_of(1000, topic))
    with pytest.raises(UnreadableMessageError, match="more than there can be"):
        decode(layout, 0, array_of(MOST_ELEMENTS + 1, topic), 2)


def test_many_tagged_fields_end_where_the_bytes_end() -> None:
    layout = message("NoOpRecord")
    with pytest.raises(UnreadableMessageError):
        decode(layout, 0, b"\xff\xff\xff\xff\x07" + b"\x05\0" * 1000)
    assert decode(layout, 0, b"\xff\xff\xff\xff\x0f") == ({}, 5), "a negative number of them is none"
