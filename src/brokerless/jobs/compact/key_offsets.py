"""The last record of each key, in bounded memory: all keys at once, or those of one range of hashes after the other.

As ``SkimpyOffsetMap`` (4.4.0), a table has no keys but their hashes of 16 bytes. Where Kafka's is full, Kafka cleans
what it knows by then, and the rest in a later pass; here each pass is over the whole log, for a part of the keys.
"""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

from brokerless.format.arrays import Bools
from brokerless.format.columns import RecordColumns
from brokerless.jobs.compact.row_flags import RowFlags

SLOT = 32
"""Bytes of a slot of the table."""
_FIRST_SLOTS = 1 << 12
_LARGEST = (1 << 64) - 1


class KeyHasher:
    """Hashes the keys of rows; all parts of one job use the same, so that hashes can be compared."""

    def __init__(self, key: bytes | None = None) -> None:
        """Make a hasher with a key of 16 bytes, random by default."""
        key = secrets.token_bytes(16) if key is None else key
        self._words = np.uint64(int.from_bytes(key[:8], "little")), np.uint64(int.from_bytes(key[8:16], "little"))

    def hash(self, columns: RecordColumns, chosen: Bools) -> NDArray[np.uint64]:
        """Return the hashes of the keys of those rows that are ``chosen`` (bool): uint64, shape ``(rows, 2)``."""
        from brokerless.jobs.compact.key_offsets_kernels import hash_keys

        hashes = np.zeros((columns.rows, 2), np.uint64)
        done = hash_keys(*self._words, chosen.view(np.uint8), columns.key_ends, columns.key_data, hashes)
        if done != columns.rows:
            raise ValueError(f"row {done} of the columns is not within their bytes")
        return hashes


class LastRows:
    """The last row of each key whose hash begins with a word from ``lowest`` to ``highest``; rows are numbered in the
    order of their offsets. When the table would take more than ``max_bytes``, ``highest`` falls, and the keys beyond it
    are for another pass."""

    def __init__(self, max_bytes: int, lowest: int = 0, highest: int = _LARGEST) -> None:
        self.lowest, self.highest = lowest, highest
        self._max_slots = max(_FIRST_SLOTS, 1 << max(1, max_bytes // SLOT).bit_length() - 1)
        self._table = np.zeros((_FIRST_SLOTS, 4), np.uint64)
        self._used = np.zeros(1, np.int64)

    @property
    def rest(self) -> tuple[int, int] | None:
        """The range of first words that is left for another pass; None if this is the last."""
        return None if self.highest == _LARGEST else (self.highest + 1, _LARGEST)

    @property
    def keys(self) -> int:
        """How many keys are known."""
        return int(self._used[0])

    def put(self, chosen: Bools, hashes: NDArray[np.uint64], start: int, superseded: RowFlags) -> None:
        """Follows the ``chosen`` rows (bool), which come in order, the first of all with the number ``start``; marks
        the row that was the last one of its key before."""
        from brokerless.jobs.compact.key_offsets_kernels import put_rows

        superseded.reserve(start + len(chosen))
        row, flags = 0, chosen.view(np.uint8)
        while True:
            bounds = np.uint64(self.lowest), np.uint64(self.highest)
            row = put_rows(row, self._most, *bounds, flags, hashes, start, self._table, self._used, superseded.bits)
            if row == len(flags):
                return
            self._make_room()

    def put_numbers(self, chosen: Bools, hashes: NDArray[np.uint64], numbers: NDArray[np.int64]) -> None:
        """Put rows that have numbers of their own (int64, 0 or more), in any order: the greatest number of each key
        counts."""
        from brokerless.jobs.compact.key_offsets_kernels import put_numbers

        row, flags = 0, chosen.view(np.uint8)
        while True:
            bounds = np.uint64(self.lowest), np.uint64(self.highest)
            row = put_numbers(row, self._most, *bounds, flags, hashes, numbers, self._table, self._used)
            if row == len(flags):
                return
            self._make_room()

    def find_numbers(self, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the number of the last row of each key (int64), -1 where it has none."""
        from brokerless.jobs.compact.key_offsets_kernels import find_numbers

        found = np.empty(len(hashes), np.int64)
        find_numbers(hashes, self._table, found)
        return found

    @property
    def _most(self) -> int:
        """Slots that may be used of the table."""
        return len(self._table) * 3 // 4

    def _make_room(self) -> None:
        if len(self._table) < self._max_slots:
            self._copy(2 * len(self._table))
        else:
            self.highest = self.lowest + (self.highest - self.lowest) // 2
            self._copy(len(self._table))

    def find_superseded(self, chosen: Bools, hashes: NDArray[np.uint64], start: int, superseded: Bools) -> None:
        """Sets ``superseded`` (bool) for the ``chosen`` rows whose key has a later row; the first of them all has the
        number ``start``, which is negative for rows that were not put."""
        from brokerless.jobs.compact.key_offsets_kernels import find_superseded

        bounds = np.uint64(self.lowest), np.uint64(self.highest)
        find_superseded(*bounds, chosen.view(np.uint8), hashes, start, self._table, superseded.view(np.uint8))

    def most_frequent(self, count: int) -> list[tuple[int, int]]:
        """Return the keys with the most records: the last row of each, and how many records."""
        from brokerless.jobs.compact.key_offsets_kernels import COUNT, NEXT

        if not count:
            return []
        chosen = np.flatnonzero(self._table[:, NEXT])
        chosen = chosen[np.lexsort((self._table[chosen, NEXT], ~self._table[chosen, COUNT]))][:count]
        return [(int(self._table[slot, NEXT]) - 1, int(self._table[slot, COUNT])) for slot in chosen.tolist()]

    def _copy(self, slots: int) -> None:
        from brokerless.jobs.compact.key_offsets_kernels import copy_table

        table = np.zeros((slots, 4), np.uint64)
        copy_table(np.uint64(self.lowest), np.uint64(self.highest), self._table, table, self._used)
        self._table = table
