"""Finds what to change of a Protobuf message, so that some fields are not in it any more.

Every occurrence of a field is removed, whatever its wire type; a field of proto2 that is required becomes the empty
value of its type. Of a map, a path names entries by their keys. All other bytes are unchanged, unknown fields among
them, but for the lengths of messages in which something changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from brokerless.format.plain_varint import decode_unsigned, encode_unsigned
from brokerless.typed.blanking.edits import Edit
from brokerless.typed.blanking.paths import FieldTarget, NamedFields, Presence, beyond, is_end, named

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
_VALUE, _NULL_VALUE, _OF_OTHERS = "google.protobuf.Value", 1, (5, 6)
"""The message of which one field is set, its number for null, and those of objects and arrays."""


@dataclass(frozen=True, slots=True)
class _WireField:
    """One field on the wire, from its tag to its end."""

    number: int
    wire: int
    start: int
    body: int
    """Where the value begins, without its length."""
    end: int


def protobuf_edits(data: bytes, descriptor: Any, others: Sequence[Any], fields: NamedFields) -> list[Edit]:
    """Return the edits of a message. ``others``: the same message in other schemas of the topic, by whose names its
    fields are known as well, if they have the same number. Raises ValueError for bytes that are none."""
    walker = _ProtobufWalker(data, [], fields)
    walker.message(0, len(data), descriptor, others=others, targets=fields.targets, depth=0)
    return walker.edits


@dataclass(frozen=True, slots=True)
class _ProtobufWalker:
    """One message, and the edits so far."""

    data: bytes
    edits: list[Edit]
    fields: NamedFields

    def message(
        self, at: int, end: int, descriptor: Any, others: Sequence[Any], targets: Sequence[FieldTarget], depth: int
    ) -> None:
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        if descriptor.full_name in _TRANSPARENT:
            targets = [
                FieldTarget((name, *each.path), each.number)
                for name in _TRANSPARENT[descriptor.full_name]
                for each in targets
            ]  # fmt: skip
        names = _all_names(descriptor, tuple(others))
        seen: set[int] = set()
        keys: dict[int, set[str]] = {}
        while at < end:
            own = _next(self.data, at, end, depth)
            at = own.end
            field = descriptor.fields_by_number.get(own.number)
            if field is None:
                continue
            here = named(targets, names[own.number])
            if is_end(here):
                new = _zero(field, depth) if field.is_required and own.number not in seen else b""
                self._replace(own, field, new, here)
            elif here and field.message_type is None:
                self.fields.add(here, Presence.LACKING)
            elif here:
                inner = [
                    each.fields_by_number[own.number].message_type
                    for each in others
                    if _is_like(field, each.fields_by_number.get(own.number))
                ]  # fmt: skip
                if field.message_type.GetOptions().map_entry:
                    self._entry(
                        own, field, inner, targets=beyond(here), keys=keys.setdefault(own.number, set()), depth=depth
                    )
                else:
                    self._inside(own, field.message_type, inner, targets=beyond(here), depth=depth)
            seen.add(own.number)
        self._add_absent(descriptor, names, targets, seen=seen, keys=keys)

    def _add_absent(
        self,
        descriptor: Any,
        names: Mapping[int, set[str]],
        targets: Sequence[FieldTarget],
        seen: set[int],
        keys: dict[int, set[str]],
    ) -> None:
        """Add what of the fields is not in the message: nothing is in them, or no field has their names."""
        if descriptor.full_name == _VALUE:
            number = next(iter(seen), _NULL_VALUE)
            if number not in _OF_OTHERS:
                self.fields.add(targets, Presence.EMPTY if number == _NULL_VALUE else Presence.LACKING)
            return
        known: list[FieldTarget] = []
        for number, own in names.items():
            here = named(targets, own)
            known += here
            if number not in seen:
                self.fields.add(here, Presence.EMPTY)
            elif number in keys:
                missing = [each for each in here if each.path[1] not in keys[number]]
                self.fields.add(missing, Presence.LACKING)
        self.fields.add((each for each in targets if each not in known), Presence.LACKING)

    def _replace(self, own: _WireField, field: Any, new: bytes, targets: Sequence[FieldTarget]) -> None:
        is_same = self.data[own.start : own.end] == new
        self.fields.add(targets, Presence.EMPTY if is_same else Presence.HELD)
        if not is_same:
            self.edits.append(Edit(own.start, own.end, new, tuple(_contents(self.data, own, field, 0))))

    def _inside(
        self, own: _WireField, descriptor: Any, others: Sequence[Any], targets: Sequence[FieldTarget], depth: int
    ) -> None:
        """Edits a field that is a message; its length follows."""
        if own.wire not in (_LENGTH, _GROUP):
            raise ValueError(f"field {own.number} is no message")
        first = len(self.edits)
        end = own.end if own.wire == _LENGTH else own.end - len(encode_unsigned(own.number << 3 | _END_GROUP))
        self.message(own.body, end, descriptor, others=others, targets=targets, depth=depth + 1)
        growth = sum(each.growth for each in self.edits[first:])
        if own.wire == _LENGTH and growth:
            length_at = _read_varint(self.data, own.start, own.end)[1]
            self.edits.insert(first, Edit(length_at, own.body, encode_unsigned(own.end - own.body + growth)))

    def _entry(
        self,
        own: _WireField,
        field: Any,
        others: Sequence[Any],
        targets: Sequence[FieldTarget],
        keys: set[str],
        depth: int,
    ) -> None:
        """An entry of a map, which goes if a path ends with its key, or whose value is edited."""
        descriptor = field.message_type
        if own.wire != _LENGTH:
            raise ValueError(f"field {own.number} is no entry of a map")
        key = _key_text(self.data[own.body : own.end], descriptor)
        keys.add(key)
        here = named(targets, (key,))
        if is_end(here):
            self._replace(own, field, b"", here)
        elif here and descriptor.fields_by_name["value"].message_type is None:
            self.fields.add(here, Presence.LACKING)
        elif here:
            inner = [FieldTarget(("value", *each.path), each.number) for each in beyond(here)]
            self._inside(own, descriptor, others, targets=inner, depth=depth)


@lru_cache(maxsize=1024)
def _all_names(descriptor: Any, others: tuple[Any, ...]) -> dict[int, set[str]]:
    """All names of each field of a message, by number: its own, that in JSON, and those of the field with its number in
    other schemas; but none that another field of the message has."""
    found: dict[int, set[str]] = {}
    for field in descriptor.fields:
        same = [each.fields_by_number.get(field.number) for each in others]
        names = {field.json_name, *(each.name for each in same if _is_like(field, each))}
        found[field.number] = {field.name, *(name for name in names if name not in descriptor.fields_by_name)}
    return found


def _is_like(field: Any, other: Any) -> bool:
    """Return whether the field with the same number in another schema holds what this one does."""
    return other is not None and (other.message_type is None) == (field.message_type is None)


def _contents(data: bytes, own: _WireField, field: Any, depth: int) -> Iterator[tuple[int, int]]:
    """Yield where a field's values are, those of messages one by one. ``field``: None if it is not in the schema."""
    message = None if field is None else field.message_type
    if message is None or own.wire not in (_LENGTH, _GROUP) or depth > _MAX_DEPTH:
        if own.body < own.end:
            yield own.body, own.end
        return
    at = own.body
    while at < own.end and (own.wire == _LENGTH or _read_varint(data, at, own.end)[0] & 7 != _END_GROUP):
        inner = _next(data, at, own.end, depth)
        is_name = message.GetOptions().map_entry and inner.number == 1  # a map's key, as a member's name of JSON
        if not is_name:
            yield from _contents(data, inner, message.fields_by_number.get(inner.number), depth + 1)
        at = inner.end


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
    tag = encode_unsigned(field.number << 3 | wire)
    if field.message_type is not None:
        fields = [each for each in field.message_type.fields if each.is_required]
        inner = b"".join(_zero(each, depth + 1) for each in fields)
        if wire == _GROUP:
            return tag + inner + encode_unsigned(field.number << 3 | _END_GROUP)
        return tag + encode_unsigned(len(inner)) + inner
    if field.enum_type is not None:
        return tag + encode_unsigned(field.enum_type.values[0].number & (1 << 64) - 1)
    return tag + {_VARINT: b"\0", _LENGTH: b"\0", _FIXED32: bytes(4), _FIXED64: bytes(8)}[wire]


def _next(data: bytes, start: int, end: int, depth: int) -> _WireField:
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
    return _WireField(number, wire, start, body=body, end=at)


def _read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    found = decode_unsigned(data, at, end, 10)
    if found is None:
        raise ValueError("a number that is cut off, or too large")
    return found
