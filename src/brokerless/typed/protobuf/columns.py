"""Decodes Protobuf messages into Arrow columns by the kernel, and says which it leaves to be decoded row by row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless import arrow
from brokerless.arrow import Column
from brokerless.typed.avro.decoder import MAX_OUTPUT, column_regions, filled_column, prepared_output
from brokerless.typed.avro.program import Program
from brokerless.typed.protobuf.program import MessageProgram

Bounds = NDArray[np.int64]


def decode_messages(
    program: MessageProgram, data: NDArray[np.uint8], starts: Bounds, ends: Bounds
) -> tuple[Column, NDArray[np.bool_]]:
    """Return the messages ``data[starts[i]:ends[i]]`` as a column, and which of them are left (bool), whose rows are
    null."""
    data, kids = program.code.with_constants(data)
    status = np.zeros(len(starts), np.uint8)
    parts: list[Column] = []
    bounds = np.ascontiguousarray(starts), np.ascontiguousarray(ends)
    _run(program.code, data, kids, bounds=bounds, status=status, parts=parts)
    column = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
    if program.has_maps and _repeats_keys(column):  # of which the last one counts
        return pa.nulls(len(starts), program.code.output.type), np.ones(len(starts), np.bool_)
    return column, status != 0


def _run(
    program: Program, data: NDArray[np.uint8], kids: NDArray[np.int64], bounds: tuple[Bounds, Bounds],
    status: NDArray[np.uint8], parts: list[Column],
) -> None:  # fmt: skip
    from brokerless.typed.protobuf.kernels import run_messages

    columns = program.columns
    stack = np.zeros((program.depth, 3), np.int64)
    sizes, saved = (np.zeros((len(columns), 2), np.int64) for _ in range(2))
    code = (data, *bounds, program.ops, kids, columns, program.root, stack, sizes, saved)
    nowhere = np.zeros((len(columns), 3), np.int64)
    run_messages(*code, nowhere, status, np.zeros(1, np.uint8), 0)
    regions, total = column_regions(columns, sizes)
    if total > MAX_OUTPUT:
        half = len(status) // 2
        if not half:
            status[:] = 1
        for rows in (slice(0, half), slice(half, None)):
            if len(status[rows]):
                own = bounds[0][rows], bounds[1][rows]
                _run(program, data, kids, bounds=own, status=status[rows], parts=parts)
        return
    out, counts = prepared_output(columns, regions, total, sizes)
    run_messages(*code, regions, status, out, 1)
    parts.append(filled_column(program.output, out, regions, counts))


def _repeats_keys(column: Column) -> bool:
    """Return whether a map in a column, or below it, has a key twice."""
    type_ = column.type
    if pa.types.is_struct(type_):
        return any(_repeats_keys(column.field(at)) for at in range(type_.num_fields))
    if pa.types.is_list(type_):
        return _repeats_keys(column.values)
    if not pa.types.is_map(type_):
        return False
    counts = np.diff(arrow.numbers(column.offsets, np.int32).astype(np.int64))
    if (counts > 1).any():
        codes = arrow.numbers(column.keys.dictionary_encode().indices, np.int32).astype(np.int64)
        pairs = np.repeat(np.arange(len(counts)), counts) * (len(codes) + 1) + codes
        if len(np.unique(pairs)) < len(pairs):
            return True
    return _repeats_keys(column.items)
