"""What a log's headers say before it is cleaned: its end, its transactions, and the last batch of each producer.

Sources: ``CleanedTransactionMetadata``, ``UnifiedLog.lastRecordsOfActiveProducers`` (4.4.0).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT64
from brokerless.errors import refused_batch
from brokerless.format import layouts
from brokerless.format.arrays import Bools, Int64s
from brokerless.format.read.batch_headers import Batches
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.index.readers import load_offset_index, load_transaction_index
from brokerless.log.live_segments import open_segments
from brokerless.log.producer.loading import load_first_state
from brokerless.log.producer.recorded_aborts import PendingAborts
from brokerless.log.producer.state import (
    CompletedTransaction,
    Producer,
    ProducerRefusal,
    ProducerState,
    Update,
)
from brokerless.log.producer.transactions import SpansOfProducers, are_within, spans_of_producers
from brokerless.log.ranges import from_log_start
from brokerless.log.segment import Chunk, check_checksums, scan_headers
from brokerless.progress import Report, ignore

Aborts = dict[int, int]

_NO_SPANS = np.empty((0, 2), np.int64)


@dataclass(slots=True)
class History:
    """The transactions and producers of a log, on which it depends what compaction may remove."""

    end_offset: int = 0
    """The offset at which the log ends."""
    last_stable_offset: int = 0
    """The first offset of the first open transaction, or ``end_offset`` without one."""
    markers: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    """The offsets of the markers that ended a transaction with data in the log, sorted."""
    aborted: SpansOfProducers = field(default_factory=dict[int, Int64s])
    """By producer ID, the first offset and the marker's of each aborted transaction (int64, shape ``(n, 2)``)."""
    producers: dict[int, Producer] = field(default_factory=dict[int, Producer])
    """The producers that a broker knows at the time for which the log was read."""
    largest_timestamps: dict[int, int] = field(default_factory=dict[int, int])
    """The largest timestamp of each segment (ms), by its base offset; -1 where there is none."""
    open_transaction: tuple[int, int] | None = None
    """The producer ID and first offset of the first open transaction; None without one."""

    def is_aborted(self, batches: Batches) -> Bools:
        """Return which batches are data of an aborted transaction."""
        return are_within(batches, self.aborted, batches.last_offset)

    def mistaken_aborts(self, first: SegmentPaths, first_dirty: int) -> Aborts:
        """Return, by producer ID, the offset before which Kafka's cleaner takes its transactions for aborted, as it
        looks for keys: it knows the aborted ones of the whole segment in which the dirty range begins, and reads from
        the offset index's entry before that on, so that it misses their markers. Their producers' keys then supersede
        nothing: records stay longer than they need to, and none is lost (``UnifiedLog.collectAbortedTransactions`` by
        the log start offset, ``Cleaner.buildOffsetMap``, 3.9.1 and 4.4.0)."""
        if first.offset_index is None or first.transaction_index is None:
            return {}
        index = load_offset_index(first.offset_index.location, first.base_offset)
        read_from = index.lookup(first_dirty)[0]
        recorded = load_transaction_index(first.transaction_index.location, first.base_offset)
        found: Aborts = {}
        for producer_id in np.unique(recorded.producer_ids[recorded.last_offsets < read_from]).tolist():
            spans = self.aborted.get(producer_id, _NO_SPANS)
            found[producer_id] = int(min(spans[spans[:, 1] >= read_from, 1], default=MAX_INT64))
        return found

    def is_marker_without_data(self, batches: Batches) -> Bools:
        """Return which control batches may go, in time: those of transactions without data in the log, and empty
        ones."""
        is_marker = batches.is_control & (batches.producer_id > layouts.NO_PRODUCER_ID)
        has_data = np.isin(batches.last_offset, self.markers)
        return batches.is_control & ((batches.count == 0) | (is_marker & ~has_data))

    def is_last_of_producer(self, batches: Batches) -> Bools:
        """Return which batches have the last sequence of a producer that is known, or else its epoch."""
        found = np.zeros(len(batches), np.bool_)
        ids = batches.producer_id
        for row in np.flatnonzero(ids > layouts.NO_PRODUCER_ID).tolist() if self.producers else ():
            producer = self.producers.get(int(ids[row]))
            if producer is not None and producer.batches:
                found[row] = batches.last_offset[row] == producer.batches[-1].last_offset
            elif producer is not None:
                found[row] = batches.is_control[row] and batches.producer_epoch[row] == producer.epoch
        return found


def is_before(batches: Batches, ends: Aborts) -> Bools:
    """Return which batches are data of a transaction of one of these producers, before the offset that is given for
    it."""
    found = np.zeros(len(batches), np.bool_)
    data = batches.is_transactional & ~batches.is_control
    for producer_id, end in ends.items():
        found |= data & (batches.producer_id == producer_id) & (batches.last_offset < end)
    return found


def read_history(source: PartitionPath, now_ms: int, report: Report) -> History:
    """Reads the headers of a log, and what is in the batches of its producers. Damage in the latter is reported."""
    state, history, completed = load_first_state(source), History(), list[CompletedTransaction]()
    for opened in open_segments(source, ignore, from_log_start(source)):
        base_offset = opened.segment.base_offset
        history.end_offset = max(history.end_offset, base_offset)
        largest = layouts.NO_TIMESTAMP
        for chunk in scan_headers(opened.file, ignore, opened.start):
            history.end_offset = max(history.end_offset, int(chunk.batches.last_offset.max()) + 1)
            largest = max(largest, int(chunk.batches.max_timestamp.max()))
            completed += _follow(state, chunk, opened.file.path, report)
        history.largest_timestamps[base_offset] = largest
    first_unstable = state.first_unstable_offset
    history.last_stable_offset = history.end_offset if first_unstable is None else first_unstable
    history.open_transaction = state.first_open_transaction
    history.markers = np.array(sorted(each.last_offset for each in completed), np.int64)
    history.aborted = spans_of_producers(
        (each.producer_id, each.first_offset, each.last_offset) for each in completed if each.is_aborted
    )
    state.expire(now_ms)
    history.producers = state.producers
    return history


def recorded_aborted(source: PartitionPath) -> dict[tuple[int, int], CompletedTransaction]:
    """Return the entries of a log's transaction indexes, by producer ID and the marker's offset. Where the log was
    cleaned, the first batches of a transaction may be gone, and only these know where it began."""
    found: dict[tuple[int, int], CompletedTransaction] = {}
    for each in source.segments:
        if each.transaction_index is None:
            continue
        index = load_transaction_index(each.transaction_index.location, each.base_offset)
        columns = (index.producer_ids, index.first_offsets, index.last_offsets, index.last_stable_offsets)
        for producer_id, first, last, stable in zip(*(column.tolist() for column in columns), strict=True):
            if not index.findings and 0 <= first <= last:
                found[producer_id, last] = CompletedTransaction(
                    producer_id, first, last, is_aborted=True, last_stable_offset=stable
                )
    return found


def _follow(state: ProducerState, chunk: Chunk, path: str, report: Report) -> list[CompletedTransaction]:
    has_producer = chunk.batches.producer_id > layouts.NO_PRODUCER_ID
    completed: list[CompletedTransaction] = []
    pending = state.recorded.follow(chunk.batches, state.open_producers)
    for part in chunk.take(has_producer).load(report) if has_producer.any() else ():
        update = state.update(part.batches.take(check_checksums(part, path, report)), part.buffer, pending)
        completed += update.completed
        if update.refused is not None:
            text = f"{update.refused.message}; Kafka refuses to load this log"
            report(refused_batch(path, text, place=(None, update.refused.offset)))
    return [*completed, *state.end_recorded(pending)]


class SourceProducers(ProducerState):
    """The producers of the log that is cleaned, for the one that is written of it: its snapshots and transaction
    indexes say the same, although batches and markers are missing in it, as Kafka's cleaner leaves the snapshots
    alone."""

    def __init__(self, source: PartitionPath) -> None:
        state = load_first_state(source)
        super().__init__(state.end_offset, state.producers, state.recorded)
        self._recorded = recorded_aborted(source)
        self._unmarked: list[CompletedTransaction] = []
        self._is_copied = False
        self._aborted: dict[int, CompletedTransaction] = {}

    def follow(self, batches: Batches, buffer: NDArray[np.uint8], *, is_copied: bool = False) -> None:
        """Follows batches of the source. ``is_copied``: their segment stays unchanged, with its transaction index: then
        entries stay as well whose data is gone, as segments before it were cleaned while this one was not."""
        update = super().update(batches, buffer)
        self._is_copied = is_copied
        ended = set(batches.last_offset[batches.is_control].tolist())
        self._keep_unmarked(each for each in update.completed if each.last_offset not in ended)
        for each in update.completed:
            if each.is_aborted and each.last_offset in ended:
                recorded = self._recorded.get((each.producer_id, each.last_offset))
                self._aborted[each.last_offset] = recorded or each
        if is_copied and self._recorded:
            markers = zip(batches.producer_id.tolist(), batches.last_offset.tolist(), strict=True)
            self._aborted |= {each[1]: self._recorded[each] for each in markers if each in self._recorded}

    def update(self, batches: Batches, buffer: NDArray[np.uint8], pending: PendingAborts | None = None) -> Update:
        """Return the transactions whose markers are among batches that are written; the state is that of the source."""
        offsets: Collection[int] = batches.last_offset[batches.is_control].tolist()
        ended = [self._aborted.pop(each) for each in offsets if each in self._aborted]
        unmarked = self._take_unmarked(int(batches.last_offset[-1])) if len(batches) else []
        return Update(sorted([*ended, *unmarked], key=lambda each: each.last_offset))

    @property
    def has_recorded(self) -> bool:
        return bool(self._unmarked) or super().has_recorded

    def skip(self, offset: int) -> list[CompletedTransaction]:
        """Return the entries without a marker before an offset at which the log goes on, as the source does."""
        self._keep_unmarked(super().skip(offset))
        return self._take_unmarked(offset)

    def _keep_unmarked(self, ended: Iterable[CompletedTransaction]) -> None:
        """Keep those of a segment that stays unchanged: of one that is cleaned, all records of aborted transactions
        go."""
        self._unmarked += ended if self._is_copied else ()

    def _take_unmarked(self, end: int) -> list[CompletedTransaction]:
        taken = [each for each in self._unmarked if each.last_offset < end]
        self._unmarked = [each for each in self._unmarked if each.last_offset >= end]
        return taken

    def refusal(self, batches: Batches, buffer: NDArray[np.uint8]) -> ProducerRefusal | None:
        """None, as the source had these batches."""
        return None
