"""Fields of Kafka's messages: of records of its own topics, and of control records.

What is decoded, and where it is refused, is as in ``internals/records.py`` and ``format/messages/reader.py``, which
return values without their places; a test compares the two.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from brokerless.explanation.builder import FieldBuilder, Said
from brokerless.format.messages.layouts import LARGEST_STRING, Message, MessageField
from brokerless.format.messages.reader import MOST_ELEMENTS, Cursor, UnreadableMessageError
from brokerless.internals.messages import messages
from brokerless.internals.records import type_name
from brokerless.kafka_names import DELIVERY_STATES
from brokerless.log.names import CLUSTER_METADATA, REMOTE_LOG_METADATA
from brokerless.text import java_text

_FIXED: dict[str, np.dtype[Any]] = {
    "int8": np.dtype("i1"),
    "int16": np.dtype(">i2"),
    "uint16": np.dtype(">u2"),
    "int32": np.dtype(">i4"),
    "uint32": np.dtype(">u4"),
    "int64": np.dtype(">i8"),
}
_INT8, _INT16, _INT32 = np.dtype("i1"), np.dtype(">i2"), np.dtype(">i4")
_SIZES = {"bool": 1, "float64": 8, "uuid": 16}
_CODES = {"deliveryState": DELIVERY_STATES}
"""Fields whose numbers have names, and these."""
_FRAMED = (CLUSTER_METADATA, REMOTE_LOG_METADATA)
"""Topics whose records have no key, and values that begin with a frame (KIP-631)."""

Fill = Callable[[FieldBuilder], None]


def take_internal_key(topic: str) -> Fill | None:
    """Return what takes the key of a topic's record; None where keys are bytes."""
    return None if topic in _FRAMED else lambda builder: _take_key(builder, topic)


def take_internal_value(topic: str, key: bytes | None) -> Fill | None:
    """Return what takes the value of the record with this key; None where nothing is known of it."""
    if topic in _FRAMED:
        return lambda builder: _take_framed(builder, topic)
    try:
        layout = messages(topic).values.get(Cursor(key or b"").integer(2))
    except UnreadableMessageError:
        return None
    return None if layout is None else lambda builder: _take_value(builder, layout)


def _take_key(builder: FieldBuilder, topic: str) -> None:
    known = messages(topic).keys
    type_id = builder.take_number(
        "type", _INT16, lambda value: Said(type_name(known[value].name.removesuffix("Key")) if value in known else "")
    )
    if type_id not in known:
        builder.expect(f"a record type that is known: {', '.join(map(str, sorted(known)))}")
    _take_message(builder, known[type_id], 0)


def _take_value(builder: FieldBuilder, layout: Message) -> None:
    version = builder.take_number("version", _INT16, lambda _: Said(f"of {layout.name}"))
    _take_message(builder, layout, version)


def _take_framed(builder: FieldBuilder, topic: str) -> None:
    known = messages(topic).values
    frame = builder.take_unsigned("frame_version", lambda _: "")
    if frame != 1:
        builder.expect("frame version 1")
    type_id = builder.take_unsigned("type", lambda value: type_name(known[value].name) if value in known else "")
    if type_id not in known:
        builder.expect("a record type that is known")
    version = builder.take_unsigned("version", lambda _: f"of {known[type_id].name}")
    _take_message(builder, known[type_id], version)


def _take_message(builder: FieldBuilder, layout: Message, version: int) -> None:
    if version not in layout.versions:
        builder.expect(f"a version of {layout.name} that is known: {layout.versions[0]} to {layout.versions[-1]}")
    take_message(builder, layout, version)
    if builder.left:
        builder.take_rest("after the message's fields")


def take_message(builder: FieldBuilder, layout: Message, version: int) -> None:
    """Take the fields of a message of a known version, and nothing after them."""
    _MessageFields(builder, version, version in layout.flexible).take(layout.fields)


class _MessageFields:
    """Takes the fields of one message. ``left``: array elements that there may still be."""

    def __init__(self, builder: FieldBuilder, version: int, flexible: bool) -> None:
        self._builder, self._version, self._flexible = builder, version, flexible
        self._left = MOST_ELEMENTS

    def take(self, fields: Sequence[MessageField]) -> None:
        """Takes the fields of a structure that this version has."""
        there = [each for each in fields if self._version in each.versions]
        for each in there:
            if self._version not in each.tagged:
                self._take_field(each)
        if not self._flexible:
            return
        tagged = {each.tag: each for each in there if self._version in each.tagged}
        builder = self._builder
        count = builder.take_unsigned("tagged_fields", lambda count: "how many follow" if count else "none")
        for index in range(count if count < 1 << 31 else 0):  # a negative number of them, to Kafka
            with builder.group(f"tagged_field[{index}]"):
                tag = builder.take_unsigned("tag", lambda tag: tagged[tag].name if tag in tagged else "unknown")
                size = builder.take_unsigned("size", lambda _: "bytes of it")
                if tag in tagged:
                    self._take_field(tagged[tag])
                else:
                    builder.take_bytes("data", size, "unknown; Kafka skips it")

    def _take_field(self, field: MessageField) -> None:
        builder, nullable = self._builder, self._version in field.nullable
        is_tagged = self._version in field.tagged
        if field.type == "struct":
            if nullable and self._is_null(field.name, is_tagged):
                return
            with builder.group(field.name):
                self.take(field.fields)
        elif field.type.startswith("[]"):
            self._take_array(field, nullable)
        elif field.type in ("string", "bytes"):
            self._take_variable(field.name, field.name, field.type, nullable)
        else:
            self._take_fixed(field.name, field.type)

    def _is_null(self, name: str, is_tagged: bool) -> bool:
        note = f"{name} is null"
        if is_tagged:
            return self._builder.take_unsigned(f"{name}_present", lambda value: "" if value else note) == 0
        return self._builder.take_number(f"{name}_present", _INT8, lambda value: Said(note if value < 0 else "")) < 0

    def _take_array(self, field: MessageField, nullable: bool) -> None:
        count = self._take_length(field.name, _INT32, nullable, "elements")
        self._left -= max(0, count)
        if count > self._builder.left or self._left < 0:
            self._builder.expect(f"at most {self._builder.left} elements of {field.name}")
        of = field.type[2:]
        for index in range(count):
            name = f"{field.name}[{index}]"
            if of == "struct":
                with self._builder.group(name):
                    self.take(field.fields)
            elif of in ("string", "bytes"):
                self._take_variable(name, field.name, of, False)
            else:
                self._take_fixed(name, of)

    def _take_variable(self, name: str, of: str, type_: str, nullable: bool) -> None:
        builder = self._builder
        size = self._take_length(name, _INT16 if type_ == "string" else _INT32, nullable, "bytes")
        if size > builder.left or (type_ == "string" and size > LARGEST_STRING):
            builder.expect(
                f"{of} of at most {min(builder.left, LARGEST_STRING) if type_ == 'string' else builder.left} bytes"
            )
        if size <= 0:
            return
        data = builder.data[builder.at : builder.at + size]
        builder.take(name, size, java_text(data) if type_ == "string" else data)

    def _take_length(self, name: str, type_: np.dtype[Any], nullable: bool, unit: str) -> int:
        """The length of what follows, -1 for null."""
        if self._flexible:
            raw = self._builder.take_unsigned(f"{name}_length", lambda raw: _compact(raw, unit))
            length = (raw if raw < 1 << 31 else raw - (1 << 32)) - 1
        else:
            length = self._builder.take_number(
                f"{name}_length", type_, lambda value: Said("null" if value < 0 else unit)
            )
        if length < 0 and not nullable:
            self._builder.expect(f"{name} that is not null")
        return length

    def _take_fixed(self, name: str, type_: str) -> None:
        builder = self._builder
        if type_ in _FIXED:
            codes = _CODES.get(name, ())
            builder.take_number(
                name, _FIXED[type_], lambda value: Said(codes[value] if 0 <= value < len(codes) else "")
            )
            return
        size = _SIZES[type_]
        if builder.left < size:
            builder.expect(f"{name}, {size} bytes; {builder.left} left")
        data = builder.data[builder.at : builder.at + size]
        if type_ == "bool":
            builder.take(name, size, data != b"\0")
        elif type_ == "uuid":
            builder.take(name, size, urlsafe_b64encode(data).decode().rstrip("="), Said("a UUID in base64"))
        else:
            builder.take(name, size, float(np.frombuffer(data, ">f8")[0]))


def _compact(raw: int, unit: str) -> str:
    return f"{raw - 1} {unit}: one is added, 0 is null" if raw else "null"
