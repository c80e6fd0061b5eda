"""The logs of a snapshot up to a point in time: before their first records of a time, or before given end offsets.

Times are those of the records, which producers give unless a topic has its own. End offsets are the vector that
``snapshots --offsets --json`` prints. Kafka's own topics stay whole: they say what was, and a group without its
position would go on at an end or a start.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from brokerless.clock import milliseconds
from brokerless.clusters.disk import DiskReplica
from brokerless.errors import UsageError
from brokerless.findings import Finding, Kind, Severity
from brokerless.format.control import build_transaction_marker
from brokerless.kafka_names import TopicPartition
from brokerless.log import names
from brokerless.log.backups.snapshot import SnapshotPartition
from brokerless.log.backups.state import SnapshotState
from brokerless.log.partition import transactions_of
from brokerless.log.producer.transactions import Transaction, Transactions, abort_command, open_transaction
from brokerless.log.ranges import Range
from brokerless.log.storage.location import Location
from brokerless.requests.recovery import RebuildRequest
from brokerless.tables.partition_tables import count_in_range, offset_for_time
from brokerless.text import count_of
from brokerless.values import Int32, Int64, LenientValue, Uuid, WrongJsonError, from_json

_LIMIT = 1 << 28
"""Bytes of a file of end offsets."""
_COMMAND = "snapshots --offsets --json"


class VectorRow(LenientValue, frozen=True):
    """Where a partition ends, as a row of ``snapshots --offsets --json``."""

    topic: str
    partition: Int32
    end_offset: Int64
    topic_id: Uuid | None = None


@dataclass(frozen=True, slots=True)
class PointInTime:
    """A point in time at which the logs of a snapshot end, if that is before their ends."""

    until: int | None = None
    """Logs end before their first record of this time (ms) or later; None where ``rows`` say where they end."""
    path: str = ""
    """The path of the file that has ``rows``."""
    rows: Mapping[TopicPartition, VectorRow] | None = None
    """Where logs end, by topic and number; partitions that these do not name stay whole."""
    aborts_open: bool = False
    """Whether the transactions that this leaves open are aborted."""

    @classmethod
    def of(cls, request: RebuildRequest) -> PointInTime | None:
        """Return what was requested; None for the end. Raises :class:`UsageError` for two points, and as
        :func:`load_vector`."""
        if request.until is not None and request.offsets is not None:
            raise UsageError("give one of --until and --offsets: each says where logs end")
        if request.offsets is not None:
            path = os.fspath(request.offsets)
            return cls(path=path, rows=load_vector(path), aborts_open=request.abort_open_transactions)
        until = milliseconds(request.until)
        return None if until is None else cls(until, aborts_open=request.abort_open_transactions)

    @property
    def option(self) -> str:
        """By which option it was requested."""
        return "--until" if self.rows is None else "--offsets"

    def check(self, partitions: Sequence[SnapshotPartition]) -> None:
        """Raises :class:`UsageError` for a row of what a snapshot does not have."""
        known = {(each.topic, each.partition): each for each in partitions}
        for place, row in (self.rows or {}).items():
            name = names.partition_directory(*place)
            if names.is_internal(row.topic):
                continue
            if (own := known.get(place)) is None:
                raise UsageError(f"{self.path}: the snapshot has no partition {name}")
            if row.topic_id is not None and row.topic_id != own.topic_id:
                text = (
                    f"{row.topic} has the ID {row.topic_id} here, and {own.topic_id} in the snapshot: it was made again"
                )
                raise UsageError(f"{self.path}: {text}")
            if not own.start_offset <= row.end_offset <= own.end_offset:
                text = f"the snapshot has offsets {own.start_offset} to {own.end_offset} of it"
                raise UsageError(f"{self.path}: {name} cannot end at offset {row.end_offset}; {text}")


def load_vector(path: str) -> dict[TopicPartition, VectorRow]:
    """Read where partitions end: JSON Lines as ``snapshots --offsets --json`` prints them, by topic and number. Raises
    :class:`UsageError` for what is something else, with its line, and UnreadableError."""
    found: dict[TopicPartition, VectorRow] = {}
    for number, line in enumerate(Location(path).read(_LIMIT).split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = from_json(line, VectorRow)
        except WrongJsonError as error:
            raise UsageError(f"{path}, line {number}: this is no line of {_COMMAND} ({error})") from error
        place = row.topic, row.partition
        if place in found:
            raise UsageError(f"{path}, line {number}: {row.topic}-{row.partition} comes twice")
        found[place] = row
    if not found:
        raise UsageError(f"{path}: no partition is in it; give what {_COMMAND} prints")
    return found


def end_at(
    replica: DiskReplica, state: SnapshotState, point: PointInTime, max_batch_bytes: int | None = None
) -> tuple[DiskReplica, tuple[Finding, ...]]:
    """Return a replica that ends at a point in time; and what is to be known of that. Logs whose stored segments are
    all earlier are not read."""
    end = None if names.is_internal(replica.topic) else _end(replica, state, point, max_batch_bytes)
    if end is None or end >= (replica.end_offset or 0):
        return replica, ()
    found = list(_late(replica, end, point.until, max_batch_bytes)) if point.until is not None else []
    own = state.partition(replica.topic_id, replica.partition)
    if own is not None and own.is_compacted:
        text = f"{own.name}: it is compacted, and ends at offset {end} in place of {own.end_offset}: of keys with "
        text += "records between these, earlier values may be gone"
        found.append(Kind.VALUES_COMPACTED.at(replica.path, text, offset=end))
    transactions = transactions_of(replica.paths)
    unfinished = transactions.unfinished_at(end)
    markers: tuple[bytes, ...] = ()
    if unfinished and point.aborts_open:
        markers = tuple(_markers(transactions, unfinished, end, _epoch(own, end)))
        text = f"it ends later than {point.option}, and is aborted"
        found.append(_open(replica, unfinished[0], text, "info"))
    elif unfinished:
        text = f"it ends later than {point.option}, so that nobody will end it, and consumers with read_committed stop "
        text += "there until you do: give --abort-open-transactions, or later "
        abort = abort_command(replica.topic, replica.partition, unfinished[0].first_offset)
        found.append(_open(replica, unfinished[0], f"{text}{abort}", "warning"))
    kept = replace(replica, end_offset=end + len(markers), end_in_log=replica.end_offset, markers=markers)
    return kept, tuple(found)


def _end(replica: DiskReplica, state: SnapshotState, point: PointInTime, max_batch_bytes: int | None) -> int | None:
    if point.until is None:
        row = (point.rows or {}).get((replica.topic, replica.partition))
        return None if row is None else row.end_offset
    segments = state.segments.get((replica.topic_id or "", replica.partition), ())
    if all(each.max_timestamp < point.until for each in segments):
        return None
    return offset_for_time(replica.paths, point.until, "read_uncommitted", max_batch_bytes)


def _late(replica: DiskReplica, end: int, until: int, max_batch_bytes: int | None) -> Iterator[Finding]:
    if late := count_in_range(replica.paths, Range(end, None, None, until), max_batch_bytes=max_batch_bytes):
        name = names.partition_directory(replica.topic, replica.partition)
        yield late_records(replica.path, name, late, end_offset=end)


def _open(replica: DiskReplica, transaction: Transaction, text: str, severity: Severity) -> Finding:
    name = names.partition_directory(replica.topic, replica.partition)
    return open_transaction(replica.path, transaction.first_offset or 0, text, severity, of=name)


def _epoch(own: SnapshotPartition | None, end: int) -> int:
    """The leader epoch in which a log ends there."""
    return max((epoch for epoch, start in (() if own is None else own.epochs) if start < end), default=0)


def _markers(transactions: Transactions, unfinished: Sequence[Transaction], end: int, epoch: int) -> Iterator[bytes]:
    """Yield the batches that abort transactions, as their coordinator would (``MemoryRecords``). They are as old as the
    last data of each, by which retention goes, and of its producer's last coordinator before."""
    from brokerless.format.write.encoder import Encoder

    for offset, each in enumerate(unfinished, end):
        before = [
            one.coordinator_epoch or 0
            for one in transactions.ended
            if one.producer_id == each.producer_id and one.last_offset < end
        ]
        marker = each.producer_id, each.producer_epoch, offset, each.last_timestamp or 0, False, max(before, default=0)
        columns, header = build_transaction_marker(*marker, epoch)
        yield bytes(Encoder().encode(columns, np.array([0, 1]), header))


def late_records(path: str, name: str, count: int, end_offset: int) -> Finding:
    """Return the finding about records of a partition after its end by ``--until`` that are older than that, too."""
    text = (
        f"{name}: {count_of(count, 'record')} after offset {end_offset} are older than --until, too; they came later, "
    )
    return Kind.LATE_RECORDS.at(path, f"{text}and are not restored", offset=end_offset)
