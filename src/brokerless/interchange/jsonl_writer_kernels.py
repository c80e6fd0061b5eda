"""Kernels that write record columns as JSON Lines.

A line's length is known only when it is written, so room for the worst case (every byte becomes ``\\u0000``) is
reserved first; the rare row that could overflow an empty buffer is left to the caller.
"""

# Inside kernels, numbers are Numba's, and intrinsics take what Numba gives them.
# pyright: basic, reportCallIssue=false

from __future__ import annotations

import numpy as np

from brokerless.format.columns import SLACK
from brokerless.format.intrinsics import copy_value, load_u64, store_u64, trailing_zeros
from brokerless.format.kernel import inlined, kernel
from brokerless.interchange.json_string_kernels import WORST_ESCAPE, write_escaped

AUTO, BASE64, VERBATIM = 0, 1, 2
"""How bytes are written: as text where they are UTF-8, in base64, or as the JSON that they already are."""


def _utf8_automaton() -> np.ndarray:
    """``table[256 * state + byte]`` is the next state: 0 between characters, 1 refused, others inside a character.

    The ranges are those of the Unicode Standard, table 3-7 (no overlong forms, no surrogates, nothing above U+10FFFF).
    """
    table = np.ones((9, 256), dtype=np.uint8)
    between, one, two, three, after_e0, after_ed, after_f0, after_f4 = 0, 2, 3, 4, 5, 6, 7, 8
    table[between, 0x00:0x80] = between
    table[between, 0xC2:0xE0] = one
    table[between, 0xE0:0xF0] = two
    table[between, 0xE0], table[between, 0xED] = after_e0, after_ed
    table[between, 0xF0:0xF4] = three
    table[between, 0xF0], table[between, 0xF4] = after_f0, after_f4
    table[one, 0x80:0xC0] = between
    table[two, 0x80:0xC0] = one
    table[three, 0x80:0xC0] = two
    table[after_e0, 0xA0:0xC0] = one
    table[after_ed, 0x80:0xA0] = one
    table[after_f0, 0x90:0xC0] = two
    table[after_f4, 0x80:0x90] = two
    return table.ravel()


_UTF8 = _utf8_automaton()
_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype=np.uint8).copy()
_NULL = np.frombuffer(b"null", dtype=np.uint8).copy()
_BASE64_OPEN = np.frombuffer(b'{"base64":"', dtype=np.uint8).copy()
_ASCII = np.uint64(0x8080808080808080)
_CHARACTERS = np.uint64(0x3030303030303030)
_E8 = np.uint64(10**8)


@inlined
def write_text(out, to, text, start, end):
    copy_value(out, to, text, start, end - start)
    return to + end - start


@inlined
def eight_digits(number):
    """The decimal digits of a uint64 below 10^8, a byte each, the first one lowest; not yet as characters."""
    # All at once: halves of four digits, then quarters of two, then single ones, each in a lane of its own.
    high = number // np.uint64(10_000)
    halves = high | (number - high * np.uint64(10_000)) << np.uint64(32)
    hundreds = (halves * np.uint64(10486)) >> np.uint64(20) & np.uint64(0x0000007F0000007F)
    quarters = hundreds | (halves - hundreds * np.uint64(100)) << np.uint64(16)
    tens = (quarters * np.uint64(103)) >> np.uint64(10) & np.uint64(0x000F000F000F000F)
    return tens | (quarters - tens * np.uint64(10)) << np.uint64(8)


@inlined
def write_head(out, to, number):
    digits = eight_digits(number)
    zeros = trailing_zeros(digits | np.uint64(1 << 56)) & 56  # bits of leading zeros; 0 has a digit, too
    store_u64(out, to, (digits | _CHARACTERS) >> np.uint64(zeros))
    return to + 8 - (zeros >> 3)


@inlined
def write_eight(out, to, number):
    store_u64(out, to, eight_digits(number) | _CHARACTERS)
    return to + 8


@inlined
def write_int(out, to, number):
    rest = np.uint64(number)
    if number < 0:
        out[to] = 45
        to += 1
        rest = np.uint64(0) - rest
    if rest < _E8:
        return write_head(out, to, rest)
    high = rest // _E8
    if high < _E8:
        to = write_head(out, to, high)
    else:
        top = high // _E8
        to = write_head(out, to, top)
        to = write_eight(out, to, high - top * _E8)
    return write_eight(out, to, rest - high * _E8)


@inlined
def write_base64(out, to, data, start, end):
    at = start
    while at + 3 <= end:
        first, second, third = np.int64(data[at]), np.int64(data[at + 1]), np.int64(data[at + 2])
        out[to] = _BASE64[first >> 2]
        out[to + 1] = _BASE64[((first & 3) << 4) | (second >> 4)]
        out[to + 2] = _BASE64[((second & 15) << 2) | (third >> 6)]
        out[to + 3] = _BASE64[third & 63]
        at += 3
        to += 4
    if at < end:
        first = np.int64(data[at])
        second = np.int64(data[at + 1]) if at + 1 < end else 0
        out[to] = _BASE64[first >> 2]
        out[to + 1] = _BASE64[((first & 3) << 4) | (second >> 4)]
        out[to + 2] = _BASE64[(second & 15) << 2] if at + 1 < end else 61
        out[to + 3] = 61
        to += 4
    return to


@inlined
def valid_utf8(data, start, end):
    state = np.int64(0)
    at = start
    while at + 8 <= end:
        if state != 0 or load_u64(data, at) & _ASCII:
            for inside in range(at, at + 8):
                state = np.int64(_UTF8[256 * state + data[inside]])
        at += 8
    while at < end:
        state = np.int64(_UTF8[256 * state + data[at]])
        at += 1
    return state == 0


@inlined
def write_bytes(out, to, data, start, end, mode):
    if mode == VERBATIM:
        return write_text(out, to, data, start, end)
    out[to] = 34
    if mode == AUTO:
        then, above_ascii = write_escaped(out, to + 1, data, start, end)
        if above_ascii and not valid_utf8(data, start, end):
            then = write_text(out, to, _BASE64_OPEN, 0, len(_BASE64_OPEN))
            then = write_base64(out, then, data, start, end)
            out[then] = 34
            out[then + 1] = 125
            return then + 2
    else:
        then = write_base64(out, to + 1, data, start, end)
    out[then] = 34
    return then + 1


@inlined
def write_nullable(out, to, data, ends, valid, valid_from, row, mode):
    if len(valid) and not (valid[(row + valid_from) >> 3] >> ((row + valid_from) & 7)) & 1:
        return write_text(out, to, _NULL, 0, 4)
    return write_bytes(out, to, data, ends[row], ends[row + 1], mode)


BYTES = "Array(uint8, 1, 'C', readonly=True)"
_INT32 = "Array(int32, 1, 'C', readonly=True)"
_INT64 = "Array(int64, 1, 'C', readonly=True)"
_NULLABLE = f"{BYTES}, {_INT32}, {BYTES}, int64"


@kernel(f"boolean({BYTES}, int64, int64)")
def is_utf8(data, start, end):
    """Return whether ``data[start:end]`` is well-formed UTF-8."""
    return valid_utf8(data, start, end)


@kernel(f"int64({BYTES}, int64, int64, uint8[::1])")
def escape(data, start, end, out):
    """Writes ``data[start:end]``, whole characters, as the inside of a JSON string and returns the length of it.

    ``out`` needs room for ``WORST_ESCAPE`` times as many bytes and ``SLACK``.
    """
    return write_escaped(out, 0, data, start, end)[0]


@kernel(
    f"int64(int64, int64, {BYTES}, {_INT64}, {_INT64}, {_INT64}, {_INT64}, {_INT32}, "
    f"{_NULLABLE}, {_NULLABLE}, {_INT32}, {BYTES}, {_INT32}, {_NULLABLE}, {_INT32}, int64, uint8[::1], int64[::1])"
)
def write_rows(
    first,
    rows,
    texts,
    text_ends,
    batch_positions,
    offsets,
    timestamps,
    timestamp_types,
    keys,
    key_ends,
    key_valid,
    key_valid_from,
    values,
    value_ends,
    value_valid,
    value_valid_from,
    header_ends,
    header_keys,
    header_key_ends,
    header_values,
    header_value_ends,
    header_value_valid,
    header_value_valid_from,
    sequences,
    mode,
    out,
    used,
):
    """Writes rows ``first``, ``first + 1``, ... before ``rows``, until one may not fit; returns the row to go on with.

    ``used[0]`` is the number of bytes written. ``texts`` has, one after the other, what every line begins with; the
    names of the eight columns from ``batchPosition`` on, as they stand before the value (``,"offset":``), where an
    empty one leaves its column out (then its arrays may be empty); and the texts of the timestamp types -1, 0, 1 and
    any other.
    ``text_ends`` has their 13 ends after a 0.
    Columns of bytes have Arrow's layout: data, ends (row ``i`` ends at ``ends[i + 1]``), validity bits (may be empty)
    and the bit of row 0.
    """
    capacity = len(out) - SLACK
    fixed = len(texts) + 160
    with_position = text_ends[2] > text_ends[1]
    with_offset = text_ends[3] > text_ends[2]
    with_timestamp = text_ends[4] > text_ends[3]
    with_type = text_ends[5] > text_ends[4]
    with_key = text_ends[6] > text_ends[5]
    with_value = text_ends[7] > text_ends[6]
    with_headers = text_ends[8] > text_ends[7]
    with_sequence = text_ends[9] > text_ends[8]
    to = 0
    row = first
    while row < rows:
        size = np.int64(0)
        if with_key:
            size += key_ends[row + 1] - key_ends[row]
        if with_value:
            size += value_ends[row + 1] - value_ends[row]
        if with_headers:
            head, last = header_ends[row], header_ends[row + 1]
            if last > head:
                size += header_key_ends[last] - header_key_ends[head]
                size += header_value_ends[last] - header_value_ends[head]
                size += np.int64(last - head) * 8
        if to + fixed + WORST_ESCAPE * size > capacity:
            break
        to = write_text(out, to, texts, text_ends[0], text_ends[1])
        if with_position:
            to = write_text(out, to, texts, text_ends[1], text_ends[2])
            to = write_int(out, to, batch_positions[row])
        if with_offset:
            to = write_text(out, to, texts, text_ends[2], text_ends[3])
            to = write_int(out, to, offsets[row])
        if with_timestamp:
            to = write_text(out, to, texts, text_ends[3], text_ends[4])
            to = write_int(out, to, timestamps[row])
        if with_type:
            to = write_text(out, to, texts, text_ends[4], text_ends[5])
            which = np.int64(timestamp_types[row]) + 1
            if which < 0 or which > 2:
                which = 3
            to = write_text(out, to, texts, text_ends[which + 9], text_ends[which + 10])
        if with_key:
            to = write_text(out, to, texts, text_ends[5], text_ends[6])
            to = write_nullable(out, to, keys, key_ends, key_valid, key_valid_from, row, mode)
        if with_value:
            to = write_text(out, to, texts, text_ends[6], text_ends[7])
            to = write_nullable(out, to, values, value_ends, value_valid, value_valid_from, row, mode)
        if with_headers:
            to = write_text(out, to, texts, text_ends[7], text_ends[8])
            out[to] = 91
            to += 1
            for header in range(header_ends[row], header_ends[row + 1]):
                if header > header_ends[row]:
                    out[to] = 44
                    to += 1
                out[to] = 91
                out[to + 1] = 34
                start, end = header_key_ends[header], header_key_ends[header + 1]
                to = write_escaped(out, to + 2, header_keys, start, end)[0]
                out[to] = 34
                out[to + 1] = 44
                to = write_nullable(
                    out,
                    to + 2,
                    header_values,
                    header_value_ends,
                    header_value_valid,
                    header_value_valid_from,
                    header,
                    mode,
                )
                out[to] = 93
                to += 1
            out[to] = 93
            to += 1
        if with_sequence:
            to = write_text(out, to, texts, text_ends[8], text_ends[9])
            to = write_int(out, to, np.int64(sequences[row]))
        out[to] = 125
        out[to + 1] = 10
        to += 2
        row += 1
    used[0] = to
    return row
