"""Checks the values of a message before they are written: nothing is cut, rounded or left out.

Values are those that the reader returns, so that what people edited as JSON can be written again. A field that a
version does not have may only have its default, as in Kafka's generated writers (``UnsupportedVersionException``,
4.4.0).
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64decode
from collections.abc import Callable
from functools import cache
from typing import Any, cast

from brokerless.errors import UsageError
from brokerless.format.messages.layouts import LARGEST_STRING, Message, MessageField

Fits = Callable[[Any], bool]
CheckField = Callable[[Any, str], None]
"""Of a value at a place."""


def check_values(message: Message, version: int, data: Any) -> None:
    """Raise :class:`UsageError` for an unknown version and for values that do not fit, with the place in the message.
    ``records`` cannot be given."""
    if version not in message.versions:
        known = f"{message.versions[0]} to {message.versions[-1]}"
        raise UsageError(f"{message.name} of version {version} cannot be written; known are {known}")
    _message(message, version)(data, message.name)


@cache
def _message(message: Message, version: int) -> CheckField:
    return _struct(message.fields, version)


def _struct(fields: tuple[MessageField, ...], version: int) -> CheckField:
    names = {each.name for each in fields}
    there = [(each.name, version in each.tagged, _value(each, version)) for each in fields if version in each.versions]
    elsewhere = [(each.name, each.default) for each in fields if version not in each.versions]

    def check(data: Any, place: str) -> None:
        if not isinstance(data, dict):
            raise UsageError(f"{place} is an object, not {_shown(data)}")
        values = cast("dict[str, Any]", data)
        if not values.keys() <= names:
            unknown = min(values.keys() - names)
            raise UsageError(f"{place} has no field {unknown!r}; it has {', '.join(each.name for each in fields)}")
        for name, is_tagged, check_field in there:
            if name in values:
                check_field(values[name], f"{place}.{name}")
            elif not is_tagged:
                raise UsageError(f"{place}.{name} is missing")
        for name, default in elsewhere:
            if values.get(name, default) != default:
                text = f"is not in version {version}, and has the value {_shown(values[name])}"
                raise UsageError(f"{place}.{name} {text}")

    return check


def _value(field: MessageField, version: int) -> CheckField:
    of = field.type.removeprefix("[]")
    check_one = _struct(field.fields, version) if of == "struct" else _plain(of)
    is_array, nullable = of != field.type, version in field.nullable

    def check(value: Any, place: str) -> None:
        if value is None:
            if not nullable:
                raise UsageError(f"{place} is null, which it cannot be")
        elif not is_array:
            check_one(value, place)
        elif not isinstance(value, list):
            raise UsageError(f"{place} is an array, not {_shown(value)}")
        else:
            for number, element in enumerate(cast("list[Any]", value)):
                check_one(element, f"{place}[{number}]")

    return check


def _plain(type_: str) -> CheckField:
    fits, expected = _PLAIN[type_]

    def check(value: Any, place: str) -> None:
        if not fits(value):
            raise UsageError(f"{place} is {expected}, not {_shown(value)}")

    return check


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value.encode(errors="replace")) <= LARGEST_STRING


def _is_base64(value: Any) -> bool:
    try:
        b64decode(value, validate=True)
    except (TypeError, ValueError):
        return False
    return True


def _is_uuid(value: Any) -> bool:
    try:
        return isinstance(value, str) and len(value) == 22 and len(urlsafe_b64decode(f"{value}==")) == 16
    except ValueError:
        return False


def _is_number(value: Any) -> bool:
    """Return whether it is a float64, or the name of one that JSON has no number for."""
    if isinstance(value, str):
        return value in ("NaN", "Infinity", "-Infinity")
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(bits: int, signed: bool) -> Fits:
    values = range(-(1 << bits - 1), 1 << bits - 1) if signed else range(1 << bits)
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and value in values


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_PLAIN: dict[str, tuple[Fits, str]] = {
    "string": (_is_text, f"text of up to {LARGEST_STRING} bytes"),
    "bytes": (_is_base64, "bytes in base64"),
    "uuid": (_is_uuid, "16 bytes in base64, as Kafka writes a UUID"),
    "bool": (lambda value: isinstance(value, bool), "true or false"),
    "float64": (_is_number, "a number"),
    **{
        name: (_is_integer(bits, signed), f"a number of type {name}")
        for name, bits, signed in (
            ("int8", 8, True),
            ("int16", 16, True),
            ("uint16", 16, False),
            ("int32", 32, True),
            ("uint32", 32, False),
            ("int64", 64, True),
        )
    },
}
"""By type: what fits it, and what that is."""
