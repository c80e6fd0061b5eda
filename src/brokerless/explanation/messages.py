"""Fields of messages of v0 and v1, and of the messages inside wrappers.

Where the sense ends is where ``format/read/message_kernels.py`` refuses a message.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from brokerless.explanation.builder import FieldBuilder, Said, build
from brokerless.explanation.contents import ContentTypes
from brokerless.explanation.field import Inflated
from brokerless.explanation.meanings import codec_name, describe_entry, expected_codec, layout_of, time_of
from brokerless.explanation.records import RecordRange
from brokerless.format import layouts
from brokerless.format.codecs.decompression import Inflater

_LENGTH = np.dtype(">i4")
_LARGEST = 1 << 30
"""Kafka's reader never gets the memory for an inner message of this size."""


@dataclass(frozen=True, slots=True)
class _Wrapper:
    """A wrapper's facts about the messages inside."""

    magic: int
    offset: int
    last_offset: int
    """The last offset inside, as it is stored."""
    append_time: int | None
    """The timestamp of all messages, in ms; None for CreateTime."""

    @property
    def base(self) -> int:
        """What is added to the offsets inside. A wrapper at offset 0 is one of librdkafka's, which counts from 0."""
        return self.offset - self.last_offset if self.magic == layouts.MAGIC_V1 and self.offset else 0


def take_message(builder: FieldBuilder, topic: str | None, chosen: RecordRange, inflater: Inflater) -> None:
    """Takes a message, or a wrapper message with those inside, which is all that there is in the builder."""
    attributes_at = layouts.position_of(layouts.MESSAGE_V0, "attributes")
    is_wrapper = bool(builder.data[attributes_at : attributes_at + 1] and builder.data[attributes_at] & 7)
    with builder.group("wrapper" if is_wrapper else "message"):
        values, contents = _take_header(builder, None), ContentTypes(False, topic)
        key = _take_key(builder, values, contents)
        if not is_wrapper:
            _take_value(builder, key, contents)
            return
        length = builder.take_number("value_length", _LENGTH, lambda value: Said("bytes of the compressed messages"))
        if values["magic"] < 0:
            builder.expect("a wrapper of magic 0 or 1")
        if length > builder.left:
            builder.expect(f"a value of {length} bytes; {builder.left} left")
        if length < 0:
            builder.expect("a wrapper's value, which is not null")
        if (expected := expected_codec(values["attributes"], values["magic"])) is not None:
            builder.expect(expected)
        _take_wrapped(builder, length, values, contents=contents, chosen=chosen, inflater=inflater)
        builder.take_rest("after the value; Kafka's reader ignores it")


def _take_header(builder: FieldBuilder, wrapper: _Wrapper | None) -> dict[str, int]:
    """The fields up to the key's length."""
    entry = builder.data[builder.at :]
    magic = int.from_bytes(entry[layouts.MAGIC_POSITION : layouts.MAGIC_POSITION + 1], "big", signed=True)
    describe = describe_entry(entry, builder.position, wrapper is not None)

    def said(name: str, values: dict[str, int]) -> Said:
        if wrapper is not None and name == "offset":
            return Said(_inner_offset(wrapper, values["offset"]))
        if wrapper is not None and wrapper.append_time is not None and name == "timestamp":
            return Said(f"not used, the wrapper's is that of all (LogAppendTime): {time_of(wrapper.append_time)}")
        own = describe(name, values)
        if wrapper is not None and name == "crc" and own.expected is not None:
            return Said(f"{own.note}; {own.expected}, does not match, which Kafka's reader does not check")
        return own

    values = builder.take_layout(layout_of(min(magic, layouts.MAGIC_V1)), said)
    if values["size"] < layouts.MESSAGE_V0_OVERHEAD:
        builder.expect(f"a size of {layouts.MESSAGE_V0_OVERHEAD} or more")
    return values


def _inner_offset(wrapper: _Wrapper, offset: int) -> str:
    if wrapper.magic == layouts.MAGIC_V0:
        return "absolute, in v0"
    if not wrapper.offset:
        return "taken as it is stored, as the wrapper's offset is 0"
    return (
        f"relative: {wrapper.offset} of the wrapper - {wrapper.last_offset} of the last one inside + {offset} = "
        f"{wrapper.base + offset}"
    )


def _take_key(builder: FieldBuilder, values: dict[str, int], contents: ContentTypes) -> bytes | None:
    length = values["key_length"]
    if max(0, length) + _LENGTH.itemsize > builder.left:
        builder.expect(f"a key_length of at most {builder.left - _LENGTH.itemsize}, up to the value's length")
    return contents.take_key(builder, length) if length >= 0 else None


def _take_value(builder: FieldBuilder, key: bytes | None, contents: ContentTypes) -> None:
    """The value, and what may follow it within the message."""
    length = builder.take_number(
        "value_length", _LENGTH, lambda value: Said("null" if value < 0 else "bytes of the value")
    )
    if length > builder.left:
        builder.expect(f"a value_length of at most {builder.left}, up to the message's end")
    if length >= 0:
        contents.take_value(builder, length, key)
    builder.take_rest("after the value; Kafka's reader ignores it")


def _take_wrapped(
    builder: FieldBuilder,
    length: int,
    values: dict[str, int],
    contents: ContentTypes,
    chosen: RecordRange,
    inflater: Inflater,
) -> None:
    payload = memoryview(builder.data)[builder.at : builder.at + length]
    start, end, error = inflater.inflate(values["attributes"] & layouts.CODEC_MASK, values["magic"], payload)
    data = inflater.buffer[start:end].tobytes()
    codec = codec_name(values["attributes"])
    fields = build(data, 0, lambda inside: _take_inner(inside, values, contents, chosen), builder.budget)
    expected = None if error is None else f"a payload that decompresses; {error}"
    if not data and error is None:
        expected = "messages inside of the wrapper"
    said = Said(f"{codec}: {length} bytes inflate to {len(data)}", expected)
    if length:
        builder.take("value", length, None, said, Inflated(codec, len(data), fields))
    else:
        builder.expect(expected or "messages inside of the wrapper")


def _take_inner(builder: FieldBuilder, values: dict[str, int], contents: ContentTypes, chosen: RecordRange) -> None:
    """The messages inside. First their sizes: a bad one fails the whole wrapper, and offsets need the last one's."""
    ends, last_offset = _scan(builder)
    is_append = values["magic"] == layouts.MAGIC_V1 and values["attributes"] & layouts.TIMESTAMP_TYPE_BIT
    wrapper = _Wrapper(values["magic"], values["offset"], last_offset, values["timestamp"] if is_append else None)
    if wrapper.base < 0:
        builder.expect(f"a last offset inside of at most {wrapper.offset}, the wrapper's; it is {last_offset}")
    shown, skipped = 0, 0
    for index, end in enumerate(ends):
        offset = wrapper.base + _entry(builder.data, 0 if index == 0 else ends[index - 1])[0]
        if chosen.offset is not None and not shown and offset < chosen.offset and index < len(ends) - 1:
            skipped = index + 1
            continue
        if skipped and not shown:
            said = Said(f"not shown: {skipped} before offset {chosen.offset}")
            builder.take("messages", ends[skipped - 1], None, said)
        if chosen.limit is not None and shown >= chosen.limit:
            said = Said(f"not shown: {len(ends) - index} more")
            builder.take("messages", ends[-1] - builder.at, None, said)
            break
        shown += 1
        _take_one_inner(builder, index, end - builder.at, offset=offset, wrapper=wrapper, contents=contents)
    if builder.left:
        builder.take_rest("a message that is cut off; Kafka's reader ignores it")


def _take_one_inner(
    builder: FieldBuilder, index: int, size: int, offset: int, wrapper: _Wrapper, contents: ContentTypes
) -> None:
    attributes_at = builder.at + layouts.position_of(layouts.MESSAGE_V0, "attributes")
    if builder.data[attributes_at] & layouts.CODEC_MASK:
        builder.expect("a message that is not compressed itself")

    def fill(inside: FieldBuilder) -> None:
        values = _take_header(inside, wrapper)
        key = _take_key(inside, values, contents)
        _take_value(inside, key, contents)

    builder.take_nested(f"message[{index}]", size, fill, f"offset {offset}")


def _scan(builder: FieldBuilder) -> tuple[list[int], int]:
    """Return where the messages inside end, and the last one's offset."""
    at, ends, last_offset = builder.at, list[int](), 0
    while len(builder.data) - at >= layouts.LOG_ENTRY_SIZE:
        offset, size = _entry(builder.data, at)
        if not layouts.MESSAGE_V0_OVERHEAD <= size < _LARGEST:
            builder.expect(f"an inner message's size of {layouts.MESSAGE_V0_OVERHEAD} or more at {at}; it is {size}")
        if size > len(builder.data) - at - layouts.LOG_ENTRY_SIZE:
            break
        last_offset, at = offset, at + layouts.LOG_ENTRY_SIZE + size
        ends.append(at)
    if not ends:
        builder.expect("messages inside of the wrapper")
    return ends, last_offset


def _entry(data: bytes, at: int) -> tuple[int, int]:
    """The offset and size of the message at ``at``."""
    entry = np.frombuffer(data, layouts.LOG_ENTRY, 1, at)[0]
    return int(entry["offset"]), int(entry["size"])
