"""The kernel that finds JSON objects which all parsers read alike, and writes them a line each."""

# Inside kernels, numbers are Numba's, and intrinsics take what Numba gives them.
# pyright: basic, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import numpy as np

from brokerless.format.kernel import inlined, kernel
from brokerless.interchange.jsonl_writer_kernels import valid_utf8

_QUOTE, _BACKSLASH, _MINUS, _DOT, _ZERO = 0x22, 0x5C, 0x2D, 0x2E, 0x30
_OBJECT, _OBJECT_END, _LIST, _LIST_END = 0x7B, 0x7D, 0x5B, 0x5D
_LETTER_U, _LETTER_D, _LETTER_E, _LOWER_CASE, _SPACE, _LINE_FEED = 0x75, 0x64, 0x65, 0x20, 0x20, 0x0A
_UPPER_A, _UPPER_Z = 0x41, 0x5A
_MOST_DIGITS, _MOST_WHOLE = 100, 18


@inlined
def is_digit(byte):
    return _ZERO <= byte <= _ZERO + 9


@inlined
def after_string(data, at, end):
    """Return where a string ends that begins at ``at``; -1 for one with an escape of a surrogate, control characters,
    or without an end."""
    at += 1
    while at < end:
        byte = data[at]
        if byte == _QUOTE:
            return at + 1
        if byte < _SPACE:
            return np.int64(-1)
        if byte == _BACKSLASH:
            if at + 2 >= end or (data[at + 1] == _LETTER_U and (data[at + 2] | _LOWER_CASE) == _LETTER_D):  # \ud...
                return np.int64(-1)
            at += 1
        at += 1
    return np.int64(-1)


@inlined
def after_number(data, at, end):
    """Return where a number ends; -1 for one with an exponent, with many digits (a whole one that may not be of 64
    bits), and for -0, which is a float in Arrow."""
    first = at
    is_whole = True
    while at < end and (is_digit(data[at]) or data[at] == _MINUS or data[at] == _DOT):
        is_whole &= data[at] != _DOT
        at += 1
    if at - first > (_MOST_WHOLE if is_whole else _MOST_DIGITS) or (at < end and (data[at] | _LOWER_CASE) == _LETTER_E):
        return np.int64(-1)
    if at - first == 2 and data[first] == _MINUS and data[first + 1] == _ZERO:
        return np.int64(-1)
    return at


@inlined
def is_one_object(data, start, end):
    """Return whether some bytes are at most one JSON object, with nothing before it or after it."""
    if end - start < 2 or data[start] != _OBJECT or not valid_utf8(data, start, end):
        return False
    depth = 0
    at = start
    while at < end:
        byte = data[at]
        if byte == _QUOTE:
            at = after_string(data, at, end)
        elif byte == _MINUS or is_digit(byte):
            at = after_number(data, at, end)
        else:
            if byte in (_OBJECT, _LIST):
                depth += 1
            elif byte in (_OBJECT_END, _LIST_END):
                depth -= 1
            elif byte < _SPACE or _UPPER_A <= byte <= _UPPER_Z:  # NaN and Infinity, which Arrow takes
                return False
            at += 1
            if depth == 0:
                return at == end
        if at < 0:
            return False
    return False


@kernel(
    "int64(Array(uint8, 1, 'C', readonly=True), int64[::1], int64[::1], uint8[::1], int64[::1])",
)
def write_lines(data, starts, ends, out, line_ends):
    """Writes each of the payloads ``[starts[i], ends[i])`` that is one object to ``out``, with a line feed after it,
    and into ``line_ends`` where the next one begins; -1 for a payload that is not written. Returns the bytes written.
    ``out`` has room for all, and ``line_ends`` is as long as ``starts``. What is no JSON may be written as well."""
    size = np.int64(0)
    for row in range(len(starts)):
        start, end = starts[row], ends[row]
        line_ends[row] = -1
        is_there = start >= 0 and end <= len(data) and size + (end - start) < len(out)
        if is_there and is_one_object(data, start, end):
            for at in range(end - start):
                out[size + at] = data[start + at]
            size += end - start
            out[size] = _LINE_FEED
            size += 1
            line_ends[row] = size
    return size
