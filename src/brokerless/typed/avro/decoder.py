"""Decodes Avro payloads into Arrow columns: by the kernel where it takes the schema, else row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless.arrow import Column, bits, column_of, is_valid
from brokerless.typed.avro.schema import AvroType, arrow_type, parse_schema, wrong_defaults
from brokerless.typed.framing import Frame
from brokerless.typed.payloads import PayloadDecoder, rows_decoder
from brokerless.typed.reasons import Reason, Reasons, left_out_reason, unfit_reason
from brokerless.typed.registry import Schema
from brokerless.typed.times import as_written, cut

if TYPE_CHECKING:
    from brokerless.typed.avro.program import AvroProgram

MAX_OUTPUT = 256 << 20
"""Bytes of columns that are filled at once; more rows are divided."""
_PAD = 64
_WHY = (
    *map(Reason, (
    "", "the payload is cut off", "a number that is none", "a length that goes past the payload's end",
    "text that is no UTF-8", "a union has no such branch, or an enum no such symbol",
    "a boolean that is neither 0 nor 1", "more items than its bytes can hold", "more than 256 MiB in Arrow",
    "bytes are left after the value", "a decimal of more digits than its precision",
    )),
    unfit_reason("a whole number", "double"),
)  # fmt: skip
_TOO_LONG = 8


def avro_decoder(schema: Schema, newest: Schema | None, target: pa.DataType) -> PayloadDecoder:
    """Return the decoder of a schema's payloads into ``target``. Raises ValueError for what is no Avro schema."""
    type_ = parse_schema(schema)
    reader = parse_schema(newest) if newest is not None and newest.type == "AVRO" else None
    decoder = decoder_of_type(type_, reader, target)
    wrong = [] if newest is None else list(wrong_defaults(type_, reader))
    if newest is None or not wrong:
        return decoder
    name, why = wrong[0]
    reason = left_out_reason(f"the default of {name} in the schema {newest.subject} {newest.version} {why}, and")

    def decode(
        frame: Frame, data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[Column, Reasons]:
        column, reasons = decoder(frame, data, starts, ends)
        return column, dict.fromkeys(np.flatnonzero(is_valid(column)).tolist(), reason) | reasons

    return decode


def decoder_of_type(type_: AvroType, reader: AvroType | None, target: pa.DataType) -> PayloadDecoder:
    """Return the decoder of parsed schemas, as :func:`avro_decoder` does."""
    from brokerless.typed.avro.program import NoProgramError, compile_program
    from brokerless.typed.avro.rows import finish, read_row

    written = as_written(target, arrow_type(type_, reader, (), [0]))
    try:
        program = compile_program(type_, written, reader)
    except NoProgramError:
        return rows_decoder(lambda data: finish(read_row(data, type_, target, reader)), target)

    def decode(
        frame: Frame, data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[Column, Reasons]:
        parts: list[Column] = []
        reasons: Reasons = {}
        _run(program, _with_constants(program, data), starts, ends=ends, first=0, parts=parts, reasons=reasons)
        column: Column = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
        if written == target:
            return column, reasons
        column, finer = cut(column)
        return column, finer | reasons

    return decode


def _with_constants(program: AvroProgram, data: NDArray[np.uint8]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the data with the program's constants after it, and the program with their places there."""
    ops = program.code.ops
    if program.code.constants:
        ops = ops.copy()
        for node in program.defaults:
            ops[node, 5:7] += len(data)
    found, kids = program.code.with_constants(data)
    return found, ops, kids


def _run(
    program: AvroProgram, arrays: tuple[NDArray[Any], NDArray[Any], NDArray[Any]], starts: NDArray[np.int64],
    ends: NDArray[np.int64], first: int, parts: list[Column], reasons: Reasons,
) -> None:  # fmt: skip
    from brokerless.typed.avro.kernels import run_program

    data, ops, kids = arrays
    own, columns = program.code, program.code.columns
    stack = np.zeros((own.depth, 4), np.int64)
    sizes, saved = (np.zeros((len(columns), 2), np.int64) for _ in range(2))
    status = np.zeros(len(starts), np.uint8)
    starts, ends = np.ascontiguousarray(starts), np.ascontiguousarray(ends)
    code = (data, starts, ends, ops, kids, columns, own.root, program.root_fill, stack, sizes, saved)
    nowhere = np.zeros((len(columns), 3), np.int64)
    refused = run_program(*code, nowhere, status, np.zeros(1, np.uint8), 0)
    regions, total = column_regions(columns, sizes)
    if total > MAX_OUTPUT and len(starts) > 1:
        half = len(starts) // 2
        _run(program, arrays, starts[:half], ends=ends[:half], first=first, parts=parts, reasons=reasons)
        _run(program, arrays, starts[half:], ends=ends[half:], first=first + half, parts=parts, reasons=reasons)
        return
    if total > MAX_OUTPUT:
        status[:], refused = _TOO_LONG, 1
        sizes[:] = 0
        sizes[own.output.rows_of_null, 0] = 1
        regions, total = column_regions(columns, sizes)
    if refused:
        reasons.update((first + row, _WHY[status[row]]) for row in np.flatnonzero(status).tolist())
    out, counts = prepared_output(columns, regions, total, sizes)
    run_program(*code, regions, status, out, 1)
    parts.append(filled_column(own.output, out, regions, counts))


def column_regions(columns: NDArray[np.int64], sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Return where each column's bytes are, each part at a multiple of 64 and with as much after it, as copies are
    wide."""
    rows, used = sizes[:, 0], sizes[:, 1]
    kind, width = columns[:, 0], columns[:, 1]
    values = np.where(kind == 0, rows * width, np.where(kind == 3, 0, (rows + 1) * 4))
    parts = np.stack([rows, values, np.where(kind == 1, used, 0)], axis=1)
    padded = (parts + _PAD + 63) // 64 * 64
    ends = np.cumsum(padded.ravel())
    return np.ascontiguousarray((ends - padded.ravel()).reshape(parts.shape)), int(ends[-1]) if len(ends) else 0


def prepared_output(
    columns: NDArray[np.int64], regions: NDArray[np.int64], total: int, sizes: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return memory for columns, whose ends begin with a zero, and a copy of their sizes, which become zero, as the
    kernel that fills them counts again."""
    buffer: Any = pa.allocate_buffer(total)
    out, counts = np.frombuffer(buffer, np.uint8), sizes.copy()
    sizes[:] = 0
    for column in np.flatnonzero((columns[:, 0] == 1) | (columns[:, 0] == 2)):
        at = regions[column, 1]
        out[at : at + 4] = 0
    return out, counts


def filled_column(output: Any, out: NDArray[np.uint8], regions: NDArray[np.int64], sizes: NDArray[np.int64]) -> Column:
    """Return an Arrow column of the filled buffers, which it adopts."""
    t = pa.types
    type_, at = output.type, output.number
    rows, used = sizes[at].tolist()
    validity, values, data = regions[at].tolist()
    flags = out[validity : validity + rows]
    valid = None if bool(flags.all()) else bits(flags)
    if t.is_null(type_):
        return pa.nulls(rows)
    if t.is_struct(type_):
        return column_of(type_, rows, [valid], [filled_column(each, out, regions, sizes) for each in output.children])
    if t.is_list(type_) or t.is_map(type_):
        children = [filled_column(each, out, regions, sizes) for each in output.children]
        return column_of(type_, rows, [valid, out[values : values + 4 * (rows + 1)]], children)
    if t.is_string(type_) or t.is_binary(type_):
        return column_of(type_, rows, [valid, out[values : values + 4 * (rows + 1)], out[data : data + used]])
    if t.is_boolean(type_):
        return column_of(type_, rows, [valid, bits(out[values : values + rows])])
    return column_of(type_, rows, [valid, out[values : values + rows * (type_.bit_width // 8)]])
