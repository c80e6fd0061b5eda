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

from brokerless.interchange.jsonl_writer import dumps
from brokerless.text import show_name

NOTHING = "-"
_MILLISECOND = timedelta(milliseconds=1)
_MILLISECONDS = {"s": 1000, "ms": 1, "us": 1e-3, "ns": 1e-6}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rows_of(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """The rows of a record batch as Python's values. Timestamps that Python has no value for, such as of the year
    10000, are integers, in milliseconds; such dates are days since 1970."""
    columns: list[list[Any]] = []
    for column in batch.columns:
        try:
            columns.append(column.to_pylist())
        except (ValueError, OverflowError):
            columns.append([_value(each) for each in cast(Any, column)])
    return zip(*columns, strict=True)


def _value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        type_ = scalar.type
    t = pa.types
    if t.is_timestamp(type_):
        ratio = _MILLISECONDS[type_.unit]
        return scalar.value * ratio if ratio >= 1 else scalar.value // round(1 / ratio)
    if t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_):
        return [_value(each) for each in scalar.values]
    if t.is_struct(type_):
        return {name: _value(each) for name, each in scalar.items()}
    if t.is_map(type_):
        return [(_value(pair["key"]), _value(pair["value"])) for pair in scalar.values]
    return scalar.value


def text_of(value: Any, null: str = NOTHING) -> str:
    """One value as text: bytes that are UTF-8 as that, others as JSON has them; times in ISO 8601, in UTC."""
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
            return json_of(value)
        case _:
            return str(value)


def _iso(value: datetime) -> str:
    text = value.isoformat(timespec="microseconds" if value.microsecond % 1000 else "milliseconds")
    return text.replace("+00:00", "Z").replace(".000Z", "Z").removesuffix(".000")


def csv_lines(schema: pa.Schema | None, rows: Iterator[tuple[Any, ...]], is_terminal: bool = False) -> Iterator[bytes]:
    """CSV (RFC 4180, but lines end as in Unix); with ``schema``, its names come first. Null is empty. ``is_terminal``:
    control characters are escaped, line ends within a value among them."""
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
    """JSON Lines; timestamps are milliseconds since the epoch, bytes strings or ``{"base64": ...}``."""
    names = [dumps(name) + ":" for name in schema.names]
    for row in rows:
        fields = (name + json_of(value) for name, value in zip(names, row, strict=True))
        yield ("{" + ",".join(fields) + "}\n").encode()


def json_of(value: Any) -> str:
    if isinstance(value, float):
        return json.dumps(value) if value - value == 0 else f'"{value}"'
    return dumps(_plain(value))


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return {"base64": base64.b64encode(value).decode()}
        case datetime():
            since = (value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH
            return since // _MILLISECOND if not since % _MILLISECOND else since / _MILLISECOND
        case date() | time() | timedelta():
            return str(value)
        case Decimal():
            number = int(value) if value == value.to_integral_value() else float(value)
            return number if Decimal(str(number)) == value else str(value)  # a float has 17 digits at most
        case float():
            return value if value - value == 0 else str(value)
        case dict():
            return {str(name): _plain(each) for name, each in cast("dict[Any, Any]", value).items()}
        case list() | tuple():
            return [_plain(each) for each in cast("list[Any]", value)]
        case None | bool() | int() | str():
            return value
        case _:
            return str(value)
