"""Compiles a message's descriptor into functions that make Python's values of its messages, for columns of one type."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from brokerless.typed.merge import UnfitError, conform
from brokerless.typed.reasons import Reason, unfit_reason
from brokerless.typed.times import joined_path

LeftOut = list[UnfitError]
Convert = Callable[[Any, LeftOut], Any]
Rest = Callable[[Any, Any], Any]
"""Of a field's value, or of a message, and its type: its value, by looking at both each time."""

WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
"""Messages of a single value, which is their column's."""

_MESSAGE, _ENUM = 10, 8
_AS_JSON = pa.string()


def converter(descriptor: Any, target: Any, natural: Any, rest: Rest, path: str = "") -> Convert:
    """Return a function of a message, and of a list that gets what is left out of it, as of :func:`conform`.
    ``natural``: its Arrow type, whose values fit into the same type of ``target``. ``rest`` makes those of what is no
    plain message. ``path``: the field that it is in. Raises :class:`UnfitError` for a field that ``target`` lacks."""
    if not pa.types.is_struct(natural) or not pa.types.is_struct(target):
        return partial(_by_type, rest, target, path)
    if descriptor.is_extendable:
        raise UnfitError(Reason("extensions have no column"))
    plain: list[tuple[str, Convert | None]] = []
    optional: list[tuple[str, Convert | None]] = []
    for field in descriptor.fields:
        at = target.get_field_index(field.name)
        if at < 0:
            raise UnfitError(Reason(f"the topic's type has no field {field.name}"))
        inner = joined_path(path, field.name) if path else field.name
        own = _field(field, target.field(at).type, natural.field(field.name).type, rest, path=inner)
        (optional if field.has_presence else plain).append((field.name, own))

    def convert(message: Any, left_out: LeftOut) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, own in plain:
            value = getattr(message, name)
            found[name] = value if own is None else own(value, left_out)
        for name, own in optional:
            if message.HasField(name):
                value = getattr(message, name)
                found[name] = value if own is None else own(value, left_out)
        return found

    return convert


def _by_type(rest: Rest, target: Any, path: str, message: Any, left_out: LeftOut) -> Any:
    before = len(left_out)
    found = conform(rest(message, target), target, left_out)
    if len(left_out) > before:
        left_out[before:] = [each.within(path) if path else each for each in left_out[before:]]
    return found


def _field(field: Any, target: Any, natural: Any, rest: Rest, path: str) -> Convert | None:
    """Return the conversion of a field's values; None where they stay unchanged."""
    if pa.types.is_map(natural):
        if not pa.types.is_map(target) or target.key_type != natural.key_type:
            return _whole(target)
        item = _one(
            field.message_type.fields_by_name["value"], target.item_type, natural.item_type, rest, path=f"{path}[]"
        )
        return (lambda value, _: list(value.items())) if item is None else partial(_pairs, item)
    if field.is_repeated:
        if not pa.types.is_list(target):
            return _whole(target)
        item = _one(field, target.value_type, natural.value_type, rest, path=f"{path}[]")
        return (lambda value, _: list(value)) if item is None else partial(_items, item)
    return _one(field, target, natural, rest, path=path)


def _whole(target: Any) -> Convert:
    raise UnfitError(unfit_reason("a field", target))


def _pairs(item: Convert, value: Any, left_out: LeftOut) -> list[Any]:
    return [(key, item(each, left_out)) for key, each in value.items()]


def _items(item: Convert, value: Any, left_out: LeftOut) -> list[Any]:
    return [item(each, left_out) for each in value]


def _one(field: Any, target: Any, natural: Any, rest: Rest, path: str) -> Convert | None:
    if field.cpp_type == _MESSAGE:
        return converter(field.message_type, target, natural, rest, path=path)
    if field.cpp_type == _ENUM:
        if target != natural:
            return _whole(target)
        names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
        return lambda value, _: names.get(value) or str(value)
    return None if target == natural else lambda value, _: conform(value, target)
