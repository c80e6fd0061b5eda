"""Reads logs on from the cut until each transaction is whole: decided in all of its partitions, or in none.

What a coordinator decided between the first and the last look at ``__transaction_state`` has its partitions read on to
its marker, and so has each transaction whose marker comes in by that. A marker does not say which transaction of its
producer it ends: but when the last decision of a producer is complete, and no other one came while its partitions were
read, its last decisions and markers are those that belong together. Positions of groups that come in take the logs with
them that they are in.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.internals.entries import decode_entry, read_entries
from brokerless.internals.records import CONSUMER_OFFSETS, TRANSACTION_STATE
from brokerless.jobs.backup.cut import BackupCut, pin, pinned_end, where_now
from brokerless.jobs.backup.tails import (
    CoordinatorLog,
    LoggedMarker,
    Ongoing,
    PartitionTail,
    TransactionDecision,
    furthest,
)
from brokerless.kafka_names import TopicPartition
from brokerless.log import names
from brokerless.log.backups.snapshot import UndecidedTransaction
from brokerless.log.checkpoint.leader_epochs import Epochs
from brokerless.log.directory import PartitionPath
from brokerless.progress import ignore

_PATIENCE_S, _PAUSE_S = 30, 0.02
"""How long markers are waited for, and how long between two looks."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The result of closing transactions: how far each log of running brokers is read, and which transactions are whole
    by that."""

    ends: Mapping[TopicPartition, int]
    """The offset before which each log is read."""
    cut_at: Mapping[TopicPartition, int]
    """Where each log ended at the cut."""
    epochs: Mapping[TopicPartition, Epochs]
    """The leader epochs of each log at the cut."""
    transactions: int
    """How many transactions were closed."""
    open: tuple[UndecidedTransaction, ...]
    """The transactions that were not closed."""
    markers: Mapping[TopicPartition, Sequence[LoggedMarker]]
    """The markers that a log has after the cut, before its end in ``ends``."""
    paths: Mapping[str, PartitionPath]
    """Logs that were opened again, by their paths."""
    ongoing: Mapping[int, Ongoing]
    """What coordinators knew of each producer's transaction at the cut, by producer ID."""


def close_transactions(
    cut: BackupCut, replicas: Mapping[TopicPartition, Sequence[PartitionPath]], max_batch_bytes: int
) -> Closed:
    """Waits at most :data:`_PATIENCE_S`. ``replicas``: those of each partition that is copied. Raises
    OutOfFilesError."""
    ends, epochs = dict[TopicPartition, int](), dict[TopicPartition, Epochs]()
    for place, own in replicas.items():
        found = [(cut.ends[each.path], cut.epochs[each.path]) for each in own if each.path in cut.ends]
        if found:
            ends[place], epochs[place] = min(found, key=lambda each: (-each[0], each[1]))
    closing = _Closing(cut, dict(replicas), ends, epochs=epochs, max_batch_bytes=max_batch_bytes)
    closing.begin()
    while not closing.step() and time.monotonic() < closing.until:
        time.sleep(_PAUSE_S)
    return closing.result()


@dataclass(slots=True)
class _Closing:
    """The state of closing transactions: how far logs are read as yet, and which decisions still have to be whole."""

    cut: BackupCut
    replicas: dict[TopicPartition, Sequence[PartitionPath]]
    ends: dict[TopicPartition, int]
    """Where logs are read to, as far as is known yet."""
    epochs: dict[TopicPartition, Epochs]
    """The leader epochs of each log at the cut."""
    max_batch_bytes: int
    until: float = field(default_factory=lambda: time.monotonic() + _PATIENCE_S)
    cut_at: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    """Where each log ended at the cut."""
    pending: list[TransactionDecision] = field(default_factory=list[TransactionDecision])
    """Decisions that have to be whole, of which it is not known yet where their markers are."""
    done: set[TransactionDecision] = field(default_factory=set[TransactionDecision])
    """Decisions whose markers are known, and before whose markers no log ends."""
    tails: dict[TopicPartition, PartitionTail] = field(default_factory=dict[TopicPartition, PartitionTail])
    coordinators: list[CoordinatorLog] = field(default_factory=list[CoordinatorLog])
    unknown: list[UndecidedTransaction] = field(default_factory=list[UndecidedTransaction])
    known: dict[tuple[TopicPartition, int], TransactionDecision] = field(
        default_factory=dict[tuple[TopicPartition, int], TransactionDecision]
    )
    of_unknown: set[tuple[TopicPartition, int]] = field(default_factory=set[tuple[TopicPartition, int]])
    """Markers of transactions whose decision the coordinator's log has not any more."""
    paths: dict[str, PartitionPath] = field(default_factory=dict[str, PartitionPath])
    positions: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    """The positions of groups in what came in, by what they are positions in; and of each log of groups, how far it was
    read for them."""

    def begin(self) -> None:
        """Find what was decided between the two looks at the logs of transactions, or was not complete."""
        self.cut_at = dict(self.ends)
        for place in [each for each in self.ends if each[0] == TRANSACTION_STATE]:
            own = self.replicas[place]
            since = min((self.cut.earlier[each.path] for each in own if each.path in self.cut.earlier), default=0)
            until = self.ends[place]
            log = CoordinatorLog(partial(self._now, place), since, until, max_batch_bytes=self.max_batch_bytes)
            while not log.follow() and time.monotonic() < self.until:
                time.sleep(_PAUSE_S)
            self.coordinators.append(log)
            for each in (one for decided in log.decisions.values() for one in decided):
                if each.offset < until and (each.complete is None or each.complete >= since):
                    self.pending.append(each)
            for transactional_id, offset in log.unknown:
                if offset < until:
                    self.unknown.append(UndecidedTransaction(transactional_id, -1, ()))

    def step(self) -> bool:
        """Go on as far as is possible now; return whether all is whole."""
        is_new, missing = True, list[tuple[TopicPartition, LoggedMarker]]()
        while is_new:
            is_new = False
            for producer_id in sorted({each.producer_id for each in self.pending}):
                is_new |= self._settle(producer_id)
            missing = list(self._unattributed())
            for producer_id in sorted({each.producer_id for _, each in missing}):
                is_new |= self._settle(producer_id)
            is_new |= self._take_positions() | self._hold_again()
        return not self.pending and not missing and self._has_positions()

    def _settle(self, producer_id: int) -> bool:
        """Find where the markers of a producer's last transactions are; return whether they are known now."""
        log = next((each for each in self.coordinators if producer_id in each.decisions), None)
        if log is None:
            for each in self.coordinators:
                each.follow()
            return False
        if not log.follow():
            return False
        decisions = list(log.decisions[producer_id])
        if decisions[-1].complete is None:
            return False
        places = sorted({place for each in decisions for place in each.places if place in self.ends})
        if not all(self._tail(place).follow() for place in places):
            return False
        if not log.follow() or log.decisions[producer_id][-1] is not decisions[-1]:
            return False
        for place in places:
            # What retention has deleted of what came in is read up to: then the copy has it deleted, too, or whole.
            self.ends[place] = max(self.ends[place], self._tail(place).begin)
            own = [each for each in decisions if place in each.places]
            found = [each for each in self._tail(place).markers if each.producer_id == producer_id]
            markers = found[max(len(found) - len(own), 0) :]
            self.of_unknown |= {(place, each.offset) for each in found[: len(found) - len(markers)]}
            for each in own[: len(own) - len(markers)]:
                each.markers[place] = -1
            for each, marker in zip(own[len(own) - len(markers) :], markers, strict=True):
                each.markers[place] = marker.offset
                self.known[place, marker.offset] = each
        needed = [each for each in decisions if each in self.pending or self._is_divided(each)]
        new = [each for each in dict.fromkeys(needed) if each not in self.done]
        for each in new:
            self.done.add(each)
            for place, offset in each.markers.items():
                self.ends[place] = max(self.ends[place], offset + 1)
        self.pending = [each for each in self.pending if each not in self.done]
        return bool(new)

    def _is_divided(self, decision: TransactionDecision) -> bool:
        """Return whether some of a transaction's markers are in what is copied, which others then are to be, too; or
        one came in."""
        inside = [offset < self.ends[place] for place, offset in decision.markers.items()]
        return any(inside) and (not all(inside) or max(decision.markers.values()) >= 0)

    def _tail(self, place: TopicPartition) -> PartitionTail:
        if place not in self.tails:
            self.tails[place] = PartitionTail(partial(self._now, place), self.cut_at[place], self.epochs[place])
        return self.tails[place]

    def _now(self, place: TopicPartition) -> list[PartitionPath]:
        return where_now(self.cut, self.replicas[place])

    def _unattributed(self) -> Iterator[tuple[TopicPartition, LoggedMarker]]:
        """Markers that came in, of transactions that are not known to be whole."""
        for place, tail in self.tails.items():
            for each in tail.markers:
                if each.offset < self.ends[place] and (place, each.offset) not in self.of_unknown:
                    decision = self.known.get((place, each.offset))
                    if decision is None or decision not in self.done:
                        yield place, each

    def _take_positions(self) -> bool:
        """Read logs on to the positions of groups that came in; return whether one was."""
        is_new = False
        self._read_positions()
        for place, offset in self.positions.items():
            if place in self.ends and place[0] != CONSUMER_OFFSETS and self.ends[place] < offset:
                tail = self._tail(place)
                tail.follow()
                end = tail.end_at(offset)
                if end is not None:
                    self.ends[place] = max(self.ends[place], end)
                    is_new = True
        return is_new

    def _has_positions(self) -> bool:
        return all(self.ends.get(place, offset) >= offset for place, offset in self.positions.items())

    def _read_positions(self) -> None:
        """Read the positions in what came in of the logs of groups."""
        for place in [each for each in self.ends if each[0] == CONSUMER_OFFSETS]:
            begin = self.tails[place].start if place in self.tails else self.cut_at[place]
            start, end = self.positions.get(place, begin), self.ends[place]
            paths = furthest(self._now(place)) if start < end else None
            if paths is None:
                continue
            with suppress(UnreadableError):
                for position, offset in _committed(paths, start, end, self.max_batch_bytes):
                    self.positions[position] = max(self.positions.get(position, 0), offset)
                self.positions[place] = end

    def _hold_again(self) -> bool:
        """Open logs that are pinned again where what came in is in another file: the cleaner may have been at work, so
        that all is taken that is there now. Return whether an end changed by that."""
        is_new = False
        for place, own in self.replicas.items():
            if self.ends.get(place, -1) == self.cut_at.get(place, -1):
                continue
            for each in own:
                listed = self.paths.get(each.path, each)
                if self.cut.pinned.find_any(listed) and pinned_end(self.cut, listed) < self.ends[place]:
                    for now in where_now(self.cut, [listed])[:1]:
                        again = pin(self.cut, now)
                        if again is not None:
                            self.paths[each.path] = again
                            is_new |= self.cut.ends[again.path] > self.ends[place]
                            self.ends[place] = max(self.ends[place], self.cut.ends[again.path])
            if is_new:
                self._tail(place).follow()
        return is_new

    def result(self) -> Closed:
        """Return what was found."""
        missing = list(self._unattributed())
        for place, tail in self.tails.items():
            own = (each for each in tail.markers if each.offset < self.ends[place])
            missing += [(place, each) for each in own if (place, each.offset) in self.of_unknown]
        for producer_id in sorted({each.producer_id for _, each in missing}):
            places = {place for place, each in missing if each.producer_id == producer_id}
            self.unknown.append(undecided(None, producer_id, places))
        found = [undecided(each.transactional_id, each.producer_id, each.places) for each in self.pending]
        closed = sum(any(offset >= 0 for offset in each.markers.values()) for each in self.done)
        markers = {
            place: [each for each in tail.markers if each.offset < self.ends[place]]
            for place, tail in self.tails.items()
        }
        return Closed(
            self.ends, self.cut_at, self.epochs, transactions=closed,
            open=(*found, *self.unknown), markers=markers, paths=self.paths,
            ongoing={producer_id: each for log in self.coordinators for producer_id, each in log.ongoing.items()},
        )  # fmt: skip


def undecided(transactional_id: str | None, producer_id: int, places: Iterable[TopicPartition]) -> UndecidedTransaction:
    """Return what a snapshot says of a transaction that the cut may have divided."""
    own = tuple(names.partition_directory(*each) for each in sorted(places))
    return UndecidedTransaction(transactional_id, producer_id, own)


def cut_open(path: str, transaction: UndecidedTransaction) -> Finding:
    """Return the finding about a transaction that the cut may have divided."""
    of = f"the transaction of producer {transaction.producer_id}"
    if transaction.transactional_id is not None:
        of = f"the transaction of {transaction.transactional_id!r}"
    where = f" ({', '.join(transaction.partitions)})" if transaction.partitions else ""
    text = f"{of} may be decided in some of its partitions and not in others{where}"
    return Kind.TRANSACTION_CUT_OPEN.at(path, text)


def _committed(
    paths: PartitionPath, start: int, end: int, max_batch_bytes: int
) -> Iterable[tuple[TopicPartition, int]]:
    """The positions in a part of a log of groups, also of transactions that are aborted: to read on does no harm."""
    entries = read_entries(
        paths,
        CONSUMER_OFFSETS,
        ignore,
        start_offset=start,
        end_offset=end,
        max_batch_bytes=max_batch_bytes,
        with_outcome=False,
    )
    for entry in entries:
        record = decode_entry(entry, CONSUMER_OFFSETS, ignore)
        if record.type == "OFFSET_COMMIT" and record.data is not None:
            yield (record.key_data["topic"], record.key_data["partition"]), int(record.data["offset"])
