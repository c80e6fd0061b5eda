"""A kernel that searches bytes for any number of patterns, by eight bytes of each."""

# Inside kernels, numbers are Numba's, and intrinsics take what Numba gives them.
# pyright: basic, reportCallIssue=false, reportReturnType=false, reportArgumentType=false, reportAssignmentType=false

from __future__ import annotations

import numpy as np

from brokerless.format.intrinsics import load_u64
from brokerless.format.kernel import inlined, kernel

_U = np.uint64
_PLACES = 16
"""Of a pattern that are tried for its eight bytes."""


@inlined
def _hash(word, seed):
    word = (word ^ seed) * _U(0x9E3779B97F4A7C15)
    return word ^ (word >> _U(32))


@kernel(
    "void(uint64, int64, Array(uint8, 1, 'C', readonly=True), Array(int64, 1, 'C', readonly=True), int64[::1], "
    "int32[::1], uint64[::1], uint8[::1])"
)
def put_patterns(seed, most, data, ends, windows, table, bits, left_out) -> None:
    """Puts the number of each pattern ``data[ends[i]:ends[i + 1]]`` (of 8 bytes or more), plus 1, into a ``table`` of
    zeros, and its bit into the filter; both have a power of two of places, the table more than there are patterns.

    ``windows``: where the eight bytes begin by which a pattern is found, of some places that with the fewest others
    that have the same. Where these are ``most``, a pattern is ``left_out``."""
    for number in range(len(ends) - 1):
        start, room = ends[number], ends[number + 1] - ends[number] - 8
        best, best_same, best_slot = np.int64(0), most, _U(0)
        for part in range(_PLACES):
            window = room * part // (_PLACES - 1)
            word = load_u64(data, start + window)
            slot = _hash(word, seed) & _U(len(table) - 1)
            same = np.int64(0)
            while table[slot] != 0 and same < best_same:
                other = np.int64(table[slot] - 1)
                same += load_u64(data, ends[other] + windows[other]) == word
                slot = (slot + _U(1)) & _U(len(table) - 1)
            if same < best_same:
                best, best_same, best_slot = window, same, slot
            if same == 0:
                break
        windows[number] = best
        if best_same >= most:
            left_out[number] = 1
            continue
        table[best_slot] = number + 1
        place = (_hash(load_u64(data, start + best), seed) >> _U(20)) & _U(64 * len(bits) - 1)
        bits[place >> _U(6)] |= _U(1) << (place & _U(63))


@kernel(
    "int64(int64, uint64, Array(uint8, 1, 'C', readonly=True), Array(int64, 1, 'C', readonly=True), "
    "Array(int64, 1, 'C', readonly=True), "
    "Array(int32, 1, 'C', readonly=True), Array(uint64, 1, 'C', readonly=True), Array(uint8, 1, 'C', readonly=True), "
    "int64[::1])"
)
def find_pattern(first, seed, data, ends, windows, table, bits, searched, found) -> int:
    """The next place from ``first`` on at which the eight bytes of a pattern are, within all of it in ``searched``, or
    -1; ``found`` gets the pattern's number and where it begins."""
    for at in range(first, len(searched) - 7):
        word = load_u64(searched, at)
        hashed = _hash(word, seed)
        place = (hashed >> _U(20)) & _U(64 * len(bits) - 1)
        if (bits[place >> _U(6)] >> (place & _U(63))) & _U(1) == 0:
            continue
        slot = hashed & _U(len(table) - 1)
        while table[slot] != 0:
            number = np.int64(table[slot] - 1)
            length = ends[number + 1] - ends[number]
            start = at - windows[number]
            slot = (slot + _U(1)) & _U(len(table) - 1)
            if start < 0 or start + length > len(searched):
                continue
            same = np.int64(0)
            while same < length and data[ends[number] + same] == searched[start + same]:
                same += 1
            if same == length:
                found[0], found[1] = number, start
                return at
    return -1
