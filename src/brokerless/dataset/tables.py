"""The tables of a log as Arrow datasets, and what a filter leaves to read of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

import pyarrow as pa
import pyarrow.dataset as ds

from brokerless.arrow import table_of
from brokerless.bounds import MAX_INT64, MIN_INT64
from brokerless.dataset.parallel import read_all
from brokerless.dataset.pruning import (
    Expression,
    Interval,
    columns_of,
    known_values,
    possible,
    possible_ranges,
    required_values,
)
from brokerless.dataset.table_dataset import TableDataset
from brokerless.errors import UsageError, raise_errors
from brokerless.findings import Finding
from brokerless.internals.schemas import LAG, STATE
from brokerless.jobs.report.schemas import FIGURES
from brokerless.jobs.run.job import values_or_raise
from brokerless.jobs.run.types import ALONE
from brokerless.kafka_names import Isolation, check_isolation
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.names import is_internal
from brokerless.log.ranges import Range
from brokerless.ordered_threads import processors
from brokerless.progress import Report, ignore
from brokerless.requests.reading import TableName
from brokerless.schemas import BATCHES, NAME, RECORDS, SEGMENTS, TIMESTAMP, TRANSACTIONS
from brokerless.tables.partition_tables import read_batches, read_records, read_transactions, segment_rows
from brokerless.tables.read_options import ReadOptions
from brokerless.tables.record_filter import RecordFilter

TABLES: tuple[TableName, ...] = get_args(TableName)

TOPICS = pa.schema(
    [
        pa.field("topic", NAME),
        pa.field("isInternal", pa.bool_(), nullable=False),
        pa.field("partitions", pa.int64(), nullable=False),
        pa.field("segments", pa.int64(), nullable=False),
        pa.field("sizeInBytes", pa.int64(), nullable=False),
        pa.field("batches", pa.int64(), nullable=False),
        pa.field("records", pa.int64()),
        pa.field("minTimestamp", TIMESTAMP),
        pa.field("maxTimestamp", TIMESTAMP),
    ]
)
"""One row for each topic; sizes are those of the log files. ``batches``, ``records`` and the timestamps are added up
from :data:`brokerless.schemas.SEGMENTS`, and headers are read only where one of them is requested."""

SCHEMAS: dict[TableName, pa.Schema] = {
    "records": RECORDS,
    "batches": BATCHES,
    "segments": SEGMENTS,
    "transactions": TRANSACTIONS,
    "groups": STATE["groups"],
    "offsets": STATE["offsets"],
    "lag": LAG,
    "topics": TOPICS,
    "findings": FIGURES["findings"],
    "mirrorOffsetSyncs": STATE["mirrorOffsetSyncs"],
    "mirrorCheckpoints": STATE["mirrorCheckpoints"],
    "connectOffsets": STATE["connectOffsets"],
    "connectConfigs": STATE["connectConfigs"],
    "connectStatus": STATE["connectStatus"],
}

_PLACE = ("topic", "partition")
_BY_NAME = {"topic", "isInternal", "partitions", "segments", "sizeInBytes"}
_MANY_BYTES = 32 << 20
"""From here on, partitions are read at the same time."""
_FEW_PARTITIONS = 16
"""Up to so many, each has ranges of its own."""


@dataclass(frozen=True)
class Tables:
    """What the tables of a log are read from, and how: as in :meth:`Log.dataset`."""

    directory: LogDirectory
    partitions: tuple[PartitionPath, ...]
    isolation: Isolation = "read_uncommitted"
    control: bool = False
    max_batch_bytes: int | None = None
    on_damage: Report | None = None
    schemas: str | None = None
    """Where the schemas of topics' views are (SQL); None for the topic ``_schemas`` beside the logs, if any."""
    prune: bool = True

    def __post_init__(self) -> None:
        """Raise :class:`UsageError` for what is no isolation level."""
        check_isolation(self.isolation)

    def dataset(self, table: str, topic: str | None = None) -> TableDataset:
        """One table, or one topic's part of it. Raises :class:`UsageError` for an unknown table."""
        if table not in SCHEMAS:
            raise UsageError(f"there is no table {table!r}; there are {', '.join(TABLES)}")
        return TableDataset(TableRows(self, table, topic))


@dataclass(frozen=True)
class TableRows:
    """Reads one table, or one topic's part of it: :class:`brokerless.dataset.table_dataset.Rows`."""

    tables: Tables
    table: TableName
    topic: str | None = None

    @property
    def schema(self) -> pa.Schema:
        return SCHEMAS[self.table]

    def read(
        self, columns: Sequence[str], filter: Expression | None, of_filter: pa.Schema | None = None
    ) -> Iterator[pa.RecordBatch]:
        """``of_filter``: the schema that the filter is of, where that is not the table's."""
        tables, schema = self.tables, of_filter or self.schema
        partitions = [each for each in tables.partitions if self.topic is None or each.topic == self.topic]
        report = once(tables.on_damage or raise_errors)
        match self.table:
            case "records":
                chosen = _selected(partitions, filter, schema)
                yield from _records(tables, chosen, columns, filter=filter, schema=schema, report=report)
            case "batches":
                chosen = _selected(partitions, filter, schema)
                yield from _batches(tables, chosen, columns, report)
            case "segments":
                rows = _segment_rows(_selected(partitions, filter, schema), tables, report)
                yield from table_of(list(rows), schema).select(columns).to_batches()
            case "transactions":
                for each in _selected(partitions, filter, schema):
                    yield from read_transactions(each, report).select(columns).to_batches()
            case "topics":
                yield from _topics(tables, _selected(partitions, filter, schema), columns, report)
            case "findings":
                yield from _findings(tables).select(columns).to_batches()
            case _:
                from brokerless.internals.tables import state

                found = state(partitions, [self.table], max_batch_bytes=tables.max_batch_bytes, on_damage=report)
                yield from found[self.table].select(columns).to_batches()


def once(report: Report) -> Report:
    """Reports each finding once, although ranges of one file may meet it several times."""
    seen = set[tuple[str, str, int | None, int | None]]()

    def report_once(finding: Finding) -> None:
        key = (finding.kind, finding.file, finding.position, finding.offset)
        if key not in seen:
            seen.add(key)
            report(finding)

    return report_once


def _selected(partitions: Sequence[PartitionPath], filter: Expression | None, schema: pa.Schema) -> list[PartitionPath]:
    """The partitions of which a row may pass the filter."""
    names = [] if filter is None else [each for each in columns_of([filter], schema) if each in _PLACE]
    if not names:
        return list(partitions)
    known = [known_values({name: getattr(each, name) for name in names}, schema) for each in partitions]
    return [partitions[i] for i in possible(filter, schema, known)] if known else []


@dataclass(frozen=True, slots=True)
class _PartitionPart:
    """What is read of a partition: ranges of offsets, in order."""

    partition: PartitionPath
    ranges: list[Interval]
    size: int


def _records(
    tables: Tables,
    partitions: Sequence[PartitionPath],
    columns: Sequence[str],
    filter: Expression | None,
    schema: pa.Schema,
    report: Report,
) -> Iterator[pa.RecordBatch]:
    start, end = MIN_INT64, MAX_INT64
    named = [] if filter is None else columns_of([filter], schema)
    if "timestamp" in named and not _holds_without_time(filter, schema):
        times = possible_ranges(filter, schema, "timestamp")
        if not times:
            return
        start, end = times[0][0], times[-1][1]
    values = {} if tables.control else _required_values(filter, schema, named)
    if not all(values.values()):
        return
    parts = [_PartitionPart(each, [(MIN_INT64, MAX_INT64)], each.size) for each in partitions]
    if "offset" in named:
        parts = list(_narrowed(partitions, filter, schema, named))

    threads = processors() if sum(each.size for each in parts) >= _MANY_BYTES else 1

    def read(part: _PartitionPart) -> Iterator[pa.RecordBatch]:
        selected = _filter_of(values)
        for first, last in part.ranges:
            yield from read_records(
                [part.partition],
                ReadOptions(
                    columns=columns,
                    range=Range(_start(first), _end(last), _start(start), _end(end), prune=tables.prune),
                    isolation=tables.isolation,
                    control=tables.control,
                    filter=selected,
                    max_batch_bytes=tables.max_batch_bytes,
                    on_damage=report,
                    jobs=max(1, threads // len(parts)),
                ),
            )

    yield from read_all([partial(read, each) for each in parts], threads)


def _holds_without_time(filter: Expression, schema: pa.Schema) -> bool:
    """Return whether the filter can be true where there is no timestamp, as in SQL for those that DuckDB has no value
    for."""
    return bool(possible(filter, schema, [ds.field("timestamp").is_null()]))


def _required_values(filter: Expression | None, schema: pa.Schema, named: Sequence[str]) -> dict[str, list[bytes]]:
    """The bytes that keys or values of all selected records have, where the filter says so."""
    found: dict[str, list[bytes]] = {}
    for name in ("key", "value"):
        if name in named and schema.field(name).type == RECORDS.field(name).type:
            values = required_values(filter, schema, name)
            if values is not None:
                found[name] = values
    return found


def _filter_of(values: Mapping[str, Sequence[bytes]]) -> RecordFilter | None:
    """Selects records that may have some keys or values, so that batches without them are not decoded."""
    keys, texts = values.get("key"), [each for each in values.get("value", ()) if each]
    grep = texts[0] if len(texts) == len(values.get("value", ())) == 1 else None
    return None if keys is None and grep is None else RecordFilter(keys=keys, grep=grep)


def _start(first: int) -> int | None:
    return None if first == MIN_INT64 else first


def _end(last: int) -> int | None:
    return None if last == MAX_INT64 else last + 1


def _narrowed(
    partitions: Sequence[PartitionPath], filter: Expression, schema: pa.Schema, named: Sequence[str]
) -> Iterator[_PartitionPart]:
    """The ranges of offsets to read of each partition that may have some."""
    places = [name for name in named if name in _PLACE]
    by_place = bool(places) and len(partitions) <= _FEW_PARTITIONS
    common = [] if by_place else possible_ranges(filter, schema, "offset")
    for each in partitions:
        also = known_values({name: getattr(each, name) for name in places}, schema) if by_place else None
        ranges = possible_ranges(filter, schema, "offset", also) if by_place else common
        sizes = dict[int, int]()
        for first, last in ranges:
            found = Range(_start(first), _end(last)).segments(each.segments)
            sizes.update({segment.base_offset: segment.size for segment in found})
        if sizes:
            yield _PartitionPart(each, ranges, sum(sizes.values()))


def _batches(
    tables: Tables, partitions: Sequence[PartitionPath], columns: Sequence[str], report: Report
) -> Iterator[pa.RecordBatch]:
    def read(partition: PartitionPath) -> Iterator[pa.RecordBatch]:
        return iter(read_batches([partition], columns, tables.max_batch_bytes, on_damage=report, done=ignore))

    reads_all = "isValid" in columns
    is_much = reads_all and sum(each.size for each in partitions) >= _MANY_BYTES
    yield from read_all([partial(read, each) for each in partitions], processors() if is_much else 1)


def _segment_rows(partitions: Sequence[PartitionPath], tables: Tables, report: Report) -> Iterator[dict[str, Any]]:
    for each in partitions:
        yield from segment_rows(each, max_batch_bytes=tables.max_batch_bytes, on_damage=report)


def _topics(
    tables: Tables, partitions: Sequence[PartitionPath], columns: Sequence[str], report: Report
) -> Iterator[pa.RecordBatch]:
    of_topics: dict[str | None, list[PartitionPath]] = {}
    for each in partitions:
        of_topics.setdefault(each.topic, []).append(each)
    schema = pa.schema([TOPICS.field(name) for name in columns])
    reads_headers = not _BY_NAME.issuperset(columns)
    rows: list[dict[str, Any]] = []
    for topic, own in of_topics.items():
        row: dict[str, Any] = {
            "topic": topic,
            "isInternal": topic is not None and is_internal(topic),
            "partitions": len(own),
            "segments": sum(len(each.segments) for each in own),
            "sizeInBytes": sum(each.size for each in own),
        }
        if reads_headers:
            row |= _sums(list(_segment_rows(own, tables, report)))
        rows.append({name: row[name] for name in columns})
    yield from table_of(rows, schema).to_batches()


def _sums(segments: list[dict[str, Any]]) -> dict[str, Any]:
    def known(name: str) -> list[int]:
        return [row[name] for row in segments if row[name] is not None]

    return {
        "batches": sum(known("batches")),
        "records": sum(known("records")) if len(known("records")) == len(segments) else None,
        "minTimestamp": min(known("minTimestamp"), default=None),
        "maxTimestamp": max(known("maxTimestamp"), default=None),
    }


def _findings(tables: Tables) -> pa.Table:
    """Return what an audit finds: all is read."""
    from brokerless.clusters.directory_state import load_directory_state
    from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
    from brokerless.jobs.audit.job import audit_directory, audit_partitions
    from brokerless.jobs.report.job import findings_table

    directory = tables.directory
    state = load_directory_state(directory)
    bound = tables.max_batch_bytes or DEFAULT_MAX_BATCH_BYTES
    paths = tables.partitions
    audits = list(values_or_raise(audit_partitions(paths, state, bound, ALONE)))
    of_directory = audit_directory(directory, state, audits) if len(paths) == len(directory.partitions) else ()
    return findings_table(audits, of_directory)
