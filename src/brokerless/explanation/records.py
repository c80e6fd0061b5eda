"""Fields of v2 records: each is a varint length and, in so many bytes, varints and bytes.

Where the sense ends is where ``format/read/record_kernels.py`` refuses a record.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from brokerless.bounds import MAX_INT32
from brokerless.explanation.builder import FieldBuilder, Said
from brokerless.explanation.contents import ContentTypes
from brokerless.explanation.meanings import time_of
from brokerless.explanation.varints import read_varint

_ATTRIBUTES = np.dtype("i1")


@dataclass(frozen=True, slots=True)
class RecordRange:
    """The records of a batch that are explained."""

    offset: int | None = None
    """The first of them, if it is set."""
    limit: int | None = None
    """How many there are at most, None for all."""


@dataclass(frozen=True, slots=True)
class RecordsHeader:
    """The part of a batch's header that is about its records."""

    count: int
    base_offset: int
    base_timestamp: int
    max_timestamp: int
    is_append_time: bool
    """Whether ``max_timestamp`` is that of all records."""
    base_sequence: int


def take_records(builder: FieldBuilder, header: RecordsHeader, contents: ContentTypes, chosen: RecordRange) -> None:
    """Takes all records: the chosen ones field by field, others as one field before and one after."""
    if header.count < 0:
        builder.expect("a count of 0 or more records")
    if not header.count:
        builder.take_rest("no records are declared, so nothing of this is read")
        return
    first = 0 if chosen.offset is None else _skip(builder, header, chosen.offset)
    end = header.count if chosen.limit is None else min(header.count, first + chosen.limit)
    for index in range(first, end):
        with builder.group(f"record[{index}]") as record:
            record.note = f"offset {_take_record(builder, header, contents)}"
    if end < header.count:
        builder.take_rest(f"not shown: {header.count - end} more", name="records")
    elif builder.left:
        builder.expect(f"the end of the batch, as it has {header.count} records")


def _skip(builder: FieldBuilder, header: RecordsHeader, offset: int) -> int:
    """Takes the records before an offset as one field; returns how many they are."""
    at, skipped = builder.at, 0
    while skipped < header.count - 1:
        length = read_varint(builder.data, at, len(builder.data))
        if isinstance(length, str) or length.value < 0:
            break
        body = at + length.length
        timestamp = read_varint(builder.data, body + 1, len(builder.data), 64)
        delta = timestamp if isinstance(timestamp, str) else read_varint(
            builder.data, body + 1 + timestamp.length, len(builder.data)
        )  # fmt: skip
        if isinstance(delta, str) or body + length.value > len(builder.data):
            break
        if header.base_offset + delta.value >= offset:
            break
        at, skipped = body + length.value, skipped + 1
    if skipped:
        builder.take("records", at - builder.at, None, Said(f"not shown: {skipped} before offset {offset}"))
    return skipped


def _take_record(builder: FieldBuilder, header: RecordsHeader, contents: ContentTypes) -> int:
    """Takes one record, and returns its offset."""
    length = builder.take_varint("length", lambda value: "bytes of the record that follow")
    if length > builder.left:
        builder.expect(f"{length} bytes of a record; {builder.left} left")
    start, end = builder.at, builder.at + length
    builder.take_number("attributes", _ATTRIBUTES, lambda _: Said("unused"))
    builder.take_varint("timestamp_delta", lambda delta: _timestamp(header, delta), 64)
    delta = builder.take_varint("offset_delta", lambda delta: _offset(header, delta))
    key_length = _take_length(builder, "key_length", end)
    key = contents.take_key(builder, key_length) if key_length >= 0 else None
    value_length = _take_length(builder, "value_length", end)
    if value_length >= 0:
        contents.take_value(builder, value_length, key)
    headers = builder.take_varint("header_count", lambda count: "headers that follow" if count else "")
    if not 0 <= headers <= builder.left >> 1:
        builder.expect(f"a header count from 0 to {builder.left >> 1}, as a header takes two bytes or more")
    for index in range(headers):
        with builder.group(f"header[{index}]"):
            _take_header(builder, end)
    if builder.at - start != length:
        builder.expect(f"a record of {length} bytes, as its length says; its fields take {builder.at - start}")
    return header.base_offset + delta


def _take_header(builder: FieldBuilder, end: int) -> None:
    key_length = _take_length(builder, "key_length", end)
    if key_length < 0:
        builder.expect("a header key that is not null")
    builder.take_bytes("key", key_length)
    value_length = _take_length(builder, "value_length", end)
    if value_length > 0:
        builder.take_bytes("value", value_length)


def _take_length(builder: FieldBuilder, name: str, end: int) -> int:
    """A key's or value's length, which ends before the record does."""
    length = builder.take_varint(name, lambda value: "null" if value < 0 else "")
    if length > end - builder.at:
        builder.expect(f"a {name} of at most {max(0, end - builder.at)}, up to the record's end")
    return length


def _timestamp(header: RecordsHeader, delta: int) -> str:
    if header.is_append_time:
        return f"not used, the record's is max_timestamp (LogAppendTime): {time_of(header.max_timestamp)}"
    timestamp = _int64(header.base_timestamp + delta)
    return f"base_timestamp {'-' if delta < 0 else '+'} {abs(delta)} = {timestamp}, {time_of(timestamp)}"


def _offset(header: RecordsHeader, delta: int) -> str:
    note = f"base_offset {header.base_offset} + {delta} = offset {header.base_offset + delta}"
    if header.base_sequence < 0:
        return note
    sequence = header.base_sequence + delta
    return f"{note}; sequence {sequence if sequence <= MAX_INT32 else sequence - MAX_INT32 - 1}"


def _int64(number: int) -> int:
    """Return a number as Java's 64-bit arithmetic wraps it around."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
