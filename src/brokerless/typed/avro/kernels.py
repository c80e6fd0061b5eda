"""The kernel that runs an Avro schema's program over payloads: counts and validates, then fills Arrow's buffers.

A program is an array of operations, one for each type of the writer's schema, with the output column that it fills. The
kernel keeps a stack of its own; what a payload claims is checked against its end before anything is read, and what a
row appended is taken back where it turns out wrong.
"""

# Inside kernels, numbers are Numba's, and intrinsics take what Numba gives them.
# pyright: basic, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import numpy as np

from brokerless.format.intrinsics import copy_value, load_u64, store_u64
from brokerless.format.kernel import inlined, kernel
from brokerless.interchange.jsonl_writer_kernels import valid_utf8

NULL, BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES, STRING, FIXED, ENUM = range(10)
RECORD, ARRAY, UNION, FILL, DEFAULT, DECIMAL, DECIMAL_FIXED, LONG_AS_DOUBLE = range(10, 18)
"""Operations: what a payload has at this place. DEFAULT reads a constant in place of it."""
KIND, COLUMN, FIRST, COUNT, STORE, HIGH, LOW = range(7)
"""An operation's fields. FIRST: its first entry in ``kids`` (or the item's operation, or bytes); COUNT: how many."""
AS_INT32, AS_INT64, AS_FLOAT, AS_DOUBLE = range(4)

OK, CUT_OFF, BAD_VARINT, BAD_LENGTH, BAD_UTF8, BAD_BRANCH, BAD_BOOLEAN, TOO_MANY, TOO_LONG, REST = range(10)
BAD_DECIMAL, NO_DOUBLE = 10, 11
"""Why a payload is refused."""
SPARE_ITEMS = 1024
"""Items without bytes, such as nulls, that a payload may have in all beyond its length."""

VALIDITY, VALUES, DATA = range(3)
"""Where a column's bytes are in the output: a byte for each row, its values (or ends), its data."""


@inlined
def read_varint(data, at, end):
    """The number, and where it ends; -1 where it is cut off, -2 where it is none of 64 bits."""
    if at >= end:
        return np.int64(0), np.int64(-1)
    byte = np.uint64(data[at])
    at += 1
    if byte < 0x80:
        return np.int64(byte >> np.uint64(1)) ^ -np.int64(byte & np.uint64(1)), at
    number = byte & np.uint64(0x7F)
    shift = np.uint64(7)
    while True:
        if at >= end:
            return np.int64(0), np.int64(-1)
        byte = np.uint64(data[at])
        at += 1
        if shift == 63 and byte > 1:
            return np.int64(0), np.int64(-2)
        number |= (byte & np.uint64(0x7F)) << shift
        if byte < 0x80:
            break
        shift += np.uint64(7)
    return np.int64(number >> np.uint64(1)) ^ -np.int64(number & np.uint64(1)), at


@inlined
def is_double(number):
    """Return whether a double has all digits of a whole number."""
    double = np.float64(number)
    return double < np.float64(1 << 63) and np.int64(double) == number


@inlined
def store_u32(out, to, word):
    out[to] = np.uint8(word & np.uint64(0xFF))
    out[to + 1] = np.uint8(word >> np.uint64(8) & np.uint64(0xFF))
    out[to + 2] = np.uint8(word >> np.uint64(16) & np.uint64(0xFF))
    out[to + 3] = np.uint8(word >> np.uint64(24) & np.uint64(0xFF))


@inlined
def store_end(out, regions, column, row, end):
    store_u32(out, regions[column, VALUES] + 4 * (row + 1), np.uint64(end))


@kernel(
    "int64(Array(uint8, 1, 'C', readonly=True), int64[::1], int64[::1], int64[:, ::1], int64[::1], int64[:, ::1], "
    "int64, int64, int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], uint8[::1], uint8[::1], int64)"
)
def run_program(
    data, starts, ends, ops, kids, columns, root, root_fill, stack, sizes, saved, regions, status, out, fill
):  # fmt: skip
    """Runs a program over the payloads ``[starts[i], ends[i])`` of ``data``; returns how many were refused.

    ``columns``: kind (0 fixed width, 1 data, 2 list, 3 none but validity) and width (or the list's child). ``sizes``:
    rows and bytes of each column, which must be zero at first. With ``fill`` 0, ``status`` is set and rows are counted;
    with 1, ``out`` is written at ``regions``, for the rows whose ``status`` is 0; the others become null.
    """
    refused = 0
    for row in range(len(starts)):
        at, end = starts[row], ends[row]
        budget = end - at + SPARE_ITEMS
        depth = 0
        wrong = OK
        node = root
        if fill == 0:
            for column in range(len(sizes)):
                saved[column, 0] = sizes[column, 0]
                saved[column, 1] = sizes[column, 1]
        elif status[row] != OK:
            node = root_fill
            at = end
        while True:
            kind = ops[node, KIND]
            column = ops[node, COLUMN]
            if kind == RECORD:
                if column >= 0:
                    if fill:
                        out[regions[column, VALIDITY] + sizes[column, 0]] = 1
                    sizes[column, 0] += 1
                stack[depth, 0] = node
                stack[depth, 1] = 0
                depth += 1
            elif kind == STRING or kind == BYTES or kind == FIXED or kind == ENUM:  # noqa: SIM109
                source = at
                if kind == FIXED:
                    length = ops[node, FIRST]
                else:
                    length, at = read_varint(data, at, end)
                    if at < 0:
                        wrong = CUT_OFF if at == -1 else BAD_VARINT
                        break
                    source = at
                if kind == ENUM:
                    if length < 0 or length >= ops[node, COUNT]:
                        wrong = BAD_BRANCH
                        break
                    symbol = ops[node, FIRST] + 2 * length
                    source = kids[symbol]
                    length = kids[symbol + 1]
                else:
                    if length < 0 or length > end - at:
                        wrong = BAD_LENGTH
                        break
                    at += length
                    if kind == STRING and fill == 0 and not valid_utf8(data, source, source + length):
                        wrong = BAD_UTF8
                        break
                own = sizes[column, 0]
                used = sizes[column, 1]
                if fill:
                    out[regions[column, VALIDITY] + own] = 1
                    copy_value(out, regions[column, DATA] + used, data, source, length)
                    store_end(out, regions, column, own, used + length)
                sizes[column, 0] = own + 1
                sizes[column, 1] = used + length
            elif kind == INT or kind == LONG:  # noqa: SIM109
                number, at = read_varint(data, at, end)
                if at < 0:
                    wrong = CUT_OFF if at == -1 else BAD_VARINT
                    break
                if kind == INT and (number < -(1 << 31) or number >= 1 << 31):
                    wrong = BAD_VARINT
                    break
                own = sizes[column, 0]
                if fill:
                    out[regions[column, VALIDITY] + own] = 1
                    store = ops[node, STORE]
                    if store == AS_INT32:
                        store_u32(out, regions[column, VALUES] + 4 * own, np.uint64(number))
                    elif store == AS_INT64:
                        store_u64(out, regions[column, VALUES] + 8 * own, np.uint64(number))
                    else:
                        store_u64(out, regions[column, VALUES] + 8 * own, np.float64(number).view(np.uint64))
                sizes[column, 0] = own + 1
            elif kind == UNION:
                number, at = read_varint(data, at, end)
                if at < 0 or number < 0 or number >= ops[node, COUNT]:
                    wrong = CUT_OFF if at == -1 else BAD_BRANCH
                    break
                node = kids[ops[node, FIRST] + number]
                continue
            elif kind == FILL:
                for kid in range(ops[node, FIRST], ops[node, FIRST] + ops[node, COUNT]):
                    column = kids[kid]
                    own = sizes[column, 0]
                    if fill:
                        out[regions[column, VALIDITY] + own] = 0
                        if columns[column, 0] == 0:
                            width = columns[column, 1]
                            for byte in range(width):
                                out[regions[column, VALUES] + width * own + byte] = 0
                        elif columns[column, 0] == 1:
                            store_end(out, regions, column, own, sizes[column, 1])
                        elif columns[column, 0] == 2:
                            store_end(out, regions, column, own, sizes[columns[column, 1], 0])
                    sizes[column, 0] = own + 1
            elif kind == ARRAY:
                stack[depth, 0] = node
                stack[depth, 1] = 0
                depth += 1
            elif kind == BOOLEAN:
                if at >= end or data[at] > 1:
                    wrong = CUT_OFF if at >= end else BAD_BOOLEAN
                    break
                own = sizes[column, 0]
                if fill:
                    out[regions[column, VALIDITY] + own] = 1
                    out[regions[column, VALUES] + own] = data[at]
                sizes[column, 0] = own + 1
                at += 1
            elif kind == FLOAT or kind == DOUBLE:  # noqa: SIM109
                width = 4 if kind == FLOAT else 8
                if width > end - at:
                    wrong = CUT_OFF
                    break
                own = sizes[column, 0]
                if fill:
                    out[regions[column, VALIDITY] + own] = 1
                    if kind == DOUBLE:
                        store_u64(out, regions[column, VALUES] + 8 * own, load_u64(data, at))
                    else:
                        word = np.uint64(0)
                        for byte in range(4):
                            word |= np.uint64(data[at + byte]) << np.uint64(8 * byte)
                        if ops[node, STORE] == AS_FLOAT:
                            store_u32(out, regions[column, VALUES] + 4 * own, word)
                        else:
                            wide = np.float64(np.uint32(word).view(np.float32))
                            store_u64(out, regions[column, VALUES] + 8 * own, wide.view(np.uint64))
                sizes[column, 0] = own + 1
                at += width
            elif kind == DECIMAL or kind == DECIMAL_FIXED:  # noqa: SIM109
                length = ops[node, FIRST]
                if kind == DECIMAL:
                    length, at = read_varint(data, at, end)
                    if at < 0:
                        wrong = CUT_OFF if at == -1 else BAD_VARINT
                        break
                if length < 0 or length > end - at:
                    wrong = BAD_LENGTH
                    break
                sign = np.uint64(0xFFFFFFFFFFFFFFFF) if length > 0 and data[at] >= 128 else np.uint64(0)
                high, low = sign, sign
                for byte in range(at, at + length):
                    if byte < at + length - 16:
                        if np.uint64(data[byte]) != sign & np.uint64(0xFF):
                            wrong = BAD_DECIMAL
                        continue
                    high = high << np.uint64(8) | low >> np.uint64(56)
                    low = low << np.uint64(8) | np.uint64(data[byte])
                if length > 16 and high >> np.uint64(63) != sign >> np.uint64(63):
                    wrong = BAD_DECIMAL
                above, below = high, low
                if high >> np.uint64(63) != 0:  # what it is without its sign
                    below = ~low + np.uint64(1)
                    above = ~high + (np.uint64(1) if below == 0 else np.uint64(0))
                top, bottom = np.uint64(ops[node, HIGH]), np.uint64(ops[node, LOW])
                if above > top or (above == top and below >= bottom):
                    wrong = BAD_DECIMAL
                if wrong != OK:
                    break
                at += length
                own = sizes[column, 0]
                if fill:
                    out[regions[column, VALIDITY] + own] = 1
                    store_u64(out, regions[column, VALUES] + 16 * own, low)
                    store_u64(out, regions[column, VALUES] + 16 * own + 8, high)
                sizes[column, 0] = own + 1
            elif kind == LONG_AS_DOUBLE:
                number, at = read_varint(data, at, end)
                if at < 0:
                    wrong = CUT_OFF if at == -1 else BAD_VARINT
                    break
                if not is_double(number):
                    wrong = NO_DOUBLE
                    break
                own = sizes[column, 0]
                if fill:
                    out[regions[column, VALIDITY] + own] = 1
                    store_u64(out, regions[column, VALUES] + 8 * own, np.float64(number).view(np.uint64))
                sizes[column, 0] = own + 1
            elif kind == DEFAULT:
                stack[depth, 0] = node
                stack[depth, 1] = at
                stack[depth, 2] = end
                depth += 1
                at = ops[node, HIGH]
                end = ops[node, LOW]
                node = ops[node, FIRST]
                continue
            # What comes next: of the innermost record or array that is not at its end.
            while depth > 0:
                above_node = stack[depth - 1, 0]
                above_kind = ops[above_node, KIND]
                done = stack[depth - 1, 1]
                if above_kind == RECORD:
                    if done < ops[above_node, COUNT]:
                        stack[depth - 1, 1] = done + 1
                        node = kids[ops[above_node, FIRST] + done]
                        break
                elif above_kind == ARRAY:
                    if done == 0:
                        done, at = read_varint(data, at, end)
                        if at < 0:
                            wrong = CUT_OFF if at == -1 else BAD_VARINT
                            break
                        if done < 0:
                            if done < -(1 << 31):
                                wrong = TOO_MANY
                                break
                            length, at = read_varint(data, at, end)
                            if at < 0 or length < 0 or length > end - at:
                                wrong = BAD_LENGTH
                                break
                            done = -done
                        if done > budget:
                            wrong = TOO_MANY
                            break
                        budget -= done
                    if done > 0:
                        stack[depth - 1, 1] = done - 1
                        if done == 1:
                            # The next block follows: its count is read when this item is done.
                            stack[depth - 1, 1] = 0
                        node = ops[above_node, FIRST]
                        break
                    list_column = ops[above_node, COLUMN]
                    own = sizes[list_column, 0]
                    if fill:
                        out[regions[list_column, VALIDITY] + own] = 1
                        store_end(out, regions, list_column, own, sizes[columns[list_column, 1], 0])
                    sizes[list_column, 0] = own + 1
                else:
                    at = stack[depth - 1, 1]
                    end = stack[depth - 1, 2]
                depth -= 1
            if depth == 0 or wrong != OK:
                break
        if fill == 0:
            if wrong == OK and at != end:
                wrong = REST
            if wrong != OK:
                for column in range(len(sizes)):
                    sizes[column, 0] = saved[column, 0]
                    sizes[column, 1] = saved[column, 1]
                for kid in range(ops[root_fill, FIRST], ops[root_fill, FIRST] + ops[root_fill, COUNT]):
                    sizes[kids[kid], 0] += 1
                refused += 1
            status[row] = wrong
    return refused
