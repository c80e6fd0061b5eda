"""Merges types: one Arrow type that holds what several schemas, or several JSON values, describe.

Avro's rules first (schema resolution, 1.12): numbers are promoted, records are merged by their fields' names, and a
field that one of them lacks is null there. Nothing is dropped: fields that the newest schema does not have any more are
kept. Text and bytes become bytes; times take the finer unit; decimals get the digits of both. What has no common type
becomes text: strings are unchanged in it, all else is JSON.
"""

from __future__ import annotations

import base64
import datetime
import json
import math
from collections.abc import Iterable, Mapping
from ctypes import c_float
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from functools import reduce
from typing import Any, cast

import pyarrow as pa

from brokerless import arrow
from brokerless.typed.reasons import FINER, Reason, left_out_reason, unfit_reason
from brokerless.typed.times import Moment, joined_path

_UNITS = ("s", "ms", "us", "ns")
_DIGITS = 38
_EXACT = Context(prec=100_000, Emin=MIN_EMIN, Emax=MAX_EMAX)
"""Python's own keeps 28 digits of what is scaled, and makes zero of a number with a large negative exponent."""


def merge_types(types: Iterable[pa.DataType]) -> pa.DataType:
    """Return one type for all; null for none."""
    return reduce(merge, types, pa.null())


def merge(one: Any, two: Any) -> pa.DataType:
    """Return one type for two. Fields are in the order of the first, then those that only the second one has."""
    t = pa.types
    if one == two or t.is_null(two):
        return one
    if t.is_null(one):
        return two
    if t.is_struct(one) and t.is_struct(two):
        return _merge_structs(one, two)
    if t.is_list(one) and t.is_list(two):
        return pa.list_(merge(one.value_type, two.value_type))
    if t.is_map(one) and t.is_map(two):
        return pa.map_(merge(one.key_type, two.key_type), merge(one.item_type, two.item_type))
    if t.is_integer(one) and t.is_integer(two):
        return one if one.bit_width >= two.bit_width else two
    if _is_number(one) and _is_number(two):
        return pa.float64()
    if {one, two} == {pa.string(), pa.binary()}:
        return pa.binary()
    if t.is_timestamp(one) and t.is_timestamp(two) and one.tz == two.tz:
        return pa.timestamp(max(one.unit, two.unit, key=_UNITS.index), one.tz)
    if t.is_time(one) and t.is_time(two):
        return max(one, two, key=lambda each: _UNITS.index(each.unit))
    if t.is_decimal(one) and t.is_decimal(two):
        scale = max(one.scale, two.scale)
        digits = max(one.precision - one.scale, two.precision - two.scale) + scale
        return pa.decimal128(digits, scale) if digits <= _DIGITS else pa.string()
    return pa.string()


def without_nulls(type_: Any) -> pa.DataType:
    """Return a type with text for what was null everywhere, and for structs without fields, as few readers of tables
    have types for them."""
    t = pa.types
    if t.is_struct(type_):
        fields = [pa.field(field.name, without_nulls(field.type)) for field in type_]
        return pa.struct(fields) if fields else pa.string()
    if t.is_list(type_):
        return pa.list_(without_nulls(type_.value_type))
    if t.is_map(type_):
        return pa.map_(type_.key_type, without_nulls(type_.item_type))
    return pa.string() if t.is_null(type_) else type_


def _merge_structs(one: Any, two: Any) -> pa.DataType:
    fields = {field.name: field.type for field in one}
    for field in two:
        fields[field.name] = merge(fields[field.name], field.type) if field.name in fields else field.type
    return pa.struct([pa.field(name, type_) for name, type_ in fields.items()])


def _is_number(type_: pa.DataType) -> bool:
    return pa.types.is_integer(type_) or pa.types.is_floating(type_)


_NO_COLUMN = left_out_reason("it has no column, and")


class UnfitError(ValueError):
    """A value that its type does not hold. ``path``: the field, such as ``lines[].sku``, empty for the whole."""

    def __init__(self, why: Reason, path: str = "") -> None:
        super().__init__(why, path)
        self._why, self.path = why, path

    @property
    def reason(self) -> Reason:
        """The reason of the whole value, which names the field."""
        return self._why.in_field(self.path)

    def within(self, name: str) -> UnfitError:
        """Return the error of a value in the field ``name``, or in an element of a list (``[]``)."""
        return UnfitError(self._why, joined_path(name, self.path))

    def __str__(self) -> str:
        return str(self.reason)


def without_conflicts(type_: Any, known: Any) -> pa.DataType:
    """Return a type without what cannot be merged with ``known``, which keeps its type: an object where that has none,
    or the other way round, is null."""
    t = pa.types
    if t.is_struct(type_) and t.is_struct(known):
        types = {field.name: field.type for field in known}
        fields = [(each, types.get(each.name)) for each in type_]
        return pa.struct(
            [each if of is None else pa.field(each.name, without_conflicts(each.type, of)) for each, of in fields]
        )
    if t.is_list(type_) and t.is_list(known):
        return pa.list_(without_conflicts(type_.value_type, known.value_type))
    return pa.null() if t.is_nested(type_) or t.is_nested(known) else type_


def conform(value: Any, type_: Any, left_out: list[UnfitError] | None = None) -> Any:
    """Return a Python value as ``pa.array`` takes it for a type. ``left_out`` gets what is left out: fields that the
    type does not have, and times before or after all that it holds. Raises :class:`UnfitError` for what would be lost;
    so are these without ``left_out``."""
    t = pa.types
    if value is None:
        return None
    if t.is_struct(type_):
        return _conform_struct(value, type_, left_out)
    if (t.is_list(type_) and isinstance(value, (list, tuple))) or (t.is_map(type_) and isinstance(value, Mapping)):
        before = len(left_out or ())
        try:
            items = _conform_items(cast("Any", value), type_, left_out)
        except UnfitError as error:
            raise error.within("[]") from None
        _prefix("[]", left_out, before)
        return items
    if t.is_string(type_):
        return str(value) if isinstance(value, (str, Moment)) else json_text(value)
    if t.is_binary(type_) and isinstance(value, (bytes, str)):
        return value.encode() if isinstance(value, str) else value
    if t.is_boolean(type_) and isinstance(value, bool):
        return value
    if isinstance(value, Moment):
        return _conform_time(value, type_, left_out)
    return _conform_number(value, type_)


def _conform_time(value: Moment, type_: Any, left_out: list[UnfitError] | None) -> int | None:
    number = value.into(type_) if pa.types.is_temporal(type_) else None
    if number is not None:
        return number
    if left_out is not None and (cut := value.cut_into(type_)) is not None:
        left_out.append(UnfitError(FINER))
        return cut
    if left_out is not None and value.is_beyond(type_):
        left_out.append(UnfitError(left_out_reason(f"a time that {type_} does not hold")))
        return None
    raise UnfitError(unfit_reason(_kind(value), type_))


def _conform_items(value: Any, type_: Any, left_out: list[UnfitError] | None) -> list[Any]:
    """The elements of a list, or the pairs of a map."""
    if pa.types.is_list(type_):
        return [conform(each, type_.value_type, left_out) for each in value]
    pairs = value.items()
    return [(conform(key, type_.key_type), conform(each, type_.item_type, left_out)) for key, each in pairs]


def _conform_number(value: Any, type_: Any) -> Any:
    t = pa.types
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if t.is_integer(type_) and (is_integer or (isinstance(value, float) and value.is_integer())):
        if -(1 << type_.bit_width - 1) <= value < 1 << type_.bit_width - 1:
            return int(value)
    elif t.is_floating(type_) and (is_integer or isinstance(value, float)):
        if not is_integer or abs(value) < 1 << 1023:
            number = c_float(value).value if type_.bit_width == 32 else float(value)
            if number == value or value != value:
                return number
    elif t.is_decimal(type_) and (is_integer or isinstance(value, Decimal)):
        number = decimal_of(cast("Decimal | int", value), -type_.scale)
        if number.is_finite() and number == number.to_integral_value() and number.copy_abs() < 10**type_.precision:
            return decimal_of(int(number), type_.scale)
    elif t.is_null(type_):
        raise UnfitError(Reason("only null was expected"))
    raise UnfitError(unfit_reason(_kind(value), type_))


def decimal_of(number: Decimal | int, scale: int) -> Decimal:
    """Return a number divided by ten to the power of ``scale``, with all its digits."""
    return Decimal(number).scaleb(-scale, _EXACT)


def _conform_struct(value: Any, type_: Any, left_out: list[UnfitError] | None) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise UnfitError(unfit_reason(_kind(value), "a record"))
    own = cast("Mapping[str, Any]", value)
    found: dict[str, Any] = {}
    name, before = "", len(left_out or ())
    try:
        for field in type_:
            name = field.name
            if left_out is not None and pa.types.is_null(field.type) and own.get(name) is not None:
                left_out.append(UnfitError(_NO_COLUMN, name))
                found[name] = None
                before = len(left_out)
                continue
            found[name] = conform(own.get(name), field.type, left_out)
            if left_out and len(left_out) > before:
                _prefix(name, left_out, before)
                before = len(left_out)
    except UnfitError as error:
        raise error.within(name) from None
    if len(own) > len(found) or not own.keys() <= found.keys():
        unknown = sorted(own.keys() - found.keys())
        if left_out is None:
            raise UnfitError(Reason(f"the topic's type has no field {unknown[0]!r}"))
        left_out += [UnfitError(_NO_COLUMN, each) for each in unknown]
    return found


def _prefix(name: str, left_out: list[UnfitError] | None, before: int) -> None:
    """Adds the name of the field around them to the paths of those after the first ``before``."""
    if left_out and len(left_out) > before:
        left_out[before:] = [each.within(name) for each in left_out[before:]]


def json_text(value: Any) -> str:
    """Return a value as JSON: bytes in base64, times as ISO 8601, numbers that JSON lacks as text."""
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in cast("list[Any]", value)]
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Moment):
        return arrow.time_text(value.number, value.type)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _kind(value: Any) -> str:
    """Return what a value is, for people."""
    if isinstance(value, Moment):
        return f"{value.type}"
    kinds: tuple[tuple[Any, str], ...] = (
        (bool, "a boolean"), (int, "a whole number"), (float, "a floating-point number"),
        (Decimal, "a decimal"), (str, "text"), (bytes, "bytes"), (Mapping, "an object"), ((list, tuple), "an array"),
    )  # fmt: skip
    return next((name for class_, name in kinds if isinstance(value, class_)), f"a {type(value).__name__}")
