"""Spark's schemas of our tables, the columns that a query selects, and record batches in the form that Spark takes.

Spark refuses a first batch whose schema is not its own to the letter (names, order, types, nullability).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import types

from brokerless.bounds import MAX_INT64
from brokerless.errors import UsageError
from brokerless.findings import Finding
from brokerless.schemas import BATCHES, HEADERS, RECORDS, SEGMENTS, TIMESTAMP, TRANSACTIONS
from brokerless.spark.options import Options

_SCHEMAS = {"records": RECORDS, "batches": BATCHES, "segments": SEGMENTS, "transactions": TRANSACTIONS}
_KAFKA_COLUMNS = 7
"""The first columns of the records are those of spark-sql-kafka; then come the headers, and what it does not have."""
_LARGEST_MS = MAX_INT64 // 1000
"""Spark counts microseconds in 64 bits."""


def arrow_schema(schema: types.StructType) -> pa.Schema:
    """Return the Arrow schema in which Spark wants and gives rows of a schema."""
    from pyspark.sql.pandas.types import to_arrow_schema

    convert = cast(Any, to_arrow_schema)
    # Where it does not take one (PySpark 4.1), it is UTC.
    takes_timezone = "timezone" in signature(to_arrow_schema).parameters
    return convert(schema, timezone="UTC") if takes_timezone else convert(schema)


def spark_type(type_: pa.DataType) -> types.DataType:
    """Return the Spark type of a column of :mod:`brokerless.schemas`, or of decoded keys and values: times of day are
    numbers in their unit, as Spark before 4.1 has no type for them."""
    if pa.types.is_string(type_):
        return types.StringType()
    if pa.types.is_list(type_):
        return types.ArrayType(spark_type(cast(Any, type_).value_type))
    if pa.types.is_struct(type_):
        fields = [types.StructField(field.name, spark_type(field.type)) for field in cast(Any, type_)]
        return types.StructType(fields)
    if pa.types.is_map(type_):
        pair = cast(Any, type_)
        return types.MapType(spark_type(pair.key_type), spark_type(pair.item_type))
    if pa.types.is_decimal(type_):
        return types.DecimalType(cast(Any, type_).precision, cast(Any, type_).scale)
    if pa.types.is_timestamp(type_):
        return types.TimestampType() if cast(Any, type_).tz else types.TimestampNTZType()
    plain = {
        pa.binary(): types.BinaryType(),
        pa.bool_(): types.BooleanType(),
        pa.int8(): types.ByteType(),
        pa.int16(): types.ShortType(),
        pa.int32(): types.IntegerType(),
        pa.int64(): types.LongType(),
        pa.float32(): types.FloatType(),
        pa.float64(): types.DoubleType(),
        pa.date32(): types.DateType(),
        pa.time32("ms"): types.IntegerType(),
        pa.time64("us"): types.LongType(),
    }
    return plain[type_]


def all_columns(options: Options) -> dict[str, types.DataType]:
    """Return what a given schema may ask for, by name."""
    schema = _SCHEMAS[options.table]
    if options.topic_type is not None:
        schema = options.topic_type.schema(schema)
    return {field.name: spark_type(field.type) for field in schema}


def default_schema(options: Options) -> types.StructType:
    """Return the schema where the user gives none; for records, spark-sql-kafka's."""
    fields = [types.StructField(name, type_) for name, type_ in all_columns(options).items()]
    if options.table == "records":
        added = fields[len(RECORDS) :]
        fields = fields[: _KAFKA_COLUMNS + 1] if options.headers else fields[:_KAFKA_COLUMNS]
        fields += added
    return types.StructType(fields)


@dataclass(frozen=True, slots=True)
class SelectedColumns:
    """The columns that Spark requests."""

    schema: pa.Schema
    """Spark's Arrow schema to the letter."""
    names: tuple[str | None, ...]
    """Our names of the same columns, in that order; None for the column of corrupt records (PERMISSIVE mode)."""

    @property
    def of_table(self) -> list[str]:
        """Our columns to read; never none, as a batch without columns would not say how many rows it has."""
        return [name for name in self.names if name is not None] or ["partition"]

    @property
    def corrupt(self) -> int | None:
        """Which column takes what is damaged, if any."""
        return self.names.index(None) if None in self.names else None


def choose_columns(schema: types.StructType, options: Options) -> SelectedColumns:
    """Return which of our columns a schema asks for. Raises :class:`UsageError` for an unknown one or a wrong type."""
    known = {name.lower(): (name, type_) for name, type_ in all_columns(options).items()}
    names: list[str | None] = []
    for field in schema.fields:
        if options.mode == "PERMISSIVE" and field.name == options.corrupt_column:
            if field.dataType.simpleString() != "string" or not field.nullable:
                raise UsageError(f"column {field.name}: corrupt records come as string (nullable)")
            names.append(None)
            continue
        if field.name.lower() not in known:
            there = ", ".join(name for name, _ in known.values())
            hint = ""
            if field.name == options.corrupt_column:
                hint = "; mode PERMISSIVE reports corrupt records"
            raise UsageError(f"there is no column {field.name!r} in the table {options.table}{hint}; there are {there}")
        name, type_ = known[field.name.lower()]
        if not _is_same(field.dataType, type_):
            requested, found = type_.simpleString(), field.dataType.simpleString()
            raise UsageError(f"column {field.name}: its type is {requested}, not {found}; read it so, and cast it then")
        names.append(name)
    return SelectedColumns(arrow_schema(schema), tuple(names))


def _is_same(one: types.DataType, other: types.DataType) -> bool:
    """Return whether types are the same but for nullability and the case of names."""
    return one.simpleString().lower() == other.simpleString().lower()


def to_spark(batch: pa.RecordBatch, columns: SelectedColumns) -> pa.RecordBatch:
    """Return a batch with our ``columns.of_table``, in that order, as Spark takes it."""
    rows, given = batch.num_rows, iter(batch.columns)
    arrays: list[pa.Array] = []
    for field, name in zip(columns.schema, columns.names, strict=True):
        array = pa.nulls(rows, field.type) if name is None else convert(next(given), field.type)
        if not field.nullable and array.null_count:
            raise UsageError(f"column {field.name}: the given schema says that it is never null, but it is")
        arrays.append(array)
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, schema=columns.schema)


def corrupt_rows(
    findings: Sequence[Finding], topic: str | None, partition: int | None, columns: SelectedColumns
) -> pa.RecordBatch:
    """One row for each damaged place: what is known of where it is, and the finding as JSON."""
    import json

    rows: list[dict[str, Any]] = []
    for finding in findings:
        known = {"topic": topic, "partition": partition, "file": finding.file, None: json.dumps(finding.as_dict())}
        rows.append({field.name: known.get(name) for field, name in zip(columns.schema, columns.names, strict=True)})
    schema = pa.schema([field.with_nullable(True) for field in columns.schema])
    return pa.RecordBatch.from_pylist(rows, schema).cast(columns.schema)


def convert(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """One of our columns as Spark's Arrow type."""
    if array.type == type_:
        return array
    if array.type == TIMESTAMP:
        return _to_microseconds(array, type_)
    if array.type == HEADERS:
        return _convert_list(cast(pa.ListArray, array), cast(Any, type_))
    return array.cast(type_)


def _to_microseconds(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Milliseconds to microseconds; what 64 bits cannot hold is null, where spark-sql-kafka fails."""
    if not len(array):
        return pa.array([], type_)
    values: NDArray[np.int64] = np.frombuffer(array.buffers()[1], np.int64, len(array), array.offset * 8)
    with np.errstate(over="ignore"):
        micros = values * 1000
    null = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    if int(values.min()) < -_LARGEST_MS or int(values.max()) > _LARGEST_MS:
        beyond = (values < -_LARGEST_MS) | (values > _LARGEST_MS)
        null = beyond if null is None else beyond | null
    return pa.array(micros, mask=null).cast(type_)


def _convert_list(array: pa.ListArray, type_: pa.ListType) -> pa.Array:
    if not pa.types.is_struct(type_.value_type):
        return array.cast(type_)
    # Of a record without headers spark-sql-kafka gives null.
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)
    start, end = int(offsets[0]), int(offsets[-1])
    pairs = cast(pa.StructArray, array.values[start:end])
    struct = cast(pa.StructType, type_.value_type)
    fields = [pairs.field(index) for index in range(pairs.type.num_fields)]
    values = pa.StructArray.from_arrays(fields, fields=list(struct))
    empty = offsets[1:] == offsets[:-1]
    return pa.ListArray.from_arrays(
        pa.array(offsets - start), values, type=type_, mask=pa.array(empty) if empty.any() else None
    )
