"""Kernels that parse lines in exactly the form that ``cat --json`` writes.

There is no white space in them, integers have at most 18 digits, and all lines have the same members. What is otherwise
makes the kernel give up, and then the caller parses these lines one by one; whether they are UTF-8 it has examined.
"""

# Inside kernels, numbers are Numba's, and intrinsics take what Numba gives them.
# pyright: basic, reportCallIssue=false, reportArgumentType=false, reportReturnType=false, reportAssignmentType=false

from __future__ import annotations

import numpy as np

from brokerless.format.intrinsics import load_u64, store_u64, trailing_zeros
from brokerless.format.kernel import kernel

NAMES = (
    "file", "topic", "partition", "batchPosition", "offset", "timestamp", "timestampType", "key", "value", "headers",
    "sequence", "isControl",
)  # fmt: skip
"""Members of a line; bit ``i`` says that name ``i`` is there."""
(
    FILE,
    TOPIC,
    PARTITION,
    BATCH_POSITION,
    OFFSET,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    KEY,
    VALUE,
    HEADERS,
    SEQUENCE,
    IS_CONTROL,
) = range(12)
TOPICS, TYPES, KEYS, VALUES, HEADER_KEYS, HEADER_VALUES, SCRATCH = range(7)
"""Rows of ``data``: bytes of each column. ``filled`` has how many there are of each, and then how many headers."""
PARTITIONS, OFFSETS, TIMESTAMPS = range(3)
"""Rows of ``numbers``."""

_NAME_ENDS = np.cumsum([0, *(len(name) for name in NAMES)], dtype=np.int64)
_NAME_BYTES = np.frombuffer("".join(NAMES).encode(), np.uint8).copy()
_DIGITS = np.full(256, 255, np.uint8)
_DIGITS[np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)] = np.arange(64)
_ONES = np.uint64(0x0101010101010101)
_HIGH = np.uint64(0x8080808080808080)
_QUOTES = np.uint64(0x2222222222222222)
_BACKSLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)
_SPACES = np.uint64(0x2020202020202020)
_MOST_DIGITS = 18
_BASE64 = np.frombuffer(b'{"base64":"', np.uint8).copy()

_TEXT = "Array(uint8, 1, 'C', readonly=True)"


@kernel(f"int64({_TEXT}, int64)")
def _hex4(text, at):
    value = np.int64(0)
    for position in range(at, at + 4):
        byte = np.int64(text[position])
        if 48 <= byte <= 57:
            digit = byte - 48
        elif 97 <= byte <= 102:
            digit = byte - 87
        elif 65 <= byte <= 70:
            digit = byte - 55
        else:
            return np.int64(-1)
        value = value << 4 | digit
    return value


@kernel(f"UniTuple(int64, 2)({_TEXT}, int64, uint8[::1], int64)")
def _escape(text, at, out, to):
    """Return what the escape after the backslash at ``at`` means; the position after it is -1 if it has no meaning."""
    kind = text[at + 1]
    if kind != 0x75:
        if kind == 0x22 or kind == 0x5C or kind == 0x2F:
            out[to] = kind
        elif kind == 0x6E:
            out[to] = 10
        elif kind == 0x74:
            out[to] = 9
        elif kind == 0x72:
            out[to] = 13
        elif kind == 0x62:
            out[to] = 8
        elif kind == 0x66:
            out[to] = 12
        else:
            return np.int64(-1), to
        return at + 2, to + 1
    code = _hex4(text, at + 2)
    at += 6
    if 0xD800 <= code < 0xDC00 and text[at] == 0x5C and text[at + 1] == 0x75:
        low = _hex4(text, at + 2)
        if low < 0xDC00 or low > 0xDFFF:
            return np.int64(-1), to
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
        at += 6
    if code < 0 or 0xD800 <= code <= 0xDFFF:
        return np.int64(-1), to
    if code < 0x80:
        out[to] = code
        return at, to + 1
    if code < 0x800:
        out[to] = 0xC0 | code >> 6
        to += 1
    else:
        if code < 0x10000:
            out[to] = 0xE0 | code >> 12
            to += 1
        else:
            out[to] = 0xF0 | code >> 18
            out[to + 1] = 0x80 | code >> 12 & 0x3F
            to += 2
        out[to] = 0x80 | code >> 6 & 0x3F
        to += 1
    out[to] = 0x80 | code & 0x3F
    return at, to + 1


@kernel(f"UniTuple(int64, 2)({_TEXT}, int64, uint8[::1], int64)")
def _string(text, at, out, to) -> tuple[int, int]:
    """Copies the string whose content begins at ``at`` to ``out``; returns the positions after its closing quote (-1
    if it is none) and after the copy. The text has a line feed after each line, where every string ends."""
    while True:
        word = load_u64(text, at)
        store_u64(out, to, word)
        quotes, slashes = word ^ _QUOTES, word ^ _BACKSLASHES
        special = ((quotes - _ONES) & ~quotes) | ((slashes - _ONES) & ~slashes) | ((word - _SPACES) & ~word)
        special &= _HIGH
        if special == np.uint64(0):
            at += 8
            to += 8
            continue
        skip = trailing_zeros(special) >> 3
        at += skip
        to += skip
        byte = text[at]
        if byte == 0x22:
            return at + 1, to
        if byte != 0x5C:
            return np.int64(-1), to
        at, to = _escape(text, at, out, to)
        if at < 0:
            return np.int64(-1), to


@kernel(f"UniTuple(int64, 2)({_TEXT}, int64, uint8[::1], int64)")
def _base64(text, at, out, to):
    """Decode a string of base64."""
    while True:
        if text[at] == 0x22:
            return at + 1, to
        first, second = _DIGITS[text[at]], _DIGITS[text[at + 1]]
        if first == 255 or second == 255:
            return np.int64(-1), to
        third, fourth = _DIGITS[text[at + 2]], _DIGITS[text[at + 3]]
        out[to] = first << 2 | second >> 4
        if third == 255:
            if text[at + 2] != 0x3D or text[at + 3] != 0x3D or text[at + 4] != 0x22 or second & 15:
                return np.int64(-1), to
            return at + 5, to + 1
        out[to + 1] = (second & 15) << 4 | third >> 2
        if fourth == 255:
            if text[at + 3] != 0x3D or text[at + 4] != 0x22 or third & 3:
                return np.int64(-1), to
            return at + 5, to + 2
        out[to + 2] = (third & 3) << 6 | fourth
        at += 4
        to += 3


@kernel(f"boolean({_TEXT}, int64)")
def _is_null(text, at):
    return text[at] == 0x6E and text[at + 1] == 0x75 and text[at + 2] == 0x6C and text[at + 3] == 0x6C


@kernel(f"UniTuple(int64, 3)({_TEXT}, int64, uint8[::1], int64, boolean)")
def _bytes(text, at, out, to, is_base64):
    """A key or value at ``at``: the positions after it (-1 if it is none) and after the copy; whether it is null."""
    if text[at] == 0x22:
        if is_base64:
            at, to = _base64(text, at + 1, out, to)
        else:
            at, to = _string(text, at + 1, out, to)
        return at, to, np.int64(0)
    if _is_null(text, at):
        return at + 4, to, np.int64(1)
    for index in range(len(_BASE64)):
        if text[at + index] != _BASE64[index]:
            return np.int64(-1), to, np.int64(0)
    at, to = _base64(text, at + len(_BASE64), out, to)
    if at < 0 or text[at] != 0x7D:
        return np.int64(-1), to, np.int64(0)
    return at + 1, to, np.int64(0)


@kernel(f"UniTuple(int64, 3)({_TEXT}, int64)")
def _integer(text, at):
    """An integer or null: the position after it (-1 if it is none), its value, and whether it is null."""
    if _is_null(text, at):
        return at + 4, np.int64(0), np.int64(1)
    is_negative = text[at] == 0x2D
    at += is_negative
    start, value = at, np.int64(0)
    while 48 <= text[at] <= 57 and at - start <= _MOST_DIGITS:
        value = value * 10 + (np.int64(text[at]) - 48)
        at += 1
    length = at - start
    if length == 0 or length > _MOST_DIGITS or (length > 1 and text[start] == 48):
        return np.int64(-1), np.int64(0), np.int64(0)
    return at, -value if is_negative else value, np.int64(0)


@kernel(f"int64({_TEXT}, int64, int64)")
def _name(text, at, likely):
    """The index of the name whose content begins at ``at``, -1 if it is not known; ``likely`` is tried first."""
    for tried in range(len(NAMES)):
        index = (likely + tried) % len(NAMES)
        start, end = _NAME_ENDS[index], _NAME_ENDS[index + 1]
        same = text[at + end - start] == 0x22
        for position in range(start, end):
            if not same:
                break
            same = text[at + position - start] == _NAME_BYTES[position]
        if same:
            return np.int64(index)
    return np.int64(-1)


@kernel(f"int64({_TEXT}, int64, boolean, uint8[:, ::1], int64[::1], int32[:, ::1], uint8[::1])")
def _headers(text, at, is_base64, data, filled, pair_ends, pair_null):
    """Reads a list of headers; returns the position after it, -1 if it is none."""
    if _is_null(text, at):
        return at + 4
    if text[at] != 0x5B:
        return np.int64(-1)
    at += 1
    if text[at] == 0x5D:
        return at + 1
    while True:
        if text[at] != 0x5B or text[at + 1] != 0x22:
            return np.int64(-1)
        at, filled[HEADER_KEYS] = _string(text, at + 2, data[HEADER_KEYS], filled[HEADER_KEYS])
        if at < 0 or text[at] != 0x2C:
            return np.int64(-1)
        at, filled[HEADER_VALUES], is_null = _bytes(text, at + 1, data[HEADER_VALUES], filled[HEADER_VALUES], is_base64)
        if at < 0 or text[at] != 0x5D:
            return np.int64(-1)
        pair_null[filled[7]] = is_null
        filled[7] += 1
        pair_ends[0, filled[7]] = filled[HEADER_KEYS]
        pair_ends[1, filled[7]] = filled[HEADER_VALUES]
        at += 1
        if text[at] == 0x5D:
            return at + 1
        if text[at] != 0x2C:
            return np.int64(-1)
        at += 1


@kernel(
    f"int64({_TEXT}, int64, boolean, uint8[:, ::1], int64[::1], int32[:, ::1], uint8[:, ::1], int64[:, ::1], "
    "int32[::1], int32[:, ::1], uint8[::1])"
)
def read_rows(text, end, is_base64, data, filled, ends, null, numbers, header_ends, pair_ends, pair_null):
    """Reads the lines of ``text`` up to ``end``, each with its line feed; returns the number of rows, or -1 if a line
    has not the form that it should have.

    Of each row: where its topic, type, key and value end (rows 0 to 3 of ``ends``, each of which begins with 0), which
    of these are null (rows 0 to 3 of ``null``), its numbers and which of them are null (rows 4 to 6), whether it is a
    control record (row 7), and where its headers end. Of each header: where its key and value end, and whether its
    value is null. ``filled[8]`` becomes the members that all lines have, a bit for each.
    """
    at, row = np.int64(0), 0
    members = np.int64(-1)
    while at < end:
        if text[at] != 0x7B:
            return -1
        mask, name = np.int64(0), np.int64(-1)
        null[7, row] = 0
        for column in range(4):
            null[column, row] = 1
        while True:
            at += 1
            if text[at] != 0x22:
                return -1
            name = _name(text, at + 1, (name + 1) % len(NAMES))
            if name < 0 or mask >> name & 1:
                return -1
            mask |= np.int64(1) << name
            at += 2 + _NAME_ENDS[name + 1] - _NAME_ENDS[name]
            if text[at] != 0x3A:
                return -1
            at += 1
            if name in (KEY, VALUE):
                column = KEYS if name == KEY else VALUES
                at, filled[column], is_null = _bytes(text, at, data[column], filled[column], is_base64)
                null[column, row] = is_null
            elif name in (TOPIC, TIMESTAMP_TYPE, FILE):
                column = TOPICS if name == TOPIC else TYPES if name == TIMESTAMP_TYPE else SCRATCH
                filled[SCRATCH] = 0
                if _is_null(text, at):
                    at += 4
                elif text[at] == 0x22:
                    at, filled[column] = _string(text, at + 1, data[column], filled[column])
                    if name != FILE:
                        null[column, row] = 0
                else:
                    return -1
            elif name == HEADERS:
                at = _headers(text, at, is_base64, data, filled, pair_ends, pair_null)
            elif name == IS_CONTROL:
                if text[at] == 0x74 and text[at + 1] == 0x72 and text[at + 2] == 0x75 and text[at + 3] == 0x65:
                    null[7, row] = 1
                    at += 4
                elif text[at] == 0x66 and text[at + 1] == 0x61 and text[at + 2] == 0x6C and text[at + 3] == 0x73:
                    at += 5
                    if text[at - 1] != 0x65:
                        return -1
                else:
                    return -1
            else:
                at, value, is_null = _integer(text, at)
                if name in (PARTITION, OFFSET, TIMESTAMP):
                    column = PARTITIONS if name == PARTITION else OFFSETS if name == OFFSET else TIMESTAMPS
                    numbers[column, row] = value
                    null[4 + column, row] = is_null
            if at < 0:
                return -1
            if text[at] == 0x7D:
                break
            if text[at] != 0x2C:
                return -1
        if text[at + 1] != 0x0A or (members >= 0 and mask != members):
            return -1
        members = mask
        at += 2
        row += 1
        for column in range(4):
            ends[column, row] = filled[column]
        header_ends[row] = filled[7]
    filled[8] = members
    return row
