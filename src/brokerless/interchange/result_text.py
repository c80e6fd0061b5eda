"""Writes the results of queries as text: CSV and JSON Lines, and each value as people read it."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, cast

import pyarrow as pa

from brokerless import arrow
from brokerless.interchange.jsonl_writer import dumps
from brokerless.text import show_name

NOTHING = "-"
_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1)
_NANOSECONDS = "ns"
_DAY_MS = 86_400_000


def rows_of(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """Return the rows of a record batch as Python's values. Times in nanoseconds, which Python does not have, are text,
    as ``cat --decode`` writes them, whatever their digits are. Timestamps that Python has no value for, such as of the
    year 10000, are integers, in milliseconds; such dates are days since 1970."""
    return zip(*map(_values, batch.columns), strict=True)


def _values(column: Any) -> list[Any]:
    if not _has_nanoseconds(column.type):
        try:
            return column.to_pylist()
        except (ValueError, OverflowError):
            pass
    return [_value(each, column.type) for each in arrow.values(column)]


def _has_nanoseconds(type_: Any) -> bool:
    t = pa.types
    if t.is_nested(type_):
        return any(_has_nanoseconds(type_.field(number).type) for number in range(type_.num_fields))
    return (t.is_timestamp(type_) or t.is_time(type_)) and type_.unit == _NANOSECONDS


def _value(value: Any, type_: Any) -> Any:
    """The value of a type whose times are numbers, with Python's times, or text."""
    t = pa.types
    if value is None:
        return None
    if t.is_struct(type_):
        return {field.name: _value(value[field.name], field.type) for field in type_}
    if t.is_map(type_):
        return [(_value(key, type_.key_type), _value(item, type_.item_type)) for key, item in value]
    if t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_):
        return [_value(each, type_.value_type) for each in value]
    if t.is_timestamp(type_) or t.is_time(type_):
        return _time(value, type_)
    if t.is_duration(type_):
        return timedelta(microseconds=value * 1_000_000 // arrow.PER_SECOND[type_.unit])
    if t.is_date(type_):
        try:
            return date.fromordinal(_EPOCH.toordinal() + (value if t.is_date32(type_) else value // _DAY_MS))
        except (ValueError, OverflowError):
            return value
    return value


def _time(number: int, type_: Any) -> Any:
    if type_.unit == _NANOSECONDS:
        return arrow.time_text(number, type_)
    microseconds = number * 1_000_000 // arrow.PER_SECOND[type_.unit]
    try:
        found = _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return microseconds // 1000
    if pa.types.is_time(type_):
        return found.time()
    return found if type_.tz is None else found.replace(tzinfo=UTC)


def text_of(value: Any, null: str = NOTHING) -> str:
    """Return one value as text: bytes that are UTF-8 as that, others as JSON has them; times in ISO 8601, in UTC."""
    match value:
        case None:
            return null
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return json_of(value)
        case datetime():
            return _iso(value)
        case list() | dict():
            return dumps(_plain(value, in_text=True))
        case _:
            return str(value)


def _iso(value: datetime) -> str:
    text = value.isoformat(timespec="microseconds" if value.microsecond % 1000 else "milliseconds")
    return text.replace("+00:00", "Z").replace(".000Z", "Z").removesuffix(".000")


def csv_lines(schema: pa.Schema | None, rows: Iterator[tuple[Any, ...]], is_terminal: bool = False) -> Iterator[bytes]:
    """Yield CSV (RFC 4180, but lines end as in Unix); with ``schema``, its names come first. Null is empty.
    ``is_terminal``: control characters are escaped, line ends within a value among them."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    shown = show_name if is_terminal else str
    if schema is not None:
        writer.writerow(map(shown, schema.names))
    for number, row in enumerate(rows):
        writer.writerow([shown(text_of(value, "")) for value in row])
        if number % 1024 == 1023:
            yield out.getvalue().encode(errors="backslashreplace")
            out.seek(0)
            out.truncate()
    yield out.getvalue().encode(errors="backslashreplace")


def json_lines(schema: pa.Schema, rows: Iterator[tuple[Any, ...]]) -> Iterator[bytes]:
    """Yield JSON Lines; timestamps are milliseconds since the epoch, bytes strings or ``{"base64": ...}``."""
    names = [dumps(name) + ":" for name in schema.names]
    for row in rows:
        fields = (name + json_of(value) for name, value in zip(names, row, strict=True))
        yield ("{" + ",".join(fields) + "}\n").encode()


def json_of(value: Any) -> str:
    if isinstance(value, float):
        return json.dumps(value) if value - value == 0 else f'"{value}"'
    return dumps(_plain(value))


def _plain(value: Any, *, in_text: bool = False) -> Any:
    """A value as JSON has it. ``in_text``: within CSV or a table, where times are ISO 8601."""
    match value:
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return {"base64": base64.b64encode(value).decode()}
        case datetime():
            return _iso(value) if in_text else _milliseconds(value)
        case date() | time() | timedelta():
            return str(value)
        case Decimal():
            number = int(value) if value == value.to_integral_value() else float(value)
            return number if Decimal(str(number)) == value else str(value)  # a float has 17 digits at most
        case float():
            return value if value - value == 0 else str(value)
        case dict():
            own = cast("dict[Any, Any]", value)
            return {str(name): _plain(each, in_text=in_text) for name, each in own.items()}
        case list() | tuple():
            return [_plain(each, in_text=in_text) for each in cast("list[Any]", value)]
        case None | bool() | int() | str():
            return value
        case _:
            return str(value)


def _milliseconds(value: datetime) -> int | float | str:
    """Milliseconds since the epoch with all digits; ISO 8601 where a float has too few for them."""
    since = value.replace(tzinfo=None) - _EPOCH
    if not since % _MILLISECOND:
        return since // _MILLISECOND
    found = since / _MILLISECOND
    return found if Decimal(str(found)) * 1000 == since // timedelta(microseconds=1) else _iso(value)
