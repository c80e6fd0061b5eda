"""Hashes of decoded keys and values, so that those of a table can be compared with those that a log's bytes decode to.

Two values have the same hash where readers take them for the same: whole numbers of any width, texts and bytes of any
of Arrow's types, times of any unit down to microseconds, which tables have; a field that a struct does not have is one
that is null.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless import arrow
from brokerless.format.columns import empty_columns
from brokerless.jobs.compact.key_offsets import KeyHasher

Hashes = NDArray[np.uint64]

HASH_BYTES = 16
_NUMBER, _FLOAT, _BYTES, _STRUCT, _LIST, _MAP, _NULL, _RAW = np.arange(1, 9, dtype=np.uint64)
_LANES = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)
_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class ValueHasher:
    """Hashes values of all types; both sides of a comparison use the same."""

    def __init__(self) -> None:
        self._hasher = KeyHasher()

    def hash(self, column: Any) -> Hashes:
        """Return the hash of each value: uint64, shape ``(rows, 2)``; 0 of null."""
        column = _plain(column)
        found = self._hash(column)
        found[~_is_valid(column)] = 0
        return found

    def hash_raw(self, column: Any) -> Hashes:
        """Return the same of bytes that are no decoded value."""
        found = _mixed(self._bytes(column.cast(pa.binary())), _RAW)
        found[~_is_valid(column)] = 0
        return found

    def _hash(self, column: Any) -> Hashes:
        t, type_ = pa.types, column.type
        if t.is_null(type_) or not len(column):
            return np.zeros((len(column), 2), np.uint64)
        if t.is_struct(type_):
            return self._struct(column)
        if t.is_list(type_):
            return self._list(column)
        if t.is_map(type_):
            return self._map(column)
        if t.is_floating(type_):
            numbers = arrow.numbers(column.cast(pa.float64()), np.float64)
            return _mixed(_both(np.where(np.isnan(numbers), np.nan, numbers + 0.0).view(np.uint64)), _FLOAT)
        if t.is_boolean(type_):
            return _mixed(_both(arrow.flags(column).astype(np.uint64)), _NUMBER)
        if t.is_integer(type_) or t.is_temporal(type_):
            return _mixed(_both(_whole(column).view(np.uint64)), _NUMBER)
        if t.is_decimal(type_):
            column = column.cast(pa.string())
        return _mixed(self._bytes(column.cast(pa.binary())), _BYTES)

    def _bytes(self, column: Any) -> Hashes:
        rows = len(column)
        if not rows:
            return np.zeros((0, 2), np.uint64)
        used = np.array([rows, 0, 0, 0, 0, 0], np.int64)
        columns = replace(empty_columns(), key_ends=arrow.ends(column), key_data=arrow.data(column), used=used)
        return self._hasher.hash(columns, np.ones(rows, np.bool_))

    def _struct(self, column: Any) -> Hashes:
        found = np.zeros((len(column), 2), np.uint64)
        names = [each.name for each in column.type]
        salts = self._bytes(pa.array([name.encode() for name in names], pa.binary()))
        for number, salt in enumerate(salts):
            child = column.field(number)
            own = self.hash(child)
            found += np.where(_is_valid(_plain(child))[:, None], _mixed(own + salt, _STRUCT), np.uint64(0))
        return _mixed(found, _STRUCT)

    def _list(self, column: Any) -> Hashes:
        ends = arrow.ends(column).astype(np.int64)
        values = column.values.slice(int(ends[0]), int(ends[-1] - ends[0]))
        own = self.hash(values)
        own[~_is_valid(_plain(values))] = _NULL
        places = np.arange(int(ends[0]), int(ends[-1])) - np.repeat(ends[:-1], np.diff(ends))
        return _mixed(_sums(_mixed(own + _both(places.astype(np.uint64)), _LIST), ends), _LIST)

    def _map(self, column: Any) -> Hashes:
        """Return those of maps, whatever the order of their entries is."""
        ends = arrow.ends(column).astype(np.int64)
        first, count = int(ends[0]), int(ends[-1] - ends[0])
        keys, items = column.keys.slice(first, count), column.items.slice(first, count)
        own = self.hash(items)
        own[~_is_valid(_plain(items))] = _NULL
        return _mixed(_sums(_mixed(own + _mixed(self.hash(keys), _NULL), _MAP), ends), _MAP)


def _plain(column: Any) -> Any:
    """The column in the types that :class:`ValueHasher` knows, from its first row on."""
    t, type_ = pa.types, column.type
    if t.is_dictionary(type_):
        return _plain(column.dictionary_decode())
    if t.is_large_list(type_) or t.is_fixed_size_list(type_) or t.is_list_view(type_):
        column = column.cast(pa.list_(type_.value_type))
    if column.offset and t.is_nested(column.type):
        return pa.concat_arrays([column, column.slice(0, 0)])
    return column


def _is_valid(column: Any) -> NDArray[np.bool_]:
    is_null = pa.types.is_null(column.type)  # which has no bits that say so
    return np.zeros(len(column), np.bool_) if is_null else arrow.is_valid(column)


def _whole(column: Any) -> NDArray[np.int64]:
    """A column of whole numbers, or of times in microseconds, as int64."""
    t, type_ = pa.types, column.type
    if t.is_timestamp(type_):
        column = column.cast(pa.timestamp("us", type_.tz), safe=False)
    elif t.is_time(type_):
        column = column.cast(pa.time64("us"), safe=False)
    elif t.is_date(type_):
        return arrow.numbers(column.cast(pa.date32()), np.int32).astype(np.int64)
    elif t.is_duration(type_):
        column = column.cast(pa.duration("us"), safe=False)
    elif t.is_unsigned_integer(type_) and type_.bit_width == 64:
        return arrow.numbers(column, np.uint64).view(np.int64)
    elif t.is_integer(type_):
        column = column.cast(pa.int64())
    return arrow.numbers(column, np.int64)


def _both(values: NDArray[np.uint64]) -> Hashes:
    return values[:, None] * (_LANES | np.uint64(1))


def _mixed(values: Hashes, kind: np.uint64) -> Hashes:
    """Return hashes of which each bit depends on each bit of the values (as Steele's SplitMix64), and on the kind."""
    found = values + _LANES * (kind + np.uint64(1))
    found ^= found >> np.uint64(30)
    found *= _FACTORS[0]
    found ^= found >> np.uint64(27)
    found *= _FACTORS[1]
    return found ^ (found >> np.uint64(31))


def _sums(values: Hashes, ends: NDArray[np.int64]) -> Hashes:
    """Return the sum of the values of each row, and of how many there are."""
    totals = np.zeros((len(values) + 1, 2), np.uint64)
    np.cumsum(values, axis=0, out=totals[1:])
    first = ends - ends[0]
    return totals[first[1:]] - totals[first[:-1]] + _both(np.diff(ends).astype(np.uint64))
