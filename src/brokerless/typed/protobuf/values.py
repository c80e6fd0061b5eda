"""Compiles a message's descriptor into functions that make Python's values of its messages, for columns of one type."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from brokerless.typed.merge import UnfitError, conform

Convert = Callable[[Any], Any]
Rest = Callable[[Any, Any], Any]
"""Of a field's value, or of a message, and its type: its value, by looking at both each time."""

_MESSAGE, _ENUM = 10, 8
_AS_JSON = pa.string()


def converter(descriptor: Any, target: Any, natural: Any, rest: Rest) -> Convert:
    """A function of a message. ``natural``: its Arrow type, whose values fit into the same type of ``target``.
    ``rest`` makes those of what is no plain message. Raises :class:`UnfitError` for a field that ``target`` lacks."""
    if not pa.types.is_struct(natural) or not pa.types.is_struct(target):
        return partial(_by_type, rest, target)
    if descriptor.is_extendable:
        raise UnfitError("extensions have no column")
    plain: list[tuple[str, Convert | None]] = []
    optional: list[tuple[str, Convert | None]] = []
    for field in descriptor.fields:
        at = target.get_field_index(field.name)
        if at < 0:
            raise UnfitError(f"the topic's type has no field {field.name}")
        own = _field(field, target.field(at).type, natural.field(field.name).type, rest)
        (optional if field.has_presence else plain).append((field.name, own))

    def convert(message: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, own in plain:
            value = getattr(message, name)
            found[name] = value if own is None else own(value)
        for name, own in optional:
            if message.HasField(name):
                value = getattr(message, name)
                found[name] = value if own is None else own(value)
        return found

    return convert


def _by_type(rest: Rest, target: Any, message: Any) -> Any:
    return conform(rest(message, target), target)


def _field(field: Any, target: Any, natural: Any, rest: Rest) -> Convert | None:
    """Return the conversion of a field's values; None where they stay unchanged."""
    if pa.types.is_map(natural):
        if not pa.types.is_map(target) or target.key_type != natural.key_type:
            return _whole(target)
        item = _one(field.message_type.fields_by_name["value"], target.item_type, natural.item_type, rest)
        return (lambda value: list(value.items())) if item is None else partial(_pairs, item)
    if field.is_repeated:
        if not pa.types.is_list(target):
            return _whole(target)
        item = _one(field, target.value_type, natural.value_type, rest)
        return list if item is None else partial(_items, item)
    return _one(field, target, natural, rest)


def _whole(target: Any) -> Convert:
    raise UnfitError(f"a field does not fit into {target}")


def _pairs(item: Convert, value: Any) -> list[Any]:
    return [(key, item(each)) for key, each in value.items()]


def _items(item: Convert, value: Any) -> list[Any]:
    return [item(each) for each in value]


def _one(field: Any, target: Any, natural: Any, rest: Rest) -> Convert | None:
    if field.cpp_type == _MESSAGE:
        return converter(field.message_type, target, natural, rest)
    if field.cpp_type == _ENUM:
        if target != natural:
            return _whole(target)
        names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
        return lambda value: names.get(value) or str(value)
    return None if target == natural else lambda value: conform(value, target)
