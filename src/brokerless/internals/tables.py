"""Kafka's internal topics as tables: their current state, and their history.

>>> import brokerless
>>> from brokerless import internals
>>> tables = internals.state(brokerless.open("/var/lib/kafka").partitions)
>>> tables["offsets"].num_rows
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Any, Protocol

import pyarrow as pa

from brokerless.errors import UsageError, raise_errors
from brokerless.internals.connect import rows as connect
from brokerless.internals.connect.topics import TABLES as CONNECT
from brokerless.internals.connect.topics import table_of_topic
from brokerless.internals.coordinators import (
    NAMES,
    Entry,
    counts_beside,
    load_entries,
    name_of,
    partition_of,
)
from brokerless.internals.entries import RawRecord, decode_entry, internal_topic, last_by_key, read_entries
from brokerless.internals.groups.lag import TABLE as LAG_TABLE
from brokerless.internals.groups.lag import read_lag
from brokerless.internals.groups.state import group_rows
from brokerless.internals.metadata.cluster import cluster_rows, read_cluster
from brokerless.internals.records import CONSUMER_OFFSETS, TOPICS, TRANSACTION_STATE, InternalRecord
from brokerless.internals.remote.segment_metadata import read_remote_metadata, segment_rows
from brokerless.internals.schemas import HISTORY, LAG, STATE
from brokerless.internals.transactional_ids import transactional_id_rows
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.names import CLUSTER_METADATA, REMOTE_LOG_METADATA
from brokerless.log.storage.paths import partition_above
from brokerless.progress import Report
from brokerless.values import Row

_GROUPS = ("offsets", "groups", "members")
CLUSTER = STATE.keys() - {*_GROUPS, "transactionalIds", "remoteSegments", *CONNECT}
_TABLES: dict[str, Collection[str]] = {
    CONSUMER_OFFSETS: _GROUPS,
    TRANSACTION_STATE: ("transactionalIds",),
    REMOTE_LOG_METADATA: ("remoteSegments",),
    CLUSTER_METADATA: CLUSTER,
}
"""Those of Kafka's own topics."""
_COORDINATED = (CONSUMER_OFFSETS, TRANSACTION_STATE)

_ROWS = 4096
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_SORTED = {
    "offsets": ("group", "topic", "partition"),
    "groups": ("group",),
    "members": ("group", "memberId"),
    "transactionalIds": ("transactionalId",),
    "remoteSegments": ("topic", "topicId", "partition", "startOffset", "startTimestamp"),
    **connect.SORTED,
}
"""Tables of topics with several partitions, and what they are sorted by."""


class HasPaths(Protocol):
    """A log that has partitions, such as what :func:`brokerless.open` returns."""

    @property
    def paths(self) -> Sequence[PartitionPath]: ...

    @property
    def directory(self) -> LogDirectory: ...


def _paths_of(logs: HasPaths | Iterable[HasPaths | PartitionPath]) -> list[PartitionPath]:
    """Return the partitions of a log, or of several."""
    listed: Any = [logs] if hasattr(logs, "paths") else logs
    return [path for each in listed for path in ([each] if isinstance(each, PartitionPath) else each.paths)]


def state(
    logs: HasPaths | Iterable[HasPaths | PartitionPath],
    tables: Collection[str] = tuple(STATE),
    *,
    topics: Mapping[str, str] | None = None,
    max_batch_bytes: int | None = None,
    on_damage: Report | None = None,
) -> dict[str, pa.Table]:
    """Read the current state of the internal topics of a log, or of several.

    Give the log of one broker, or one replica of each partition: rows of two replicas are in the tables twice. Groups
    and transactional ids are those that a coordinator of Kafka 4 loads. Their records in other partitions, from when a
    topic had fewer, are findings, and are in :func:`history`.

    Parameters
    ----------
    logs
        A log, several, or partitions.
    tables
        Names of tables. ``lag`` reads the ends of all logs among the partitions.
    topics
        The tables of topics of MirrorMaker and Kafka Connect that have names of their own, such as
        ``{"heartbeats": "mirrorHeartbeats"}``.
    max_batch_bytes
        Bytes that one batch may inflate to (128 MiB).
    on_damage
        Called with each :class:`Finding`, and reading goes on; without it, the first error is raised. Records of an
        unknown type or version are warnings, and are left out.

    Returns
    -------
    dict of str to pyarrow.Table
        The tables, by name. Schemas are :data:`schemas.STATE`, and :data:`schemas.LAG` of ``lag``.

    Raises
    ------
    UsageError
        For an unknown table.
    DamageError
        For the first error, without ``on_damage``.
    """
    _check_tables(tables)
    _check_given(topics)
    report = on_damage or raise_errors
    partitions = _paths_of(logs)
    rows = state_rows(partitions, tables, report, max_batch_bytes=max_batch_bytes, given=topics)
    found = {name: _table(of_table, STATE[name]) for name, of_table in rows.items()}
    if LAG_TABLE in tables:
        directory: LogDirectory | None = getattr(logs, "directory", None)
        others = partitions if directory is None else directory.partitions
        found[LAG_TABLE] = _table(lag_state_rows(partitions, others, report, max_batch_bytes), LAG)
    return found


def lag_state_rows(
    partitions: Sequence[PartitionPath],
    others: Sequence[PartitionPath],
    on_damage: Report,
    max_batch_bytes: int | None = None,
) -> list[Row]:
    """Return the rows of the table ``lag`` of some partitions, timestamps in ms; ``others``: those of the log
    directory."""

    def offsets(own: list[PartitionPath]) -> list[Row]:
        return state_rows(own, ["offsets"], on_damage, max_batch_bytes)["offsets"]

    return read_lag(partitions, others, offsets, on_damage)


def _check_tables(tables: Collection[str]) -> None:
    unknown = sorted(set(tables) - STATE.keys() - {LAG_TABLE})
    if unknown:
        raise UsageError(f"there is no table {unknown[0]!r}; there are {', '.join((*STATE, LAG_TABLE))}")


def _check_given(topics: Mapping[str, str] | None) -> None:
    unknown = sorted(set((topics or {}).values()) - set(CONNECT))
    if unknown:
        raise UsageError(f"no topic makes a table {unknown[0]!r}; those that can be given are {', '.join(CONNECT)}")


def history(
    logs: HasPaths | Iterable[HasPaths | PartitionPath],
    tables: Collection[str] | None = None,
    *,
    topics: Mapping[str, str] | None = None,
    max_batch_bytes: int | None = None,
    on_damage: Report | None = None,
) -> pa.RecordBatchReader:
    """Read every record of the internal topics of a log, or of several, decoded, in the order of their logs.

    Control records are left out, and so is what only a KRaft snapshot has.

    Parameters
    ----------
    logs
        A log, several, or partitions.
    tables
        Only topics from which :func:`state` makes these tables.
    topics, max_batch_bytes, on_damage
        As for :func:`state`.

    Returns
    -------
    pyarrow.RecordBatchReader
        Schema :data:`schemas.HISTORY`. A record that cannot be decoded is bytes.

    Raises
    ------
    UsageError
        For an unknown table.
    DamageError
        While reading, for the first error, without ``on_damage``.
    """
    _check_tables(tables or ())
    _check_given(topics)
    partitions: Iterable[PartitionPath] = _paths_of(logs)
    if tables is not None:
        partitions = partitions_of(partitions, tables, topics)
    rows = history_rows(partitions, on_damage or raise_errors, max_batch_bytes, topics)
    parts = iter(lambda: [_history_columns(row) for row in islice(rows, _ROWS)], [])
    return pa.RecordBatchReader.from_batches(HISTORY, (pa.RecordBatch.from_pylist(each, HISTORY) for each in parts))


def state_rows(
    partitions: Iterable[PartitionPath],
    tables: Collection[str],
    on_damage: Report,
    max_batch_bytes: int | None = None,
    given: Mapping[str, str] | None = None,
    counts: Mapping[str, int] | None = None,
) -> dict[str, list[Row]]:
    """Return the rows of :func:`state`, timestamps in ms. Topics that no table is made of are not read. ``counts``: how
    many partitions coordinators' topics have (:func:`coordinators.partition_counts`); without it, as the metadata in
    the partitions' log directories has it."""
    rows: dict[str, list[Row]] = {name: [] for name in STATE if name in tables}
    coordinated: dict[str, _Coordinated] = {}
    for partition in partitions:
        topic = internal_topic(partition, given)
        if topic in _COORDINATED and not set(_TABLES[topic]).isdisjoint(rows):
            coordinated.setdefault(topic, _Coordinated()).read(partition, topic, on_damage, max_batch_bytes)
            continue
        for name, found in _partition_rows(
            partition, topic, rows.keys(), on_damage, max_batch_bytes=max_batch_bytes, given=given
        ).items():
            if name in rows:
                rows[name] += ({column: row.get(column) for column in STATE[name].names} for row in found)
    for topic, found in coordinated.items():
        for name, row in found.rows(topic, counts, on_damage):
            if name in rows:
                rows[name].append({column: row.get(column) for column in STATE[name].names})
    for name in rows.keys() & _SORTED.keys():
        rows[name].sort(key=itemgetter(*_SORTED[name]))
    return rows


@dataclass(slots=True)
class _Coordinated:
    """What the partitions of a coordinators' topic have: rows with their tables' names, by group or transactional
    id."""

    entries: list[Entry[tuple[str, Row]]] = dataclasses.field(default_factory=list[Entry[tuple[str, Row]]])
    partitions: dict[int, PartitionPath] = dataclasses.field(default_factory=dict[int, PartitionPath])

    def read(self, partition: PartitionPath, topic: str, on_damage: Report, max_batch_bytes: int | None) -> None:
        """Add what a partition has."""
        number = _number_of(partition)
        self.partitions[number] = partition
        newest: dict[str, int] = {}
        records: list[tuple[RawRecord, InternalRecord]] = []
        for entry, record in _last_records(partition, topic, on_damage, max_batch_bytes):
            records.append((entry, record))
            name = name_of(topic, record.key_data)
            if name is not None:
                newest[name] = max(newest.get(name, entry.timestamp), entry.timestamp)
        of_tables = group_rows(records) if topic == CONSUMER_OFFSETS else {}
        if topic == TRANSACTION_STATE:
            of_tables = {"transactionalIds": transactional_id_rows(records)}
        for table, rows in of_tables.items():
            for row in rows:
                name = row["transactionalId" if topic == TRANSACTION_STATE else "group"]
                self.entries.append(Entry(name, number, newest[name], (table, row)))

    def rows(self, topic: str, counts: Mapping[str, int] | None, on_damage: Report) -> Iterator[tuple[str, Row]]:
        """Yield the rows that coordinators load, with the names of their tables; others are reported."""
        loaded, count, moved = load_entries(topic, self.entries, self.partitions, counts)
        for each in loaded:
            table, row = each.value
            yield table, {**row, "sourcePartition": each.partition, "isCurrent": None if count is None else True}
        for finding in moved:
            on_damage(finding)


def _number_of(partition: PartitionPath) -> int:
    """Return a partition's number, of a lone file that of its directory; 0 where neither is known."""
    if partition.partition is not None:
        return partition.partition
    named = partition_above(partition.path)
    return 0 if named is None else named.partition


def partitions_of(
    partitions: Iterable[PartitionPath], tables: Collection[str], given: Mapping[str, str] | None = None
) -> Iterator[PartitionPath]:
    """Yields the partitions whose records add up to one of some tables. ``given``: as ``topics`` of :func:`state`."""
    for each in partitions:
        topic = internal_topic(each, given)
        table = None if topic in TOPICS else table_of_topic(topic, given)
        if not set(_TABLES.get(topic or "", (table,))).isdisjoint(tables):
            yield each


def _partition_rows(
    partition: PartitionPath,
    topic: str | None,
    tables: Collection[str],
    on_damage: Report,
    max_batch_bytes: int | None,
    given: Mapping[str, str] | None,
) -> dict[str, list[Row]]:
    if topic == REMOTE_LOG_METADATA and "remoteSegments" in tables:
        return {"remoteSegments": segment_rows(read_remote_metadata([partition], on_damage, max_batch_bytes))}
    if topic == CLUSTER_METADATA and not CLUSTER.isdisjoint(tables):
        return cluster_rows(read_cluster(partition, on_damage, max_batch_bytes=max_batch_bytes))
    table = None if topic in TOPICS else table_of_topic(topic, given)
    if topic is not None and table is not None and table in tables:
        records = _last_records(partition, topic, on_damage, max_batch_bytes=max_batch_bytes, given=given)
        found = ((entry.offset, entry.timestamp, record) for entry, record in records)
        return {table: connect.connect_rows(table, topic, found)}
    return {}


def _last_records(
    partition: PartitionPath,
    topic: str,
    on_damage: Report,
    max_batch_bytes: int | None,
    given: Mapping[str, str] | None = None,
) -> Iterator[tuple[RawRecord, InternalRecord]]:
    for entry in last_by_key(partition, topic, on_damage, max_batch_bytes):
        yield entry, decode_entry(entry, topic, on_damage, given)


def history_rows(
    partitions: Iterable[PartitionPath],
    on_damage: Report,
    max_batch_bytes: int | None = None,
    given: Mapping[str, str] | None = None,
) -> Iterator[Row]:
    """Yield the rows of :func:`history`, timestamps in ms; ``key`` and ``payload`` are what was decoded, or else
    bytes."""
    for partition in partitions:
        topic = internal_topic(partition, given)
        if topic is None:
            continue
        count = counts_beside([partition]).get(topic) if topic in NAMES else None
        for entry in read_entries(partition, topic, on_damage, max_batch_bytes=max_batch_bytes):
            record = decode_entry(entry, topic, on_damage, given)
            name = None if count is None else name_of(topic, record.key_data)
            yield {
                "topic": topic,
                "partition": partition.partition,
                "offset": entry.offset,
                "timestamp": entry.timestamp,
                "type": record.type,
                "key": entry.key if record.key is None else record.key,
                "payload": entry.value if record.payload is None else record.payload,
                "transaction": entry.transaction,
                "isCurrent": None
                if name is None or count is None
                else partition_of(name, count) == _number_of(partition),
                "file": entry.file,
                "batchPosition": entry.position,
            }


def _history_columns(row: Row) -> Row:
    columns = dict(row)
    for name in ("key", "payload"):
        is_bytes = isinstance(row[name], bytes)
        columns[name] = None if is_bytes or row[name] is None else _JSON.encode(row[name])
        columns[f"{name}Bytes"] = row[name] if is_bytes else None
    return columns


def _table(rows: list[Row], schema: pa.Schema) -> pa.Table:
    for field in schema:
        if pa.types.is_floating(field.type):  # JSON has names for numbers such as NaN
            rows = [{**row, field.name: float(row[field.name])} for row in rows]
    return pa.Table.from_pylist(rows, schema)
