"""Converts between Arrow columns and NumPy arrays, without a copy.

Used rather than ``to_numpy``, ``pa.array``, ``from_pylist`` and others that look for pandas: where it is installed,
they import it, for 0.3 seconds. ``cast``, ``filter`` and ``is_valid`` import ``pyarrow.compute``, for 0.05.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from itertools import chain
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless.text import readable

Column = Any
"""A ``pa.Array``, of whose types the published stubs know little."""

PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
"""The units of Arrow's times."""
DAY_S = 86_400
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, by days since 1970."""
_NO_BYTES = np.empty(0, dtype=np.uint8)
_MOST_REPEATED = 4
_SHORT = pa.int32()
_repeating = Lock()
_repeated: dict[tuple[str, int], Column] = {}
"""The last ones used, the latest at the end: what is in here is not freed, so that its address is its own."""


def numbers(column: Column, dtype: type[np.generic]) -> NDArray[Any]:
    """Return the values of a column of numbers (undefined where it is null), shape ``(len(column),)``."""
    return np.frombuffer(column.buffers()[1], dtype)[column.offset : column.offset + len(column)]


def integers(column: Column) -> list[int | None]:
    """Return a column of integers, or of timestamps in their unit."""
    return (column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()


def values(column: Column) -> list[Any]:
    """Return the values of a column as Python's, with timestamps, dates, times of day and durations as their numbers at
    any depth: Python has no year above 9999 and no nanoseconds, and ``to_pylist`` fails on them."""
    t, type_ = pa.types, column.type
    numbers = without_times(type_) if t.is_nested(type_) or t.is_temporal(type_) else type_
    if numbers == type_:
        return column.to_pylist()
    is_flat = isinstance(column, pa.Array) and not t.is_nested(type_)
    return (column.view(numbers) if is_flat else column.cast(numbers)).to_pylist()


def time_text(number: int, type_: Any) -> str | int:
    """Return ISO 8601; the number itself where the year is none of four digits, and where a time of day is none of a
    day."""
    t = pa.types
    is_date, is_time = t.is_date(type_), t.is_time(type_)
    per_second = 1 if is_date else PER_SECOND[type_.unit]
    seconds, rest = (number * DAY_S, 0) if is_date else divmod(number, per_second)
    digits = len(str(per_second)) - 1
    fraction = f".{rest:0{digits}d}" if digits else ""
    if is_time and not 0 <= seconds < DAY_S:
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


def rows(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a record batch or table, with values as :func:`values` has them."""
    columns = [values(column) for column in table.columns]
    return [dict(zip(table.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def without_times(type_: Any, short: pa.DataType = _SHORT) -> pa.DataType:
    """Return the type with whole numbers in place of times. ``short``: of those in place of times of 32 bits."""
    t = pa.types
    if t.is_timestamp(type_) or t.is_time64(type_) or t.is_date64(type_) or t.is_duration(type_):
        return pa.int64()
    if t.is_time32(type_) or t.is_date32(type_):
        return short
    if t.is_struct(type_):
        return pa.struct([field.with_type(without_times(field.type, short)) for field in type_])
    if t.is_map(type_):
        return pa.map_(without_times(type_.key_type, short), without_times(type_.item_type, short))
    if t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_):
        field = type_.value_field.with_type(without_times(type_.value_type, short))
        if t.is_large_list(type_):
            return pa.large_list(field)
        return pa.list_(field, type_.list_size if t.is_fixed_size_list(type_) else -1)
    return type_


def flags(column: Column) -> NDArray[np.uint8]:
    """Return the values of a column of booleans as 0 and 1."""
    bits = np.unpackbits(np.frombuffer(column.buffers()[1], np.uint8), bitorder="little")
    return bits[column.offset : column.offset + len(column)]


def ends(column: Column) -> NDArray[np.int32]:
    """Return where the rows of a column of bytes, strings or lists end: row ``i`` is from ``ends[i]`` to
    ``ends[i + 1]`` of its data."""
    return np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]


def data(column: Column) -> NDArray[np.uint8]:
    """Return the data of a column of bytes or strings."""
    buffer = column.buffers()[2]
    return _NO_BYTES if buffer is None else np.frombuffer(buffer, np.uint8)


def validity(column: Column) -> NDArray[np.uint8]:
    """Return a bit for each row, from bit ``column.offset`` on; empty if all rows are valid."""
    buffer = column.buffers()[0] if column.null_count else None
    return _NO_BYTES if buffer is None else np.frombuffer(buffer, np.uint8)


def is_valid(column: Column) -> NDArray[np.bool_]:
    """Return which rows are not null."""
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    return np.unpackbits(validity(column), bitorder="little")[column.offset : column.offset + len(column)].astype(bool)


def bits(flags: NDArray[Any]) -> NDArray[np.uint8]:
    """Return a bit for each flag, as Arrow has them."""
    return np.packbits(flags, bitorder="little")


def column_of(
    type_: pa.DataType, rows: int, buffers: Sequence[NDArray[Any] | bytes | None], children: Sequence[Column] = ()
) -> Column:
    """Return a column of any type from its buffers, which are adopted; the first one holds the bits of what is not
    null."""
    adopted: Any = [None if buffer is None else pa.py_buffer(memoryview(buffer)) for buffer in buffers]  # pyright: ignore
    return pa.Array.from_buffers(type_, rows, adopted, children=list(children) or None)


def column_of_numbers(type_: pa.DataType, values: NDArray[Any], null: NDArray[np.bool_] | None = None) -> Column:
    """Adopts numbers of a dtype as wide as ``type_``; ``null`` says which of them are none."""
    return column_of(type_, len(values), [_valid(null), np.ascontiguousarray(values)])


def column_of_flags(values: NDArray[np.bool_], null: NDArray[np.bool_] | None = None) -> Column:
    """Return a column of booleans; ``null`` says which of them are none."""
    return column_of(pa.bool_(), len(values), [_valid(null), bits(values)])


def column_of_values(values: Sequence[Any], type_: pa.DataType) -> Column:
    """Return a column of Python's numbers, booleans, strings, bytes, and lists of these; None is null.

    ``type_``: an integer, timestamp, boolean, string, binary, list or dictionary type. Strings may be names that are no
    UTF-8 (see :func:`printable.readable`).
    """
    null = np.array([value is None for value in values], np.bool_)
    if isinstance(type_, pa.DictionaryType):
        codes = {name: code for code, name in enumerate(dict.fromkeys(value for value in values if value is not None))}
        indices = column_of_values([codes.get(value) for value in values], type_.index_type)
        return pa.DictionaryArray.from_arrays(indices, column_of_values(list(codes), type_.value_type))
    if isinstance(type_, pa.ListType):
        items = column_of_values(list(chain.from_iterable(value or () for value in values)), type_.value_type)
        return column_of(type_, len(values), [_valid(null), _ends(values)], [items])
    if pa.types.is_binary(type_) or pa.types.is_string(type_):
        encoded = [readable(value).encode() if isinstance(value, str) else value or b"" for value in values]
        return column_of(type_, len(values), [_valid(null), _ends(encoded), b"".join(encoded)])
    if pa.types.is_boolean(type_):
        return column_of_flags(np.array([bool(value) for value in values], np.bool_), null)
    numbers = np.array([0 if value is None else value for value in values], f"i{type_.bit_width // 8}")
    return column_of_numbers(type_, numbers, null)


def repeated(text: str, count: int) -> Column:
    """Return a text so many times. Its bytes are shared with columns of the same text and about the same length."""
    key = text, round_up(count)
    with _repeating:
        column = _repeated.pop(key, None)
        if column is None:
            encoded, ends = text.encode(), np.arange(key[1] + 1, dtype=np.int32)
            column = column_of(pa.string(), key[1], [None, ends * len(encoded), encoded * key[1]])
        _repeated[key] = column
        if len(_repeated) > _MOST_REPEATED:
            _repeated.pop(next(iter(_repeated)), None)
    return column.slice(0, count)


def is_repeated(column: Column) -> bool:
    """Return whether a column is one of :func:`repeated`, as far as that is known still; if not, it may be all the
    same."""
    if not pa.types.is_string(column.type) or column.buffers()[2] is None:
        return False
    address = column.buffers()[2].address
    return any(each.buffers()[2].address == address for each in tuple(_repeated.values()))


def round_up(count: int) -> int:
    """Return a power of two, so that what is made for one record batch does for others of about its size."""
    return 1 << max(10, (count - 1).bit_length() if count else 0)


def table_of(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return a table from rows of Python's values, of the types that :func:`column_of_values` knows."""
    columns = [column_of_values([row[field.name] for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _valid(null: NDArray[np.bool_] | None) -> NDArray[np.uint8] | None:
    return None if null is None or not null.any() else bits(~null)


def _ends(values: Sequence[Any]) -> NDArray[np.int32]:
    return np.cumsum([0, *(len(value or ()) for value in values)], dtype=np.int32)
