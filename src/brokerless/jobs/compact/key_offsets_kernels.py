"""Kernels of :class:`LastRows`: hash keys, and find or replace the last row of each in a table.

The hash is SipHash-2-4 with 128 bits, under a key of the table's own: nobody who chooses the records' keys can make two
of them collide.
"""

# Inside kernels, numbers are Numba's, and intrinsics take what Numba gives them.
# pyright: basic, reportCallIssue=false, reportReturnType=false, reportArgumentType=false, reportAssignmentType=false

from __future__ import annotations

import numpy as np

from brokerless.format.intrinsics import load_u64
from brokerless.format.kernel import inlined, kernel

HIGH, LOW, NEXT, COUNT = range(4)
"""The columns of a table's slot: the hash, the last row and one more (0 where the slot is free), how many records."""

_U = np.uint64


@inlined
def _rotate(word, bits):
    return (word << _U(bits)) | (word >> _U(64 - bits))


@inlined
def _round(v0, v1, v2, v3):
    v0 += v1
    v1 = _rotate(v1, 13) ^ v0
    v0 = _rotate(v0, 32)
    v2 += v3
    v3 = _rotate(v3, 16) ^ v2
    v0 += v3
    v3 = _rotate(v3, 21) ^ v0
    v2 += v1
    v1 = _rotate(v1, 17) ^ v2
    v2 = _rotate(v2, 32)
    return v0, v1, v2, v3


@kernel(
    "int64(uint64, uint64, Array(uint8, 1, 'C', readonly=True), Array(int32, 1, 'C', readonly=True), "
    "Array(uint8, 1, 'C', readonly=True), uint64[:, ::1])"
)
def hash_keys(k0, k1, chosen, ends, data, hashes) -> int:
    """The hashes of the keys ``data[ends[row]:ends[row + 1]]`` of the rows that are ``chosen``, into ``hashes`` (shape
    ``(rows, 2)``). Returns how many rows were read: fewer than there are if a key is not in ``data``."""
    for row in range(len(chosen)):
        if chosen[row] == 0:
            continue
        if row + 1 >= len(ends) or row >= len(hashes):
            return row
        start, end = np.int64(ends[row]), np.int64(ends[row + 1])
        if start < 0 or end < start or end > len(data):
            return row
        v0 = k0 ^ _U(0x736F6D6570736575)
        v1 = k1 ^ _U(0x646F72616E646F6D) ^ _U(0xEE)
        v2 = k0 ^ _U(0x6C7967656E657261)
        v3 = k1 ^ _U(0x7465646279746573)
        at = start
        while at + 8 <= end:
            word = load_u64(data, at)
            v3 ^= word
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
            v0 ^= word
            at += 8
        word = _U(end - start) << _U(56)
        shift = _U(0)
        while at < end:
            word |= _U(data[at]) << shift
            shift += _U(8)
            at += 1
        v3 ^= word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
        v2 ^= _U(0xEE)
        for _ in range(4):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        hashes[row, 0] = v0 ^ v1 ^ v2 ^ v3
        v1 ^= _U(0xDD)
        for _ in range(4):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        hashes[row, 1] = v0 ^ v1 ^ v2 ^ v3
    return len(chosen)


@inlined
def _slot_of(table, high, low):
    """The slot that has a hash, or the free one where it belongs; the table has free ones."""
    mask = _U(len(table) - 1)
    slot = low & mask
    while table[slot, NEXT] != 0 and (table[slot, HIGH] != high or table[slot, LOW] != low):
        slot = (slot + _U(1)) & mask
    return slot


@kernel(
    "int64(int64, int64, uint64, uint64, Array(uint8, 1, 'C', readonly=True), uint64[:, ::1], int64, uint64[:, ::1], "
    "int64[::1], uint8[::1])"
)
def put_rows(first, most, lowest, highest, chosen, hashes, start, table, used, superseded) -> int:
    """Sets the last row of the keys of the rows from ``first`` on that are ``chosen``, and whose hashes begin with a
    word from ``lowest`` to ``highest``; ``start`` is the number of row 0. The bit of the row that was the last one
    before is set in ``superseded``. Returns the row that does not fit, as ``used[0]`` slots would become more than
    ``most`` or ``superseded`` is too short, or how many rows there are. ``len(table)`` is a power of two, larger than
    ``most``."""
    if most >= len(table) or start < 0:
        return first
    for row in range(first, len(chosen)):
        if chosen[row] == 0 or hashes[row, 0] < lowest or hashes[row, 0] > highest:
            continue
        slot = _slot_of(table, hashes[row, 0], hashes[row, 1])
        if table[slot, NEXT] == 0:
            if used[0] >= most:
                return row
            used[0] += 1
            table[slot, HIGH], table[slot, LOW] = hashes[row, 0], hashes[row, 1]
        else:
            before = np.int64(table[slot, NEXT]) - 1
            if before >> 3 >= len(superseded):
                return row
            superseded[before >> 3] |= np.uint8(1 << (before & 7))
        table[slot, NEXT] = _U(start + row + 1)
        table[slot, COUNT] += _U(1)
    return len(chosen)


@kernel("void(uint64, uint64, Array(uint8, 1, 'C', readonly=True), uint64[:, ::1], int64, uint64[:, ::1], uint8[::1])")
def find_superseded(lowest, highest, chosen, hashes, start, table, superseded) -> None:
    """Sets ``superseded`` of the ``chosen`` rows whose key has a later row in the table (``start``: the number of row
    0); others stay unchanged."""
    for row in range(len(chosen)):
        if chosen[row] == 0 or hashes[row, 0] < lowest or hashes[row, 0] > highest:
            continue
        slot = _slot_of(table, hashes[row, 0], hashes[row, 1])
        if table[slot, NEXT] != 0 and np.int64(table[slot, NEXT]) - 1 > start + row:
            superseded[row] = 1


@kernel(
    "int64(int64, int64, uint64, uint64, Array(uint8, 1, 'C', readonly=True), uint64[:, ::1], "
    "Array(int64, 1, 'C', readonly=True), uint64[:, ::1], int64[::1])"
)
def put_numbers(first, most, lowest, highest, chosen, hashes, numbers, table, used) -> int:
    """As :func:`put_rows`, with a number of each row's own (0 or more) in place of its place: the greatest of each key
    counts. Returns the row that does not fit, or how many rows there are."""
    if most >= len(table) or len(numbers) < len(chosen):
        return first
    for row in range(first, len(chosen)):
        if chosen[row] == 0 or hashes[row, 0] < lowest or hashes[row, 0] > highest or numbers[row] < 0:
            continue
        slot = _slot_of(table, hashes[row, 0], hashes[row, 1])
        if table[slot, NEXT] == 0:
            if used[0] >= most:
                return row
            used[0] += 1
            table[slot, HIGH], table[slot, LOW] = hashes[row, 0], hashes[row, 1]
        table[slot, NEXT] = max(table[slot, NEXT], _U(numbers[row]) + _U(1))
        table[slot, COUNT] += _U(1)
    return len(chosen)


@kernel("void(uint64[:, ::1], uint64[:, ::1], int64[::1])")
def find_numbers(hashes, table, found) -> None:
    """The number of each hash in the table, -1 where it is not there."""
    for row in range(min(len(hashes), len(found))):
        slot = _slot_of(table, hashes[row, 0], hashes[row, 1])
        found[row] = np.int64(table[slot, NEXT]) - 1


@kernel("void(uint64, uint64, uint64[:, ::1], uint64[:, ::1], int64[::1])")
def copy_table(lowest, highest, old, new, used) -> None:
    """Puts the entries of a table whose hashes begin with a word from ``lowest`` to ``highest`` into a larger or
    equally large empty one, and their number into ``used[0]``."""
    used[0] = 0
    for slot in range(len(old)):
        if old[slot, NEXT] == 0 or old[slot, HIGH] < lowest or old[slot, HIGH] > highest:
            continue
        target = _slot_of(new, old[slot, HIGH], old[slot, LOW])
        new[target, HIGH], new[target, LOW] = old[slot, HIGH], old[slot, LOW]
        new[target, NEXT], new[target, COUNT] = old[slot, NEXT], old[slot, COUNT]
        used[0] += 1
