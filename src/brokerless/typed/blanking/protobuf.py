"""Finds what to change of a Protobuf message, so that some fields are not in it any more.

Every occurrence of a field is removed, whatever its wire type; a field of proto2 that is required becomes the empty
value of its type. Of a map, a path names entries by their keys. All other bytes are unchanged, unknown fields among
them, but for the lengths of messages in which something changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from brokerless.typed.blanking.edits import Edit, Path, inner_paths

_MAX_DEPTH = 100
_VARINT, _FIXED64, _LENGTH, _GROUP, _END_GROUP, _FIXED32 = range(6)
_TYPE_GROUP, _TYPE_MESSAGE = 10, 11  # google.protobuf.descriptor.FieldDescriptor
_WIRE_TYPES = {1: _FIXED64, 2: _FIXED32, 6: _FIXED64, 7: _FIXED32, 9: _LENGTH, _TYPE_GROUP: _GROUP,
               _TYPE_MESSAGE: _LENGTH, 12: _LENGTH, 15: _FIXED32, 16: _FIXED64}  # fmt: skip
_TRANSPARENT = {
    "google.protobuf.Struct": ("fields",),
    "google.protobuf.Value": ("struct_value", "list_value"),
    "google.protobuf.ListValue": ("values",),
}
"""Messages that are JSON: paths name what is in it, not these fields."""


@dataclass(frozen=True, slots=True)
class _Field:
    """One field on the wire: from its tag to its end; ``body``: from where its value begins, without its length."""

    number: int
    wire: int
    start: int
    body: int
    end: int


def protobuf_edits(data: bytes, descriptor: Any, paths: Sequence[Path]) -> list[Edit]:
    """Edits of a message. Raises ValueError for bytes that are none."""
    edits: list[Edit] = []
    _message(data, 0, len(data), descriptor, paths, edits, 0)
    return edits


def _message(
    data: bytes, at: int, end: int, descriptor: Any, paths: Sequence[Path], edits: list[Edit], depth: int
) -> None:
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    names = _TRANSPARENT.get(descriptor.full_name)
    if names is not None:
        paths = [(name, *path) for name in names for path in paths]
    seen: set[int] = set()
    while at < end:
        own = _next(data, at, end, depth)
        at = own.end
        field = descriptor.fields_by_number.get(own.number)
        if field is None:
            continue
        if (field.name,) in paths:
            new = _zero(field, depth) if field.is_required and own.number not in seen else b""
            seen.add(own.number)
            _replace(data, own, field, new, edits)
            continue
        inner = inner_paths(paths, field.name)
        if inner and field.message_type is not None:
            if field.message_type.GetOptions().map_entry:
                _entry(data, own, field, inner, edits, depth)
            else:
                _inside(data, own, field.message_type, inner, edits, depth)


def _replace(data: bytes, own: _Field, field: Any, new: bytes, edits: list[Edit]) -> None:
    if data[own.start : own.end] != new:
        edits.append(Edit(own.start, own.end, new, tuple(_contents(data, own, field, 0))))


def _contents(data: bytes, own: _Field, field: Any, depth: int) -> Iterator[tuple[int, int]]:
    """Where a field's values are, those of messages one by one. ``field``: None if it is not in the schema."""
    message = None if field is None else field.message_type
    if message is None or own.wire not in (_LENGTH, _GROUP) or depth > _MAX_DEPTH:
        if own.body < own.end:
            yield own.body, own.end
        return
    at = own.body
    while at < own.end and (own.wire == _LENGTH or _read_varint(data, at, own.end)[0] & 7 != _END_GROUP):
        inner = _next(data, at, own.end, depth)
        yield from _contents(data, inner, message.fields_by_number.get(inner.number), depth + 1)
        at = inner.end


def _inside(data: bytes, own: _Field, descriptor: Any, paths: Sequence[Path], edits: list[Edit], depth: int) -> None:
    """Edits a field that is a message; its length follows."""
    if own.wire not in (_LENGTH, _GROUP):
        raise ValueError(f"field {own.number} is no message")
    first = len(edits)
    end = own.end if own.wire == _LENGTH else own.end - len(_varint(own.number << 3 | _END_GROUP))
    _message(data, own.body, end, descriptor, paths, edits, depth + 1)
    growth = sum(each.growth for each in edits[first:])
    if own.wire == _LENGTH and growth:
        length_at = _read_varint(data, own.start, own.end)[1]
        edits.insert(first, Edit(length_at, own.body, _varint(own.end - own.body + growth)))


def _entry(data: bytes, own: _Field, field: Any, paths: Sequence[Path], edits: list[Edit], depth: int) -> None:
    """An entry of a map, which goes if a path ends with its key, or whose value is edited."""
    descriptor = field.message_type
    if own.wire != _LENGTH:
        raise ValueError(f"field {own.number} is no entry of a map")
    key = _key_text(data[own.body : own.end], descriptor)
    if (key,) in paths:
        _replace(data, own, field, b"", edits)
        return
    inner = inner_paths(paths, key)
    if inner and descriptor.fields_by_name["value"].message_type is not None:
        _inside(data, own, descriptor, [("value", *path) for path in inner], edits, depth)


def _key_text(entry: bytes, descriptor: Any) -> str:
    from google.protobuf import message_factory
    from google.protobuf.message import DecodeError

    message: Any = message_factory.GetMessageClass(descriptor)()
    try:
        message.ParseFromString(entry)
    except DecodeError as error:
        raise ValueError("an entry of a map that is none") from error
    key = message.key
    return str(key).lower() if isinstance(key, bool) else str(key)


def _zero(field: Any, depth: int) -> bytes:
    """A required field of proto2 with its empty value: the first symbol of an enum."""
    if depth > _MAX_DEPTH:
        raise ValueError("its type has no empty value")
    wire = _WIRE_TYPES.get(field.type, _VARINT)
    tag = _varint(field.number << 3 | wire)
    if field.message_type is not None:
        fields = [each for each in field.message_type.fields if each.is_required]
        inner = b"".join(_zero(each, depth + 1) for each in fields)
        if wire == _GROUP:
            return tag + inner + _varint(field.number << 3 | _END_GROUP)
        return tag + _varint(len(inner)) + inner
    if field.enum_type is not None:
        return tag + _varint(field.enum_type.values[0].number & (1 << 64) - 1)
    return tag + {_VARINT: b"\0", _LENGTH: b"\0", _FIXED32: bytes(4), _FIXED64: bytes(8)}[wire]


def _next(data: bytes, start: int, end: int, depth: int) -> _Field:
    tag, at = _read_varint(data, start, end)
    number, wire = tag >> 3, tag & 7
    if not 0 < number < 1 << 29:
        raise ValueError("a field number that is none")
    body = at
    if wire == _VARINT:
        at = _read_varint(data, at, end)[1]
    elif wire in (_FIXED64, _FIXED32):
        at += 8 if wire == _FIXED64 else 4
    elif wire == _LENGTH:
        length, body = _read_varint(data, at, end)
        at = body + length
    elif wire == _GROUP and depth <= _MAX_DEPTH:
        while True:
            inner_tag, after = _read_varint(data, at, end)
            if inner_tag & 7 == _END_GROUP:
                if inner_tag >> 3 != number:
                    raise ValueError("a group that another one ends")
                at = after
                break
            at = _next(data, at, end, depth + 1).end
    else:
        raise ValueError("a wire type that is none")
    if at > end:
        raise ValueError("a length that goes past the message's end")
    return _Field(number, wire, start, body, at)


def _read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    number = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at += 1
        shift += 7
        if byte < 0x80:
            return number, at
    raise ValueError("a number that is cut off, or too large")


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
