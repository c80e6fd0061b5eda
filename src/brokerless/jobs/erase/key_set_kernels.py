"""Kernels of :class:`KeySet`: put keys into a table of hashes, and find which rows have one of them.

The hash begins with a random seed, so that nobody who chooses keys can make them all collide. A filter of bits, small
enough for the processor's cache, answers for almost all rows that have none of the keys.
"""

# Inside kernels, numbers are Numba's, and intrinsics take what Numba gives them.
# pyright: basic, reportCallIssue=false, reportReturnType=false, reportArgumentType=false, reportAssignmentType=false

from __future__ import annotations

import numpy as np

from brokerless.format.intrinsics import load_u64
from brokerless.format.kernel import inlined, kernel

_U = np.uint64
_FIRST, _SECOND = _U(0x9E3779B97F4A7C15), _U(0xD6E8FEB86659FD93)


@inlined
def _mix(word):
    word = (word ^ (word >> _U(32))) * _FIRST
    return word ^ (word >> _U(29))


@inlined
def _hash(data, start, end, seed):
    found = _mix(seed ^ _U(end - start))
    at = start
    while at + 8 <= end:
        found = _mix(found ^ load_u64(data, at)) * _SECOND
        at += 8
    word = _U(0)
    while at < end:
        word = (word << _U(8)) | _U(data[at])
        at += 1
    return _mix(_mix(found ^ word))


@inlined
def _is_same(one, one_start, other, other_start, length):
    at = np.int64(0)
    while at + 8 <= length:
        if load_u64(one, one_start + at) != load_u64(other, other_start + at):
            return False
        at += 8
    while at < length:
        if one[one_start + at] != other[other_start + at]:
            return False
        at += 1
    return True


@kernel(
    "void(uint64, Array(uint8, 1, 'C', readonly=True), Array(int64, 1, 'C', readonly=True), int32[::1], uint64[::1])"
)
def put_keys(seed, data, ends, table, bits) -> None:
    """Puts the number of each key ``data[ends[i]:ends[i + 1]]``, plus 1, into a ``table`` of zeros, and its bit into
    the filter. Both have a power of two of places, the table more than there are keys."""
    for key in range(len(ends) - 1):
        found = _hash(data, ends[key], ends[key + 1], seed)
        place = (found >> _U(32)) & _U(64 * len(bits) - 1)
        bits[place >> _U(6)] |= _U(1) << (place & _U(63))
        slot = found & _U(len(table) - 1)
        while table[slot] != 0:
            slot = (slot + _U(1)) & _U(len(table) - 1)
        table[slot] = key + 1


@kernel(
    "int64(uint64, Array(uint8, 1, 'C', readonly=True), Array(int64, 1, 'C', readonly=True), "
    "Array(int32, 1, 'C', readonly=True), Array(uint64, 1, 'C', readonly=True), Array(uint8, 1, 'C', readonly=True), "
    "Array(int32, 1, 'C', readonly=True), Array(uint8, 1, 'C', readonly=True), uint8[::1])"
)
def find_keys(seed, data, ends, table, bits, row_data, row_ends, row_null, found) -> int:
    """Sets ``found`` of each row whose key ``row_data[row_ends[row]:row_ends[row + 1]]`` is in the table, unless it is
    null. Returns how many rows were read: fewer than ``len(found)`` if a key is not within its data."""
    for row in range(len(found)):
        if row + 1 >= len(row_ends) or row >= len(row_null):
            return row
        start, end = np.int64(row_ends[row]), np.int64(row_ends[row + 1])
        if start < 0 or end < start or end > len(row_data):
            return row
        if row_null[row] != 0:
            continue
        hashed = _hash(row_data, start, end, seed)
        place = (hashed >> _U(32)) & _U(64 * len(bits) - 1)
        if (bits[place >> _U(6)] >> (place & _U(63))) & _U(1) == 0:
            continue
        slot = hashed & _U(len(table) - 1)
        while table[slot] != 0:
            key = np.int64(table[slot] - 1)
            length = ends[key + 1] - ends[key]
            if length == end - start and _is_same(data, ends[key], row_data, start, length):
                found[row] = 1
                break
            slot = (slot + _U(1)) & _U(len(table) - 1)
    return len(found)
