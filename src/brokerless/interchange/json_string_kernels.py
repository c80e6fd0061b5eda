"""Kernels that escape bytes for a JSON string.

Escaped are what JSON asks for, and what a terminal may obey: DEL, C1 controls, and what Unicode's bidirectional
algorithm obeys (UAX 9). These are what ``jsonl.dumps`` escapes, and any reader gets the same string back.
"""

# Numba's extension API is untyped.
# pyright: basic, reportCallIssue=false

from __future__ import annotations

import numpy as np

from brokerless.format.intrinsics import address, copy_32, store_u64, trailing_zeros
from brokerless.format.kernel import inlined, intrinsic, ir, types

WORST_ESCAPE = 6
"""Most bytes of output for one byte of a string."""
_DELETE = 0x7F


def _escapes() -> np.ndarray:
    """For each byte, what it is in a JSON string (the lower seven bytes) and how many bytes that is (the highest)."""
    short = {0x22: b'\\"', 0x5C: b"\\\\", 0x08: b"\\b", 0x0C: b"\\f", 0x0A: b"\\n", 0x0D: b"\\r", 0x09: b"\\t"}
    controls = {*range(0x20), _DELETE}
    texts = [short.get(byte) or (b"\\u%04x" % byte if byte in controls else bytes([byte])) for byte in range(256)]
    words = [int.from_bytes(text.ljust(7, b"\0") + bytes([len(text)]), "little") for text in texts]
    return np.array(words, dtype=np.uint64)


_ESCAPES = _escapes()
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8).copy()


@intrinsic
def classify_32(typing, array, position):
    """Return a uint64 about the 32 bytes at ``position``: its lower half has a bit for each that is escaped in a JSON
    string, its upper half one for each above 127."""

    def generate(context, builder, sig, args):
        vector = ir.VectorType(ir.IntType(8), 32)
        pointer = address(context, builder, sig, args, 0, 1, 32)
        chunk = builder.load(builder.bitcast(pointer, vector.as_pointer()))
        chunk.align = 1

        def all_of(value):
            return ir.Constant(vector, [value] * 32)

        def mask(flags):
            return builder.zext(builder.bitcast(flags, ir.IntType(32)), ir.IntType(64))

        escaped = builder.icmp_unsigned("<", chunk, all_of(0x20))
        for char in (0x22, 0x5C, _DELETE):
            escaped = builder.or_(escaped, builder.icmp_unsigned("==", chunk, all_of(char)))
        above = builder.icmp_signed("<", chunk, all_of(0))
        return builder.or_(mask(escaped), builder.shl(mask(above), ir.Constant(ir.IntType(64), 32)))

    return types.uint64(array, types.int64), generate


@intrinsic
def invisible_32(typing, array, position):
    """Return a bit for each of the 32 bytes at ``position`` that begins a character that :func:`invisible` finds. The
    two bytes after them are examined as well."""

    def generate(context, builder, sig, args):
        vector = ir.VectorType(ir.IntType(8), 32)
        pointer = address(context, builder, sig, args, 0, 1, 34)

        def load(further):
            at = builder.gep(pointer, [ir.Constant(ir.IntType(64), further)])
            chunk = builder.load(builder.bitcast(at, vector.as_pointer()))
            chunk.align = 1
            return chunk

        def all_of(value):
            return ir.Constant(vector, [value] * 32)

        def equal(chunk, value):
            return builder.icmp_unsigned("==", chunk, all_of(value))

        def within(chunk, least, most):
            return builder.icmp_unsigned("<=", builder.sub(chunk, all_of(least)), all_of(most - least))

        def both(one, other):
            return builder.and_(one, other)

        def either(one, other):
            return builder.or_(one, other)

        first, second, third = load(0), load(1), load(2)
        marks = both(equal(second, 0x80), either(within(third, 0x8E, 0x8F), within(third, 0xAA, 0xAE)))
        isolates = both(equal(second, 0x81), within(third, 0xA6, 0xA9))
        found = both(equal(first, 0xE2), either(marks, isolates))
        found = either(found, both(equal(first, 0xC2), within(second, 0x80, 0x9F)))
        found = either(found, both(equal(first, 0xD8), equal(second, 0x9C)))
        return builder.zext(builder.bitcast(found, ir.IntType(32)), ir.IntType(64))

    return types.uint64(array, types.int64), generate


@inlined
def invisible(data, at, end):
    """The code of the character at ``at`` if it is a C1 control or a bidirectional one, otherwise 0."""
    first = data[at]
    if first == 0xC2 and at + 1 < end and 0x80 <= data[at + 1] <= 0x9F:
        return np.int64(data[at + 1])
    if first == 0xD8 and at + 1 < end and data[at + 1] == 0x9C:
        return np.int64(0x61C)
    if first == 0xE2 and at + 2 < end:
        second, third = data[at + 1], data[at + 2]
        if second == 0x80 and (0x8E <= third <= 0x8F or 0xAA <= third <= 0xAE):
            return np.int64(0x2000) + (third - 0x80)
        if second == 0x81 and 0xA6 <= third <= 0xA9:
            return np.int64(0x2040) + (third - 0x80)
    return np.int64(0)


@inlined
def write_code(out, to, code):
    out[to] = 0x5C
    out[to + 1] = 0x75
    for place in range(4):
        out[to + 2 + place] = _HEX[code >> (12 - 4 * place) & 15]
    return to + 6


@inlined
def write_escaped(out, to, data, start, end):
    """Returns where it ended, and whether there was any byte above 127."""
    # From one byte to escape to the next, 32 bytes are copied whatever is between: JSON in JSON has a quote every few
    # bytes, and no processor predicts which.
    above = np.uint64(0)
    while True:
        stop = end
        while start < end and start + 64 <= len(data):
            found = classify_32(data, start)
            if end - start < 32:
                kept = (np.uint64(1) << np.uint64(end - start)) - np.uint64(1)
                found &= kept | (kept << np.uint64(32))
            above |= found >> np.uint64(32)
            if found >> np.uint64(32) and invisible_32(data, start):
                stop = min(start + 32, end)
                break
            left = found & np.uint64(0xFFFFFFFF)
            done = np.int64(0)
            while left:
                next_one = trailing_zeros(left)
                copy_32(out, to, data, start + done)
                to += next_one - done
                word = _ESCAPES[data[np.uint64(start + next_one)]]
                store_u64(out, to, word)
                to += np.int64(word >> np.uint64(56))
                done = next_one + 1
                left &= left - np.uint64(1)
            copy_32(out, to, data, start + done)
            to += min(end - start, 32) - done
            start += 32
        if start >= end:
            return to, above > 0
        # Byte by byte: where there is something invisible, and at the end of the data, where there is no room to read
        # so much.
        while start < stop:
            byte = data[start]
            above |= np.uint64(byte >> 7)
            code = invisible(data, start, end) if byte > 127 else 0
            if code:
                to = write_code(out, to, code)
                start += 2 if code < 0x800 else 3
            else:
                word = _ESCAPES[byte]
                store_u64(out, to, word)
                to += np.int64(word >> np.uint64(56))
                start += 1
