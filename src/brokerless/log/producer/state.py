"""The producer state of a log: last batches, open transactions, and the last stable offset (KIP-98).

:class:`ProducerState` follows the batches of a log, one after the other, as a broker does when it replicates or
recovers them; ``.snapshot`` files hold the same, and entries of the transaction index come out of it. It refuses
little, for what is in a log was accepted once; what a leader checks before is in
:mod:`brokerless.log.producer.checks`.

Everything appended counts as replicated, so the last stable offset depends on undecided transactions alone.

Sources: ``ProducerStateManager``, ``ProducerAppendInfo``, ``ProducerStateEntry``, ``LogSegment.recover`` (4.1.1).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT32
from brokerless.format import layouts
from brokerless.format.read.batch_headers import Batches
from brokerless.log.producer.markers import Marker, NoMarker, read_markers
from brokerless.log.producer.recorded_aborts import PendingAborts, RecordedAborts
from brokerless.log.producer.snapshot import ProducerSnapshot, producer_snapshot

KEPT_BATCHES = 5
"""How many of its last batches are known of a producer, for as many it may have in flight."""
EXPIRATION_MS = 24 * 60 * 60 * 1000
"""The default of a broker's ``producer.id.expiration.ms``."""


class BatchMetadata(NamedTuple):
    """A batch of a producer."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    """Its last offset less its first."""
    timestamp: int
    """Its largest timestamp (ms)."""

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        first = self.last_sequence - self.offset_delta
        return first if first >= 0 else first + MAX_INT32 + 1


@dataclass(slots=True)
class Producer:
    """A producer as a log knows it."""

    epoch: int = layouts.NO_PRODUCER_EPOCH
    coordinator_epoch: int = -1
    timestamp: int = layouts.NO_TIMESTAMP
    txn_first_offset: int = -1
    """Where its open transaction began; -1 without one."""
    batches: list[BatchMetadata] = field(default_factory=list[BatchMetadata])

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else layouts.NO_SEQUENCE

    def add(self, epoch: int, batch: BatchMetadata) -> None:
        """Add a batch. One of another epoch, be it smaller, replaces all before it."""
        if epoch != self.epoch:
            self.batches.clear()
            self.epoch = epoch
        self.batches.append(batch)
        if len(self.batches) > KEPT_BATCHES:
            del self.batches[0]
        self.timestamp = batch.timestamp

    def end_transaction(self, epoch: int, marker: Marker) -> None:
        if epoch != self.epoch:
            self.batches.clear()
            self.epoch = epoch
        self.coordinator_epoch = marker.coordinator_epoch
        self.timestamp = marker.timestamp
        self.txn_first_offset = -1


@dataclass(frozen=True, slots=True)
class CompletedTransaction:
    """A transaction from its first record to its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool
    last_stable_offset: int
    """The last stable offset after this transaction."""


@dataclass(frozen=True, slots=True)
class ProducerRefusal:
    """A batch that Kafka would not accept."""

    exception: str
    """The name of Kafka's exception."""
    row: int
    """The row of the batch."""
    offset: int
    """The base offset of the batch."""
    message: str
    """Why it is refused, in our words."""
    expected: str | None = None
    found: str | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """What some batches did: transactions that they completed, in order; and the batch that stopped it, if any, with
    which, and with those after it, nothing was done."""

    completed: list[CompletedTransaction]
    refused: ProducerRefusal | None = None


class ProducerState:
    """The producers of a log up to ``end_offset``, the one after the last batch that was followed. ``recorded``: the
    transaction indexes of the log that is followed, for markers that are not in it any more; none, as for Kafka, which
    follows markers alone, unless somebody sets them."""

    def __init__(
        self,
        end_offset: int = 0,
        producers: dict[int, Producer] | None = None,
        recorded: RecordedAborts | None = None,
    ) -> None:
        self.end_offset = end_offset
        self.producers = producers or {}
        self.recorded = recorded or RecordedAborts()
        ongoing = {each.txn_first_offset: producer_id for producer_id, each in self.producers.items()}
        # First offset -> producer ID, in the order of offsets, in which transactions begin, too.
        self._ongoing = {offset: ongoing[offset] for offset in sorted(ongoing) if offset >= 0}

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the first undecided transaction begins; read_committed ends there. None without one."""
        return next(iter(self._ongoing), None)

    @property
    def has_recorded(self) -> bool:
        """Whether transaction indexes may have what the batches that come next do not say, so that all of these are to
        be followed."""
        return not self.recorded.is_empty

    @property
    def open_producers(self) -> Collection[int]:
        """The IDs of producers with an undecided transaction."""
        return self._ongoing.values()

    @property
    def first_open_transaction(self) -> tuple[int, int] | None:
        """The producer ID and first offset of the first undecided transaction; None without one."""
        return next(((producer_id, offset) for offset, producer_id in self._ongoing.items()), None)

    def end_recorded(
        self, pending: PendingAborts, producer_id: int | None = None, before: int | None = None
    ) -> list[CompletedTransaction]:
        """End what only the transaction index says to have ended, of all producers or of one, and up to an offset or
        all; return it as the index has it."""
        completed: list[CompletedTransaction] = []
        for each in list(pending.producers) if producer_id is None else [producer_id]:
            producer = self.producers.get(each)
            data = None
            if producer is not None and (first := producer.txn_first_offset) >= 0:
                data = first, max(first, producer.batches[-1].last_offset if producer.batches else first)
            abort = pending.take(each, data, before)
            if abort is not None and producer is not None:
                self._ongoing.pop(producer.txn_first_offset, None)
                producer.txn_first_offset = -1
                completed.append(
                    CompletedTransaction(
                        each,
                        abort.first_offset,
                        abort.last_offset,
                        is_aborted=True,
                        last_stable_offset=abort.last_stable_offset,
                    )
                )
        return completed

    def skip(self, offset: int) -> list[CompletedTransaction]:
        """Return what only the transaction index says to have ended before an offset at which the log goes on."""
        if not self.has_recorded:
            return []
        return self.end_recorded(self.recorded.skip(offset, self.open_producers))

    def update(self, batches: Batches, buffer: NDArray[np.uint8], pending: PendingAborts | None = None) -> Update:
        """Follows batches that come next in the log (``buffer`` is what their headers were read from).
        ``pending``: what only the transaction index says to have ended among these and others, which the caller ends.

        Batches without a producer ID, and so those of v0 and v1, cost only one check of all IDs. What
        recovery in Kafka stops at, this stops at: a control batch that holds no marker, and data outside of the
        transaction that its producer has open (InvalidTxnStateException).
        """
        if pending is None and self.has_recorded:
            pending = self.recorded.follow(batches, self.open_producers)
            update = self._update(batches, buffer, pending)
            completed = [*update.completed, *self.end_recorded(pending)]
            return replace(update, completed=sorted(completed, key=lambda each: each.last_offset))
        return self._update(batches, buffer, pending)

    def _update(self, batches: Batches, buffer: NDArray[np.uint8], pending: PendingAborts | None) -> Update:
        completed: list[CompletedTransaction] = []
        if not len(batches):
            return Update(completed)
        rows = np.flatnonzero(batches.producer_id > layouts.NO_PRODUCER_ID)
        if not len(rows):
            self.end_offset = int(batches.last_offset[-1]) + 1
            return Update(completed)
        chosen = batches if len(rows) == len(batches) else batches.take(rows)
        markers = iter(control_markers(chosen, buffer))
        columns = zip(
            rows.tolist(), chosen.producer_id.tolist(), chosen.producer_epoch.tolist(), chosen.entry_offset.tolist(),
            chosen.is_transactional.tolist(), chosen.is_control.tolist(), batch_metadata(chosen), strict=True,
        )  # fmt: skip
        producers = self.producers
        for row, producer_id, epoch, offset, is_transactional, is_control, batch in columns:
            if pending is not None and producer_id in pending.producers:
                completed += self.end_recorded(pending, producer_id, offset)
            producer = producers.get(producer_id)
            if producer is None:
                producer = Producer()
            if is_control:
                marker = next(markers)
                if isinstance(marker, NoMarker):
                    return self._stop(
                        batches, completed, ProducerRefusal(marker.exception, row, offset, marker.message)
                    )
                if marker is not None:
                    if (first := producer.txn_first_offset) >= 0:
                        completed.append(self._complete(producer_id, first, offset, marker.is_abort))
                    producer.end_transaction(epoch, marker)
            else:
                if producer.txn_first_offset >= 0 and not is_transactional:
                    return self._stop(batches, completed, outside_of_transaction(row, offset, producer))
                producer.add(epoch, batch)
                if is_transactional and producer.txn_first_offset < 0:
                    producer.txn_first_offset = offset
                    self._ongoing[offset] = producer_id
            producers[producer_id] = producer
        self.end_offset = int(batches.last_offset[-1]) + 1
        return Update(completed)

    def refusal(self, batches: Batches, buffer: NDArray[np.uint8]) -> ProducerRefusal | None:
        """Return what :meth:`update` would stop at; changes nothing."""
        concerned = set(np.unique(batches.producer_id).tolist()) & self.producers.keys()
        copied = {each: replace(self.producers[each], batches=self.producers[each].batches[:]) for each in concerned}
        return ProducerState(self.end_offset, copied).update(batches, buffer).refused

    def _stop(self, batches: Batches, completed: list[CompletedTransaction], refused: ProducerRefusal) -> Update:
        if refused.row:
            self.end_offset = int(batches.last_offset[refused.row - 1]) + 1
        return Update(completed, refused)

    def _complete(self, producer_id: int, first: int, last: int, is_aborted: bool) -> CompletedTransaction:
        others = (offset for offset, each in self._ongoing.items() if each != producer_id)
        stable = next(others, last + 1)
        self._ongoing.pop(first, None)
        return CompletedTransaction(producer_id, first, last, is_aborted=is_aborted, last_stable_offset=stable)

    def expire(self, now_ms: int, expiration_ms: int = EXPIRATION_MS) -> None:
        """Forgets producers without an open transaction that wrote nothing for so long (ms). A broker does so every
        ten minutes, and when it loads a snapshot."""
        self.producers = {
            producer_id: each
            for producer_id, each in self.producers.items()
            if each.txn_first_offset >= 0 or now_ms - each.timestamp < expiration_ms
        }

    def snapshot(self) -> bytes:
        """Return the content of the ``.snapshot`` that is named after :attr:`end_offset`. Producers come by their IDs;
        a broker writes them in the order of its hash table, which for few small IDs is the same."""
        entries = np.empty(len(self.producers), layouts.PRODUCER_SNAPSHOT_ENTRY)
        for row, (producer_id, each) in enumerate(sorted(self.producers.items())):
            last = each.batches[-1] if each.batches else BatchMetadata(layouts.NO_SEQUENCE, -1, 0, 0)
            entries[row] = (
                producer_id, each.epoch, last.last_sequence, last.last_offset, last.offset_delta, each.timestamp,
                each.coordinator_epoch, each.txn_first_offset,
            )  # fmt: skip
        return producer_snapshot(entries)


def load_state(snapshot: ProducerSnapshot, end_offset: int) -> ProducerState:
    """Return the state that a snapshot holds (whose findings the caller has checked); ``end_offset`` is in its name."""
    columns = (
        snapshot.producer_ids, snapshot.producer_epochs, snapshot.coordinator_epochs, snapshot.timestamps,
        snapshot.current_txn_first_offsets, snapshot.last_sequences, snapshot.last_offsets, snapshot.offset_deltas,
    )  # fmt: skip
    producers: dict[int, Producer] = {}
    for producer_id, epoch, coordinator_epoch, timestamp, txn, sequence, offset, delta in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        producer = producers[producer_id] = Producer(epoch, coordinator_epoch, timestamp, max(txn, -1))
        if offset >= 0:
            producer.batches.append(BatchMetadata(sequence, offset, delta, timestamp))
    return ProducerState(end_offset, producers)


def control_markers(batches: Batches, buffer: NDArray[np.uint8]) -> list[Marker | NoMarker | None]:
    """Return the markers of those of the batches that are control batches."""
    rows = batches.is_control
    return read_markers(buffer, batches.take(rows)) if rows.any() else []


def batch_metadata(batches: Batches) -> Iterable[BatchMetadata]:
    columns = (batches.last_sequence, batches.last_offset, batches.v2["last_offset_delta"], batches.max_timestamp)
    return map(BatchMetadata, *(column.tolist() for column in columns))


def outside_of_transaction(row: int, offset: int, producer: Producer) -> ProducerRefusal:
    message = "a batch outside of the transaction that its producer has open"
    expected = f"a transactional batch, as the transaction began at offset {producer.txn_first_offset}"
    return ProducerRefusal(
        "InvalidTxnStateException",
        row,
        offset,
        message=message,
        expected=expected,
        found="one that is not transactional",
    )


def aborted_entry(transaction: CompletedTransaction) -> bytes:
    """Return the entry of the transaction index (``.txnindex``, of the segment with the marker) for one that was
    aborted."""
    entry = np.zeros(1, layouts.TRANSACTION_INDEX_ENTRY)
    for name in ("producer_id", "first_offset", "last_offset", "last_stable_offset"):
        entry[name] = getattr(transaction, name)
    return entry.tobytes()


def snapshots_out_of_range(offsets: Collection[int], log_start: int, log_end: int) -> list[int]:
    """Return those snapshots, by the offsets in their names, that go when a log is truncated or loaded
    (``truncateAndReload``): the ones after its end, and those up to its start."""
    return [offset for offset in offsets if offset > log_end or offset <= log_start]


def stray_snapshots(offsets: Collection[int], base_offsets: Collection[int]) -> list[int]:
    """Return those snapshots that go when a log with these segments is loaded (``removeStraySnapshots``): the ones
    without a segment, but for the last if that is after all segments, which a clean stop has left."""
    strays = sorted(set(offsets) - set(base_offsets))
    if strays and strays[-1] > max(base_offsets, default=-1):
        strays.pop()
    return strays
