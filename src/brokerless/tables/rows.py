"""Validates Arrow input and casts it to the columns that are written.

What comes from Parquet, JSON Lines, Spark or a program has the columns of the records table, but its own types for
them, and nulls where Kafka has none. Nothing is guessed: a column that a record does not have, a type that cannot hold
what Kafka stores, or a null where a record must have something is refused with the column and the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NoReturn, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from brokerless import arrow
from brokerless.arrow import Column
from brokerless.bounds import LAST_OFFSET, MAX_INT32
from brokerless.errors import BrokerlessError, UsageError
from brokerless.log.names import is_partition
from brokerless.schemas import HEADERS, RECORDS, TIMESTAMP, TIMESTAMP_TYPES

CONTENTS = ("key", "value", "headers")
"""The columns that every normalized batch has."""
PLACES = ("topic", "partition", "offset", "timestamp", "timestampType")
"""The columns that it has where they were given."""
IGNORED = ("file", "batchPosition", "sequence")
"""Columns of the records table that say where records were read; they are not written."""

_IDS = {name: number for number, name in TIMESTAMP_TYPES.items()}
_NAMES = {name.lower(): name for name in RECORDS.names}
"""Behind it a log's end offset has to have a place."""


RowErrorKind = Literal["invalid", "null", "not-rising"]


class RowError(BrokerlessError):
    """A row of an input that cannot become a record: ``row`` counts from 0 in the whole input. ``kind``: ``null`` where
    the column may be left out instead, ``not-rising`` where other rows of the input come too late for it."""

    def __init__(self, row: int, column: str, reason: str, kind: RowErrorKind = "invalid") -> None:
        super().__init__(f"row {row} (from 0), column {column}: {reason}")
        self.row = row
        self.column = column
        self.reason = reason
        self.kind: RowErrorKind = kind

    def __reduce__(self) -> tuple[type[RowError], tuple[int, str, str, RowErrorKind]]:
        return type(self), (self.row, self.column, self.reason, self.kind)


def not_rising(row: int, offset: int, before: int) -> RowError:
    """Return the error of a row whose offset is not above the one before, in the same partition."""
    reason = f"is {offset} and follows {before} in its partition; offsets have to rise, so sort by them"
    return RowError(row, "offset", reason, "not-rising")


def column_name(name: str) -> str:
    """Return the column of records that a name means: names may differ in upper and lower case, as Spark's do."""
    return _NAMES.get(name.lower(), name)


def check_columns(schema: pa.Schema) -> None:
    """Raises :class:`UsageError` if a column is missing, is there twice, or is not one of a record's."""
    names = schema.names
    unknown = [name for name in names if name not in RECORDS.names]
    if unknown:
        raise UsageError(
            f"a record has no column {unknown[0]!r}; it has {', '.join((*CONTENTS, *PLACES))}: select or rename columns"
        )
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UsageError(f"there are two columns {twice[0]!r}")
    if "value" not in names:
        raise UsageError(f"there is no column 'value'; there are {', '.join(names) or 'none'}")


def bounded(batch: pa.RecordBatch, most: int = 32 << 20) -> Iterator[pa.RecordBatch]:
    """Yield slices of a batch of about ``most`` bytes at most, or of one row. Values that rows share in a dictionary
    count for each row. Raises :class:`UsageError` for what is no batch."""
    if not isinstance(batch, pa.RecordBatch):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"batches: {batch!r:.100} is not a pyarrow.RecordBatch")
    if batch.num_rows <= 1 or sum(map(_size, batch.columns)) <= most:
        yield batch
    else:
        middle = batch.num_rows // 2
        yield from bounded(batch.slice(0, middle), most)
        yield from bounded(batch.slice(middle), most)


def _size(column: Column) -> int:
    is_type: Any = pa.types
    if is_type.is_dictionary(column.type) and _is_bytes(column.type.value_type):
        lengths = pc.call_function("binary_length", [column.dictionary])
        return pc.call_function("sum", [lengths.take(column.indices).cast(pa.int64())]).as_py() or 0
    if is_type.is_string_view(column.type) or is_type.is_binary_view(column.type):
        views = np.frombuffer(column.buffers()[1], np.int32).reshape(-1, 4)  # each begins with its length
        return int(
            views[column.offset : column.offset + len(column), 0].sum(dtype=np.int64, where=arrow.is_valid(column))
        )
    return column.nbytes


def normalize(batch: pa.RecordBatch, first_row: int = 0, timestamp: int | None = None) -> pa.RecordBatch:
    """Return a batch with the columns :data:`CONTENTS`, and those of :data:`PLACES` that it has, in the types of
    ``schemas.RECORDS`` (topics as a dictionary), without nulls but in key, value, topic and partition; and
    ``isControl`` if it is there.

    Bytes may come as any type of bytes or strings, dictionaries of them included; integers in any width; timestamps in
    any unit (what is finer than a millisecond is cut off), or as integers in ms; timestamp types by id or name; headers
    as any list of structs of ``key`` and ``value``, null for none; a null topic means that it is not known. Nothing is
    copied that has the right type. ``first_row``: the number of the first row, for errors. ``timestamp`` (ms): that of
    rows whose own is null, which are refused without it.

    Raises :class:`UsageError` for a column that cannot be one of a record's, :class:`RowError` for a row that cannot.
    """
    check_columns(batch.schema)
    columns: dict[str, Column] = {}
    for name, convert in _CONVERT.items():
        if name in batch.schema.names:
            column = batch.column(name)
            if name == "timestamp" and timestamp is not None:
                column = _with_timestamp(column, timestamp)
            columns[name] = convert(column, _RefuseRow(name, first_row))
    if "key" not in columns:
        columns["key"] = pa.nulls(batch.num_rows, pa.binary())
    if "headers" not in columns:
        columns["headers"] = _no_headers(batch.num_rows)
    names = [name for name in (*CONTENTS, *PLACES, "isControl") if name in columns]
    return pa.RecordBatch.from_arrays([columns[name] for name in names], names)


def headers_column(ends: NDArray[np.int32], keys: Column, values: Column) -> Column:
    """Return a column of headers: those of row ``i`` are ``ends[i]`` to ``ends[i + 1]`` of ``keys`` and ``values``."""
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS.value_type.fields))
    return arrow.column_of(HEADERS, len(ends) - 1, [None, ends], [pairs])


def _no_headers(rows: int) -> Column:
    return headers_column(np.zeros(rows + 1, np.int32), pa.nulls(0, pa.string()), pa.nulls(0, pa.binary()))


class _RefuseRow:
    """Raises what is wrong with a column, or with the first row of it for which a flag is set."""

    def __init__(self, column: str, first_row: int) -> None:
        self.column = column
        self.first_row = first_row

    def type(self, type_: pa.DataType, allowed: str) -> NoReturn:
        raise UsageError(f"column {self.column!r} is of type {type_}; it has to be {allowed}")

    def row(self, row: int, reason: str, kind: RowErrorKind = "invalid") -> NoReturn:
        raise RowError(self.first_row + row, self.column, reason, kind)

    def where(self, wrong: NDArray[np.bool_], reason: Callable[[int], str]) -> None:
        if wrong.any():
            row = int(np.argmax(wrong))
            self.row(row, reason(row))

    def nulls(self, column: Column) -> None:
        reason = "is null, and a record has to have one"
        if pa.types.is_null(column.type) and len(column):  # has no bits that say so
            self.row(0, reason, "null")
        if column.null_count:
            self.row(int(np.argmin(arrow.is_valid(column))), reason, "null")


def _plain(column: Column) -> Column:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _is_bytes(type_: pa.DataType) -> bool:
    is_type: Any = pa.types
    kinds = ("binary", "large_binary", "fixed_size_binary", "binary_view", "string", "large_string", "string_view")
    return any(getattr(is_type, f"is_{kind}")(type_) for kind in kinds)


def _bytes(column: Column, refuse: _RefuseRow) -> Column:
    column = _plain(column)
    if not _is_bytes(column.type) and not pa.types.is_null(column.type):
        refuse.type(column.type, "binary or string")
    try:
        return column.cast(pa.binary())
    except pa.ArrowInvalid:
        refuse.row(0, "2 GiB or more in one place; Kafka's records are smaller")


def _headers(column: Column, refuse: _RefuseRow) -> Column:
    if pa.types.is_null(column.type):
        return _no_headers(len(column))
    if column.type != HEADERS:
        column = _cast_headers(column, refuse)
    if column.null_count:
        column = pc.call_function("coalesce", [column, pa.scalar([], HEADERS)])
    starts = arrow.ends(column)
    pairs = column.values
    for inner, name in ((pairs, "a header"), (pairs.field(0), "a header's key")):
        if inner.null_count:
            null = np.flatnonzero(~arrow.is_valid(inner))
            rows = np.searchsorted(starts, null, side="right") - 1
            valid_rows = rows[(rows >= 0) & (rows < len(column))]
            if len(valid_rows):
                refuse.row(int(valid_rows[0]), f"{name} is null")
    return column


def _cast_headers(column: Column, refuse: _RefuseRow) -> Column:
    type_, is_type = column.type, cast("Any", pa.types)
    inner: Any = pa.null()
    if is_type.is_map(type_):
        inner = pa.struct([("key", type_.key_type), ("value", type_.item_type)])
    elif any(getattr(is_type, f"is_{kind}")(type_) for kind in ("list", "large_list", "fixed_size_list", "list_view")):
        inner = type_.value_type
    fields = {field.name: field.type for field in inner.fields} if is_type.is_struct(inner) else {}
    if sorted(fields) != ["key", "value"] or not all(
        _is_bytes(each) or is_type.is_null(each) for each in fields.values()
    ):
        refuse.type(type_, "a list of structs with the fields key (string) and value (binary)")
    column = column.cast(pa.list_(inner))
    ends = arrow.ends(column)
    pairs = column.values.slice(ends[0], ends[-1] - ends[0])
    keys, values = pairs.field("key"), pairs.field("value").cast(pa.binary())
    try:
        keys = keys.cast(pa.string())
    except pa.ArrowInvalid:
        at = ends[0] + _first(keys, lambda part: part.cast(pa.string()))
        refuse.row(int(np.searchsorted(ends, at, side="right")) - 1, "a header's key is not UTF-8")
    structs = arrow.column_of(HEADERS.value_type, len(pairs), [_bits(pairs)], [keys, values])
    return arrow.column_of(HEADERS, len(column), [_bits(column), ends - ends[0]], [structs])


def _bits(column: Column) -> NDArray[np.uint8] | None:
    """The bits of what is not null, from bit 0 on."""
    return arrow.bits(arrow.is_valid(column)) if column.null_count else None


def _first(column: Column, convert: Callable[[Column], object]) -> int:
    """The first row that cannot be converted, where one cannot."""
    start, end = 0, len(column)
    while end - start > 1:
        middle = (start + end) // 2
        try:
            convert(column.slice(start, middle - start))
            start = middle
        except pa.ArrowInvalid:
            end = middle
    return start


def _topic(column: Column, refuse: _RefuseRow) -> Column:
    column = _plain(column)
    if not _is_bytes(column.type) and not pa.types.is_null(column.type):
        refuse.type(column.type, "a string")
    try:
        column = column.cast(pa.string()).dictionary_encode()
    except pa.ArrowInvalid:
        refuse.row(_first(column, lambda part: part.cast(pa.string())), "is not UTF-8")
    for name in arrow.values(column.dictionary):
        if not is_partition(name, 0):
            rows = arrow.values(column.dictionary_decode())
            refuse.row(rows.index(name), f"{name!r} is not a valid topic name")
    return column


def _int64(column: Column, refuse: _RefuseRow, allowed: str = "an integer") -> Column:
    """Any integers as int64; all that is null is refused."""
    column = _plain(column)
    if not pa.types.is_integer(column.type) and not pa.types.is_null(column.type):
        refuse.type(column.type, allowed)
    refuse.nulls(column)
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        refuse.row(_first(column, lambda part: part.cast(pa.int64())), "is more than 2^63 - 1")


def _partition(column: Column, refuse: _RefuseRow) -> Column:
    """Null: the partition is not known."""
    column = _plain(column)
    if not pa.types.is_null(column.type) and not pa.types.is_integer(column.type):
        refuse.type(column.type, "an integer")
    try:
        column = column.cast(pa.int32())
    except pa.ArrowInvalid:
        refuse.row(_first(column, lambda part: part.cast(pa.int32())), f"is not from 0 to {MAX_INT32}")
    negative = (arrow.numbers(column, np.int32) < 0) & arrow.is_valid(column)
    refuse.where(negative, lambda row: f"is {column[row].as_py()}, which is not from 0 to {MAX_INT32}")
    return column


def _offset(column: Column, refuse: _RefuseRow) -> Column:
    column = _int64(column, refuse)
    offsets = arrow.numbers(column, np.int64)
    refuse.where(offsets < 0, lambda row: f"is {offsets[row]}, and offsets are not negative")
    refuse.where(offsets > LAST_OFFSET, lambda row: f"is {offsets[row]}, and 2^63 - 2 is the last that there is")
    return column


def _with_timestamp(column: Column, timestamp: int) -> Column:
    """The column, with ``timestamp`` (ms) where it is null."""
    if pa.types.is_null(column.type):
        return pa.repeat(pa.scalar(timestamp, pa.int64()), len(column))
    column = _plain(column)
    if not column.null_count or not (pa.types.is_timestamp(column.type) or pa.types.is_integer(column.type)):
        return column
    in_ms = pa.timestamp("ms", column.type.tz) if pa.types.is_timestamp(column.type) else pa.int64()
    return pc.call_function("coalesce", [column, pa.scalar(timestamp, in_ms).cast(column.type, safe=False)])


def _timestamp(column: Column, refuse: _RefuseRow) -> Column:
    column = _plain(column)
    if pa.types.is_timestamp(column.type):
        refuse.nulls(column)
        column = _milliseconds(column, refuse)
    else:
        column = _int64(column, refuse, "a timestamp, or an integer in ms since the epoch")
    times = arrow.numbers(column, np.int64)
    refuse.where(times < -1, lambda row: f"is {times[row]} ms, and Kafka has none before 1970 (-1: there is none)")
    return column.view(TIMESTAMP)


def _milliseconds(column: Column, refuse: _RefuseRow) -> Column:
    unit = column.type.unit
    if unit == "s":
        try:
            return column.cast(pa.timestamp("ms", column.type.tz)).view(pa.int64())
        except pa.ArrowInvalid:
            refuse.row(_first(column, lambda part: part.cast(pa.timestamp("ms"))), "is more than 2^63 - 1 ms")
    if unit == "ms":
        return column.view(pa.int64())
    finer, step = arrow.numbers(column.view(pa.int64()), np.int64), 1_000 if unit == "us" else 1_000_000
    # Cut off, these would be -1 ms, which says that there is none.
    refuse.where((finer < -1) & (finer > -step), lambda row: f"is {finer[row]} {unit}, and Kafka has none before 1970")
    return arrow.column_of_numbers(pa.int64(), finer // step)


def _timestamp_type(column: Column, refuse: _RefuseRow) -> Column:
    column = _plain(column)
    if _is_bytes(column.type):
        refuse.nulls(column)
        names = column.cast(pa.string()).dictionary_encode()
        ids = [_IDS.get(name, 99) for name in arrow.values(names.dictionary)]
        types = np.array([*ids, 99], np.int32)[arrow.numbers(names.indices, np.int32)]
        refuse.where(types == 99, lambda row: f"is {column[row].as_py()!r}; there are {', '.join(_IDS)}")
        return arrow.column_of_numbers(pa.int32(), types)
    numbers = arrow.numbers(_int64(column, refuse, "an integer or a name"), np.int64)
    ids = ", ".join(f"{number} ({name})" for number, name in TIMESTAMP_TYPES.items())
    refuse.where((numbers < -1) | (numbers > 1), lambda row: f"is {numbers[row]}; there are {ids}")
    return arrow.column_of_numbers(pa.int32(), numbers.astype(np.int32))


def _is_control(column: Column, refuse: _RefuseRow) -> Column:
    if not pa.types.is_boolean(column.type):
        refuse.type(column.type, "a boolean")
    refuse.nulls(column)
    return column


_CONVERT: dict[str, Callable[[Column, _RefuseRow], Column]] = {
    "key": _bytes,
    "value": _bytes,
    "headers": _headers,
    "topic": _topic,
    "partition": _partition,
    "offset": _offset,
    "timestamp": _timestamp,
    "timestampType": _timestamp_type,
    "isControl": _is_control,
}
