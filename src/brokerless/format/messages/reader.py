"""Decodes messages into plain values, by the names of Kafka's JSON.

Bytes are claims here: nothing is allocated by a count before there are bytes to back it, and a message of more than
``MOST_ELEMENTS`` array elements is refused.
"""

from __future__ import annotations

import math
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from functools import cache
from typing import Any

from brokerless.format.messages.layouts import LARGEST_STRING, Message, MessageField
from brokerless.text import java_text

MOST_ELEMENTS = 1 << 20
"""Elements of all arrays of one message together; a Python object is some hundred times the byte that claims it."""


class UnreadableMessageError(Exception):
    """Bytes that are no such message; the text says why. Whoever decodes catches it: users never see it."""


def decode(
    message: Message, version: int, data: bytes, at: int = 0, most_elements: int = MOST_ELEMENTS
) -> tuple[dict[str, Any], int]:
    """Return the fields of a message that begins at ``at``, and the position after it. ``most_elements``: of all its
    arrays.

    Raises :class:`UnreadableMessageError` for an unknown version, and where Kafka's generated reader throws.
    """
    if version not in message.versions:
        known = f"{message.versions[0]} to {message.versions[-1]}"
        raise UnreadableMessageError(f"{message.name} of version {version}; known are {known}")
    cursor = Cursor(data, at, most_elements)
    return _reader(message, version)(cursor), cursor.at


class Cursor:
    """A place in bytes that moves as they are read. ``left``: how many array elements there may still be."""

    __slots__ = ("at", "data", "left")

    def __init__(self, data: bytes, at: int = 0, most_elements: int = MOST_ELEMENTS) -> None:
        self.data = data
        self.at = at
        self.left = most_elements

    def take(self, size: int) -> bytes:
        start, end = self.at, self.at + size
        if size < 0 or end > len(self.data):
            raise UnreadableMessageError(f"{size} bytes at {start}, where only {len(self.data) - start} are left")
        self.at = end
        return self.data[start:end]

    def integer(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def text(self, size: int) -> str:
        """Return a text after its length, an integer of ``size`` bytes."""
        return java_text(self.take(self.integer(size)))

    def unsigned(self) -> int:
        """Return an unsigned varint of at most 5 bytes, as the int32 that Kafka makes of it (``ByteUtils``)."""
        if self.at < len(self.data) and self.data[self.at] < 128:  # as nearly all are
            self.at += 1
            return self.data[self.at - 1]
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                value &= 0xFFFFFFFF
                return value - (1 << 32) if value >> 31 else value
        raise UnreadableMessageError(f"a varint of more than 5 bytes before {self.at}")


ReadField = Callable[[Cursor], Any]


@cache
def _reader(message: Message, version: int) -> ReadField:
    return _struct(message.fields, version, version in message.flexible)


def _struct(fields: tuple[MessageField, ...], version: int, flexible: bool) -> ReadField:
    there = [each for each in fields if version in each.versions]
    plain = [(each.name, _value(each, version, flexible)) for each in there if version not in each.tagged]
    tagged = {each.tag: each for each in there if version in each.tagged}
    tagged_reads = {tag: _value(each, version, True) for tag, each in tagged.items()}
    elsewhere = {each.tag for each in fields if each.tag is not None} - tagged.keys()
    order = [each.name for each in there]

    def read(cursor: Cursor) -> dict[str, Any]:
        found = {name: read_field(cursor) for name, read_field in plain}
        if not flexible:
            return found
        for _ in range(cursor.unsigned()):
            tag, size = cursor.unsigned(), cursor.unsigned()
            if tag in elsewhere:
                raise UnreadableMessageError(f"tag {tag}, which version {version} has not")
            field = tagged.get(tag)
            if field is None:
                cursor.take(size)
                continue
            value = tagged_reads[tag](cursor)  # as Kafka does, whatever the size says
            found[field.name] = value
            if value == field.default:
                del found[field.name]
        return found if len(found) == len(plain) else {name: found[name] for name in order if name in found}

    return read


def _value(field: MessageField, version: int, flexible: bool) -> ReadField:
    """Reads one field. A tagged one is always in the flexible form."""
    nullable = version in field.nullable
    if field.type == "struct":
        struct = _struct(field.fields, version, flexible)
        if not nullable:
            return struct
        is_tagged = version in field.tagged

        def read_nullable(cursor: Cursor) -> Any:
            null = cursor.unsigned() <= 0 if is_tagged else cursor.integer(1) < 0
            return None if null else struct(cursor)

        return read_nullable
    if field.type.startswith("[]"):
        return _array(field, version, flexible, nullable)
    if field.type in ("string", "bytes", "records"):
        return _variable(field.name, field.type, flexible, nullable)
    return _FIXED[field.type]


def _array(field: MessageField, version: int, flexible: bool, nullable: bool) -> ReadField:
    of = field.type[2:]
    if of == "struct":
        element = _struct(field.fields, version, flexible)
    elif of in ("string", "bytes"):
        element = _variable(field.name, of, flexible, False)
    else:
        element = _FIXED[of]
    length = _length(field.name, 4, flexible, nullable)

    def read(cursor: Cursor) -> list[Any] | None:
        count = length(cursor)
        if count < 0:
            return None
        cursor.left -= count
        if count > len(cursor.data) - cursor.at or cursor.left < 0:
            raise UnreadableMessageError(f"{count} elements of {field.name}, more than there can be")
        return [element(cursor) for _ in range(count)]

    return read


def _variable(name: str, type_: str, flexible: bool, nullable: bool) -> ReadField:
    is_text = type_ == "string"
    length = _length(name, 2 if is_text else 4, flexible, nullable)

    def read(cursor: Cursor) -> str | bytes | None:
        size = length(cursor)
        if size < 0:
            return None
        if is_text and size > LARGEST_STRING:
            raise UnreadableMessageError(f"{name} has {size} bytes, and a string has at most {LARGEST_STRING}")
        data = cursor.take(size)
        if type_ == "records":
            return data
        return java_text(data) if is_text else b64encode(data).decode()

    return read


def _length(name: str, size: int, flexible: bool, nullable: bool) -> Callable[[Cursor], int]:
    plain = _integer(size)

    def read(cursor: Cursor) -> int:
        length = cursor.unsigned() - 1 if flexible else plain(cursor)
        if length < 0 and not nullable:
            raise UnreadableMessageError(f"{name} is null, which it cannot be")
        return length

    return read


def _integer(size: int, signed: bool = True) -> ReadField:
    def read(cursor: Cursor) -> int:
        start = cursor.at
        end = cursor.at = start + size
        if end > len(cursor.data):
            raise UnreadableMessageError(f"{size} bytes at {start}, where only {len(cursor.data) - start} are left")
        return int.from_bytes(cursor.data[start:end], "big", signed=signed)

    return read


def _float64(cursor: Cursor) -> float | str:
    """A number, or its name where JSON has no number for it."""
    import numpy as np

    value = float(np.frombuffer(cursor.take(8), ">f8")[0])
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def _uuid(cursor: Cursor) -> str:
    return urlsafe_b64encode(cursor.take(16)).decode().rstrip("=")


_FIXED: dict[str, ReadField] = {
    "bool": lambda cursor: cursor.take(1) != b"\0",
    "int8": _integer(1),
    "int16": _integer(2),
    "uint16": _integer(2, signed=False),
    "int32": _integer(4),
    "uint32": _integer(4, signed=False),
    "int64": _integer(8),
    "float64": _float64,
    "uuid": _uuid,
}
