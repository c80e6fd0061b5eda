"""Decoded records with the batches that they are in, and how the records of two sides differ at the same offsets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokerless.format.arrays import Bools, Int64s
from brokerless.format.columns import RecordColumns
from brokerless.format.read.batch_headers import Batches
from brokerless.format.write.column_slices import concat_columns, filter_rows, slice_rows
from brokerless.jobs.compact.key_offsets import KeyHasher

HashedRows = NDArray[np.void]
"""Offsets of records with the hashes of what is in them; the fields are of whoever makes them."""
_PRIMES = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5], np.uint64)
_NULL = np.uint64(0x85EBCA77C2B2AE63)
_COMPARED_BYTES = 1 << 20
"""Bytes that are compared at once: of a huge value, what a comparison makes is not to be several times as large."""


@dataclass(frozen=True, slots=True)
class Block:
    """Records of one side, by offset."""

    columns: RecordColumns
    batch_of: Int64s
    """The row in ``batches`` of each record's batch (int64)."""
    batches: Batches
    repeats: Bools
    """Whether a batch's producer wrote the same sequences before, by batch (bool)."""

    @property
    def rows(self) -> int:
        return self.columns.rows

    @property
    def offsets(self) -> Int64s:
        return self.columns.offset[: self.columns.rows]

    def between(self, start: int, stop: int) -> Block:
        """Return the records in rows ``start`` to ``stop``, as a view."""
        if (start, stop) == (0, self.rows):
            return self
        return replace(self, columns=slice_rows(self.columns, start, stop), batch_of=self.batch_of[start:stop])

    def take(self, rows: Bools) -> Block:
        """Return the records where ``rows`` is true."""
        if rows.all():
            return self
        return replace(self, columns=filter_rows(self.columns, rows), batch_of=self.batch_of[rows])


def joined(blocks: Sequence[Block]) -> Block | None:
    """Return the records of several blocks, which come one after the other; None of none."""
    if len(blocks) < 2:
        return blocks[0] if blocks else None
    before = np.cumsum([0, *(len(each.batches) for each in blocks)])
    batches = Batches(
        np.concatenate([each.batches.positions for each in blocks]),
        np.concatenate([each.batches.raw for each in blocks]),
        sum(each.batches.buffer_size for each in blocks),
    )
    return Block(
        concat_columns([each.columns for each in blocks]),
        np.concatenate([each.batch_of + start for each, start in zip(blocks, before[:-1], strict=True)]),
        batches,
        np.concatenate([each.repeats for each in blocks]),
    )


class FieldsThatDiffer(NamedTuple):
    """Which records of two sides, row by row, have another timestamp, other headers, another key or value: bool."""

    timestamps: Bools
    headers: Bools
    contents: Bools

    def causes(self, allowed: Collection[str]) -> Iterator[tuple[str, Bools]]:
        """Yield ``headers`` and ``timestamps``, each with the pairs of which it is the cause: key and value are the
        same. Where both differ, it is the one that is not ``allowed``."""
        rest = ~self.contents
        for cause in sorted(("headers", "timestamps"), key=lambda name: name in allowed):
            rows = rest & getattr(self, cause)
            yield cause, rows
            rest &= ~rows


def compare_rows(left: RecordColumns, right: RecordColumns) -> FieldsThatDiffer:
    """Compare as many records of two sides, row by row; their offsets are the same."""
    rows = left.rows
    timestamps = left.timestamp[:rows] != right.timestamp[:rows]
    contents = np.zeros(rows, np.bool_)
    for name in ("key", "value"):
        null, ends = f"{name}_null", f"{name}_ends"
        contents |= getattr(left, null)[:rows] != getattr(right, null)[:rows]
        contents |= np.diff(getattr(left, ends)[: rows + 1]) != np.diff(getattr(right, ends)[: rows + 1])
    alike = np.flatnonzero(~contents)
    one, two = (filter_rows(each, ~contents) for each in (left, right))
    for name in ("key", "value"):
        ends, data = f"{name}_ends", f"{name}_data"
        differ = _bytes_differ(
            getattr(one, ends)[: len(alike) + 1], getattr(one, data), getattr(two, ends), getattr(two, data)
        )
        contents[alike[differ]] = True
    return FieldsThatDiffer(timestamps, _headers_differ(left, right), contents)


def pairs_that_differ(left: NDArray[np.void], right: NDArray[np.void]) -> FieldsThatDiffer:
    """Return the same of records of which hashes are known: rows with a ``timestamp``, ``body`` (:func:`hash_bodies`)
    and ``contents`` (:func:`hash_contents`)."""
    timestamps, contents = left["timestamp"] != right["timestamp"], left["body"] != right["body"]
    return FieldsThatDiffer(timestamps, ~contents & (left["contents"] != right["contents"]), contents)


def _headers_differ(left: RecordColumns, right: RecordColumns) -> Bools:
    rows = left.rows
    counts = np.diff(left.header_ends[: rows + 1])
    differ = counts != np.diff(right.header_ends[: rows + 1])
    for are_filtered in (True, False):
        alike = np.flatnonzero(~differ)
        one, two = (filter_rows(each, ~differ) for each in (left, right))
        row_of = np.repeat(alike, counts[alike])
        (start, end), (first, last) = (
            (int(each.header_ends[0]), int(each.header_ends[len(alike)])) for each in (one, two)
        )
        for name in ("header_key", "header_value"):
            ends = getattr(one, f"{name}_ends")[start : end + 1], getattr(two, f"{name}_ends")[first : last + 1]
            if are_filtered:
                differ[row_of[np.diff(ends[0]) != np.diff(ends[1])]] = True
            else:
                found = _bytes_differ(ends[0], getattr(one, f"{name}_data"), ends[1], getattr(two, f"{name}_data"))
                differ[row_of[found]] = True
        if are_filtered:
            nulls = one.header_value_null[start:end] != two.header_value_null[first:last]
            differ[row_of[nulls]] = True
    return differ


def _bytes_differ(
    ends: NDArray[np.int32], data: NDArray[np.uint8], other_ends: NDArray[np.int32], other_data: NDArray[np.uint8]
) -> Bools:
    """Return which values of two columns are others, of which each has the length of the other one."""
    count = len(ends) - 1
    differ = np.zeros(max(count, 0), np.bool_)
    if count < 1:
        return differ
    one = data[int(ends[0]) : int(ends[-1])]
    two = other_data[int(other_ends[0]) : int(other_ends[0]) + len(one)]
    for start in range(0, len(one), _COMPARED_BYTES):
        part = slice(start, start + _COMPARED_BYTES)
        are_others = one[part] != two[part]
        if are_others.any():
            positions = np.flatnonzero(are_others) + (start + int(ends[0]))
            differ[np.searchsorted(ends, positions, side="right") - 1] = True
    return differ


def hash_contents(hasher: KeyHasher, columns: RecordColumns) -> NDArray[np.uint64]:
    """Return a hash of key, value and headers of each record: uint64, shape ``(rows,)``."""
    return hash_bodies(hasher, columns) + hash_headers(hasher, columns)


def hash_bodies(hasher: KeyHasher, columns: RecordColumns) -> NDArray[np.uint64]:
    """Return the same of key and value."""
    rows = columns.rows
    nulls = columns.key_null[:rows] + np.uint64(2) * columns.value_null[:rows].astype(np.uint64)
    key, value = columns.key_ends[: rows + 1], columns.value_ends[: rows + 1]
    found = _PRIMES[0] * _hash(hasher, columns, key, columns.key_data)
    found += _PRIMES[1] * _hash(hasher, columns, value, columns.value_data)
    return found + _NULL * nulls


def hash_headers(hasher: KeyHasher, columns: RecordColumns) -> NDArray[np.uint64]:
    """Return the same of headers: their names and values, how long each is, and which values are null."""
    ends = columns.header_ends[: columns.rows + 1]
    found = np.diff(ends).astype(np.uint64)
    first, last = int(ends[0]), int(ends[-1])
    if first == last:
        return found
    for (own, data), prime in zip(
        (
            (columns.header_key_ends, columns.header_key_data),
            (columns.header_value_ends, columns.header_value_data),
        ),
        _PRIMES[2:],
        strict=True,
    ):
        found += prime * _hash(hasher, columns, own[ends], data)
    sizes = [np.diff(each[first : last + 1]) for each in (columns.header_key_ends, columns.header_value_ends)]
    shapes = sizes[0].astype(np.uint64) * _PRIMES[0] + sizes[1].astype(np.uint64) * _PRIMES[1]
    shapes += _NULL * columns.header_value_null[first:last].astype(np.uint64)
    places = np.arange(first, last) - np.repeat(ends[:-1], np.diff(ends))
    shapes = (shapes + _PRIMES[3]) * (2 * places.astype(np.uint64) + np.uint64(1))
    totals = np.append(np.uint64(0), np.cumsum(shapes, dtype=np.uint64))
    return found + totals[ends[1:] - first] - totals[ends[:-1] - first]


def _hash(
    hasher: KeyHasher, columns: RecordColumns, ends: NDArray[np.int32], data: NDArray[np.uint8]
) -> NDArray[np.uint64]:
    return hasher.hash(replace(columns, key_ends=ends, key_data=data), np.ones(columns.rows, np.bool_))[:, 0]


def hash_with_times(hasher: KeyHasher, columns: RecordColumns) -> NDArray[np.uint64]:
    """Return the same with its timestamp."""
    return with_times(hash_contents(hasher, columns), columns.timestamp[: columns.rows])


def with_times(hashes: NDArray[np.uint64], timestamps: Int64s) -> NDArray[np.uint64]:
    """Return the same of hashes of contents."""
    return hashes ^ (timestamps.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
