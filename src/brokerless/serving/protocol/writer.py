"""Encodes responses from plain values, as pieces: bytes, and ranges of files that are sent without being read here.

Values are those of :mod:`brokerless.internals.messages`. A field that is not given has its default, and one that a
version does not have is left out. ``records`` are a list of pieces.
"""

from __future__ import annotations

import struct
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

from brokerless.internals.message_encoder import unsigned_varint
from brokerless.internals.messages import Message, MessageField
from brokerless.log.directory import SegmentPaths


@dataclass(frozen=True, slots=True)
class FileRange:
    """``length`` bytes from ``position`` on in the log of a segment. ``is_last``: it may have grown meanwhile."""

    segment: SegmentPaths
    is_last: bool
    position: int
    length: int

    def __len__(self) -> int:
        return self.length


Piece = bytes | FileRange
LARGEST_ANSWER = 64 << 20
"""Bytes of a response, without ranges of files."""
_SHORT = 200
_NESTED = 4
"""How many elements, and in how many levels, a response has that takes no time to be encoded."""


class TooLargeError(Exception):
    """A response of more than :data:`LARGEST_ANSWER` bytes."""


def in_memory(pieces: Iterable[Piece]) -> int:
    """Return the bytes of pieces that are not in files."""
    return sum(len(each) for each in pieces if not isinstance(each, FileRange))


def is_short(values: Any) -> bool:
    """Return whether a response is encoded in no time."""
    return _count(values, _SHORT, _NESTED) <= _SHORT


def _count(value: Any, most: int, nested: int) -> int:
    """Count the elements of all arrays in a value, up to a few more than ``most``."""
    if isinstance(value, dict):
        fields: list[Any] = list(cast("dict[str, Any]", value).values())
        count = 0
    elif isinstance(value, list):
        fields = cast("list[Any]", value)
        count = len(fields)
    else:
        return most + 1 if isinstance(value, Iterator) else 0
    for each in fields:
        if count > most or not nested:
            break
        if isinstance(each, dict | list | Iterator):
            count += _count(each, most - count, nested - (not isinstance(value, dict)))
    return count


@dataclass(slots=True)
class Out:
    """``data`` are the bytes after the last of the ``pieces``."""

    data: bytearray = field(default_factory=bytearray)
    pieces: list[Piece] = field(default_factory=list[Piece])

    def add(self, piece: Piece) -> None:
        if isinstance(piece, FileRange):
            self.pieces += [bytes(self.data), piece]
            self.data.clear()
        else:
            self.data += piece

    def check(self) -> None:
        """Raise :class:`TooLargeError` where the last piece alone is too large."""
        if len(self.data) > LARGEST_ANSWER:
            raise TooLargeError

    def all(self) -> list[Piece]:
        return [*self.pieces, bytes(self.data)]


Write = Callable[[Out, Any], None]


def encode(message: Message, version: int, values: dict[str, Any]) -> list[Piece]:
    """The pieces of a message."""
    out = Out()
    _writer(message, version)(out, values)
    return out.all()


def response_head(correlation_id: int, is_flexible: bool) -> bytes:
    """The head of a response: of version 1 where ``is_flexible``, else of version 0."""
    return struct.pack(">i", correlation_id) + (b"\0" if is_flexible else b"")


@cache
def _writer(message: Message, version: int) -> Write:
    return _struct(message.fields, version, version in message.flexible)


def _struct(fields: tuple[MessageField, ...], version: int, flexible: bool) -> Write:
    there = [each for each in fields if version in each.versions]
    plain = [(each.name, each.default, _value(each, version, flexible)) for each in there if version not in each.tagged]
    tagged = sorted(
        (each.tag or 0, each.name, each.default, _value(each, version, True))
        for each in there
        if version in each.tagged
    )

    def write(out: Out, values: dict[str, Any]) -> None:
        for name, default, write_field in plain:
            write_field(out, values.get(name, default))
        if not flexible:
            return
        given = [each for each in tagged if values.get(each[1], each[2]) != each[2]]
        out.data += unsigned_varint(len(given))
        for tag, name, _, write_field in given:
            inner = Out()
            write_field(inner, values[name])
            out.data += unsigned_varint(tag) + unsigned_varint(len(inner.data)) + inner.data

    return write


def _value(field: MessageField, version: int, flexible: bool) -> Write:
    """Writes one field. A tagged one is always in the flexible form."""
    if field.type == "struct":
        struct_ = _struct(field.fields, version, flexible)
        if version not in field.nullable:
            return struct_
        none, there = (b"\0", b"\1") if version in field.tagged else (b"\xff", b"\1")

        def write_nullable(out: Out, value: Any) -> None:
            out.data += none if value is None else there
            if value is not None:
                struct_(out, value)

        return write_nullable
    if field.type.startswith("[]"):
        of = field.type[2:]
        element = _struct(field.fields, version, flexible) if of == "struct" else _plain(of, flexible)
        length = _length(4, flexible)

        def write_array(out: Out, value: Any) -> None:
            if isinstance(value, Iterator):  # whose elements are made one after the other
                inner, count = Out(), 0
                for each in cast("Iterator[Any]", value):
                    element(inner, each)
                    count += 1
                    inner.check()
                out.data += length(count)
                for piece in inner.all():
                    out.add(piece)
            else:
                out.data += length(None if value is None else len(value))
                for each in value or ():
                    element(out, each)
            out.check()

        return write_array
    return _plain(field.type, flexible)


def _plain(type_: str, flexible: bool) -> Write:
    if type_ in ("string", "bytes"):
        length, to_bytes = _length(2 if type_ == "string" else 4, flexible), _text if type_ == "string" else b64decode

        def write_variable(out: Out, value: Any) -> None:
            data = None if value is None else to_bytes(value)
            out.data += length(None if data is None else len(data))
            out.data += data or b""

        return write_variable
    if type_ == "records":
        length_of_records = _length(4, flexible)

        def write_records(out: Out, value: Any) -> None:
            out.data += length_of_records(None if value is None else sum(map(len, value)))
            for piece in value or ():
                out.add(piece)

        return write_records
    if type_ == "uuid":

        def write_uuid(out: Out, value: Any) -> None:
            out.data += urlsafe_b64decode(f"{value}==")

        return write_uuid
    pack = struct.Struct(_FORMATS[type_]).pack

    def write(out: Out, value: Any) -> None:
        out.data += pack(value)

    return write


def _length(size: int, flexible: bool) -> Callable[[int | None], bytes]:
    if flexible:
        return lambda length: unsigned_varint(0 if length is None else length + 1)
    pack = struct.Struct(">h" if size == 2 else ">i").pack
    return lambda length: pack(-1 if length is None else length)


def _text(value: str) -> bytes:
    return value.encode(errors="replace")


_FORMATS = {
    "bool": ">?",
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "float64": ">d",
}
