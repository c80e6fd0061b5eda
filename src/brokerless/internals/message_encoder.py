"""Encodes messages of Kafka's protocol from plain values: the inverse of :mod:`brokerless.internals.messages`.

Values are those that ``decode`` returns, so that what people edited as JSON can be written again. A value that does not
fit its field is a :class:`UsageError` that names the field: nothing is cut, rounded or left out. A field that a version
does not have may only have its default, as in Kafka's generated writers (``UnsupportedVersionException``, 4.4.0).
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64decode
from typing import Any, cast

import numpy as np

from brokerless.errors import UsageError
from brokerless.internals.messages import Message, MessageField

_LARGEST_STRING = 0x7FFF
_INTEGERS = {
    "int8": (1, True),
    "int16": (2, True),
    "uint16": (2, False),
    "int32": (4, True),
    "uint32": (4, False),
    "int64": (8, True),
}
"""Size in bytes, and whether signed."""
_NOT_NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def encode(message: Message, version: int, data: dict[str, Any]) -> bytes:
    """The bytes of a message, as Kafka's generated writer makes them. Raises :class:`UsageError` for an unknown version
    and for values that do not fit, with the place in the message."""
    if version not in message.versions:
        known = f"{message.versions[0]} to {message.versions[-1]}"
        raise UsageError(f"{message.name} of version {version} cannot be written; known are {known}")
    out = bytearray()
    _write_struct(out, message.fields, version, flexible=version in message.flexible, data=data, place=message.name)
    return bytes(out)


def unsigned_varint(value: int) -> bytes:
    """An unsigned varint (``ByteUtils.writeUnsignedVarint``)."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _write_struct(
    out: bytearray, fields: tuple[MessageField, ...], version: int, flexible: bool, data: Any, place: str
) -> None:
    if not isinstance(data, dict):
        raise UsageError(f"{place} is an object, not {_shown(data)}")
    values = cast("dict[str, Any]", data)
    unknown = sorted(values.keys() - {each.name for each in fields})
    if unknown:
        raise UsageError(f"{place} has no field {unknown[0]!r}; it has {', '.join(each.name for each in fields)}")
    tagged: list[tuple[int, bytes]] = []
    for field in fields:
        at = f"{place}.{field.name}"
        if version not in field.versions:
            if field.name in values and values[field.name] != field.default:
                raise UsageError(f"{at} is not in version {version}, and has the value {_shown(values[field.name])}")
        elif version not in field.tagged:
            if field.name not in values:
                raise UsageError(f"{at} is missing")
            _write(out, field, version, flexible=flexible, value=values[field.name], place=at)
        elif field.name in values and values[field.name] != field.default:
            inner = bytearray()
            _write(inner, field, version, flexible=True, value=values[field.name], place=at)
            tagged.append((field.tag or 0, bytes(inner)))
    if flexible:
        out += unsigned_varint(len(tagged))
        for tag, content in sorted(tagged):
            out += unsigned_varint(tag) + unsigned_varint(len(content)) + content


def _write(out: bytearray, field: MessageField, version: int, flexible: bool, value: Any, place: str) -> None:
    nullable = version in field.nullable
    if value is None and not nullable:
        raise UsageError(f"{place} is null, which it cannot be")
    if field.type == "struct":
        if nullable:
            is_tagged = version in field.tagged
            out += (b"\0" if is_tagged else b"\xff") if value is None else b"\1"
        if value is not None:
            _write_struct(out, field.fields, version, flexible=flexible, data=value, place=place)
    elif field.type.startswith("[]"):
        if value is not None and not isinstance(value, list):
            raise UsageError(f"{place} is an array, not {_shown(value)}")
        elements = cast("list[Any] | None", value)
        _write_length(out, None if elements is None else len(elements), 4, flexible)
        for number, element in enumerate(elements or ()):
            at = f"{place}[{number}]"
            if field.type == "[]struct":
                _write_struct(out, field.fields, version, flexible=flexible, data=element, place=at)
            else:
                _write_plain(out, field.type[2:], flexible, value=element, place=at)
    else:
        _write_plain(out, field.type, flexible, value=value, place=place)


def _write_plain(out: bytearray, type_: str, flexible: bool, value: Any, place: str) -> None:
    """A value that is no structure and no array. None only where it may be null."""
    if type_ in ("string", "bytes"):
        data = None if value is None else _text(value, place) if type_ == "string" else _bytes(value, place)
        _write_length(out, None if data is None else len(data), 2 if type_ == "string" else 4, flexible)
        out += data or b""
    elif type_ == "bool":
        if not isinstance(value, bool):
            raise UsageError(f"{place} is true or false, not {_shown(value)}")
        out.append(value)
    elif type_ == "uuid":
        out += _uuid(value, place)
    elif type_ == "float64":
        number = _NOT_NUMBERS.get(value) if isinstance(value, str) else value
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise UsageError(f"{place} is a number, not {_shown(value)}")
        out += np.array([number], ">f8").tobytes()
    else:
        size, signed = _INTEGERS[type_]
        try:
            if isinstance(value, bool):
                raise TypeError
            out += value.to_bytes(size, "big", signed=signed)
        except (AttributeError, OverflowError, TypeError):
            raise UsageError(f"{place} is a number of type {type_}, not {_shown(value)}") from None


def _write_length(out: bytearray, length: int | None, size: int, flexible: bool) -> None:
    if flexible:
        out += unsigned_varint(0 if length is None else length + 1)
    else:
        out += (-1 if length is None else length).to_bytes(size, "big", signed=True)


def _text(value: Any, place: str) -> bytes:
    data = value.encode(errors="replace") if isinstance(value, str) else None
    if data is None or len(data) > _LARGEST_STRING:
        raise UsageError(f"{place} is text of up to {_LARGEST_STRING} bytes, not {_shown(value)}")
    return data


def _bytes(value: Any, place: str) -> bytes:
    try:
        return b64decode(value, validate=True)
    except (TypeError, ValueError):
        raise UsageError(f"{place} is bytes in base64, not {_shown(value)}") from None


def _uuid(value: Any, place: str) -> bytes:
    try:
        data = urlsafe_b64decode(f"{value}==") if isinstance(value, str) and len(value) == 22 else b""
    except ValueError:
        data = b""
    if len(data) != 16:
        raise UsageError(f"{place} is 16 bytes in base64, as Kafka writes a UUID, not {_shown(value)}")
    return data


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
