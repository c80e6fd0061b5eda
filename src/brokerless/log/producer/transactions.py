"""Finds the transactions in a partition's log, by batch headers and markers alone.

A producer's transactional batches belong to the transaction that its next marker ends; without one, the transaction is
open, and read_committed ends before its first offset (the last stable offset). The transaction index is only needed
where the marker is not in the log any more.
Sources: KIP-98; ``ProducerStateManager`` and the consumer's ``CompletedFetch`` (3.9.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from brokerless.findings import Finding, Kind, Severity
from brokerless.format.control import ABORT, COMMIT, decode_controls
from brokerless.format.read.batch_headers import Batches
from brokerless.log.producer.recorded_aborts import PendingAborts, RecordedAbort, RecordedAborts, marker_missing
from brokerless.log.segment import Chunk, check_checksums
from brokerless.progress import Report, ignore

if TYPE_CHECKING:
    from brokerless.format.read.decoder import Decoder

TransactionState = Literal["committed", "aborted", "open"]


@dataclass(slots=True)
class Transaction:
    """One producer's transaction. Offsets are of its data, timestamps in ms."""

    producer_id: int
    producer_epoch: int
    first_offset: int | None = None
    """None where no data is left in the log."""
    last_offset: int = -1
    """The offset of the marker; of an open transaction, the last one of its data."""
    state: TransactionState = "open"
    batches: int = 0
    records: int = 0
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    coordinator_epoch: int | None = None
    has_marker: bool = True
    """False where only the transaction index says that it was aborted."""


@dataclass
class Transactions:
    """All transactions of a log, in the order in which they ended; the open ones last. Of what was appended since,
    nothing is known."""

    ended: list[Transaction] = field(default_factory=list[Transaction])
    open: dict[int, Transaction] = field(default_factory=dict[int, Transaction])
    end_offset: int | None = None
    """Where the log ended when its transactions were read; None if that is not known."""
    _spans: SpansOfProducers | None = None

    @property
    def all(self) -> list[Transaction]:
        return [*self.ended, *self.open.values()]

    @property
    def last_stable_offset(self) -> int | None:
        """The first offset of the earliest open transaction; None without one, when all of the log is stable."""
        return min((each.first_offset for each in self.open.values() if each.first_offset is not None), default=None)

    def unfinished_at(self, end: int) -> list[Transaction]:
        """Return the transactions that have data before ``end``, and no end there, by their first offsets."""
        unfinished = (*self.open.values(), *(each for each in self.ended if each.last_offset >= end))
        found = [(each.first_offset, each) for each in unfinished if each.first_offset is not None]
        return [each for first, each in sorted(found, key=itemgetter(0)) if first < end]

    def open_at(self, end: int) -> int | None:
        """Return the first offset of the earliest of these; None if there are none."""
        return next((each.first_offset for each in self.unfinished_at(end)), None)

    @property
    def decided_until(self) -> int | None:
        """The offset before which all is decided: the last stable offset, or else where the log ended, if known."""
        stable = self.last_stable_offset
        return self.end_offset if stable is None else stable

    def since(self, offset: int) -> Transactions:
        """Return the transactions that did not end before ``offset``."""
        return replace(self, ended=[each for each in self.ended if each.last_offset >= offset])

    def with_open_data(self) -> Transactions:
        """Return the transactions that have ended: by these alone, only aborted data is left out, and nothing waits for
        the end of what is open."""
        return replace(self, open={})

    def aborted(self, batches: Batches) -> NDArray[np.bool_]:
        """Return which batches are data of an aborted transaction: bool, shape ``(n,)``."""
        if self._spans is None:
            self._spans = self._aborted_spans()
        return are_within(batches, self._spans, batches.entry_offset)

    def _aborted_spans(self) -> SpansOfProducers:
        aborted = (each for each in self.ended if each.state == "aborted")
        return spans_of_producers(
            (each.producer_id, each.first_offset, each.last_offset) for each in aborted if each.first_offset is not None
        )


SpansOfProducers = dict[int, NDArray[np.int64]]
"""By producer ID, the first and the last offset of each of its transactions, sorted: int64, shape ``(n, 2)``."""


def spans_of_producers(transactions: Iterable[tuple[int, int, int]]) -> SpansOfProducers:
    """Sort transactions, each a producer ID, a first offset and a last one, by their producers."""
    found: dict[int, list[tuple[int, int]]] = {}
    for producer_id, first, last in transactions:
        found.setdefault(producer_id, []).append((first, last))
    return {producer_id: np.array(sorted(pairs), np.int64, order="F") for producer_id, pairs in found.items()}


def are_within(batches: Batches, spans: SpansOfProducers, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which batches are data of one of these transactions (bool), by an offset of each batch."""
    found = np.zeros(len(batches), np.bool_)
    data = batches.is_transactional & ~batches.is_control
    for producer_id in np.unique(batches.producer_id[data]).tolist() if spans else ():
        if producer_id not in spans:
            continue
        firsts, lasts = spans[producer_id].T
        rows = np.flatnonzero(data & (batches.producer_id == producer_id))
        span = np.searchsorted(firsts, offsets[rows], side="right") - 1
        found[rows] = (span >= 0) & (offsets[rows] <= lasts[np.maximum(span, 0)])
    return found


def open_transaction(path: str, first: int, consequence: str, severity: Severity = "warning", of: str = "") -> Finding:
    """Return the finding about a transaction that has no end from offset ``first`` on. ``of``: whose it is."""
    text = f"a transaction{of and f' of {of}'} is open from offset {first} on: {consequence}"
    return Kind.TRANSACTION_OPEN.at(path, text, severity=severity, offset=first)


def abort_command(topic: str, partition: int, first: int | None) -> str:
    """Return the command of Kafka that aborts the transaction with its first record at offset ``first``."""
    text = f"kafka-transactions.sh --bootstrap-server ... abort --topic {topic} --partition {partition}"
    return f"{text} --start-offset {first}"


def find_transactions(
    chunks: Iterable[tuple[str, Chunk]], report: Report = ignore, recorded: RecordedAborts | None = None
) -> Transactions:
    """Follows a whole log's chunks, in order, each with its file's path. Batches whose checksums are wrong say nothing
    here; they are reported. ``recorded``: the transaction indexes of the segments, for markers that are missing."""
    transactions = Transactions()
    follow(transactions, chunks, report, recorded)
    return transactions


def follow(
    transactions: Transactions,
    chunks: Iterable[tuple[str, Chunk]],
    report: Report = ignore,
    recorded: RecordedAborts | None = None,
) -> None:
    """Follow a log that grows: chunks that come after those that were followed before."""
    from brokerless.format.read.decoder import Decoder

    decoder = Decoder(headers=False, rows=1 << 10, data=1 << 16)
    recorded = RecordedAborts() if recorded is None else recorded
    by_index: list[RecordedAbort] = []
    for path, chunk in chunks:
        selected = chunk.batches.is_transactional | chunk.batches.is_control
        pending = recorded.follow(chunk.batches, transactions.open)
        for part in chunk.take(selected).load(report) if selected.any() else ():
            valid = check_checksums(part, path, report)
            if not valid.all():
                invalid = part.batches.take(~valid)
                pending.add_missing(invalid.entry_offset, invalid.end_of_records)
            _follow(transactions, part, part.batches.take(valid), decoder=decoder, pending=pending)
        for producer_id in list(pending.producers):
            _end_by_index(transactions, producer_id, pending)
        by_index += pending.taken
    for finding in marker_missing(by_index):
        report(finding)


def _end_by_index(
    transactions: Transactions, producer_id: int, pending: PendingAborts, before: int | None = None
) -> None:
    """End what a producer has open where only the transaction index says so. What is before the entry's first offset
    was not aborted: its marker is missing as well."""
    each = transactions.open.get(producer_id)
    first = None if each is None else each.first_offset
    data = None if each is None or first is None else (first, each.last_offset)
    abort = pending.take(producer_id, data, before)
    if abort is None or each is None or first is None:
        return
    del transactions.open[producer_id]
    each.first_offset, each.last_offset = max(first, abort.first_offset), abort.last_offset
    each.state, each.has_marker = "aborted", False
    transactions.ended.append(each)


def _follow(
    transactions: Transactions, chunk: Chunk, batches: Batches, decoder: Decoder, pending: PendingAborts
) -> None:
    markers = _markers(chunk, batches.take(batches.is_control & batches.is_transactional), decoder)
    columns = zip(
        batches.positions.tolist(), batches.producer_id.tolist(), batches.producer_epoch.tolist(),
        batches.entry_offset.tolist(), batches.last_offset.tolist(), batches.is_control.tolist(),
        batches.count.tolist(), batches.base_timestamp.tolist(), batches.max_timestamp.tolist(),
        batches.has_delete_horizon.tolist(), strict=True,
    )  # fmt: skip
    for position, producer_id, epoch, base, last, is_control, count, first_ms, last_ms, has_horizon in columns:
        if producer_id in pending.producers:
            _end_by_index(transactions, producer_id, pending, base)
        if not is_control:
            each = transactions.open.get(producer_id)
            if each is None:
                each = transactions.open[producer_id] = Transaction(producer_id, epoch, first_offset=base)
                each.first_timestamp = None if has_horizon else first_ms
            each.last_offset = last
            each.batches += 1
            each.records += max(count, 0)
            each.last_timestamp = last_ms
        elif position in markers:
            type_id, coordinator_epoch = markers[position]
            each = transactions.open.pop(producer_id, None) or Transaction(producer_id, epoch)
            each.producer_epoch = epoch
            each.last_offset = last
            each.state = "committed" if type_id == COMMIT else "aborted"
            each.coordinator_epoch = coordinator_epoch
            transactions.ended.append(each)


def _markers(chunk: Chunk, batches: Batches, decoder: Decoder) -> dict[int, tuple[int, int | None]]:
    """The type and coordinator epoch of transaction markers, by the position of their batch in the buffer."""
    found: dict[int, tuple[int, int | None]] = {}
    decoded = list(decoder.decode(chunk.buffer, batches))
    rest = decoder.flush()
    for each in decoded if rest is None else [*decoded, rest]:
        positions = np.repeat(each.positions, each.given).tolist()
        for position, control in zip(positions, decode_controls(each.columns), strict=True):
            if control is not None and control.type_id in (ABORT, COMMIT):
                found[position] = (control.type_id, control.coordinator_epoch)
    return found
