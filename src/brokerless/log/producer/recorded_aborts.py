"""Finds aborted transactions of which only the transaction index knows, as their marker is not in the log any more.

A broker tells consumers of aborted transactions by its indexes alone, so that ``read_committed`` passes over their
records as long as there is the entry (``LogSegment.collectAbortedTxns``; ``CompletedFetch``, 4.4.0). Where the marker
is in the log, the index is not needed. So it is only read where the log lacks offsets in which a marker may have been,
while a transaction has no end. An index that cannot be read, or has impossible entries, is not believed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from brokerless.findings import Finding, Kind, Severities
from brokerless.format import layouts
from brokerless.format.arrays import Int64s
from brokerless.format.read.batch_headers import Batches
from brokerless.log.index.readers import TransactionIndex, load_transaction_index
from brokerless.log.names import parse_segment_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from brokerless.log.directory import SegmentPaths
    from brokerless.log.storage.location import DirectoryEntry
    from brokerless.log.storage.segment_files import SegmentFiles


BELIEVED = Severities("warning", "info", "info")
"""Of an index that the next start takes unchanged."""


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


class RecordedAborts:
    """The transaction indexes of a log that is followed. ``segments``: those of the log; of several replicas, all of
    them. ``end_offset``: the one after its highest batch so far; None before the first."""

    def __init__(self, segments: Iterable[SegmentPaths] = (), end_offset: int | None = None) -> None:
        self.end_offset = end_offset
        self._unread = [
            (each.base_offset, each.transaction_index.location)
            for each in sorted(segments, key=lambda each: each.base_offset)
            if each.transaction_index is not None and each.transaction_index.size != 0
        ]
        self._indexes: list[TransactionIndex] = []

    @classmethod
    def of_entries(cls, entries: Iterable[DirectoryEntry]) -> RecordedAborts:
        """Return those of transaction indexes by themselves, by their names."""
        found = cls()
        for each in sorted(entries, key=lambda each: each.name):
            file = parse_segment_file(each.name)
            if file is not None and (file.kind, file.state) == ("transaction-index", "live") and each.size:
                found._unread.append((file.offset, each.location))
        return found

    @classmethod
    def of_files(cls, files: SegmentFiles, end_offset: int | None = None) -> RecordedAborts:
        """Return those of the segments in a directory."""
        found = cls((), end_offset)
        bases = files.offsets("transaction-index")
        found._unread = [(each, files.location(each, "transaction-index")) for each in bases]
        return found

    @property
    def is_empty(self) -> bool:
        """Whether there is no index with entries."""
        return not self._unread and not self._indexes

    def follow(self, batches: Batches, open_producers: Iterable[int]) -> PendingAborts:
        """Follow the batches that come next in the log, and return the aborted transactions whose marker would be where
        offsets are missing before or between them. ``open_producers``: whose transactions have no end so far."""
        if self.is_empty or not len(batches):
            return PendingAborts(self, ())
        firsts, lasts = batches.entry_offset, np.maximum.accumulate(batches.end_of_records)
        begin = self._begin(int(firsts[0]))
        before = np.maximum(np.append(begin, lasts[:-1] + 1), begin)
        is_after = firsts > before
        pending = PendingAborts(self, open_producers, batches)
        pending.add_missing(before[is_after], firsts[is_after] - 1)
        self._advance(int(lasts[-1]) + 1)
        return pending

    def skip(self, offset: int, open_producers: Iterable[int]) -> PendingAborts:
        """Return the pending aborts where the log goes on at an offset, with no batch before it."""
        begin, pending = self._begin(offset), PendingAborts(self, open_producers)
        if offset > begin:
            pending.add_missing(np.array([begin], np.int64), np.array([offset - 1], np.int64))
        self._advance(offset)
        return pending

    def within(self, starts: Int64s, ends: Int64s, producers: Int64s) -> Iterator[IndexRows]:
        """Yield the entries of these producers whose marker would be between one of ``starts`` and the offset of
        ``ends`` that belongs to it."""
        until = int(ends[-1])
        while self._unread and self._unread[0][0] <= until:
            base_offset, location = self._unread.pop(0)
            index = load_transaction_index(location, base_offset)
            if index.is_valid and len(index.last_offsets):
                self._indexes.append(index)
        for index in self._indexes:
            # Each end is after its start, and before the next start.
            at = np.searchsorted(starts, index.last_offsets, side="right") - 1
            is_within = (at >= 0) & (index.last_offsets <= ends[np.maximum(at, 0)])
            rows = np.flatnonzero(is_within & np.isin(index.producer_ids, producers))
            if len(rows):
                yield index, rows

    def _begin(self, first: int) -> int:
        """Forget what is before the batches that come next, of which ``first`` is the first offset, and return where
        the log went to before them."""
        begin = first if self.end_offset is None else self.end_offset
        self._indexes = [each for each in self._indexes if int(each.last_offsets[-1]) >= begin]
        while len(self._unread) > 1 and self._unread[0][0] < self._unread[1][0] <= begin:
            del self._unread[0]
        return begin

    def _advance(self, offset: int) -> None:
        self.end_offset = offset if self.end_offset is None else max(self.end_offset, offset)


class PendingAborts:
    """Aborted transactions whose marker is missing among the batches that are followed. ``open_producers``: those with
    a transaction before ``batches``. ``taken``: those aborted transactions that have records in the log."""

    def __init__(self, recorded: RecordedAborts, open_producers: Iterable[int], batches: Batches | None = None) -> None:
        self._recorded, self._open, self._batches = recorded, open_producers, batches
        self._rows: dict[int, list[IndexRows]] = {}
        self.taken: list[RecordedAbort] = []

    def add_missing(self, starts: Int64s, ends: Int64s) -> None:
        """Add those whose marker would be in these ranges of offsets, which are sorted."""
        if not len(starts) or self._recorded.is_empty:
            return
        transactional = [] if self._batches is None else _transactional(self._batches)
        producers = np.array([*self._open, *transactional], np.int64)
        for index, rows in self._recorded.within(starts, ends, producers):
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
        producer has none open. No entry is returned twice."""
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
        if found is not None:
            self.taken.append(found)
        return found


def _transactional(batches: Batches) -> list[int]:
    rows = batches.is_transactional & ~batches.is_control
    return np.unique(batches.producer_id[rows]).tolist() if rows.any() else []


def _entry(index: TransactionIndex, row: int) -> RecordedAbort:
    return RecordedAbort(
        int(index.producer_ids[row]),
        int(index.first_offsets[row]),
        int(index.last_offsets[row]),
        last_stable_offset=int(index.last_stable_offsets[row]),
        file=index.file,
        position=row * layouts.TRANSACTION_INDEX_ENTRY.itemsize,
    )


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
                file,
                text,
                severity=BELIEVED,
                position=first.position,
                offset=first.last_offset,
                expected=expected,
                found="none",
            )
        )
    return found
