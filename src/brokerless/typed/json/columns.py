"""Decodes JSON objects of one type, many at once, by Arrow's reader of JSON; what that may read in another way than
Python does, or refuses, is parsed row by row.

Arrow gets objects only, as lines, which are checked for what parsers differ in: names, text and numbers are the same in
both then, and Arrow refuses what does not fit into the type, where rows are parsed that may fit by other rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from brokerless import arrow
from brokerless.arrow import Column
from brokerless.typed.framing import Frame
from brokerless.typed.json.column_rules import ColumnRule
from brokerless.typed.payloads import PayloadDecoder, rows_decoder
from brokerless.typed.plain import parse_json
from brokerless.typed.reasons import Reasons

_LARGE = float(1 << 53)
_FEW = 64
"""So many rows are parsed one by one, where Arrow refuses them together."""


def json_decoder(type_: pa.DataType) -> PayloadDecoder:
    """Return a decoder of plain JSON."""
    return by_columns(type_, rows_decoder(parse_json, type_))


def by_columns(type_: pa.DataType, by_rows: PayloadDecoder, rule: ColumnRule | None = None) -> PayloadDecoder:
    """Return a decoder that is as ``by_rows``, which gets what Arrow does not read, or what ``rule`` does not
    accept."""
    return _ColumnDecoder(type_, by_rows, rule) if is_readable(type_) else by_rows


class _ColumnDecoder:
    def __init__(self, type_: Any, by_rows: PayloadDecoder, rule: ColumnRule | None) -> None:
        self._type, self._by_rows, self._rule = type_, by_rows, rule
        self._schema = pa.schema(list(type_))
        self._has_doubles = _has_doubles(type_)

    def __call__(
        self, frame: Frame, data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[Column, Reasons]:
        lines, line_ends = lines_of(data, starts, ends)
        places = np.full(len(starts), -1, np.int64)
        parts: list[Column] = []
        at = 0
        for rows, read in _read_lines(lines, line_ends, self._schema):
            if read is not None:
                column = pa.StructArray.from_arrays(read.columns, fields=list(self._type))
                parts.append(column)
                places[rows] = np.arange(at, at + len(rows))
                at += len(rows)
                if self._has_doubles:
                    places[rows[large_doubles(column)]] = -1
                if self._rule is not None:
                    places[rows[~self._rule.accepts(column, _have_null(lines, line_ends, rows))]] = -1
        rest = np.flatnonzero(places < 0)
        reasons: Reasons = {}
        if len(rest):
            column, found = self._by_rows(frame, data, starts[rest], ends[rest])
            reasons = {int(rest[row]): reason for row, reason in found.items()}
            parts.append(column)
            places[rest] = np.arange(at, at + len(rest))
        whole = parts[0] if len(parts) == 1 else pa.concat_arrays(parts or [pa.nulls(0, self._type)])
        is_in_order = bool((places == np.arange(len(places))).all())
        return (whole if is_in_order else whole.take(pa.array(places))), reasons


def _has_doubles(type_: Any) -> bool:
    if pa.types.is_struct(type_):
        return any(_has_doubles(field.type) for field in type_)
    return _has_doubles(type_.value_type) if pa.types.is_list(type_) else pa.types.is_float64(type_)


def large_doubles(column: Any) -> NDArray[np.bool_]:
    """Return which rows have a double from 2^53 on, which may be a whole number of more digits than a double has."""
    t = pa.types
    found = np.zeros(len(column), np.bool_)
    if not len(column):
        return found
    if t.is_struct(column.type):
        for number in range(column.type.num_fields):
            found |= large_doubles(column.field(number))
    elif t.is_list(column.type):
        ends = arrow.ends(column)
        counts = np.concatenate([[0], np.cumsum(large_doubles(column.values))])
        found = counts[ends[1:]] > counts[ends[:-1]]
    elif t.is_float64(column.type):
        found = np.abs(arrow.numbers(column, np.float64)) >= _LARGE
    return found


def _have_null(lines: NDArray[np.uint8], line_ends: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether ``null`` is anywhere in the lines of some rows, one after another."""
    last = line_ends[rows]
    earlier = line_ends[: rows[0]]
    first = int(earlier.max(initial=0))
    ends = np.concatenate([[0], last - first]).astype(np.int64)
    texts = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(rows), [None, pa.py_buffer(ends), pa.py_buffer(memoryview(cast(Any, lines[first:])))]
    )
    return np.asarray(pc.call_function("match_substring", [texts], pc.MatchSubstringOptions("null")))


def is_readable(type_: Any) -> bool:
    """Return whether Arrow reads a type as it is inferred from JSON: an object of text, numbers, booleans, lists,
    objects."""
    t = pa.types
    if t.is_struct(type_):
        return type_.num_fields > 0 and all(_is_member(field.type) for field in type_)
    return False


def _is_member(type_: Any) -> bool:
    if pa.types.is_list(type_):
        return _is_member(type_.value_type)
    return is_readable(type_) or type_ in (pa.string(), pa.int64(), pa.float64(), pa.bool_(), pa.null())


def lines_of(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the payloads ``[starts[i], ends[i])`` that are one object each, a line each; and where the line after each
    begins (-1 for one that is not there)."""
    from brokerless.typed.json.kernels import write_lines

    starts, ends = np.ascontiguousarray(starts), np.ascontiguousarray(ends)
    lines = np.empty(int((ends - starts).sum()) + len(starts) + 1, np.uint8)
    line_ends = np.empty(len(starts), np.int64)
    size = write_lines(np.ascontiguousarray(data), starts, ends, lines, line_ends)
    return lines[:size], line_ends


def not_of_type(
    type_: Any, data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the numbers of payloads of which Arrow does not say that they are JSON of a type: maybe they are."""
    if not is_readable(type_):
        return np.arange(len(starts))
    lines, line_ends = lines_of(data, starts, ends)
    is_known = np.zeros(len(starts), np.bool_)
    for rows, read in _read_lines(lines, line_ends, pa.schema(list(type_))):
        is_known[rows] = read is not None
    return np.flatnonzero(~is_known)


def _read_lines(
    lines: NDArray[np.uint8], line_ends: NDArray[np.int64], schema: pa.Schema
) -> Iterator[tuple[NDArray[np.int64], pa.RecordBatch | None]]:
    """The rows that have lines, part by part, and what Arrow reads of them; None for a few that it does not read."""
    rows = np.flatnonzero(line_ends >= 0)
    begins = np.concatenate([[0], line_ends[rows]])
    pending = [(0, len(rows))] if len(rows) else []
    while pending:
        first, last = pending.pop()
        read = _read(lines[begins[first] : begins[last]], last - first, schema)
        if read is None and last - first > _FEW:
            middle = (first + last) // 2
            pending += [(middle, last), (first, middle)]
        else:
            yield rows[first:last], read


def _read(lines: NDArray[np.uint8], rows: int, schema: pa.Schema) -> pa.RecordBatch | None:
    import pyarrow.json as json

    own: Any = json
    reading = own.ReadOptions(use_threads=False, block_size=len(lines) + 1)
    parsing = own.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    try:
        table = own.read_json(pa.BufferReader(pa.py_buffer(memoryview(cast(Any, lines)))), reading, parsing)
    except (pa.ArrowException, ValueError, OverflowError):
        return None
    if table.num_rows != rows or table.schema != schema:
        return None
    batches = table.combine_chunks().to_batches()
    return batches[0] if len(batches) == 1 else None
