"""Times of schemas: numbers that know their unit, their text, and those that readers of tables have no value for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless import arrow
from brokerless.arrow import DAY_S, PER_SECOND, Column, time_text
from brokerless.typed.reasons import FINER, Reason, Reasons, left_out_reason

_Found = tuple[NDArray[np.bool_], str, Reason]
"""Rows that have a time out of range, the path of its field, and what it is."""


def joined_path(name: str, path: str) -> str:
    """Return the path of what is in the field ``name``, or in an element of a list (``[]``)."""
    return f"{name}{'.' if path and not path.startswith('[]') else ''}{path}"


@dataclass(frozen=True, slots=True)
class Moment:
    """A number of an Arrow type of times: since 1970, or since midnight, in its unit."""

    number: int
    type: Any

    def into(self, target: Any) -> int | None:
        """Return the number that is the same time in another type; None where that has none."""
        number, rest = self._scaled(target)
        return None if number is None or rest or _is_beyond(number, target) else number

    def cut_into(self, target: Any) -> int | None:
        """Return the time in microseconds, downwards; None where :meth:`into` has one, in other units, or beyond the
        type."""
        number, rest = self._scaled(target)
        is_cut = number is not None and rest and target.unit == "us"
        return None if number is None or not is_cut or _is_beyond(number, target) else number

    def is_beyond(self, target: Any) -> bool:
        """Return whether it is before or after all times that another type of its kind has."""
        number, _ = self._scaled(target)
        return number is not None and _is_beyond(number, target)

    def _scaled(self, target: Any) -> tuple[int | None, int]:
        """The number without a bound on its bits, and whether something is left that is finer than the type's unit;
        None in a type of another kind."""
        t = pa.types
        own = self.type
        is_same = any(all(map(kind, (own, target))) for kind in (t.is_timestamp, t.is_time, t.is_date))
        if not is_same or (t.is_timestamp(own) and (own.tz is None) != (target.tz is None)):
            return None, 0
        number, rest = self.number, 0
        if not t.is_date(own):
            number, rest = divmod(number * PER_SECOND[target.unit], PER_SECOND[own.unit])
        return number, rest

    def __str__(self) -> str:
        return str(time_text(self.number, self.type))


def _is_beyond(number: int, target: Any) -> bool:
    return not -(1 << target.bit_width - 1) <= number < 1 << target.bit_width - 1


def in_microseconds(type_: Any) -> pa.DataType:
    """Return a type with microseconds for nanoseconds, for tables and engines that have none."""
    t = pa.types
    if t.is_struct(type_):
        return pa.struct([field.with_type(in_microseconds(field.type)) for field in type_])
    if t.is_list(type_):
        return pa.list_(in_microseconds(type_.value_type))
    if t.is_map(type_):
        return pa.map_(type_.key_type, in_microseconds(type_.item_type))
    return pa.timestamp("us", type_.tz) if _has_nanoseconds(type_) else type_


def as_written(target: Any, own: Any) -> pa.DataType:
    """Return ``target`` with nanoseconds for microseconds where the type ``own`` has them, as :func:`cut` takes it."""
    t = pa.types
    if t.is_struct(target) and t.is_struct(own):
        types = {field.name: field.type for field in own}
        return pa.struct([each.with_type(as_written(each.type, types.get(each.name, each.type))) for each in target])
    if t.is_list(target) and t.is_list(own):
        return pa.list_(as_written(target.value_type, own.value_type))
    if t.is_map(target) and t.is_map(own):
        return pa.map_(target.key_type, as_written(target.item_type, own.item_type))
    return own if _has_nanoseconds(own) and target == in_microseconds(own) else target


def _has_nanoseconds(type_: Any) -> bool:
    return pa.types.is_timestamp(type_) and type_.unit == "ns"


def cut(column: Column) -> tuple[Column, Reasons]:
    """Return a column with microseconds for nanoseconds, downwards, as Spark and Java do; and the rows that had
    something finer, with the field."""
    return _with_reasons(column, _cut_leaf)


def _cut_leaf(column: Any) -> tuple[Column, list[_Found]]:
    if not _has_nanoseconds(column.type):
        return column, []
    numbers, is_null = arrow.numbers(column, np.int64), ~arrow.is_valid(column)
    micros = arrow.column_of_numbers(pa.timestamp("us", column.type.tz), numbers // 1000, is_null)
    finer = (numbers % 1000 != 0) & ~is_null
    return micros, [(finer, "", FINER)] if finer.any() else []


def without_unreadable(column: Column) -> tuple[Column, Reasons]:
    """Return a column with null for each date and timestamp outside of the years 1 to 9999, and each time of day
    outside of a day, wherever in a value it is; and the rows that had one, with the field."""
    if not _has_times(column.type):
        return column, {}
    return _with_reasons(column, _checked_leaf)


_Leaf = Callable[[Any], tuple[Column, "list[_Found]"]]
"""Of a column of times: the same with other values or in another unit, and the rows of which something is left out."""


def _with_reasons(column: Column, leaf: _Leaf) -> tuple[Column, Reasons]:
    checked, found = _checked(column, leaf)
    reasons: Reasons = {}
    for rows, path, what in found:
        reason = what.in_field(path)
        for row in np.flatnonzero(rows).tolist():
            reasons.setdefault(row, reason)
    return checked, reasons


@lru_cache(maxsize=256)
def _has_times(type_: Any) -> bool:
    t = pa.types
    if t.is_struct(type_):
        return any(_has_times(field.type) for field in type_)
    if t.is_list(type_):
        return _has_times(type_.value_type)
    return _has_times(type_.item_type) if t.is_map(type_) else t.is_temporal(type_)


def _checked(column: Any, leaf: _Leaf) -> tuple[Column, list[_Found]]:
    type_, t = column.type, pa.types
    if not _has_times(type_):
        return column, []
    if not len(column):  # as of lists that are all empty
        return (pa.nulls(0, in_microseconds(type_)) if leaf is _cut_leaf else column), []
    if t.is_struct(type_):
        return _checked_struct(column, leaf)
    if not t.is_list(type_) and not t.is_map(type_):
        return leaf(column)
    if column.offset:
        column = pa.concat_arrays([column, column.slice(0, 0)])
    before = column.values if t.is_list(type_) else column.items
    values, found = _checked(before, leaf)
    if not found and values.type == before.type:
        return column, []
    if t.is_map(type_):
        item = type_.item_field.with_type(values.type)
        type_ = pa.map_(type_.key_type, item)
        values = pa.StructArray.from_arrays([column.keys, values], fields=[type_.key_field, item])
    else:
        type_ = pa.list_(type_.value_field.with_type(values.type))
    own = pa.Array.from_buffers(type_, len(column), column.buffers()[:2], column.null_count, children=[values])
    return own, list(_of_lists(column, found))


def _of_lists(column: Column, found: list[_Found]) -> Iterator[_Found]:
    """The rows of lists that have items which were found."""
    ends, is_there = arrow.ends(column), arrow.is_valid(column)
    for items, path, what in found:
        counts = np.concatenate([[0], np.cumsum(items)])
        rows = (counts[ends[1:]] > counts[ends[:-1]]) & is_there
        yield rows, joined_path("[]", path), what


def _checked_struct(column: Any, leaf: _Leaf) -> tuple[Column, list[_Found]]:
    children: list[Column] = []
    found: list[_Found] = []
    is_there = arrow.is_valid(column)
    for number, field in enumerate(column.type):
        child, own = _checked(column.field(number), leaf)
        children.append(child)
        for rows, path, what in own:
            found.append((rows & is_there, joined_path(field.name, path), what))
    fields = [field.with_type(child.type) for field, child in zip(column.type, children, strict=True)]
    if not found and fields == list(column.type):
        return column, []
    mask = arrow.column_of_flags(~is_there) if column.null_count else None
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask), found


def _checked_leaf(column: Any) -> tuple[Column, list[_Found]]:
    type_, t = column.type, pa.types
    own = arrow.numbers(column, np.int32 if type_.bit_width == 32 else np.int64)
    first, last, what = 0, DAY_S, left_out_reason("a time of day outside of a day")
    if not t.is_time(type_):
        kind = "date" if t.is_date(type_) else "timestamp"
        first, last, what = (
            arrow.FIRST_DAY,
            arrow.LAST_DAY + 1,
            left_out_reason(f"a {kind} outside of the years 1 to 9999"),
        )
    if not t.is_date(type_):
        per_unit = PER_SECOND[type_.unit] * (1 if t.is_time(type_) else DAY_S)
        limits = np.iinfo(own.dtype)
        first, last = max(first * per_unit, int(limits.min)), min(last * per_unit, int(limits.max) + 1)
    if own.min() >= first and own.max() < last:
        return column, []
    is_there = arrow.is_valid(column)
    lost = ((own < first) | (own > last - 1)) & is_there
    if not lost.any():
        return column, []
    return arrow.column_of_numbers(type_, np.where(lost, own.dtype.type(0), own), lost | ~is_there), [(lost, "", what)]
