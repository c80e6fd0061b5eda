"""Checks transactions, their markers and index, and producer snapshots.

Sources: KIP-98; ``ProducerStateManager``, ``TransactionIndex`` (4.1.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from brokerless.findings import Finding, Kind
from brokerless.format import layouts
from brokerless.format.read.batch_headers import Batches
from brokerless.jobs.segment_checks import check_transaction_index
from brokerless.log import names
from brokerless.log.directory import SegmentPaths
from brokerless.log.index.checks import keeping_indexes
from brokerless.log.producer.markers import Marker
from brokerless.log.producer.recorded_aborts import PendingAborts, RecordedAbort, RecordedAborts, marker_missing
from brokerless.log.producer.snapshot import ProducerSnapshot, load_producer_snapshot
from brokerless.log.producer.state import CompletedTransaction, ProducerState, control_markers
from brokerless.log.producer.transactions import open_transaction
from brokerless.log.recovery.misleading_indexes import known_beginnings
from brokerless.log.segment import Chunk
from brokerless.log.storage.location import DirectoryEntry

HANGING_MS = 15 * 60 * 1000
"""The default of ``transaction.max.timeout.ms``: by then, its coordinator has ended every transaction."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction without its end: whose it is, and the offset and file of its first batch."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    file: str


@dataclass(slots=True)
class TransactionCheck:
    """Follows the transactions in a partition's intact batches."""

    snapshots: Sequence[DirectoryEntry] = ()
    """The partition's producer snapshots, which are compared on the way."""
    is_by_brokers: bool = False
    """Whether brokers write all of its batches, and so stamp them."""
    recorded: RecordedAborts = field(default_factory=RecordedAborts)
    """The partition's transaction indexes, for markers that are not in the log any more."""
    committed: int = 0
    aborted: int = 0
    without_data: int = 0
    """Markers that end nothing that is in the log."""
    state: ProducerState = field(default_factory=ProducerState)
    _unmarked: list[RecordedAbort] = field(default_factory=list[RecordedAbort])
    _aborted_here: list[CompletedTransaction] = field(default_factory=list[CompletedTransaction])
    _first_offset: int | None = None
    _next_snapshot: int = 0
    _clock: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = field(
        default_factory=list[tuple[NDArray[np.int64], NDArray[np.int64]]]
    )

    def follow(self, chunk: Chunk, path: str, is_whole: bool) -> Iterator[Finding]:
        """Yield findings about the transactions of a chunk. With ``is_whole``, no offset is missing so far, so that all
        that a broker saw is here."""
        batches = chunk.batches
        if self._first_offset is None:
            self._first_offset = int(batches.entry_offset[0])
        # Markers and what has LogAppendTime are stamped by brokers' clocks; producers may say anything.
        by_broker = batches.is_control | (batches.timestamp_type == layouts.LOG_APPEND_TIME) | self.is_by_brokers
        if by_broker.any():
            self._clock.append((batches.entry_offset[by_broker], batches.max_timestamp[by_broker]))
        pending = self.recorded.follow(batches, self.state.open_producers)
        start = 0
        while (snapshot := self._snapshot()) is not None:
            # Batches before the snapshot's offset; what is in one chunk with it is in two parts then.
            end = int(np.searchsorted(np.maximum.accumulate(batches.last_offset), snapshot[0]))
            if end == len(batches):
                break
            yield from self._take(batches.take(slice(start, end)), chunk, path, pending)
            yield from self._compare(snapshot[1], is_whole)
            start = end
        yield from self._take(batches.take(slice(start, len(batches))), chunk, path, pending)
        self._end_recorded(pending)

    def _end_recorded(self, pending: PendingAborts) -> None:
        """End what only the transaction index says to have ended before the batches that come next."""
        self._add_aborted(self.state.end_recorded(pending))
        self._unmarked += pending.taken

    def _snapshot(self) -> tuple[int, DirectoryEntry] | None:
        if self._next_snapshot == len(self.snapshots):
            return None
        entry = self.snapshots[self._next_snapshot]
        return _offset(entry), entry

    def _take(self, batches: Batches, chunk: Chunk, path: str, pending: PendingAborts) -> Iterator[Finding]:
        followed = batches.take(_affecting_producers(batches))
        while len(followed):
            update = self.state.update(followed, chunk.buffer, pending)
            refused = update.refused
            done = followed if refused is None else followed.take(slice(0, refused.row))
            self._count(done, update.completed, chunk.buffer)
            if refused is None:
                return
            position = chunk.base + int(followed.positions[refused.row])
            kind = (
                Kind.OUTSIDE_OF_TRANSACTION if refused.exception == "InvalidTxnStateException" else Kind.MARKER_BROKEN
            )
            yield kind.at(
                path,
                refused.message,
                severity="error",
                position=position,
                offset=refused.offset,
                expected=refused.expected,
                found=refused.found,
            )
            followed = followed.take(slice(refused.row + 1, len(followed)))

    def _count(self, batches: Batches, completed: list[CompletedTransaction], buffer: NDArray[np.uint8]) -> None:
        marked = batches.entry_offset[batches.is_control]
        self._add_aborted(each for each in completed if each.last_offset not in marked)
        completed = [each for each in completed if each.last_offset in marked]
        aborted = [each for each in completed if each.is_aborted]
        self.aborted += len(aborted)
        self.committed += len(completed) - len(aborted)
        rows = np.flatnonzero(batches.is_control & (batches.count > 0))
        if len(rows) > len(completed):
            alone = batches.take(rows[~np.isin(batches.entry_offset[rows], [each.last_offset for each in completed])])
            self.without_data += len(alone)
            for producer_id, offset, marker in zip(
                alone.producer_id.tolist(), alone.entry_offset.tolist(), control_markers(alone, buffer), strict=True
            ):
                if isinstance(marker, Marker) and marker.is_abort:
                    aborted.append(
                        CompletedTransaction(producer_id, -1, offset, is_aborted=True, last_stable_offset=-1)
                    )
        self._aborted_here += sorted(aborted, key=lambda each: each.last_offset)

    def _add_aborted(self, unmarked: Iterable[CompletedTransaction]) -> None:
        before = len(self._aborted_here)
        self._aborted_here += unmarked
        self.aborted += len(self._aborted_here) - before

    def _compare(self, snapshot: DirectoryEntry, is_whole: bool) -> Iterator[Finding]:
        """Yield what a broker recorded at a snapshot's offset, against what the batches before it say."""
        self._next_snapshot += 1
        stored = load_producer_snapshot(snapshot.location)
        if not is_whole or stored.findings or self._first_offset is None:
            return
        wrong = [row for row in range(len(stored.producer_ids)) if not self._fits(stored, row)]
        if wrong:
            row, offset = wrong[0], _offset(snapshot)
            producer_id = int(stored.producer_ids[row])
            producer = self.state.producers.get(producer_id)
            text = f"{len(wrong)} of {len(stored.producer_ids)} producers are not as the log before this snapshot says"
            expected = f"for producer {producer_id} "
            if producer is None:
                expected += "nothing"
            else:
                last = producer.batches[-1].last_offset if producer.batches else -1
                expected += _said(producer.epoch, producer.last_sequence, last, producer.txn_first_offset)
            columns = (
                stored.producer_epochs,
                stored.last_sequences,
                stored.last_offsets,
                stored.current_txn_first_offsets,
            )
            found = _said(*(int(column[row]) for column in columns))
            kind = Kind.PRODUCER_SNAPSHOT_MISMATCH
            yield kind.at(snapshot.path, text, severity="warning", offset=offset, expected=expected, found=found)

    def _fits(self, stored: ProducerSnapshot, row: int) -> bool:
        """Return whether an entry says what the log does, as far as it goes back."""
        transaction, last = int(stored.current_txn_first_offsets[row]), int(stored.last_offsets[row])
        assert self._first_offset is not None
        if last < self._first_offset or 0 <= transaction < self._first_offset:
            return True
        producer = self.state.producers.get(int(stored.producer_ids[row]))
        if producer is None or not producer.batches:
            return False
        batch = producer.batches[-1]
        known = (producer.epoch, batch.last_sequence, batch.last_offset, producer.txn_first_offset)
        return known == (
            int(stored.producer_epochs[row]),
            int(stored.last_sequences[row]),
            last,
            max(transaction, -1),
        )

    def at_segment_end(
        self, segment: SegmentPaths, is_partition: bool, missing: Sequence[range], next_base_offset: int | None
    ) -> list[Finding]:
        """The transaction index of a segment whose batches were followed. ``missing``: offsets that are not there;
        ``next_base_offset``: where the log goes on; None after the last segment."""
        if next_base_offset is not None:
            self._end_recorded(self.recorded.skip(next_base_offset, self.state.open_producers))
        aborted = [(each.producer_id, each.first_offset, each.last_offset) for each in self._aborted_here]
        self._aborted_here.clear()
        found = check_transaction_index(segment, known_beginnings(aborted, missing), is_partition)
        index = segment.transaction_index
        is_kept = index is not None and any(each.file == index.path for each in self._unmarked)
        return keeping_indexes(found) if is_kept else found

    def findings(self, segments: Sequence[SegmentPaths], end_offset: int, is_whole: bool) -> Iterator[Finding]:
        """Yield what is left when all was followed."""
        yield from marker_missing(self._unmarked)
        while (snapshot := self._snapshot()) is not None:
            if snapshot[0] <= end_offset:
                yield from self._compare(snapshot[1], is_whole and snapshot[0] == end_offset)
                continue
            self._next_snapshot += 1
            text = "a producer snapshot from after the end of the log: what it knows of is not there"
            expected = f"at most offset {end_offset}"
            kind, found = Kind.PRODUCER_SNAPSHOT_BEYOND_END, f"offset {snapshot[0]}"
            yield kind.at(
                snapshot[1].path, text, severity="warning", offset=snapshot[0], expected=expected, found=found
            )
        for each in self.open(segments):
            producer_id, first, path = each.producer_id, each.first_offset, each.file
            batches = self.state.producers[producer_id].batches
            idle = self._time_since(batches[-1].last_offset if batches else first)
            if idle > HANGING_MS:
                text = (
                    f"a transaction of producer {producer_id} hangs from offset {first} on: the log went on for "
                    f"{idle // 60_000} min without "
                )
                text += "its end; read_committed ends there"
                yield Kind.TRANSACTION_HANGING.at(path, text, offset=first, expected="a marker", found="none")
            else:
                consequence, producer = "read_committed ends there", f"producer {producer_id}"
                yield open_transaction(path, first, consequence, severity="info", of=producer)

    def open(self, segments: Sequence[SegmentPaths]) -> Iterator[OpenTransaction]:
        """Yield what is open when all of a partition's ``segments`` were followed."""
        for producer_id, producer in self.state.producers.items():
            first = producer.txn_first_offset
            if first >= 0:
                before = [segment for segment in segments if segment.base_offset <= first] or segments
                yield OpenTransaction(producer_id, producer.epoch, first, before[-1].log.path)

    def _time_since(self, offset: int) -> int:
        """ms of brokers' clocks from the first batch after an offset that has such a time to the last one."""
        if not self._clock:
            return 0
        offsets, times = (np.concatenate(columns) for columns in zip(*self._clock, strict=True))
        later = times[offsets > offset]
        return int(later.max() - later[0]) if len(later) else 0


def _affecting_producers(batches: Batches) -> NDArray[np.int64]:
    """The rows that decide what is known of producers at the end: not those between two of the same kind."""
    rows = np.flatnonzero(batches.producer_id > layouts.NO_PRODUCER_ID)
    if len(rows) < 3:
        return rows
    rows = rows[np.argsort(batches.producer_id[rows], kind="stable")]
    same = np.ones(len(rows) - 1, np.bool_)
    for column in (batches.producer_id, batches.producer_epoch, batches.is_transactional):
        same &= column[rows[1:]] == column[rows[:-1]]
    same &= ~(batches.is_control[rows[1:]] | batches.is_control[rows[:-1]])
    between = np.append(False, same) & np.append(same, False)
    return np.sort(rows[~between])


def _offset(snapshot: DirectoryEntry) -> int:
    file = names.parse_segment_file(snapshot.name)
    assert file is not None
    return file.offset


def _said(epoch: int, sequence: int, offset: int, transaction: int) -> str:
    text = f"epoch {epoch}, sequence {sequence}, offset {offset}"
    return text if transaction < 0 else f"{text}, in a transaction from {transaction}"
