"""What a topic's view reads: its records, with keys and values typed where the registry has the topic's schemas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from brokerless.dataset.pruning import Expression
from brokerless.dataset.table_dataset import TableDataset
from brokerless.dataset.tables import TableRows, Tables
from brokerless.errors import raise_errors
from brokerless.log.directory import PartitionPath
from brokerless.log.names import is_internal
from brokerless.log.storage import paths
from brokerless.progress import ignore
from brokerless.tables.partition_tables import read_records
from brokerless.tables.read_options import ReadOptions
from brokerless.typed.records import Failures, inner_columns
from brokerless.typed.resolve import WHOLE_BYTES, resolve_topic
from brokerless.typed.schema_source import TOPIC as SCHEMAS
from brokerless.typed.schema_source import load_registry
from brokerless.typed.topic_type import SCHEMA, Decoding, SideType, TopicType

_BYTES = SideType("bytes", pa.binary())
_FIRST = 1000
"""Records of each partition that show whether records name schemas at all."""


class TopicTypes:
    """The types of topics by the registry's schemas. Those with a subject of their name (``orders-key``,
    ``orders-value``) have its type at first. :meth:`look_at` finds the schemas that records name, which decide."""

    def __init__(self, tables: Tables) -> None:
        """Reads no records but those of ``_schemas``. Raises :class:`UnreadableError` for ``tables.schemas`` in which
        there are no schemas."""
        self._tables = tables
        self._registry = load_registry(tables.schemas, tables.partitions)
        self._unknown = {topic for topic in topics_of(tables) if not is_internal(topic) and topic != SCHEMAS}
        self._types: dict[str, TopicType] = {}
        self._reading = ReadOptions(max_batch_bytes=tables.max_batch_bytes, on_damage=ignore)
        decoding = Decoding(tables.schemas, scan="never")
        for topic in list(self._unknown):
            if any(self._registry.of_topic(topic, side)[1] for side in ("key", "value")):
                self._keep(topic, resolve_topic(topic, [], decoding, self._registry))
        self._has_subject = set(self._types)

    def get(self, topic: str) -> TopicType | None:
        """Return the type of a topic; None where keys and values are bytes, as far as is known."""
        return self._types.get(topic)

    def look_at(self, topic: str) -> bool:
        """Return whether the type is another one from now on, as records name schemas that the registry has. They are
        read once: all where the first ones of a partition name a schema, or (see ``auto`` of :class:`Decoding`) some
        where the topic has a subject of its name."""
        if topic not in self._unknown or not self._registry.by_id:
            return False
        self._unknown.discard(topic)
        tables = self._tables
        own = [each for each in tables.partitions if topic in (each.topic, lone_topic(tables))]
        is_likely = topic in self._has_subject
        formats = ["auto", "auto"]
        if is_likely and sum(each.size for each in own) > WHOLE_BYTES:  # what has no subject stays bytes
            formats = ["auto" if self._registry.of_topic(topic, side)[1] else "bytes" for side in ("key", "value")]
        decoding = Decoding(tables.schemas, *formats, scan="auto")
        if not is_likely:
            first = resolve_topic(topic, [], decoding, self._registry, batches=self._first(own))
            is_likely = any(use.schema is not None for side in (first.key, first.value) for use in side.schemas)
        if is_likely:
            found = resolve_topic(topic, own, decoding, self._registry, reading=self._reading)
            self._keep(topic, found)
        return is_likely

    def _first(self, partitions: Sequence[PartitionPath]) -> Iterator[pa.RecordBatch]:
        for each in partitions:
            yield from read_records([each], replace(self._reading, columns=["key", "value", "headers"], limit=_FIRST))

    def _keep(self, topic: str, found: TopicType) -> None:
        sides = [each if each.format == SCHEMA else _BYTES for each in (found.key, found.value)]
        self._types.pop(topic, None)
        if any(each.format == SCHEMA for each in sides):
            self._types[topic] = TopicType(topic, *sides)


def topics_of(tables: Tables) -> set[str]:
    """Return the topics of a log. A lone file in a partition's directory has the topic of that directory."""
    found = {each.topic for each in tables.partitions if each.topic is not None}
    lone = lone_topic(tables)
    return found if lone is None else {lone}


def lone_topic(tables: Tables) -> str | None:
    """Return the topic that the directory of a lone file is named for: its records have none."""
    if len(tables.partitions) != 1 or tables.partitions[0].topic is not None:
        return None
    named = paths.partition_above(tables.partitions[0].path)
    return None if named is None else named.topic


def topic_dataset(tables: Tables, topic: str, topic_type: TopicType | None) -> TableDataset:
    """Return the records of one topic, decoded where its type is known."""
    rows = TableRows(tables, "records", None if topic == lone_topic(tables) else topic)
    return TableDataset(rows if topic_type is None else TypedRows(rows, topic_type))


@dataclass(frozen=True)
class TypedRows:
    """Reads the records of one topic, and decodes them: :class:`brokerless.dataset.table_dataset.Rows`."""

    records: TableRows
    topic_type: TopicType

    @property
    def schema(self) -> pa.Schema:
        return self.topic_type.schema(self.records.schema)

    def read(self, columns: Sequence[str], filter: Expression | None) -> Iterator[pa.RecordBatch]:
        """Yield what could not be decoded is reported as warnings, after the rows."""
        failures = Failures()
        for batch in self.records.read(inner_columns(columns) or [], filter, self.schema):
            yield failures.decode(self.topic_type, batch).select(list(columns))
            del batch
        report = self.records.tables.on_damage or raise_errors
        for finding in failures.findings(self.topic_type.topic or ""):
            report(finding)
