"""Decides which records that one side lacks were taken by compaction: by the keys of what comes later, in bounded
memory.

The cleaner removes a record where a later one has its key, and in time a tombstone itself; a record without a key it
removes at once (``Cleaner.shouldRetainRecord``, 4.4.0). So a record is explained on the side that lacks it by a later
record of its key there, or where the last one of the key on the side that has it is a tombstone, which expired.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.format.arrays import Bools, Int64s
from brokerless.jobs.compact.key_offsets import KeyHasher, LastRows
from brokerless.jobs.diff.alignment.sides import SideReader
from brokerless.log.partition import Reading, read_partition
from brokerless.log.ranges import Range
from brokerless.progress import ignore

CANDIDATE = np.dtype([("offset", "i8"), ("key", "u8", 2), ("keyless", "?"), ("repeats", "?"), ("contents", "u8")])
"""A record that one side lacks, until it is decided why. ``key`` and ``contents``: hashes; ``repeats``: whether it is a
duplicate, if compaction does not explain it."""
MOST_BYTES = 256 << 20
"""Of the table of the last offsets of keys; more keys take more passes."""


class LastOfKeys:
    """The last record of each key on one side, from an offset on: built when it is first needed. Aborted records and
    what is not decided yet do not count, as the cleaner does not look at them."""

    def __init__(self, side: SideReader, hasher: KeyHasher, start: int, end: int | None) -> None:
        self._side, self._hasher, self._start, self._end = side, hasher, start, end
        self._whole: LastRows | None = None

    def find(self, hashes: NDArray[np.uint64]) -> tuple[Int64s, Bools]:
        """Return the last offset of each key, -1 where it has none, and whether that record is a tombstone."""
        found = np.full(len(hashes), -1, np.int64)
        rest: tuple[int, int] | None = (0, (1 << 64) - 1)
        while rest is not None:
            table = self._table(*rest)
            within = (hashes[:, 0] >= np.uint64(table.lowest)) & (hashes[:, 0] <= np.uint64(table.highest))
            found[within] = table.find_numbers(np.ascontiguousarray(hashes[within]))
            rest = table.rest
        return found >> 1, (found >= 0) & (found & 1 == 1)

    def _table(self, lowest: int, highest: int) -> LastRows:
        if self._whole is not None:
            return self._whole
        table = LastRows(MOST_BYTES, lowest, highest)
        side = self._side
        recode = side.settings.recode
        reading = Reading(
            Range(side.own_offset(self._start), None if self._end is None else side.own_offset(self._end)),
            values=recode is not None,
            headers=recode is not None,
            transactions=side.transactions,
            max_batch_bytes=side.settings.max_batch_bytes,
        )
        for each in read_partition(side.partition, reading, ignore):
            columns = each.decoded.columns if recode is None else recode(each.decoded.columns)
            rows = columns.rows
            chosen = columns.key_null[:rows] == 0
            if each.rows is not None:
                chosen &= each.rows
            numbers = side.common_offsets(columns.offset[:rows]) << 1 | (columns.value_null[:rows] != 0)
            table.put_numbers(chosen, self._hasher.hash(columns, chosen), numbers)
        if (table.lowest, table.rest) == (0, None):
            self._whole = table
        return table


def are_explained(candidates: NDArray[np.void], there: LastOfKeys, here: LastOfKeys) -> Bools:
    """Return which records (:data:`CANDIDATE`) compaction explains. ``there``: the keys of the side that lacks them;
    ``here``: of the one that has them."""
    offsets, hashes = candidates["offset"], np.ascontiguousarray(candidates["key"])
    explained = candidates["keyless"] | (there.find(hashes)[0] > offsets)
    rest = np.flatnonzero(~explained)
    if len(rest):
        last, is_tombstone = here.find(np.ascontiguousarray(hashes[rest]))
        explained[rest] = is_tombstone & (last >= offsets[rest])
    return explained
