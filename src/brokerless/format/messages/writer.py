"""Encodes messages from plain values: the inverse of :mod:`brokerless.format.messages.reader`.

A message becomes pieces: bytes, and whatever else with a length ``records`` have, such as ranges of files that are sent
without being read. One writer is compiled for each message and version, and takes values unchanged: those that people
wrote are checked before (:mod:`brokerless.format.messages.checks`).
"""

from __future__ import annotations

import struct
import sys
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

from brokerless.format.messages.checks import check_values
from brokerless.format.messages.layouts import Message, MessageField
from brokerless.format.plain_varint import encode_unsigned

_FORMATS = {
    "bool": ">?",
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
}


class TooLargeError(Exception):
    """A message of more bytes than it may have."""


@dataclass(slots=True)
class Out:
    """The pieces of a message that is being written."""

    most: int
    """Bytes that a message may have, without pieces that are no bytes."""
    data: bytearray = field(default_factory=bytearray)
    """The bytes after the last of the ``pieces``."""
    pieces: list[Sized] = field(default_factory=list[Sized])

    def add(self, piece: Sized) -> None:
        if isinstance(piece, bytes):
            self.data += piece
        else:
            self.pieces += [bytes(self.data), piece]
            self.data.clear()

    def check(self) -> None:
        """Raise :class:`TooLargeError` where the last piece alone is too large."""
        if len(self.data) > self.most:
            raise TooLargeError

    def all(self) -> list[Sized]:
        return [*self.pieces, bytes(self.data)]


Write = Callable[[Out, Any], None]


def encode(message: Message, version: int, data: dict[str, Any]) -> bytes:
    """Return the bytes of a message, as Kafka's generated writer makes them. Raises :class:`UsageError` for an unknown
    version and for values that do not fit, with the place in the message."""
    check_values(message, version, data)
    out = Out(sys.maxsize)
    _writer(message, version)(out, data)
    return bytes(out.data)


def encode_pieces(message: Message, version: int, values: dict[str, Any], most: int) -> list[Sized]:
    """Return the pieces of a message that is known to fit. A field that is not given has its default, and one that the
    version does not have is left out; an array may be an iterator. ``records`` are a list of pieces. Raises
    :class:`TooLargeError` for more than ``most`` bytes."""
    out = Out(most)
    _writer(message, version)(out, values)
    return out.all()


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
        out.data += encode_unsigned(len(given))
        for tag, name, _, write_field in given:
            inner = Out(out.most)
            write_field(inner, values[name])
            out.data += encode_unsigned(tag) + encode_unsigned(len(inner.data)) + inner.data

    return write


def _value(field: MessageField, version: int, flexible: bool) -> Write:
    """Writes one field. A tagged one is always in the flexible form."""
    if field.type == "struct":
        struct_ = _struct(field.fields, version, flexible)
        if version not in field.nullable:
            return struct_
        none = b"\0" if version in field.tagged else b"\xff"

        def write_nullable(out: Out, value: Any) -> None:
            out.data += none if value is None else b"\1"
            if value is not None:
                struct_(out, value)

        return write_nullable
    if not field.type.startswith("[]"):
        return _plain(field.type, flexible)
    of = field.type[2:]
    element = _struct(field.fields, version, flexible) if of == "struct" else _plain(of, flexible)
    length = _length(4, flexible)

    def write_array(out: Out, value: Any) -> None:
        if isinstance(value, Iterator):  # whose elements are made one after the other
            inner, count = Out(out.most), 0
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


def _plain(type_: str, flexible: bool) -> Write:
    match type_:
        case "string":
            return _variable(_length(2, flexible), lambda value: value.encode(errors="replace"))
        case "bytes":
            return _variable(_length(4, flexible), b64decode)
        case "records":
            return _records(_length(4, flexible))
        case "uuid":
            return _fixed(lambda value: urlsafe_b64decode(f"{value}=="))
        case "float64":
            return _fixed(lambda value: struct.pack(">d", float(value)))  # also of ``NaN`` and ``Infinity``
        case _:
            return _fixed(struct.Struct(_FORMATS[type_]).pack)


def _fixed(to_bytes: Callable[[Any], bytes]) -> Write:
    def write(out: Out, value: Any) -> None:
        out.data += to_bytes(value)

    return write


def _variable(length: Callable[[int | None], bytes], to_bytes: Callable[[Any], bytes]) -> Write:
    def write(out: Out, value: Any) -> None:
        data = None if value is None else to_bytes(value)
        out.data += length(None if data is None else len(data))
        out.data += data or b""

    return write


def _records(length: Callable[[int | None], bytes]) -> Write:
    def write(out: Out, value: Any) -> None:
        out.data += length(None if value is None else sum(map(len, value)))
        for piece in value or ():
            out.add(piece)

    return write


def _length(size: int, flexible: bool) -> Callable[[int | None], bytes]:
    if flexible:
        return lambda length: encode_unsigned(0 if length is None else length + 1)
    pack = struct.Struct(">h" if size == 2 else ">i").pack
    return lambda length: pack(-1 if length is None else length)
