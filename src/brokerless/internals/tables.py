"""Kafka's internal topics as tables: their current state, and their history.

>>> import brokerless
>>> from brokerless import internals
>>> tables = internals.state(brokerless.open("/var/lib/kafka").partitions)
>>> tables["offsets"].num_rows
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from operator import itemgetter
from typing import Any

import pyarrow as pa

from brokerless.errors import UsageError, raise_errors
from brokerless.internals.connect import rows as connect
from brokerless.internals.connect.topics import TABLES as CONNECT
from brokerless.internals.connect.topics import table_of_topic
from brokerless.internals.entries import RawRecord, decode_entry, internal_topic, last_by_key, read_entries
from brokerless.internals.groups.state import group_rows
from brokerless.internals.metadata.cluster import cluster_rows, read_cluster
from brokerless.internals.records import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    REMOTE_LOG_METADATA,
    TOPICS,
    TRANSACTION_STATE,
    InternalRecord,
)
from brokerless.internals.remote.segment_metadata import read_remote_metadata, segment_rows
from brokerless.internals.schemas import HISTORY, STATE
from brokerless.internals.transactional_ids import transactional_id_rows
from brokerless.tables.partition_reader import OnDamage, PartitionReader

Row = dict[str, Any]

_GROUPS = ("offsets", "groups", "members")
CLUSTER = STATE.keys() - {*_GROUPS, "transactionalIds", "remoteSegments", *CONNECT}
_TABLES: dict[str, Collection[str]] = {
    CONSUMER_OFFSETS: _GROUPS,
    TRANSACTION_STATE: ("transactionalIds",),
    REMOTE_LOG_METADATA: ("remoteSegments",),
    CLUSTER_METADATA: CLUSTER,
}
"""Those of Kafka's own topics."""

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


def state(
    partitions: Iterable[PartitionReader],
    tables: Collection[str] = tuple(STATE),
    *,
    topics: Mapping[str, str] | None = None,
    max_batch_bytes: int | None = None,
    on_damage: OnDamage | None = None,
) -> dict[str, pa.Table]:
    """Return what the internal topics among some partitions say now: the selected ``tables``, by name; their schemas
    are :data:`schemas.STATE`.

    Give the partitions of one broker, or one replica of each: what is in two of them is in the tables twice.
    ``on_damage`` is called with each :class:`Finding`, and reading goes on; without it, the first error is raised as
    :class:`DamageError`. Records of an unknown type or version are warnings, and change nothing. Raises
    :class:`UsageError` for a table that there is not. ``max_batch_bytes``: what one batch may inflate to (128 MiB).
    ``topics``: the tables of topics of MirrorMaker and Kafka Connect that have names of their own, such as
    ``{"heartbeats": "mirrorHeartbeats"}``.
    """
    _check_tables(tables)
    _check_given(topics)
    rows = state_rows(partitions, tables, on_damage or raise_errors, max_batch_bytes=max_batch_bytes, given=topics)
    return {name: _table(of_table, STATE[name]) for name, of_table in rows.items()}


def _check_tables(tables: Collection[str]) -> None:
    unknown = sorted(set(tables) - STATE.keys())
    if unknown:
        raise UsageError(f"there is no table {unknown[0]!r}; there are {', '.join(STATE)}")


def _check_given(topics: Mapping[str, str] | None) -> None:
    unknown = sorted(set((topics or {}).values()) - set(CONNECT))
    if unknown:
        raise UsageError(f"no topic makes a table {unknown[0]!r}; those that can be given are {', '.join(CONNECT)}")


def history(
    partitions: Iterable[PartitionReader],
    tables: Collection[str] | None = None,
    *,
    topics: Mapping[str, str] | None = None,
    max_batch_bytes: int | None = None,
    on_damage: OnDamage | None = None,
) -> Iterator[pa.RecordBatch]:
    """Each record of the internal topics among some partitions, in the order of their logs, decoded (schema
    :data:`schemas.HISTORY`); with ``tables``, only of topics whose records add up to one of these. Control records,
    and what is only in a KRaft snapshot, are left out.

    ``topics``, ``max_batch_bytes`` and ``on_damage`` as in :func:`state`; a record that cannot be decoded is
    given as bytes.
    """
    _check_tables(tables or ())
    _check_given(topics)
    if tables is not None:
        partitions = partitions_of(partitions, tables, topics)
    rows = history_rows(partitions, on_damage or raise_errors, max_batch_bytes, topics)
    while part := list(islice(rows, _ROWS)):
        yield pa.RecordBatch.from_pylist([_history_columns(row) for row in part], HISTORY)


def state_rows(
    partitions: Iterable[PartitionReader],
    tables: Collection[str],
    on_damage: OnDamage,
    max_batch_bytes: int | None = None,
    given: Mapping[str, str] | None = None,
) -> dict[str, list[Row]]:
    """The rows of :func:`state`, timestamps in ms. Topics that no table is made of are not read."""
    rows: dict[str, list[Row]] = {name: [] for name in STATE if name in tables}
    for partition in partitions:
        for name, found in _partition_rows(
            partition, rows.keys(), on_damage, max_batch_bytes=max_batch_bytes, given=given
        ).items():
            if name in rows:
                rows[name] += ({column: row.get(column) for column in STATE[name].names} for row in found)
    for name in rows.keys() & _SORTED.keys():
        rows[name].sort(key=itemgetter(*_SORTED[name]))
    return rows


def partitions_of(
    partitions: Iterable[PartitionReader], tables: Collection[str], given: Mapping[str, str] | None = None
) -> Iterator[PartitionReader]:
    """Yields the partitions whose records add up to one of some tables. ``given``: as ``topics`` of :func:`state`."""
    for each in partitions:
        topic = internal_topic(each, given)
        table = None if topic in TOPICS else table_of_topic(topic, given)
        if not set(_TABLES.get(topic or "", (table,))).isdisjoint(tables):
            yield each


def _partition_rows(
    partition: PartitionReader,
    tables: Collection[str],
    on_damage: OnDamage,
    max_batch_bytes: int | None,
    given: Mapping[str, str] | None,
) -> dict[str, list[Row]]:
    topic = internal_topic(partition, given)
    if topic == CONSUMER_OFFSETS and not set(_GROUPS).isdisjoint(tables):
        return group_rows(_last_records(partition, topic, on_damage, max_batch_bytes))
    if topic == TRANSACTION_STATE and "transactionalIds" in tables:
        records = _last_records(partition, topic, on_damage, max_batch_bytes)
        return {"transactionalIds": transactional_id_rows(records)}
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
    partition: PartitionReader,
    topic: str,
    on_damage: OnDamage,
    max_batch_bytes: int | None,
    given: Mapping[str, str] | None = None,
) -> Iterator[tuple[RawRecord, InternalRecord]]:
    for entry in last_by_key(partition, topic, on_damage, max_batch_bytes):
        yield entry, decode_entry(entry, topic, on_damage, given)


def history_rows(
    partitions: Iterable[PartitionReader],
    on_damage: OnDamage,
    max_batch_bytes: int | None = None,
    given: Mapping[str, str] | None = None,
) -> Iterator[Row]:
    """The rows of :func:`history`, timestamps in ms; ``key`` and ``payload`` are what was decoded, or else bytes."""
    for partition in partitions:
        topic = internal_topic(partition, given)
        if topic is None:
            continue
        for entry in read_entries(partition, topic, on_damage, max_batch_bytes=max_batch_bytes):
            record = decode_entry(entry, topic, on_damage, given)
            yield {
                "topic": topic,
                "partition": partition.partition,
                "offset": entry.offset,
                "timestamp": entry.timestamp,
                "type": record.type,
                "key": entry.key if record.key is None else record.key,
                "payload": entry.value if record.payload is None else record.payload,
                "transaction": entry.transaction,
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
