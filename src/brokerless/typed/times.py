"""Times of schemas: numbers that know their unit, their text, and those that readers of tables have no value for."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless import arrow
from brokerless.arrow import Column

LEFT_OUT = "is left out"
"""In the reason of a value that was decoded without a part of it, which its bytes have."""

_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY_S = 86_400
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, by days since 1970: what the readers of tables, and Python, have a value for."""

_Found = tuple[NDArray[np.bool_], str, str]
"""Rows that have a time out of range, the path of its field, and what it is."""


def joined_path(name: str, path: str) -> str:
    """The path of what is in the field ``name``, or in an element of a list (``[]``)."""
    return f"{name}{'.' if path and not path.startswith('[]') else ''}{path}"


@dataclass(frozen=True, slots=True)
class Moment:
    """A number of an Arrow type of times: since 1970, or since midnight, in its unit."""

    number: int
    type: Any

    def into(self, target: Any) -> int | None:
        """The number that is the same time in another type; None where that has none."""
        t = pa.types
        own = self.type
        is_same = any(all(map(kind, (own, target))) for kind in (t.is_timestamp, t.is_time, t.is_date))
        if not is_same or (t.is_timestamp(own) and (own.tz is None) != (target.tz is None)):
            return None
        number, rest = self.number, 0
        if not t.is_date(own):
            number, rest = divmod(number * _PER_SECOND[target.unit], _PER_SECOND[own.unit])
        limit = 1 << target.bit_width - 1
        return number if not rest and -limit <= number < limit else None

    def __str__(self) -> str:
        return str(time_text(self.number, self.type))


def time_text(number: int, type_: Any) -> str | int:
    """ISO 8601; the number itself where the year is none of four digits, and where a time of day is none of a day."""
    t = pa.types
    is_date, is_time = t.is_date(type_), t.is_time(type_)
    per_second = 1 if is_date else _PER_SECOND[type_.unit]
    seconds, rest = (number * _DAY_S, 0) if is_date else divmod(number, per_second)
    digits = len(str(per_second)) - 1
    fraction = f".{rest:0{digits}d}" if digits else ""
    if is_time and not 0 <= seconds < _DAY_S:
        return number
    try:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    except OverflowError:
        return number
    if is_date:
        return moment.date().isoformat()
    if is_time:
        return moment.strftime("%H:%M:%S") + fraction
    return moment.isoformat(timespec="seconds") + fraction + ("Z" if type_.tz else "")


def without_unreadable(column: Column) -> tuple[Column, dict[int, str]]:
    """A column with null for each date and timestamp outside of the years 1 to 9999, and each time of day outside of a
    day, wherever in a value it is; and the rows that had one, with the field."""
    if not _has_times(column.type):
        return column, {}
    checked, found = _checked(column)
    reasons: dict[int, str] = {}
    for rows, path, what in found:
        text = f"{f'field {path}: ' if path else ''}{what} {LEFT_OUT}"
        for row in np.flatnonzero(rows).tolist():
            reasons.setdefault(row, text)
    return checked, reasons


@lru_cache(maxsize=256)
def _has_times(type_: Any) -> bool:
    t = pa.types
    if t.is_struct(type_):
        return any(_has_times(field.type) for field in type_)
    if t.is_list(type_):
        return _has_times(type_.value_type)
    return _has_times(type_.item_type) if t.is_map(type_) else t.is_temporal(type_)


def _checked(column: Any) -> tuple[Column, list[_Found]]:
    type_, t = column.type, pa.types
    if not len(column) or not _has_times(type_):
        return column, []
    if t.is_struct(type_):
        return _checked_struct(column)
    if not t.is_list(type_) and not t.is_map(type_):
        return _checked_leaf(column)
    if column.offset:
        column = pa.concat_arrays([column, column.slice(0, 0)])
    values, found = _checked(column.values if t.is_list(type_) else column.items)
    if not found:
        return column, []
    if t.is_map(type_):
        values = pa.StructArray.from_arrays([column.keys, values], fields=[type_.key_field, type_.item_field])
    own = pa.Array.from_buffers(type_, len(column), column.buffers()[:2], column.null_count, 0, [values])
    return own, list(_of_lists(column, found))


def _of_lists(column: Column, found: list[_Found]) -> Iterator[_Found]:
    """The rows of lists that have items which were found."""
    ends, is_there = arrow.ends(column), arrow.is_valid(column)
    for items, path, what in found:
        counts = np.concatenate([[0], np.cumsum(items)])
        rows = (counts[ends[1:]] > counts[ends[:-1]]) & is_there
        yield rows, joined_path("[]", path), what


def _checked_struct(column: Any) -> tuple[Column, list[_Found]]:
    children: list[Column] = []
    found: list[_Found] = []
    is_there = arrow.is_valid(column)
    for number, field in enumerate(column.type):
        child, own = _checked(column.field(number))
        children.append(child)
        for rows, path, what in own:
            found.append((rows & is_there, joined_path(field.name, path), what))
    if not found:
        return column, []
    mask = arrow.column_of_flags(~is_there) if column.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(column.type), mask=mask), found


def _checked_leaf(column: Any) -> tuple[Column, list[_Found]]:
    type_, t = column.type, pa.types
    own = arrow.numbers(column, np.int32 if type_.bit_width == 32 else np.int64)
    first, last, what = 0, _DAY_S, "a time of day outside of a day"
    if not t.is_time(type_):
        kind = "date" if t.is_date(type_) else "timestamp"
        first, last, what = _FIRST_DAY, _LAST_DAY + 1, f"a {kind} outside of the years 1 to 9999"
    if not t.is_date(type_):
        per_unit = _PER_SECOND[type_.unit] * (1 if t.is_time(type_) else _DAY_S)
        limits = np.iinfo(own.dtype)
        first, last = max(first * per_unit, int(limits.min)), min(last * per_unit, int(limits.max) + 1)
    if own.min() >= first and own.max() < last:
        return column, []
    is_there = arrow.is_valid(column)
    lost = ((own < first) | (own > last - 1)) & is_there
    if not lost.any():
        return column, []
    return arrow.column_of_numbers(type_, np.where(lost, own.dtype.type(0), own), lost | ~is_there), [(lost, "", what)]
