"""Reads an internal topic's records with their transactions' outcome, and selects each key's last one.

Consumers commit offsets within transactions as well. A group coordinator takes those when their transaction commits,
and the order of several for one key is that of their offsets in the log (``OffsetMetadataManager``, 4.1.1): so what
counts is the last one that is not aborted and not open.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from brokerless import arrow
from brokerless.arrow import integers
from brokerless.internals.connect.records import decode_connect_record
from brokerless.internals.connect.topics import table_of_topic
from brokerless.internals.records import CONSUMER_OFFSETS, TOPICS, InternalRecord, decode_record
from brokerless.log.directory import PartitionPath
from brokerless.log.names import CLUSTER_METADATA
from brokerless.log.partition import transactions_of
from brokerless.log.producer.transactions import TransactionState
from brokerless.log.ranges import Range
from brokerless.log.storage.paths import directory_name, partition_above
from brokerless.progress import Report, ignore
from brokerless.tables.partition_tables import read_batches, read_records
from brokerless.tables.read_options import ReadOptions

_COLUMNS = ["key", "value", "offset", "timestamp", "file", "batchPosition"]


@dataclass(frozen=True, slots=True)
class RawRecord:
    """One record."""

    offset: int
    timestamp: int
    """The timestamp of the record (ms)."""
    key: bytes | None
    value: bytes | None
    transaction: TransactionState | None
    """The state of the record's transaction, None without one."""
    file: str
    """The file of the record's batch."""
    position: int
    """Where that batch is in the file (bytes)."""


def internal_topic(partition: PartitionPath, given: Mapping[str, str] | None = None) -> str | None:
    """Return which internal topic's partition this is, MirrorMaker's and Kafka Connect's too (see
    :func:`connect.topics.table_of_topic`); None for any other. A lone file is what its directory's name says, and a
    KRaft snapshot is of ``__cluster_metadata``."""
    topic = _topic_of(partition.path) if partition.topic is None else partition.topic
    return topic if topic in TOPICS or table_of_topic(topic, given) is not None else None


def topic_of_file(path: str) -> str | None:
    """Return which internal topic of Kafka's brokers the log in a file is of, by the names of the file and its
    directory; None for any other."""
    topic = _topic_of(path)
    return topic if topic in TOPICS else None


def _topic_of(path: str) -> str | None:
    if directory_name(path).endswith(".checkpoint"):
        return CLUSTER_METADATA
    named = partition_above(path)
    return None if named is None else named.topic


def read_entries(
    partition: PartitionPath,
    topic: str,
    on_damage: Report,
    start_offset: int | None = None,
    end_offset: int | None = None,
    max_batch_bytes: int | None = None,
    *,
    with_outcome: bool = True,
) -> Iterator[RawRecord]:
    """Yield all records but control records, in the order of the log: those from ``start_offset`` on and before
    ``end_offset``. ``max_batch_bytes``: what one batch may inflate to. ``with_outcome``: what became of transactions is
    known, for which all of the log is read."""
    is_transactional = topic == CONSUMER_OFFSETS or topic not in TOPICS  # Connect's, with exactly-once sources
    is_transactional &= with_outcome
    states = _transaction_states(partition, end_offset) if is_transactional else {}
    options = ReadOptions(
        _COLUMNS, Range(start_offset, end_offset), max_batch_bytes=max_batch_bytes, on_damage=on_damage
    )
    for batch in read_records([partition], options):
        file: str = batch.column("file")[0].as_py()
        of_file = states.get(file, {})
        keys, values = arrow.values(batch.column("key")), arrow.values(batch.column("value"))
        numbers = (integers(batch.column(name)) for name in ("offset", "timestamp", "batchPosition"))
        for key, value, offset, timestamp, position in zip(keys, values, *numbers, strict=True):
            yield RawRecord(
                offset, timestamp, key, value=value, transaction=of_file.get(position), file=file, position=position
            )


def decode_entry(
    entry: RawRecord, topic: str, on_damage: Report, given: Mapping[str, str] | None = None
) -> InternalRecord:
    """Return what a record says. One that cannot be decoded is a finding: a warning, since its bytes are as they were
    written. ``given`` as in :func:`internal_topic`."""
    table = None if topic in TOPICS else table_of_topic(topic, given)
    if table is None:
        record = decode_record(topic, entry.key, entry.value)
    else:
        record = decode_connect_record(table, entry.key, entry.value)
    if record.problem is not None:
        kind, message = record.problem
        on_damage(kind.at(entry.file, message, severity="warning", position=entry.position, offset=entry.offset))
    return record


def last_by_key(
    partition: PartitionPath,
    topic: str,
    on_damage: Report,
    max_batch_bytes: int | None = None,
    end_offset: int | None = None,
) -> list[RawRecord]:
    """Return the last record that counts of each key, in the order of the log; keys whose last one is a tombstone are
    left out. ``end_offset``: only records before it count."""
    last: dict[bytes | None, RawRecord] = {}
    for entry in read_entries(partition, topic, on_damage, end_offset=end_offset, max_batch_bytes=max_batch_bytes):
        if entry.transaction in ("aborted", "open"):
            continue
        last.pop(entry.key, None)
        if entry.value is not None:
            last[entry.key] = entry
    return list(last.values())


def _transaction_states(partition: PartitionPath, end_offset: int | None) -> dict[str, dict[int, TransactionState]]:
    """Return what became of the transaction of each transactional batch before ``end_offset``, by file and position."""
    spans: dict[int, list[tuple[int, int, TransactionState]]] = {}
    for each in transactions_of(partition).all:
        if each.first_offset is not None:
            has_ended = end_offset is None or each.last_offset < end_offset
            state = each.state if has_ended else "open"
            spans.setdefault(each.producer_id, []).append((each.first_offset, each.last_offset, state))
    found: dict[str, dict[int, TransactionState]] = {}
    if not spans:
        return found
    for of_producer in spans.values():
        of_producer.sort()
    columns = ["position", "producerId", "baseOffset", "isTransactional", "isControl"]
    for batch in read_batches([partition], ["file", *columns], on_damage=ignore):
        values = (arrow.values(batch.column(name)) for name in columns)
        for position, producer_id, offset, is_transactional, is_control in zip(*values, strict=True):
            if is_transactional and not is_control:
                state = _state(spans.get(producer_id, []), offset)
                found.setdefault(batch.column("file")[0].as_py(), {})[position] = state
    return found


def _state(spans: list[tuple[int, int, TransactionState]], offset: int) -> TransactionState:
    """Return the state of the transaction that has an offset, among those of one producer, which follow one another."""
    at = bisect_right(spans, offset, key=lambda span: span[0])
    return spans[at - 1][2] if at and offset <= spans[at - 1][1] else "open"
