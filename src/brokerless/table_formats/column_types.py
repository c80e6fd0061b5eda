"""Types of a table's columns: what a table has for decoded values, how it evolves, and values converted to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from brokerless.arrow import Column
from brokerless.table_formats.catalog import TableFormat
from brokerless.table_formats.times_of_day import TIME_OF_DAY

MAX_FIELDS = 1000
"""Of one struct: more than that are keys of data, such as ids, and no columns."""
_NAME = re.compile(r"[\w@$#:/-]{1,255}")


def stored_type(type_: Any, form: TableFormat) -> pa.DataType:
    """Return the type that a table has for values of a type, with times of day of their own (see ``times_of_day``).

    Times are in microseconds. A struct whose fields' names a table cannot have is JSON text: two that differ only
    by case, a dot or a space in one. In Delta, which cannot widen a column, whole numbers are long and floats double.
    A field of JSON that is null everywhere has no column until it has a type, if its object has other fields.
    """
    t = pa.types
    if t.is_struct(type_):
        names = [field.name for field in type_]
        if not 0 < len(names) <= MAX_FIELDS or len({name.casefold() for name in names}) < len(names):
            return pa.string()
        if not all(_NAME.fullmatch(name) for name in names):
            return pa.string()
        known = [field for field in type_ if not t.is_null(field.type)]
        return pa.struct([pa.field(field.name, stored_type(field.type, form)) for field in known or type_])
    if t.is_list(type_) or t.is_large_list(type_):
        return pa.list_(stored_type(type_.value_type, form))
    if t.is_map(type_):
        return pa.map_(stored_type(type_.key_type, form), stored_type(type_.item_type, form))
    if t.is_timestamp(type_):
        return pa.timestamp("us", type_.tz)
    if t.is_time(type_):
        return TIME_OF_DAY
    if t.is_integer(type_):
        return pa.int64() if form == "delta" or type_.bit_width == 64 else pa.int32()
    if t.is_floating(type_):
        return pa.float64() if form == "delta" or type_.bit_width == 64 else pa.float32()
    if t.is_null(type_) or t.is_large_string(type_):
        return pa.string()
    return pa.binary() if t.is_large_binary(type_) else type_


def file_type(type_: Any) -> pa.DataType:
    """Return the type that Parquet files without a table have: a struct with names that differ only by case is JSON
    text, as in a table, since Spark refuses such files."""
    t = pa.types
    if t.is_struct(type_):
        if len({field.name.casefold() for field in type_}) < type_.num_fields:
            return pa.string()
        return pa.struct([pa.field(field.name, file_type(field.type)) for field in type_])
    if t.is_list(type_):
        return pa.list_(file_type(type_.value_type))
    return pa.map_(type_.key_type, file_type(type_.item_type)) if t.is_map(type_) else type_


def too_wide(type_: Any, path: str) -> Iterator[tuple[str, int]]:
    """Yield the paths of structs that have more fields than a table gets columns of one, and how many."""
    t = pa.types
    if t.is_struct(type_):
        if type_.num_fields > MAX_FIELDS:
            yield path, type_.num_fields
        for field in type_:
            yield from too_wide(field.type, f"{path}.{field.name}")
    elif t.is_list(type_) or t.is_map(type_):
        yield from too_wide(type_.value_type if t.is_list(type_) else type_.item_type, f"{path}[]")


def evolved_type(now: Any, wanted: Any, form: TableFormat) -> pa.DataType:
    """Return the type of a column that is ``now`` and is to have values of the type ``wanted`` as well, as the format
    lets it evolve: fields are added, but those that a table cannot have (see :func:`stored_type`), numbers widened
    (Iceberg). What cannot become the other keeps its type."""
    t = pa.types
    if now == wanted:
        return now
    if t.is_struct(now) and t.is_struct(wanted):
        own = {field.name: field.type for field in now}
        folded = {name.casefold() for name in own}
        for field in wanted:
            if field.name in own:
                own[field.name] = evolved_type(own[field.name], field.type, form)
            elif t.is_null(field.type):
                continue
            elif _NAME.fullmatch(field.name) and field.name.casefold() not in folded and len(own) < MAX_FIELDS:
                own[field.name] = stored_type(field.type, form)
                folded.add(field.name.casefold())
        return pa.struct([pa.field(name, type_) for name, type_ in own.items()])
    if t.is_list(now) and t.is_list(wanted):
        return pa.list_(evolved_type(now.value_type, wanted.value_type, form))
    if t.is_map(now) and t.is_map(wanted):
        return pa.map_(now.key_type, evolved_type(now.item_type, wanted.item_type, form))
    stored = stored_type(wanted, form)
    return stored if form == "iceberg" and _widens(now, stored) else now


def decoded_type(stored: Any, found: Any, form: TableFormat) -> pa.DataType:
    """Return the type to decode into for a column of the type ``stored``: that of the schemas (``found``) where its
    values can be converted without loss, else the column's, so that what does not fit fails where it is decoded. Fields
    that are null everywhere are there as such, also those that have no column, so that decoders know their names."""
    t = pa.types
    if t.is_struct(stored) and t.is_struct(found):
        types = {field.name: field.type for field in found}
        own = [pa.field(each.name, decoded_type(each.type, types.get(each.name, each.type), form)) for each in stored]
        known = set(stored.names)
        return pa.struct([*own, *(each for each in found if t.is_null(each.type) and each.name not in known)])
    if t.is_list(stored) and t.is_list(found):
        return pa.list_(decoded_type(stored.value_type, found.value_type, form))
    if t.is_map(stored) and t.is_map(found):
        key, item = decoded_type(stored.key_type, found.key_type, form), found.item_type
        return pa.map_(key, decoded_type(stored.item_type, item, form))
    if t.is_null(found):
        return stored
    own = stored_type(found, form)
    is_cut = t.is_timestamp(found) and found.unit == "ns"  # years that these lack are in microseconds
    return found if not t.is_nested(found) and not is_cut and (own == stored or _widens(own, stored)) else stored


def _widens(one: Any, two: Any) -> bool:
    """Return whether every value of one type is one of the other, by Iceberg's rules of promotion."""
    if pa.types.is_decimal(one) and pa.types.is_decimal(two):
        return one.scale == two.scale and one.precision < two.precision
    return (one, two) in ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()))


def plain_type(type_: Any) -> pa.DataType:
    """Return a type as pyiceberg or deltalake give it, in the form that Arrow has for most: no large strings, no
    views."""
    t = pa.types
    if t.is_struct(type_):
        return pa.struct([plain_field(field) for field in type_])
    if t.is_list(type_) or t.is_large_list(type_):
        return pa.list_(plain_field(type_.value_field))
    if t.is_map(type_):
        return pa.map_(plain_field(type_.key_field), plain_field(type_.item_field))
    if t.is_large_string(type_) or t.is_string_view(type_):
        return pa.string()
    return pa.binary() if t.is_large_binary(type_) or t.is_binary_view(type_) else type_


def plain_field(field: pa.Field) -> pa.Field:
    """Return the field with its plain type and its metadata."""
    return field.with_type(plain_type(field.type))


def convert(column: Any, type_: Any) -> Column:
    """Return a decoded column in the type that its table has."""
    t = pa.types
    if not t.is_nested(type_):
        if column.type == type_:
            return column
        whole = column.cast(TIME_OF_DAY) if t.is_time(column.type) else column
        return whole.cast(type_)
    if column.offset:
        column = pa.concat_arrays([column, column.slice(0, 0)])
    rows, null = len(column), column.null_count
    if t.is_struct(type_):
        names = [field.name for field in column.type]
        children = [
            convert(column.field(names.index(field.name)), field.type) if field.name in names
            else pa.nulls(rows, field.type)
            for field in type_
        ]  # fmt: skip
        return pa.Array.from_buffers(type_, rows, column.buffers()[:1], null, 0, children)
    if t.is_list(type_):
        values = convert(column.values, type_.value_type)
        return pa.Array.from_buffers(type_, rows, column.buffers()[:2], null, 0, [values])
    pair = [convert(column.keys, type_.key_type), convert(column.items, type_.item_type)]
    entries = pa.StructArray.from_arrays(pair, fields=[type_.key_field, type_.item_field])
    return pa.Array.from_buffers(type_, rows, column.buffers()[:2], null, 0, [entries])
