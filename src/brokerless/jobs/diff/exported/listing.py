"""Lists the tables that ``export`` wrote to a path, with the partitions that each says it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from brokerless import arrow
from brokerless.errors import BrokerlessError, UnreadableError
from brokerless.interchange.hive_paths import find_sources
from brokerless.interchange.input_files import exported_schema
from brokerless.jobs.diff.copied_partition import CopiedPartition
from brokerless.jobs.diff.exported.decoding import DecodedColumns
from brokerless.log.directory import LogDirectory
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import directory_name, full_path, parent_directory
from brokerless.requests.writing import ExportForm
from brokerless.table_formats import export_state
from brokerless.table_formats.export_state import ExportState
from brokerless.table_formats.store import open_store

DELTA_LOG, ICEBERG_CATALOG = "_delta_log", "catalog.db"
_TOPIC = "topic="


@dataclass(frozen=True, slots=True)
class TablePartition(CopiedPartition):
    """A partition of a topic's table."""

    form: ExportForm = "parquet"
    """What the table is."""
    store: Location = field(default_factory=lambda: Location(""))
    """The directory that was exported to."""
    decoded: DecodedColumns | None = None
    """The table's columns of keys and values, where these are decoded."""


def table_form(location: Location) -> ExportForm | None:
    """Return what ``export`` wrote to a directory; None for anything else."""
    try:
        if not location.is_directory():
            return None
        names = {each.name for each in location.entries()}
        if export_state.NAME in names:
            return "parquet"
        for name in sorted(names):
            if name == DELTA_LOG or (location / name / DELTA_LOG).is_directory():
                return "delta"
            if name.startswith(_TOPIC) and (location / name / export_state.NAME).exists():
                return "parquet"
        return "iceberg" if ICEBERG_CATALOG in names else None
    except (BrokerlessError, OSError):  # which is reported where it is opened as a log
        return None


def list_tables(location: Location, form: ExportForm, is_wanted: Callable[[str], bool]) -> LogDirectory:
    """Return the partitions that the tables of a directory have: those that were exported, and others that rows are of,
    which are looked for where a topic ``is_wanted``. ``end`` is what the export recorded; rows may be after it.

    Raises :class:`UnreadableError` for what cannot be read, and the errors of the format's library."""
    found: list[TablePartition] = []
    for store, state, schema in _states(location, form):
        decoded = None
        if state.is_decoded and is_wanted(state.topic):
            decoded = _decoded_columns(store, form, state, schema)
        ends = {number: each.next_offset for number, each in state.partitions.items()}
        others = _partitions_of_rows(store, form, state.topic) if is_wanted(state.topic) else set[int]()
        for number in sorted(ends.keys() | others):
            name = f"{location.path.rstrip('/')}/{state.topic}-{number}"
            found.append(
                TablePartition(
                    state.topic, number, Location(name), url=name, topic_id=state.topic_id, end=ends.get(number, 0),
                    form=form, store=store, decoded=decoded,
                )
            )  # fmt: skip
    return LogDirectory(location, "log-directory", tuple(found))


def _partitions_of_rows(store: Location, form: ExportForm, topic: str) -> set[int]:
    """Return the partitions that a topic's table has rows of, of Parquet by the names of its files."""
    if form == "parquet":
        return set(export_state.count_files(store, topic))
    found: set[int | None] = set()
    with suppress(UnreadableError):  # which is reported where a partition is read
        for batch in open_store(form, store).read(topic, names=("kafka",)):
            numbers: Any = batch.column("kafka")
            found.update(arrow.values(numbers.field("partition").unique()))
    if None in found:
        raise UnreadableError(f"{store}/{topic}", "a row of this table says no partition; put back what was exported")
    return {each for each in found if each is not None}


def _decoded_columns(store: Location, form: ExportForm, state: ExportState, schema: pa.Schema | None) -> DecodedColumns:
    """The columns of keys and values of a table; of Parquet files, those that all of them have together."""
    if schema is None:
        directory = export_state.topic_directory(store, state.topic)
        known: list[pa.Schema] = []
        for each in find_sources(directory.path, (".parquet",)):
            with suppress(UnreadableError):  # which is reported where it is read
                own = exported_schema(each.files[0])
                known.append(pa.schema([own.field(name) for name in ("key", "value") if name in own.names]))
        try:
            schema = pa.unify_schemas(known or [pa.schema([])], promote_options="permissive")
        except pa.ArrowException as error:
            text = (
                f"its files have keys or values of types that are none together: {' '.join(str(error).split())[:200]}"
            )
            text = f"{text}; runs of export found other formats, so export to another directory, and compare that one"
            raise UnreadableError(directory.path, text) from error
    try:
        return DecodedColumns.of(form, schema, state)
    except KeyError as error:
        text = f"these are no rows of an export: there is no column {error.args[0]}, so that it cannot be compared"
        raise UnreadableError(f"{store}/{state.topic}", f"{text}; put back what was exported") from error


def _states(location: Location, form: ExportForm) -> Iterator[tuple[Location, ExportState, pa.Schema | None]]:
    """Yield what each table says was exported, the directory that all of them are in, and its columns, but of Parquet
    files."""
    path = full_path(location.path)
    above = parent_directory(path)
    is_one = above is not None and (location / (export_state.NAME if form == "parquet" else DELTA_LOG)).exists()
    store = Location(above, location.options) if is_one and above is not None else location
    names = [directory_name(path)] if is_one else [each.name for each in location.entries()]
    if form == "parquet":
        topics = [unquote(name.removeprefix(_TOPIC)) for name in sorted(names) if name.startswith(_TOPIC)]
        for topic in topics:
            if (state := export_state.load(store, topic)) is not None:
                yield store, state, None
        return
    tables = open_store(form, store)
    for topic in tables.topics(sorted(names)):
        loaded = tables.load(topic)
        if loaded is not None:
            yield store, loaded.state, loaded.schema
