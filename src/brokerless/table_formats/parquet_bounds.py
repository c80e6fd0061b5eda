"""Finds the columns of Parquet files that may have bounds: those without a NaN, of which readers would lose rows.

Parquet's minimum and maximum leave a NaN out, and Spark and DuckDB, for which it is above all numbers, pass over the
rows that have one. Columns are numbered as in a file: the leaves of the schema, in their order.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

_compute: Any = pyarrow.compute


def columns_with_bounds(schema: pa.Schema, without: Iterable[int]) -> Any:
    """Return what a writer's ``write_statistics`` is: the paths of all columns but those ``without`` bounds."""
    sink, left_out = io.BytesIO(), set(without)
    pq.ParquetWriter(sink, schema).close()
    found = pq.read_metadata(sink).schema
    return [found.column(number).path for number in range(len(found.names)) if number not in left_out]


def float_columns(schema: pa.Schema) -> set[int]:
    """Return the numbers of the columns that may have a NaN."""
    leaves = (leaf for field in schema for leaf in _leaf_types(field.type))
    return {number for number, leaf in enumerate(leaves) if pa.types.is_floating(leaf)}


def nan_columns(batches: Iterable[pa.RecordBatch]) -> set[int]:
    """Return the numbers of the columns that have a NaN."""
    found: set[int] = set()
    for batch in batches:
        number = 0
        for column in batch.columns:
            count = sum(1 for _ in _leaf_types(column.type))
            if any(pa.types.is_floating(each) for each in _leaf_types(column.type)):
                leaves = enumerate(_leaves(column), number)
                found |= {at for at, leaf in leaves if at not in found and _has_nan(leaf)}
            number += count
    return found


def floats_without_bounds(footer: Any) -> set[str]:
    """Return the paths of a file's columns of floating-point numbers that have values and no bounds."""
    found: set[str] = set()
    for group in range(footer.num_row_groups):
        row_group = footer.row_group(group)
        for column in map(row_group.column, range(row_group.num_columns)):
            own = column.statistics
            has_bounds = own is not None and (own.has_min_max or not own.num_values)
            if column.physical_type in ("FLOAT", "DOUBLE") and not has_bounds:
                found.add(column.path_in_schema)
    return found


def _leaf_types(type_: Any) -> Iterator[Any]:
    t = pa.types
    if t.is_struct(type_):
        for field in type_:
            yield from _leaf_types(field.type)
    elif t.is_map(type_):
        yield from _leaf_types(type_.key_type)
        yield from _leaf_types(type_.item_type)
    elif _is_list(type_):
        yield from _leaf_types(type_.value_type)
    else:
        yield type_


def _leaves(column: Any) -> Iterator[Any]:
    """The columns that a column is stored as; those within maps may have values that are outside of its rows."""
    t = pa.types
    if t.is_struct(column.type):
        for each in column.flatten():
            yield from _leaves(each)
    elif t.is_map(column.type):
        yield from _leaves(column.keys)
        yield from _leaves(column.items)
    elif _is_list(column.type):
        yield from _leaves(column.flatten())
    else:
        yield column


def _is_list(type_: Any) -> bool:
    return pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_)


def _has_nan(leaf: Any) -> bool:
    return pa.types.is_floating(leaf.type) and bool(_compute.any(_compute.is_nan(leaf)).as_py())
