"""Decodes and encodes the values of KRaft's control records, under Kafka's field names.

The layouts are those of Kafka's message definitions ``LeaderChangeMessage``, ``SnapshotHeaderRecord``,
``SnapshotFooterRecord``, ``KRaftVersionRecord`` and ``VotersRecord`` (KIP-595, KIP-630, KIP-853; 3.9.1 and 4.1.1) in
their version 0, which Kafka writes and reads whatever their field ``version`` says (``ControlRecordUtils``). All are
flexible (KIP-482): lengths are unsigned varints plus one, and each structure ends with tagged fields, of which none is
known.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, cast

from brokerless.errors import UsageError
from brokerless.text import java_text

LARGEST = 1 << 20
"""Larger values (bytes) are not decoded: a quorum's voters take some hundred."""


@dataclass(frozen=True, slots=True)
class Structure:
    """Fields in their order. A type is a key of ``_INTEGERS``, ``uuid``, ``string``, a structure or an array."""

    fields: tuple[tuple[str, Type], ...]


@dataclass(frozen=True, slots=True)
class Array:
    of: Structure


Type = str | Structure | Array

_INTEGERS = {"int16": (2, True), "uint16": (2, False), "int32": (4, True), "int64": (8, True)}
"""Size in bytes, and whether signed."""

_VERSION = ("version", "int16")
_VOTER_IDS = Array(Structure((("voterId", "int32"),)))
_ENDPOINTS = Array(Structure((("name", "string"), ("host", "string"), ("port", "uint16"))))
_SUPPORTED = Structure((("minSupportedVersion", "int16"), ("maxSupportedVersion", "int16")))
_VOTER = Structure(
    (
        ("voterId", "int32"),
        ("voterDirectoryId", "uuid"),
        ("endpoints", _ENDPOINTS),
        ("kRaftVersionFeature", _SUPPORTED),
    )
)

LEADER_CHANGE = Structure((_VERSION, ("leaderId", "int32"), ("voters", _VOTER_IDS), ("grantingVoters", _VOTER_IDS)))
SNAPSHOT_HEADER = Structure((_VERSION, ("lastContainedLogTimestamp", "int64")))
SNAPSHOT_FOOTER = Structure((_VERSION,))
KRAFT_VERSION = Structure((_VERSION, ("kRaftVersion", "int16")))
KRAFT_VOTERS = Structure((_VERSION, ("voters", Array(_VOTER))))


def decode_message(structure: Structure, data: bytes) -> dict[str, Any] | None:
    """The fields of a value; None where Kafka could not read it, or it is larger than ``LARGEST``.

    ``uuid`` is base64 as Kafka prints it. Tagged fields and what follows the structure are skipped, as Kafka does.
    """
    if len(data) > LARGEST:
        return None
    try:
        return _read(data, 0, structure)[0]
    except _UnreadableValueError:
        return None


def encode_message(structure: Structure, contents: dict[str, Any]) -> bytes:
    """The bytes that Kafka writes for ``contents``, which has exactly the structure's fields, as :func:`decode_message`
    returns them. Raises :class:`UsageError`."""
    out = bytearray()
    _write(out, contents, structure, "")
    return bytes(out)


class _UnreadableValueError(Exception):
    """A value that ends early, or has a null or an impossible length."""


def _read(data: bytes, at: int, type_: Type) -> tuple[Any, int]:
    """A field's value, and the position after it."""
    if isinstance(type_, Structure):
        fields: dict[str, Any] = {}
        for name, each in type_.fields:
            fields[name], at = _read(data, at, each)
        return fields, _after_tagged_fields(data, at)
    if isinstance(type_, Array):
        length, at = _read_length(data, at)
        elements: list[Any] = []
        for _ in range(length):
            element, at = _read(data, at, type_.of)
            elements.append(element)
        return elements, at
    if type_ == "string":
        length, at = _read_length(data, at)
        if length > 0x7FFF:
            raise _UnreadableValueError
        return java_text(data[at : at + length]), at + length
    size, signed = _INTEGERS.get(type_, (16, False))
    if at + size > len(data):
        raise _UnreadableValueError
    value = data[at : at + size]
    if type_ == "uuid":
        return base64.urlsafe_b64encode(value).decode().rstrip("="), at + size
    return int.from_bytes(value, "big", signed=signed), at + size


def _read_length(data: bytes, at: int) -> tuple[int, int]:
    """A length that is not null and fits into the remaining bytes."""
    raw, at = _read_unsigned(data, at)
    if not 0 < raw <= len(data) - at + 1:
        raise _UnreadableValueError
    return raw - 1, at


def _read_unsigned(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned varint of at most 5 bytes; bits past the 32nd are dropped (``ByteUtils``)."""
    value = 0
    for place, byte in enumerate(data[at : at + 5]):
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return value & 0xFFFFFFFF, at + place + 1
    raise _UnreadableValueError


def _after_tagged_fields(data: bytes, at: int) -> int:
    count, at = _read_unsigned(data, at)
    if count > 0x7FFFFFFF:  # a negative number of them, to Kafka
        return at
    for _ in range(count):
        _, at = _read_unsigned(data, at)
        size, at = _read_unsigned(data, at)
        if size > len(data) - at:
            raise _UnreadableValueError
        at += size
    return at


def _write(out: bytearray, value: Any, type_: Type, place: str) -> None:
    """Appends a field's bytes. ``place``: where it is, for people."""
    if isinstance(type_, Structure):
        if not isinstance(value, dict) or cast("dict[Any, Any]", value).keys() != {name for name, _ in type_.fields}:
            names = ", ".join(name for name, _ in type_.fields)
            raise UsageError(f"{place or 'a control record'} has the fields {names}, and no others")
        for name, each in type_.fields:
            _write(out, value[name], each, f"{place}.{name}" if place else name)
        out.append(0)
    elif isinstance(type_, Array):
        if not isinstance(value, list):
            raise UsageError(f"{place} is a list")
        elements = cast("list[Any]", value)
        _write_unsigned(out, len(elements) + 1)
        for row, element in enumerate(elements):
            _write(out, element, type_.of, f"{place}[{row}]")
    elif type_ == "string":
        data = value.encode(errors="replace") if isinstance(value, str) else None
        if data is None or len(data) > 0x7FFF:
            raise UsageError(f"{place} is text of up to {0x7FFF} bytes")
        _write_unsigned(out, len(data) + 1)
        out += data
    elif type_ == "uuid":
        out += _uuid(value, place)
    else:
        size, signed = _INTEGERS[type_]
        try:
            out += value.to_bytes(size, "big", signed=signed)
        except (AttributeError, OverflowError, TypeError):
            raise UsageError(f"{place} is a number of type {type_}, not {value!r}") from None


def _write_unsigned(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _uuid(value: Any, place: str) -> bytes:
    try:
        data = base64.b64decode(value + "==", altchars=b"-_", validate=True)
    except (TypeError, ValueError):
        data = b""
    if len(data) != 16:
        raise UsageError(f"{place} is 16 bytes in base64, as Kafka writes a UUID, not {value!r}")
    return data
