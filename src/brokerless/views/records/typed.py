"""Formats decoded keys and values: strings unchanged, all else as JSON; as lines of text and as JSON Lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from brokerless import arrow
from brokerless.arrow import Column
from brokerless.interchange.jsonl_writer import COLUMNS, dumps
from brokerless.schemas import TIMESTAMP_TYPES
from brokerless.text import json_bytes
from brokerless.typed.topic_type import COLUMNS as ADDED


def as_bytes(decoded: pa.RecordBatch) -> pa.RecordBatch:
    """Decoded records as records: keys and values are text again, and bytes where nothing of them was decoded."""
    columns: dict[str, Column] = {}
    for name in decoded.schema.names:
        if name in ADDED:
            continue
        column: Column = decoded.column(name)
        if name in ("key", "value"):
            raw = arrow.values(decoded.column(f"{name}Raw"))
            texts = [None if value is None else _text(value) for value in json_values(column)]
            column = arrow.column_of_values(
                [bytes_ if text is None else text for text, bytes_ in zip(texts, raw, strict=True)], pa.binary()
            )
        columns[name] = column
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def json_lines(decoded: pa.RecordBatch, controls: Sequence[Any] | None = None) -> Iterator[bytes]:
    """Yield the lines of ``cat --json`` with keys and values as JSON. Bytes are text where they are UTF-8, else in
    base64; what could not be decoded is bytes, with ``keyError`` or ``valueError`` after the other members."""
    names = [name for name in COLUMNS if name in decoded.schema.names]
    values = {name: _column(decoded, name) for name in names}
    errors = {
        name: arrow.values(decoded.column(name))
        for name in ADDED
        if name.endswith("Error") and name in decoded.schema.names
    }
    for row in range(decoded.num_rows):
        line = {name: values[name][row] for name in names}
        line |= {name: found[row] for name, found in errors.items() if found[row] is not None}
        if controls is not None and controls[row] is not None:
            line = {name: each for name, each in line.items() if not name.endswith("Error")}
            line["control"] = controls[row]
        yield dumps(line).encode() + b"\n"


def _column(decoded: pa.RecordBatch, name: str) -> list[Any]:
    column: Column = decoded.column(name)
    if name in ("key", "value"):
        raw = [json_bytes(each) for each in arrow.values(decoded.column(f"{name}Raw"))]
        return [bytes_ if typed is None else typed for typed, bytes_ in zip(json_values(column), raw, strict=True)]
    if name == "headers":
        found = arrow.values(column)
        return [[[json_bytes(_encoded(each["key"])), json_bytes(each["value"])] for each in row] for row in found]
    if name == "timestampType":
        return [TIMESTAMP_TYPES.get(each) for each in arrow.values(column)]
    return arrow.values(column)


def _encoded(value: Any) -> bytes | None:
    return value.encode(errors="surrogateescape") if isinstance(value, str) else value


def json_values(column: Column) -> list[Any]:
    """Each value of a column as JSON has it: structs and maps are objects, times ISO 8601, decimals text."""
    type_ = column.type
    if pa.types.is_temporal(type_):
        return [None if value is None else arrow.time_text(value, type_) for value in arrow.values(column)]
    return [json_value(value, type_) for value in arrow.values(column)]


def json_value(value: Any, type_: Any) -> Any:
    """Return a Python value of an Arrow type as JSON has it."""
    t = pa.types
    if value is None:
        return None
    if t.is_struct(type_):
        return {field.name: json_value(value[field.name], field.type) for field in type_}
    if t.is_list(type_):
        return [json_value(each, type_.value_type) for each in value]
    if t.is_map(type_):
        return {_name(json_value(key, type_.key_type)): json_value(each, type_.item_type) for key, each in value}
    if t.is_temporal(type_):
        return arrow.time_text(value, type_)
    if isinstance(value, bytes):
        return json_bytes(value)
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    return value if isinstance(value, (bool, int, str)) else str(value)


def _name(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)
