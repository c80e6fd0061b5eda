"""Plans an export to tables: what each says was exported, and the columns that its records need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from brokerless.findings import Finding, Kind
from brokerless.jobs.export.refusals import OF_TOPIC, Refusals, files_missing, for_topic
from brokerless.jobs.export.tasks import Export, ExportTask
from brokerless.log.directory import PartitionPath
from brokerless.log.ranges import Range
from brokerless.table_formats.catalog import TableFormat, table_name
from brokerless.table_formats.column_types import MAX_FIELDS, decoded_type, evolved_type, too_wide
from brokerless.table_formats.data_files import DataTarget
from brokerless.table_formats.export_state import ExportState, RefusedTopicError
from brokerless.table_formats.parquet_files import SCHEMA
from brokerless.table_formats.rows import table_schema
from brokerless.table_formats.store import TableStore
from brokerless.table_formats.types import AnotherExportError, TableState
from brokerless.tables.partition_tables import read_records
from brokerless.tables.read_options import ReadOptions
from brokerless.typed.registry import Registry
from brokerless.typed.resolve import resolve_topic
from brokerless.typed.schema_source import load_registry
from brokerless.typed.topic_type import Decoding, KnownColumn, SideType, TopicType


@dataclass(slots=True)
class PlannedTables:
    """The tables of an export, by topic."""

    store: TableStore
    states: dict[str, TableState | None] = field(default_factory=dict[str, "TableState | None"])
    """What each table that exists says; None for one that does not."""
    begun: dict[str, ExportState] = field(default_factory=dict[str, ExportState])
    """What each table is to say before this run's first commit."""
    schemas: dict[str, pa.Schema] = field(default_factory=dict[str, pa.Schema])
    """The columns that each table needs."""
    named_by: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = field(
        default_factory=dict[str, tuple[tuple[int, ...], tuple[int, ...]]]
    )
    """The schemas by which the columns of keys and of values are named then (see ``column_names``)."""
    names: dict[str, str] = field(default_factory=dict[str, str])
    targets: dict[str, DataTarget] = field(default_factory=dict[str, DataTarget])
    refusals: Refusals = field(default_factory=Refusals)

    def load(self, topic: str) -> ExportState | None:
        """Return what a topic's table says was exported. Raises :class:`RefusedTopicError` where another topic has its
        name, which for many engines and file systems is the same in upper and lower case."""
        other = self.names.setdefault(table_name(topic).casefold(), topic)
        if other != topic:
            raise RefusedTopicError(topic, same_table(other, topic))
        with for_topic(topic):
            self.states[topic] = found = self.store.load(topic)
        return None if found is None else found.state

    def missing(self) -> Iterator[Finding]:
        """Tables of which data files are gone."""
        there = [topic for topic, state in self.states.items() if state is not None]
        for topic in (each for each in there if each not in self.refusals.topics):
            gone: list[str] = []
            with self.refusals.refusing(topic, OF_TOPIC), for_topic(topic):
                gone = self.store.missing_files(topic)
            if gone:
                text = f"{len(gone)} data files that the table lists are not there ({gone[0]}), so that readers fail"
                elsewhere = "export to another directory or namespace"
                yield files_missing(self.store.describe(topic), text, elsewhere, is_table=True)

    def plan(
        self,
        tasks: Sequence[ExportTask],
        partitions: Sequence[PartitionPath],
        export: Export,
        topic_ids: dict[str, str | None],
    ) -> list[ExportTask]:
        """Return the tasks with the types that their topics' tables have, or get."""
        topics = list(dict.fromkeys(task.topic for task in tasks))
        readers = [each for each in partitions if each.topic in topics]
        decoding = export.decoding
        registry = None if decoding is None else load_registry(decoding.schemas, readers)
        planned: list[ExportTask] = []
        for topic in topics:
            own = [task for task in tasks if task.topic == topic]
            of_topic = [each for each in readers if each.topic == topic]
            with self.refusals.refusing(topic, OF_TOPIC):
                planned += self._plan_topic(topic_ids[topic], own, of_topic, export=export, registry=registry)
        return planned

    def _plan_topic(
        self,
        topic_id: str | None,
        own: list[ExportTask],
        readers: Sequence[PartitionPath],
        export: Export,
        registry: Registry | None,
    ) -> list[ExportTask]:
        topic, decoding, form = own[0].topic, export.decoding, _form(export)
        known = self.states[topic]
        self._check_columns(topic, known)
        state = ExportState(topic, topic_id, True, export.isolation, is_decoded=decoding is not None)
        state = state if known is None else known.state
        topic_type, records = None, SCHEMA
        if decoding is not None and registry is not None:
            topic_type = resolve_topic(
                topic, readers, _with_formats(decoding, state), registry, batches=_new_records(own, readers),
                known=None if known is None else _known(known),
            )  # fmt: skip
            state = _with_formats_found(state, decoding, topic_type)
            self.named_by[topic] = topic_type.key.named_by, topic_type.value.named_by
            topic_type = topic_type.with_nulls()
            records = topic_type.schema(SCHEMA)
        schema = table_schema(records, form)
        if known is not None:
            schema = _evolved(known.schema, schema, records, form)
        if topic_type is not None:
            wide = tuple(_too_wide(topic_type, self.store.describe(topic)))
            own[-1] = replace(own[-1], findings=(*own[-1].findings, *wide))
            topic_type = into_table(topic_type, schema, form)
            records = topic_type.schema(SCHEMA)
        self.begun[topic], self.schemas[topic] = state, schema
        target = DataTarget(form, topic, "", schema)  # where it is, is known when the table is there
        return [
            replace(task, topic_type=topic_type, layout=replace(task.layout, schema=records, table=target))
            for task in own
        ]

    def prepared(self, tasks: Sequence[ExportTask]) -> list[ExportTask]:
        """Makes or evolves the tables, and returns the tasks with the places that their files go to."""
        for topic, state in self.begun.items():
            with self.refusals.refusing(topic):
                target = self.store.prepare(state, self.schemas[topic])
                now = self.store.load(topic)
                if now is None or now.state != state:
                    raise AnotherExportError(f"{self.store.describe(topic)}: another export has been here meanwhile")
                self.targets[topic] = target
        return [
            replace(task, layout=replace(task.layout, directory=target.directory, table=target))
            for task in tasks
            for target in [self.targets.get(task.topic)]
            if target is not None
        ]

    def _check_columns(self, topic: str, known: TableState | None) -> None:
        lacking = [] if known is None else [name for name in ("key", "value") if name not in known.schema.names]
        if lacking:
            where = self.store.describe(topic)
            text = f"{where}: the table has no column {' and no column '.join(lacking)} any more"
            advice = "rename it back or add it again, or export to another directory or namespace"
            raise RefusedTopicError(topic, f"{text}; {advice}")


def same_table(other: str, topic: str) -> str:
    """Says why a topic is refused beside another one."""
    name = table_name(topic)
    shared = "" if name == table_name(other) else " but for upper and lower case, which many engines do not tell apart"
    return (
        f"the topics {other} and {topic} would have one table, {name}{shared}; export them one by one, each with a "
        "directory or namespace of its own"
    )


def _new_records(tasks: Sequence[ExportTask], readers: Sequence[PartitionPath]) -> Iterator[pa.RecordBatch]:
    """Yield what is exported now, to find the schemas that it names; damage is reported when the rows are read."""

    def ignore(_: Finding) -> None: ...

    for each in readers:
        starts = [task.start for task in tasks if task.partition == each.partition]
        if starts:
            limit, columns = tasks[0].export.max_batch_bytes, ["key", "value", "headers"]
            yield from read_records(
                [each], ReadOptions(columns, Range(min(starts)), max_batch_bytes=limit, on_damage=ignore)
            )


def _with_formats_found(state: ExportState, decoding: Decoding, found: TopicType) -> ExportState:
    """With the formats by which all runs decode, once there were records to find them by."""
    key = state.key_format or _format(decoding.key_format, found.key)
    value = state.value_format or _format(decoding.value_format, found.value)
    return replace(state, key_format=key, value_format=value)


def _known(table: TableState) -> dict[str, KnownColumn]:
    """Return the columns of a table, and by which schemas they were named."""
    named_by = {"key": table.state.keys_named_by, "value": table.state.values_named_by}
    return {name: KnownColumn(table.schema.field(name).type, own) for name, own in named_by.items()}


def _format(requested: str, found: SideType) -> str:
    return found.format if requested == "auto" else requested


def _with_formats(decoding: Decoding, state: ExportState) -> Decoding:
    """The formats that the table's first run found, in place of `auto`."""
    key = state.key_format if decoding.key_format == "auto" else decoding.key_format
    value = state.value_format if decoding.value_format == "auto" else decoding.value_format
    return replace(decoding, key_format=key or "auto", value_format=value or "auto")


def _form(export: Export) -> TableFormat:
    assert export.form != "parquet"
    return export.form


def _evolved(now: pa.Schema, wanted: pa.Schema, decoded: pa.Schema, form: TableFormat) -> pa.Schema:
    """The columns of records of a topic in its table, of which some may be other than they would be now (``wanted``).
    ``decoded``: the schema of the records."""
    fields: list[pa.Field] = []
    for each in wanted:
        type_: Any = each.type
        if each.name in now.names:
            own: Any = decoded.field(each.name).type if each.name in ("key", "value") else each.type
            type_ = evolved_type(now.field(each.name).type, own, form)
        fields.append(pa.field(each.name, type_))
    return pa.schema(fields)


def _too_wide(topic_type: TopicType, path: str) -> Iterator[Finding]:
    """A warning for each record that has more fields than a table gets columns."""
    for side, own in (("key", topic_type.key), ("value", topic_type.value)):
        for path_, count in too_wide(own.type, side):
            text = (
                f"{path_} has {count:,} fields, and a table gets {MAX_FIELDS:,} columns of one record at most: it is "
                "JSON text, or has its first columns alone where it had fewer at first"
            )
            yield Kind.TOO_MANY_FIELDS.at(path, text)


def into_table(topic_type: TopicType, schema: pa.Schema, form: TableFormat) -> TopicType:
    """Return the types to decode into, so that all values that were decoded fit into the table."""

    def side(own: SideType, name: str) -> SideType:
        return replace(own, type=decoded_type(schema.field(name).type, own.type, form))

    return replace(topic_type, key=side(topic_type.key, "key"), value=side(topic_type.value, "value"))
