"""Compares two sides of a topic whose records are in other partitions, or at other offsets, by their keys.

Of each record, hashes of its key and of its contents are kept, with its time and place, in files by the first bits of
the key: so memory holds one such file of each side, however long the logs are. Records that have the same key, time and
contents are the same, as often as both sides have them. Of a record without a key, its contents are the key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from brokerless.format.arrays import Bools, Int64s
from brokerless.format.columns import RecordColumns
from brokerless.jobs.compact.key_offsets import KeyHasher
from brokerless.jobs.diff.alignment.blocks import HashedRows, hash_bodies, hash_headers, pairs_that_differ
from brokerless.jobs.diff.causes import What
from brokerless.jobs.diff.copied_partition import CopiedPartition
from brokerless.jobs.diff.exported.offset_file import repeated_offsets
from brokerless.log.directory import PartitionPath
from brokerless.log.partition import Reading, read_partition, transactions_of
from brokerless.log.ranges import from_log_start
from brokerless.progress import Done, Report

ROW = np.dtype(
    [
        ("key", "u8", 2), ("timestamp", "i8"), ("contents", "u8"), ("body", "u8"), ("partition", "i4"), ("offset", "i8")
    ]
)  # fmt: skip
"""What is kept of a record: hashes of its key, of its key, value and headers, and of these without headers; its time
(ms) and place."""
_FILES = 256


@dataclass(frozen=True, slots=True)
class KeyedDifference:
    """Records that differ by a cause: rows of the side that has them, of the left one where both have."""

    what: What
    cause: str
    rows: HashedRows


class KeyedRecords:
    """The records of one side of a topic, in files in a directory."""

    def __init__(self, directory: Path, hasher: KeyHasher) -> None:
        self.counts: dict[int, int] = {}
        """How many records each partition has."""
        self._directory, self._hasher = directory, hasher
        directory.mkdir()

    def add(
        self, partition: PartitionPath, max_batch_bytes: int, report: Report, done: Done, *,
        recode: Callable[[RecordColumns], RecordColumns] | None = None,
    ) -> None:  # fmt: skip
        """Adds the records of a partition from its log start on, without those that were aborted; where a transaction
        is open, its records and what comes after it as well. ``recode``: as :class:`SideSettings` has it. Raises
        OSError."""
        for each in partition.unread if isinstance(partition, CopiedPartition) else ():
            report(each.finding)
        number, count = partition.partition or 0, 0
        transactions = transactions_of(partition).with_open_data()
        reading = Reading(from_log_start(partition), transactions=transactions, max_batch_bytes=max_batch_bytes)
        files: dict[int, BinaryIO] = {}
        try:
            for each in read_partition(partition, reading, report):
                columns = each.decoded.columns if recode is None else recode(each.decoded.columns)
                rows = np.zeros(columns.rows, ROW)
                rows["partition"], rows["offset"] = number, columns.offset[: columns.rows]
                rows["timestamp"] = columns.timestamp[: columns.rows]
                has_key = columns.key_null[: columns.rows] == 0
                rows["key"], rows["body"] = self._hasher.hash(columns, has_key), hash_bodies(self._hasher, columns)
                rows["contents"] = rows["body"] + hash_headers(self._hasher, columns)
                rows["key"][~has_key, 0] = rows["body"][~has_key]  # else all of them would be in one file
                rows = _with_repeated(rows if each.rows is None else rows[each.rows], partition)
                count += len(rows)
                self._write(rows, files)
        finally:
            for file in files.values():
                file.close()
        self.counts[number] = count
        done(partition.size)

    def _write(self, rows: HashedRows, files: dict[int, BinaryIO]) -> None:
        numbers = (rows["key"][:, 0] >> np.uint64(56)).astype(np.int64)
        order = np.argsort(numbers, kind="stable")
        ends = np.cumsum(np.bincount(numbers, minlength=_FILES))
        for number in np.unique(numbers).tolist():
            if number not in files:
                files[number] = (self._directory / str(number)).open("ab")
            chosen = order[int(ends[number - 1]) if number else 0 : int(ends[number])]
            files[number].write(rows[chosen].tobytes())

    def part(self, number: int) -> HashedRows:
        """Return the records of one file, by partition and offset."""
        path = self._directory / str(number)
        rows = np.fromfile(path, ROW) if path.exists() else np.zeros(0, ROW)
        return rows[np.lexsort((rows["offset"], rows["partition"]))]


def _with_repeated(rows: HashedRows, partition: PartitionPath) -> HashedRows:
    """Add the rows of a table that came again, which its copy has once."""
    repeated = repeated_offsets(partition)
    if not len(rows) or not len(repeated):
        return rows
    again = repeated.between(int(rows["offset"][0]), int(rows["offset"][-1]) + 1)
    return np.concatenate([rows, rows[np.searchsorted(rows["offset"], again)]])


def compare_keyed(left: KeyedRecords, right: KeyedRecords, allowed: Collection[str]) -> Iterator[KeyedDifference]:
    """Yield the records that differ. ``allowed``: causes by which they may."""
    for number in range(_FILES):
        yield from _compare(left.part(number), right.part(number), allowed)


def _compare(left: HashedRows, right: HashedRows, allowed: Collection[str]) -> Iterator[KeyedDifference]:
    same = _matched(left, right, ("timestamp", "contents"))
    ours, theirs = left[~same[0]], right[~same[1]]
    twice = _is_in(ours, right[same[1]]), _is_in(theirs, left[same[0]])
    yield KeyedDifference("missing", "duplicate", ours[twice[0]])
    yield KeyedDifference("extra", "duplicate", theirs[twice[1]])
    ours, theirs = ours[~twice[0]], theirs[~twice[1]]
    for names in (("contents",), ("body", "timestamp"), ("body",), ("timestamp",)):
        found = _matched(ours, theirs, names)
        one, other = _in_pairs(ours[found[0]], theirs[found[1]], names)
        fields = pairs_that_differ(one, other)
        yield KeyedDifference("changed", "changed", one[fields.contents])
        for cause, rows in fields.causes(allowed):
            yield KeyedDifference("changed", cause, one[rows])
        ours, theirs = ours[~found[0]], theirs[~found[1]]
    yield KeyedDifference("missing", "missing", ours)
    yield KeyedDifference("extra", "extra", theirs)


def _matched(left: HashedRows, right: HashedRows, names: Sequence[str]) -> tuple[Bools, Bools]:
    """Return which records of each side have one of the other side for themselves that has the same key and fields."""
    both = np.concatenate([left, right])
    groups, ranks = _groups(both, names), np.zeros(len(both), np.int64)
    on_left = np.arange(len(both)) < len(left)
    counts = [np.bincount(groups[side], minlength=len(both)) for side in (on_left, ~on_left)]
    for side in (on_left, ~on_left):
        ranks[side] = _ranks(groups[side])
    found = ranks < np.where(on_left, counts[1][groups], counts[0][groups])
    return found[: len(left)], found[len(left) :]


def _in_pairs(left: HashedRows, right: HashedRows, names: Sequence[str]) -> tuple[HashedRows, HashedRows]:
    """Return as many records of both sides, each with the one that has its key and fields."""
    groups = _groups(np.concatenate([left, right]), names)
    ours, theirs = (np.argsort(each, kind="stable") for each in (groups[: len(left)], groups[len(left) :]))
    return left[ours], right[theirs]


def _is_in(rows: HashedRows, others: HashedRows) -> Bools:
    """Return which records are the same as any of ``others``."""
    groups = _groups(np.concatenate([rows, others]), ("timestamp", "contents"))
    return np.isin(groups[: len(rows)], groups[len(rows) :])


def _groups(rows: HashedRows, names: Sequence[str]) -> Int64s:
    """Number records by their key and fields: the same number for the same."""
    columns = [rows["key"][:, 0], rows["key"][:, 1], *(rows[name] for name in names)]
    order = np.lexsort(columns)
    is_new = np.zeros(len(rows), np.bool_)
    for each in columns:
        is_new[1:] |= each[order][1:] != each[order][:-1]
    groups = np.empty(len(rows), np.int64)
    groups[order] = np.cumsum(is_new)
    return groups


def _ranks(groups: Int64s) -> Int64s:
    """Return how many of the same group are before each."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(groups) else np.zeros(0, np.int64)
    ranks = np.empty(len(groups), np.int64)
    ranks[order] = np.arange(len(groups)) - np.repeat(starts, np.diff(np.append(starts, len(groups))))
    return ranks
