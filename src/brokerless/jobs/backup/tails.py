"""Follows what brokers write after the cut: the markers of partitions, and what coordinators decide of transactions.

Sources: ``TransactionMetadata``, ``TransactionLog`` (4.4.0), KIP-890. A coordinator writes a decision (Prepare) into
``__transaction_state``, then a marker into each partition of the transaction, and when all in-sync replicas have these,
that it is complete. The transactions of one producer follow one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.format.read.batch_headers import checksums_match
from brokerless.internals.entries import decode_entry, read_entries
from brokerless.internals.records import TRANSACTION_STATE
from brokerless.jobs.backup.cut import end_and_epochs
from brokerless.kafka_names import TopicPartition
from brokerless.log.checkpoint.leader_epochs import Epochs, rank, truncation_offset
from brokerless.log.directory import PartitionPath
from brokerless.log.live_segments import open_segments
from brokerless.log.ranges import Range
from brokerless.log.segment import Chunk, scan_headers
from brokerless.log.walk import start_of
from brokerless.progress import ignore

_ONGOING, _PREPARED, _COMPLETE = 1, (2, 3, 7), (4, 5)
"""Of ``transactionStatus``."""
_KEPT = 4
"""How many decisions of a producer are kept that were complete before all logs were read."""
Replicas = Callable[[], Sequence[PartitionPath]]
"""Lists the replicas of a partition as they are now."""


class LoggedMarker(NamedTuple):
    """The end of a transaction in a partition's log."""

    offset: int
    producer_id: int


class Ongoing(NamedTuple):
    """What a coordinator knows of a producer's transaction: its partitions, none where it has none or is decided."""

    transactional_id: str
    places: tuple[TopicPartition, ...]


@dataclass(eq=False, slots=True)
class TransactionDecision:
    """What a coordinator has decided of a transaction."""

    transactional_id: str
    producer_id: int
    offset: int
    """The offset of the record with the decision."""
    places: tuple[TopicPartition, ...]
    complete: int | None = None
    """The offset of the record that completes the transaction; None as long as it is not complete."""
    markers: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    """Where each of ``places`` has the marker; -1 for before the cut."""


class PartitionTail:
    """The log of a partition from an offset on, in whichever of its replicas goes furthest. At the cut, it ended at
    ``cut_at`` and had the leader epochs ``epochs``."""

    def __init__(self, replicas: Replicas, cut_at: int, epochs: Epochs) -> None:
        self.start = self.begin = cut_at
        """Where it begins: before the cut where another leader has cut the log back, as what is there now came in
        since. ``begin`` is after it where retention has deleted what came in."""
        self.markers: list[LoggedMarker] = []
        self.ends: list[int] = []
        """Where its batches end."""
        self._replicas, self._cut_at, self._epochs = replicas, cut_at, epochs
        self._last: tuple[int, int, int] | None = None
        """The last batch: its first offset, leader epoch and checksum."""

    def follow(self) -> bool:
        """Read what was appended since the last call, or all if another leader has cut the log back; return whether it
        could be read."""
        replicas = self._replicas()
        # Each replica deletes by itself: another one may have what retention took here.
        whole = [each for each in replicas if each.segments[0].base_offset <= self.start]
        paths = furthest(whole or replicas)
        if paths is None:
            return False
        try:
            if self._last is not None and self._read(paths, self._last):
                return True
            start = self._agreed(paths)
            while True:
                self.markers, self.ends, self._last = [], [], None
                self.start = self.begin = start
                is_read = self._read(paths, None)
                start = self._agreed(paths)
                if start >= self.start:
                    return is_read
        except UnreadableError:
            return False

    def _agreed(self, paths: PartitionPath) -> int:
        """Return up to where the log is the one that there was at the cut."""
        found = end_and_epochs(paths)
        if found is None:
            raise UnreadableError(paths.path, "it is gone")
        agreed = truncation_offset(found[1], found[0], self._epochs, self._cut_at)
        return self._cut_at if agreed is None else min(agreed, self._cut_at)

    def _read(self, paths: PartitionPath, known: tuple[int, int, int] | None) -> bool:
        """Read what is after a batch that is known; False where that is not there any more."""
        selected, is_known = Range(self.start if known is None else known[0]), known is None
        for number, opened in enumerate(open_segments(paths, _refuse_gaps, selected)):
            if known is None and number == 0:
                self.begin = max(self.start, opened.segment.base_offset)
            for chunk in scan_headers(opened.file, ignore, start_of(opened, selected)):
                new = chunk.take(chunk.batches.last_offset >= (selected.start_offset or 0))
                heads = _heads(new)
                if not is_known and heads:
                    if heads[0] != known:
                        return False
                    is_known = True
                    new, heads = new.take(np.arange(len(heads)) > 0), heads[1:]
                self.markers += _markers(new)
                self.ends += (new.batches.last_offset + 1).tolist()
                self._last = heads[-1] if heads else self._last
        return is_known

    def end_at(self, offset: int) -> int | None:
        """Return where the batch ends that has the offset before this one; None where it is not there."""
        return next((each for each in self.ends if each >= offset), None)


def _heads(chunk: Chunk) -> list[tuple[int, int, int]]:
    batches = chunk.batches
    columns = (batches.entry_offset, batches.partition_leader_epoch, batches.checksum)
    return list(zip(*(each.tolist() for each in columns), strict=True))


def _markers(chunk: Chunk) -> Iterator[LoggedMarker]:
    for part in chunk.take(chunk.batches.is_control & chunk.batches.is_transactional).load(ignore):
        batches = part.batches.take(checksums_match(part.buffer, part.batches))
        yield from map(LoggedMarker, batches.entry_offset.tolist(), batches.producer_id.tolist())


def _refuse_gaps(finding: Finding) -> None:
    """Raise :class:`UnreadableError` where a file went that was to be read: what it had is not known then."""
    if finding.kind in (Kind.UNREADABLE_FILE, Kind.DELETED_MEANWHILE):
        raise UnreadableError(finding.file, finding.message)


def furthest(replicas: Sequence[PartitionPath]) -> PartitionPath | None:
    """Return the replica whose log goes furthest, by the last leader; None where none is there."""

    def key(paths: PartitionPath) -> tuple[int, int]:
        end, epochs = end_and_epochs(paths) or (0, ())
        return rank(epochs, end)

    return replicas[0] if len(replicas) == 1 else max(replicas, key=key, default=None)


class CoordinatorLog:
    """A partition of ``__transaction_state``, and the last decisions in it. It ended at ``since`` at the first look,
    and at ``until`` at the last."""

    def __init__(self, replicas: Replicas, since: int, until: int, *, max_batch_bytes: int) -> None:
        self.decisions: dict[int, list[TransactionDecision]] = {}
        """The last decisions of each producer in order, by producer ID."""
        self.unknown: list[tuple[str, int]] = []
        """The IDs of transactions that were completed from ``since`` on, but whose decision is not in the log; and the
        offsets at which they were completed."""
        self.ongoing: dict[int, Ongoing] = {}
        """The partitions in which each producer had a transaction at ``until``, with the transaction's ID; by producer
        ID."""
        self._since, self._until = since, until
        self._last: dict[str, TransactionDecision] = {}
        self._replicas, self._limit, self._next = replicas, max_batch_bytes, 0

    def follow(self) -> bool:
        """Read what was appended since the last call; return whether it could be read."""
        paths = furthest(self._replicas())
        if paths is None:
            return False
        try:
            for offset, transactional_id, data in self._entries(paths):
                self._next = offset + 1
                self._add(offset, transactional_id, data)
        except UnreadableError:
            return False
        return True

    def _entries(self, paths: PartitionPath) -> Iterator[tuple[int, str, dict[str, Any]]]:
        own = read_entries(paths, TRANSACTION_STATE, _refuse_gaps, self._next, max_batch_bytes=self._limit)
        for entry in own:
            record = decode_entry(entry, TRANSACTION_STATE, ignore)
            if record.data is not None and "transactionalId" in record.key_data:
                yield entry.offset, record.key_data["transactionalId"], record.data

    def _add(self, offset: int, transactional_id: str, data: dict[str, Any]) -> None:
        status, before = data["transactionStatus"], self._last.get(transactional_id)
        if offset < self._until:
            places = _places(data) if status == _ONGOING else ()
            self.ongoing[data["producerId"]] = Ongoing(transactional_id, places)
        is_open = before is not None and before.complete is None
        if status in _PREPARED and not is_open:
            found = TransactionDecision(transactional_id, data["producerId"], offset, _places(data))
            self._last[transactional_id] = found
            own = self.decisions.setdefault(found.producer_id, [])
            own.append(found)
            while len(own) > _KEPT and own[0].complete is not None and own[0].complete < self._since:
                del own[0]
        elif status in _COMPLETE and before is not None and is_open:
            before.complete = offset
        elif status in _COMPLETE and offset >= self._since:
            self.unknown.append((transactional_id, offset))


def _places(data: Mapping[str, Any]) -> tuple[TopicPartition, ...]:
    rows = data["transactionPartitions"] or []
    return tuple((each["topic"], number) for each in rows for number in each["partitionIds"])
