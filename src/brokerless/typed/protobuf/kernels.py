"""The kernel that decodes Protobuf messages into Arrow's buffers: counts and validates, then fills them.

It takes what serializers write, and leaves the rest to be decoded row by row, so that it never has to say what a parser
makes of it: what is malformed, a field that comes twice or has another wire type, both members of a ``oneof``, groups,
enums' unknown numbers. Unknown fields are passed over; fields may come in any order, and repeated ones in parts.

Each field has a column of its own, whatever the order in which it comes: what a message lacks, its columns get at its
end.
"""

# Inside kernels, numbers are Numba's, and intrinsics take what Numba gives them.
# pyright: basic, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import numpy as np

from brokerless.format.intrinsics import copy_value, load_u64, store_u64
from brokerless.format.kernel import inlined, kernel, separate
from brokerless.interchange.jsonl_writer_kernels import valid_utf8
from brokerless.typed.avro.kernels import DATA, VALIDITY, VALUES, store_end, store_u32

VARINT, VARINT32, SIGNED, SIGNED32, UNSIGNED, UNSIGNED32, BOOLEAN, ENUM = range(8)
FIXED64, UNSIGNED_FIXED64, FIXED32, UNSIGNED_FIXED32, STRING, BYTES, MESSAGE, TIMESTAMP, BY_ROWS = range(8, 17)
"""Operations, one for each field. Those of unsigned numbers of 64 bits fill decimals, of 32 bits int64."""
KIND, COLUMN, LIST, WIRE, BIT, CONFLICT, ABSENT, FIRST, COUNT, FIELDS, FIELD_COUNT, NULLS, NULL_COUNT, ZERO, CLOSED = (
    range(15)
)
"""An operation's fields. LIST: the column of lists that its values are in, -1 where it is not repeated. BIT: its bit
among the fields of its message that were seen; CONFLICT: those that it must not come after. FIRST, COUNT: where a
message's operations are in ``kids`` by the numbers of its fields, or an enum's symbols, each as its place and length,
by its numbers from ZERO on. FIELDS: those operations in order; NULLS: the columns that get a null where it lacks.
CLOSED: whether a message has no unknown fields, as a map's entry, which is unknown with them."""
NULL, DEFAULT, LEFT = range(3)
"""ABSENT: what a column gets where a field lacks: a null, its default, or the message is left to be decoded by rows."""
NODE, LIMIT, SEEN = range(3)
"""What the stack has of each message that is open."""

_SECONDS = 1 << 33
"""Below it, times have nanoseconds in 64 bits."""


@inlined
def read_varint(data, at, end):
    """The number (uint64), and where it ends; -1 where it is cut off or of more than 64 bits."""
    if at >= end:
        return np.uint64(0), np.int64(-1)
    byte = np.uint64(data[at])
    at += 1
    if byte < 0x80:
        return byte, at
    number = byte & np.uint64(0x7F)
    shift = np.uint64(7)
    while True:
        if at >= end:
            return np.uint64(0), np.int64(-1)
        byte = np.uint64(data[at])
        at += 1
        if shift == 63 and byte > 1:
            return np.uint64(0), np.int64(-1)
        number |= (byte & np.uint64(0x7F)) << shift
        if byte < 0x80:
            break
        shift += np.uint64(7)
    return number, at


@inlined
def load_u32(data, at):
    word = np.uint64(0)
    for byte in range(4):
        word |= np.uint64(data[at + byte]) << np.uint64(8 * byte)
    return word


@inlined
def sign_extended(word):
    """The lowest 32 bits as a signed number, in 64 bits."""
    return np.uint64(np.int64(np.int32(np.uint32(word & np.uint64(0xFFFFFFFF)))))


@inlined
def unzigzag(word):
    return np.uint64(word >> np.uint64(1)) ^ (np.uint64(0) - (word & np.uint64(1)))


@separate
def put_nulls(kids, first, count, output):
    """A row of null in each of some columns. ``output``, as of the others: columns, sizes, regions, out, fill."""
    columns, sizes, regions, out, fill = output
    for kid in range(first, first + count):
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


@inlined
def put_word(output, column, word):
    """A row of a number; of a decimal, one without a sign."""
    columns, sizes, regions, out, fill = output
    own = sizes[column, 0]
    if fill:
        out[regions[column, VALIDITY] + own] = 1
        width = columns[column, 1]
        to = regions[column, VALUES] + width * own
        if width == 4:
            store_u32(out, to, word)
        elif width == 1:
            out[to] = np.uint8(word)
        else:
            store_u64(out, to, word)
            if width == 16:
                store_u64(out, to + 8, np.uint64(0))
    sizes[column, 0] = own + 1


@inlined
def put_bytes(output, column, data, source, length):
    _, sizes, regions, out, fill = output
    own, used = sizes[column, 0], sizes[column, 1]
    if fill:
        out[regions[column, VALIDITY] + own] = 1
        copy_value(out, regions[column, DATA] + used, data, source, length)
        store_end(out, regions, column, own, used + length)
    sizes[column, 0] = own + 1
    sizes[column, 1] = used + length


@separate
def put_absent(data, ops, kids, field, output):
    """Put what a field's columns get where a message lacks it. Returns whether that is known."""
    absent, column = ops[field, ABSENT], ops[field, COLUMN]
    if absent == LEFT:
        return False
    if absent == NULL:
        put_nulls(kids, ops[field, NULLS], ops[field, NULL_COUNT], output)
    elif ops[field, KIND] == ENUM:
        symbol = ops[field, FIRST] + 2 * -ops[field, ZERO]
        put_bytes(output, column, data, kids[symbol], kids[symbol + 1])
    elif output[0][column, 0] == 1:
        put_bytes(output, column, data, np.int64(0), np.int64(0))
    else:
        put_word(output, column, np.uint64(0))
    return True


@separate
def read_time(data, at, end):
    """The nanoseconds of a ``google.protobuf.Timestamp``; -1 where they are to be read otherwise."""
    seconds, nanos = np.uint64(0), np.uint64(0)
    if at < end and data[at] == 8:
        seconds, at = read_varint(data, at + 1, end)
    if 0 <= at < end and data[at] == 16:
        nanos, at = read_varint(data, at + 1, end)
    if at != end or seconds >= _SECONDS or nanos >= 1_000_000_000:
        return np.int64(-1)
    return np.int64(seconds * np.uint64(1_000_000_000) + nanos)


@separate
def skip(data, at, end, wire):
    """Return where an unknown field ends; -1 where it is to be read otherwise."""
    if wire == 0:
        _, at = read_varint(data, at, end)
        return at
    length = np.uint64(8) if wire == 1 else np.uint64(4)
    if wire == 2:
        length, at = read_varint(data, at, end)
    elif wire not in (1, 5):
        return np.int64(-1)
    if at < 0 or length > np.uint64(end - at):
        return np.int64(-1)
    return at + np.int64(length)


@kernel(
    "int64(Array(uint8, 1, 'C', readonly=True), int64[::1], int64[::1], int64[:, ::1], int64[::1], int64[:, ::1], "
    "int64, int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], uint8[::1], uint8[::1], int64)"
)
def run_messages(
    data, starts, ends, ops, kids, columns, root, stack, sizes, saved, regions, status, out, fill
):  # fmt: skip
    """Decodes the messages ``[starts[i], ends[i])`` of ``data`` by the operation ``root``; returns how many are left to
    be decoded by rows, those whose ``status`` is not 0.

    ``columns``: kind (0 fixed width, 1 data, 2 list, 3 none but validity) and width (or the list's child). ``sizes``:
    rows and bytes of each column, which must be zero at first. With ``fill`` 0, ``status`` is set where it is 0, and
    rows are counted; with 1, ``out`` is written at ``regions``, for the rows whose ``status`` is 0; the others become
    null.
    """
    left = 0
    output = (columns, sizes, regions, out, fill)
    for row in range(len(starts)):
        if status[row] != 0:
            put_nulls(kids, ops[root, NULLS], ops[root, NULL_COUNT], output)
            left += 1
            continue
        if fill == 0:
            for column in range(len(sizes)):
                saved[column, 0] = sizes[column, 0]
                saved[column, 1] = sizes[column, 1]
        at = starts[row]
        stack[0, NODE], stack[0, LIMIT], stack[0, SEEN] = root, ends[row], 0
        depth = 1
        put_struct(output, ops[root, COLUMN])
        is_wrong = False
        while depth > 0 and not is_wrong:
            node, limit = stack[depth - 1, NODE], stack[depth - 1, LIMIT]
            if at >= limit:
                seen = stack[depth - 1, SEEN]
                for kid in range(ops[node, FIELDS], ops[node, FIELDS] + ops[node, FIELD_COUNT]):
                    field = kids[kid]
                    own_list = ops[field, LIST]
                    if own_list >= 0:
                        own = sizes[own_list, 0]
                        if fill:
                            out[regions[own_list, VALIDITY] + own] = 1
                            store_end(out, regions, own_list, own, sizes[columns[own_list, 1], 0])
                        sizes[own_list, 0] = own + 1
                    elif seen & ops[field, BIT] == 0 and not put_absent(data, ops, kids, field, output):
                        is_wrong = True
                depth -= 1
                continue
            tag, at = read_varint(data, at, limit)
            if at < 0 or tag < 8 or tag >= 1 << 32:
                is_wrong = True
                break
            wire, number = np.int64(tag & np.uint64(7)), np.int64(tag >> np.uint64(3))
            field = np.int64(-1)
            if number < ops[node, COUNT]:
                field = kids[ops[node, FIRST] + number]
            if field < 0:
                at = np.int64(-1) if ops[node, CLOSED] else skip(data, at, limit, wire)
                is_wrong = at < 0
                continue
            kind, column, is_repeated = ops[field, KIND], ops[field, COLUMN], ops[field, LIST] >= 0
            if not is_repeated:
                if stack[depth - 1, SEEN] & ops[field, CONFLICT] != 0:
                    is_wrong = True
                    break
                stack[depth - 1, SEEN] |= ops[field, BIT]
            expected = ops[field, WIRE]
            is_packed = wire == 2 and expected != 2 and is_repeated
            if kind == BY_ROWS or (wire != expected and not is_packed):
                is_wrong = True
                break
            until = at + 1
            if wire == 2:
                size, at = read_varint(data, at, limit)
                if at < 0 or size > np.uint64(limit - at):
                    is_wrong = True
                    break
                until = at + np.int64(size)
            if kind == MESSAGE:
                if column >= 0:
                    put_struct(output, column)
                stack[depth, NODE], stack[depth, LIMIT], stack[depth, SEEN] = field, until, 0
                depth += 1
                continue
            if kind == STRING or kind == BYTES:  # noqa: SIM109
                if kind == STRING and fill == 0 and not valid_utf8(data, at, until):
                    is_wrong = True
                    break
                put_bytes(output, column, data, at, until - at)
                at = until
                continue
            if kind == TIMESTAMP:
                time = read_time(data, at, until)
                if time < 0:
                    is_wrong = True
                    break
                put_word(output, column, np.uint64(time))
                at = until
                continue
            end = until if is_packed else limit
            while at < until:
                word = np.uint64(0)
                if expected == 0:
                    word, at = read_varint(data, at, end)
                    if at < 0:
                        is_wrong = True
                        break
                else:
                    width = 8 if expected == 1 else 4
                    if width > end - at:
                        is_wrong = True
                        break
                    word = load_u64(data, at) if width == 8 else load_u32(data, at)
                    at += width
                if kind == ENUM:
                    symbol = np.int64(word) - ops[field, ZERO]
                    if symbol < 0 or symbol >= ops[field, COUNT] or kids[ops[field, FIRST] + 2 * symbol + 1] < 0:
                        is_wrong = True
                        break
                    symbol = ops[field, FIRST] + 2 * symbol
                    put_bytes(output, column, data, kids[symbol], kids[symbol + 1])
                    continue
                if kind == VARINT32:
                    word = sign_extended(word)
                elif kind == SIGNED:
                    word = unzigzag(word)
                elif kind == SIGNED32:
                    word = unzigzag(word & np.uint64(0xFFFFFFFF))
                elif kind == UNSIGNED32:
                    word &= np.uint64(0xFFFFFFFF)
                elif kind == BOOLEAN:
                    word = np.uint64(1) if word != 0 else np.uint64(0)
                put_word(output, column, word)
                if not is_packed:
                    break
        if is_wrong:
            for column in range(len(sizes)):
                sizes[column, 0] = saved[column, 0]
                sizes[column, 1] = saved[column, 1]
            put_nulls(kids, ops[root, NULLS], ops[root, NULL_COUNT], output)
            status[row] = 1
            left += 1
    return left


@inlined
def put_struct(output, column):
    """A row of a struct, whose fields' columns have their own."""
    _, sizes, regions, out, fill = output
    if fill:
        out[regions[column, VALIDITY] + sizes[column, 0]] = 1
    sizes[column, 0] += 1
