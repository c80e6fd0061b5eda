"""Times of day in tables: columns of whole numbers, and the property of a table that names them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa

TIMES = "brokerless.timesOfDay"
"""A table's property: a JSON array of the paths of its times of day. Iceberg's rollback and Delta's RESTORE do with a
table's properties what they do with its columns."""
TIME_OF_DAY = pa.time64("us")
_KEY, _ITEM = "{}", "[]"
"""The keys of a map; the elements of an array, and the values of a map."""


def physical_type(type_: Any) -> pa.DataType:
    """Return the type that a table's files and its schema have: times of day are whole numbers of microseconds, as
    neither Delta nor Spark's reader of Iceberg has a type for them."""
    t = pa.types
    if t.is_struct(type_):
        return pa.struct([field.with_type(physical_type(field.type)) for field in type_])
    if t.is_list(type_):
        return pa.list_(physical_type(type_.value_type))
    if t.is_map(type_):
        return pa.map_(physical_type(type_.key_type), physical_type(type_.item_type))
    return pa.int64() if t.is_time(type_) else type_


def physical_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with physical types for all columns."""
    return pa.schema([field.with_type(physical_type(field.type)) for field in schema])


def dump(schema: pa.Schema) -> str:
    """Return the text of the property of a table with these columns."""
    return json.dumps(sorted(path for field in schema for path in _paths(field.type, field.name)))


def with_times(schema: pa.Schema, text: str | None) -> pa.Schema:
    """Return the columns of a table with times of day where its property names them."""
    paths = _parse(text)
    return pa.schema([field.with_type(_with_times(field.type, field.name, paths)) for field in schema])


def _parse(text: str | None) -> set[str]:
    try:
        found = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return set()
    return {each for each in found if isinstance(each, str)} if isinstance(found, list) else set()


def _paths(type_: Any, path: str) -> Iterator[str]:
    t = pa.types
    if t.is_struct(type_):
        for field in type_:
            yield from _paths(field.type, f"{path}.{field.name}")
    elif t.is_list(type_):
        yield from _paths(type_.value_type, path + _ITEM)
    elif t.is_map(type_):
        yield from _paths(type_.key_type, path + _KEY)
        yield from _paths(type_.item_type, path + _ITEM)
    elif t.is_time(type_):
        yield path


def _with_times(type_: Any, path: str, paths: Collection[str]) -> pa.DataType:
    t = pa.types
    if t.is_struct(type_):
        return pa.struct([field.with_type(_with_times(field.type, f"{path}.{field.name}", paths)) for field in type_])
    if t.is_list(type_):
        return pa.list_(_with_times(type_.value_type, path + _ITEM, paths))
    if t.is_map(type_):
        key = _with_times(type_.key_type, path + _KEY, paths)
        return pa.map_(key, _with_times(type_.item_type, path + _ITEM, paths))
    return TIME_OF_DAY if t.is_int64(type_) and path in paths else type_
