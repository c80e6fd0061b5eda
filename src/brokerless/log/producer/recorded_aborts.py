"""Finds aborted transactions of which only the transaction index knows, as their marker is not in the log any more.

A broker tells consumers of aborted transactions by its indexes alone, so that ``read_committed`` passes over their
records as long as there is the entry (``LogSegment.collectAbortedTxns``; ``CompletedFetch``, 4.4.0). Where the marker
is in the log, the index is not needed. So it is only read where the log lacks offsets in which a marker may have been,
while a transaction has no end. An index that cannot be read, or has impossible entries, is not believed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokerless.findings import Finding, Kind
from brokerless.format import layouts
from brokerless.format.read.batch_headers import Batches
from brokerless.log.index.readers import TransactionIndex, load_transaction_index

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from brokerless.log.directory import SegmentPaths

Int64s = NDArray[np.int64]


class RecordedAbort(NamedTuple):
    """An entry of a transaction index, the index's path, and where in it the entry is (bytes)."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    file: str
    position: int


IndexRows = tuple[TransactionIndex, Int64s]
"""A transaction index, and the rows of some of its entries, sorted."""


@dataclass(slots=True)
class RecordedAborts:
    """The transaction indexes of a log that is followed. ``end_offset``: the one after its highest batch so far; None
    before the first."""

    end_offset: int | None = None
    _unread: list[SegmentPaths] = field(default_factory=list["SegmentPaths"])
    _indexes: list[TransactionIndex] = field(default_factory=list[TransactionIndex])

    def expect(self, segment: SegmentPaths) -> None:
        """Record a segment whose batches come next."""
        if segment.transaction_index is not None and segment.transaction_index.size != 0:
            self._unread.append(segment)

    def follow(self, batches: Batches, open_producers: Iterable[int]) -> PendingAborts:
        """Follow the batches that come next in the log, and return the aborted transactions whose marker would be where
        offsets are missing before or between them. ``open_producers``: whose transactions have no end so far."""
        begin = self.end_offset
        self._indexes = [each for each in self._indexes if int(each.last_offsets[-1]) >= (begin or 0)]
        firsts, lasts = batches.entry_offset, np.maximum.accumulate(batches.end_of_records)
        begin = int(firsts[0]) if begin is None else begin
        before = np.maximum(np.append(begin, lasts[:-1] + 1), begin)
        self.end_offset = max(begin, int(lasts[-1]) + 1)
        is_after = firsts > before
        pending = PendingAborts(self, {*open_producers, *_transactional(batches)})
        pending.add_missing(before[is_after], firsts[is_after] - 1)
        del self._unread[:-1]  # what an index may be needed for is known with the first batch of the next segment
        return pending

    def within(self, starts: Int64s, ends: Int64s, producers: Int64s) -> Iterator[IndexRows]:
        """Yield the entries of these producers whose marker would be between one of ``starts`` and the offset of
        ``ends`` that belongs to it."""
        for segment in self._unread:
            assert segment.transaction_index is not None
            index = load_transaction_index(segment.transaction_index.location, segment.base_offset)
            if index.is_valid and len(index.last_offsets):
                self._indexes.append(index)
        self._unread.clear()
        for index in self._indexes:
            # Each end is after its start, and before the next start.
            at = np.searchsorted(starts, index.last_offsets, side="right") - 1
            is_within = (at >= 0) & (index.last_offsets <= ends[np.maximum(at, 0)])
            rows = np.flatnonzero(is_within & np.isin(index.producer_ids, producers))
            if len(rows):
                yield index, rows


class PendingAborts:
    """Aborted transactions whose marker is missing among the batches that are followed."""

    def __init__(self, recorded: RecordedAborts, producers: Collection[int]) -> None:
        self._recorded, self._producers = recorded, np.array(sorted(producers), np.int64)
        self._rows: dict[int, list[IndexRows]] = {}

    def add_missing(self, starts: Int64s, ends: Int64s) -> None:
        """Add those whose marker would be in these ranges of offsets, which are sorted."""
        if not len(starts) or not len(self._producers):
            return
        for index, rows in self._recorded.within(starts, ends, self._producers):
            for producer_id in np.unique(index.producer_ids[rows]).tolist():
                own = rows[index.producer_ids[rows] == producer_id]
                self._rows.setdefault(producer_id, []).append((index, own))

    @property
    def producers(self) -> Collection[int]:
        """The IDs of their producers."""
        return self._rows.keys()

    def take(self, producer_id: int, data: tuple[int, int] | None, before: int | None = None) -> RecordedAbort | None:
        """Return the entry that ends a producer's open transaction, whose marker would be before an offset (None for
        the end of the batches); None without one. ``data``: the first and last offset of its records; None where the
        producer has none open. No entry is looked at twice."""
        found: RecordedAbort | None = None
        left: list[IndexRows] = []
        for index, rows in self._rows.pop(producer_id, []):
            lasts = index.last_offsets[rows]
            end = len(rows) if before is None else int(np.searchsorted(lasts, before))
            if found is None and data is not None:
                own = rows[int(np.searchsorted(lasts, data[0])) : end]
                own = own[index.first_offsets[own] <= data[1]]
                found = _entry(index, int(own[0])) if len(own) else None
            if end < len(rows):
                left.append((index, rows[end:]))
        if left:
            self._rows[producer_id] = left
        return found


def _transactional(batches: Batches) -> list[int]:
    rows = batches.is_transactional & ~batches.is_control
    return np.unique(batches.producer_id[rows]).tolist() if rows.any() else []


def _entry(index: TransactionIndex, row: int) -> RecordedAbort:
    columns = (index.producer_ids, index.first_offsets, index.last_offsets, index.last_stable_offsets)
    position = row * layouts.TRANSACTION_INDEX_ENTRY.itemsize
    return RecordedAbort(*(int(each[row]) for each in columns), index.file, position)


def marker_missing(aborts: Iterable[RecordedAbort]) -> list[Finding]:
    """Return a finding for each index with entries whose marker is not in the log."""
    by_file: dict[str, list[RecordedAbort]] = {}
    for each in aborts:
        by_file.setdefault(each.file, []).append(each)
    found: list[Finding] = []
    for file, entries in by_file.items():
        first = entries[0]
        count = "an aborted transaction" if len(entries) == 1 else f"{len(entries)} aborted transactions"
        text = f"only this index knows of {count}: the marker is not in the log"
        text += " any more" if len(entries) == 1 else " any more; this is the first"
        expected = f"an abort marker of producer {first.producer_id} at offset {first.last_offset}"
        expected += f", for its records from offset {first.first_offset} on"
        found.append(
            Kind.ABORT_MARKER_MISSING.at(
                file, text, position=first.position, offset=first.last_offset, expected=expected, found="none"
            )
        )
    return found
