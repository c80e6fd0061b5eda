"""What a topic's view reads: its records, with keys and values typed where the registry has the topic's schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from brokerless.dataset.pruning import Expression
from brokerless.dataset.table_dataset import TableDataset
from brokerless.dataset.tables import TableRows, Tables
from brokerless.errors import raise_errors
from brokerless.log.names import is_internal
from brokerless.typed.records import Failures, inner_columns
from brokerless.typed.resolve import resolve_topic
from brokerless.typed.schema_source import load_registry
from brokerless.typed.topic_type import SCHEMA, Decoding, TopicType


def typed_topics(tables: Tables) -> Mapping[str, TopicType]:
    """The topics with a subject of their name (``orders-key``, ``orders-value``) in the registry, and their types by
    all versions; no records but those of ``_schemas`` are read. Raises :class:`UnreadableError` for ``tables.schemas``
    in which there are none."""
    registry = load_registry(tables.schemas, tables.partitions, tables.storage_options)
    found: dict[str, TopicType] = {}
    decoding = Decoding(tables.schemas, scan="never")
    for topic in {each.topic for each in tables.partitions if each.topic is not None and not is_internal(each.topic)}:
        if registry.of_topic(topic, "key")[1] or registry.of_topic(topic, "value")[1]:
            found[topic] = resolve_topic(topic, [], decoding, registry)
    return {topic: each for topic, each in found.items() if SCHEMA in (each.key.format, each.value.format)}


def topic_dataset(tables: Tables, topic: str, types: Mapping[str, TopicType]) -> TableDataset:
    """The records of one topic, decoded where ``types`` has it."""
    rows = TableRows(tables, "records", topic)
    return TableDataset(TypedRows(rows, types[topic]) if topic in types else rows)


@dataclass(frozen=True)
class TypedRows:
    """Reads the records of one topic, and decodes them: :class:`brokerless.dataset.table_dataset.Rows`."""

    records: TableRows
    topic_type: TopicType

    @property
    def schema(self) -> pa.Schema:
        return self.topic_type.schema(self.records.schema)

    def read(self, columns: Sequence[str], filter: Expression | None) -> Iterator[pa.RecordBatch]:
        """What could not be decoded is reported as warnings, after the rows."""
        failures = Failures()
        for batch in self.records.read(inner_columns(columns) or [], filter, self.schema):
            yield failures.decode(self.topic_type, batch).select(list(columns))
            del batch
        report = self.records.tables.on_damage or raise_errors
        for finding in failures.findings(self.topic_type.topic or ""):
            report(finding)
