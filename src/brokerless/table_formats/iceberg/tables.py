"""Iceberg's tables, by pyiceberg: one for each topic, whose snapshots record what was exported."""

from __future__ import annotations

import re
import warnings
import weakref
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from brokerless import arrow
from brokerless.errors import UnreadableError, UsageError
from brokerless.log.storage import paths
from brokerless.log.storage.guarded_files import give_to_owner, make_directory
from brokerless.log.storage.location import Location
from brokerless.table_formats import export_state
from brokerless.table_formats.catalog import Catalog, table_name
from brokerless.table_formats.data_files import DataTarget, is_there_remote, missing_files
from brokerless.table_formats.export_state import ExportState, RefusedTopicError
from brokerless.table_formats.iceberg import schemas
from brokerless.table_formats.parquet_files import ParquetFile
from brokerless.table_formats.rows import DATE
from brokerless.table_formats.times_of_day import TIMES, dump, physical_schema, with_times
from brokerless.table_formats.types import (
    COMMIT,
    EXPORT,
    TOPIC,
    AnotherExportError,
    TableState,
    check_directory,
    check_topic,
    damaged_files,
    library_errors,
    not_by_day,
)

OWN_CATALOG = "catalog.db"
"""The file of SQLite beside the tables, where no other catalogue is named."""
_NAME = "brokerless"
_SYNCED = "brokerless.table_formats.iceberg.files.SyncedFiles"
_NOT_IN_PATHS = re.compile(r"[?#%\t\r\n\ud800-\udfff]")
"""What pyiceberg (0.12) and SQLAlchemy read as part of a URL."""
_TRIES = 10
"""Of a commit, while others commit to the table (compactions, say)."""


class IcebergTables:
    """The tables of a catalogue. ``to``: the directory that they are in; None where the catalogue decides that."""

    def __init__(self, to: str | None, catalog: Catalog) -> None:
        self._to = None if to is None else paths.full_path(to)
        self._catalog = catalog
        self._opened: Any = None
        if to is None and catalog.is_own:
            raise UsageError("--to: give a directory to write to, or a catalogue that decides where its tables are")
        if self._to is not None:
            check_directory("Iceberg", self._to, _NOT_IN_PATHS)
        if to is not None and paths.is_remote(to) and catalog.is_own:
            text = "SQLite is for tables on a disk; name a catalogue (--catalog NAME, or --catalog-property uri=...)"
            raise UsageError(f"{to}: tables of Iceberg in an object store need a catalogue: {text}")

    def describe(self, topic: str) -> str:
        return ".".join((self._catalog.namespace, table_name(topic)))

    def has_file(self, name: str) -> bool:
        """Return whether a file is in the directory of the tables; False where an object store does not say."""
        if self._to is None:
            return False
        if paths.is_remote(self._to):
            with self._errors(name):
                properties = self._load_catalog().properties
            return is_there_remote("iceberg", self._to, name, properties)
        return (Location(self._to) / name).exists()

    def load(self, topic: str) -> TableState | None:
        """Return what a topic's table says was exported, and its columns; None where there is no table.

        Raises :class:`UsageError` for a table that is not the topic's, :class:`RefusedTopicError` for one that is
        partitioned otherwise, :class:`UnreadableError` where it cannot be read.
        """
        with self._errors(topic):
            table = self.open_table(table_name(topic))
            if table is None:
                return None
            state = self._state(table, topic)
            self._check_partitions(table, topic)
            self._check_version(table, topic)
            return TableState(state, with_times(schemas.columns(table), table.properties.get(TIMES)))

    def topics(self, _: Sequence[str] = ()) -> Generator[str]:
        """Yield the topics of those tables of the namespace that an export made, whatever directories there are."""
        with self._errors(self._catalog.namespace):
            names = [each[-1] for each in self._load_catalog().list_tables(self._catalog.namespace)]
            opened = [self.open_table(name) for name in names]
        for table in opened:
            if table is not None and (topic := table.properties.get(TOPIC)) is not None:
                yield topic

    def read(
        self, topic: str, partition: int | None = None, names: Sequence[str] = ("key", "value", "kafka")
    ) -> Generator[pa.RecordBatch]:
        """Yield the rows of a partition of a topic, in no order. ``partition``: None for all."""
        with self._errors(topic), damaged_files(self.describe(topic)):
            from pyiceberg.expressions import AlwaysTrue, EqualTo

            own: Any = AlwaysTrue()
            if partition is not None:
                own = EqualTo("kafka.partition", partition)  # pyright: ignore[reportCallIssue]
            scan = self.open_table(table_name(topic)).scan(own, selected_fields=tuple(names))
            yield from scan.to_arrow_batch_reader()

    def open_table(self, name: str) -> Any:
        """Return the ``pyiceberg.table.Table`` of this name in the namespace; None if there is none."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        if self._catalog.is_own and not Path(paths.local(self._to or ""), OWN_CATALOG).exists():
            return None
        try:
            return self._load_catalog().load_table((*self._catalog.namespace.split("."), name))
        except (NoSuchTableError, NoSuchNamespaceError):
            return None

    def open_own_table(self, name: str) -> Any:
        """Open a table of a pipeline's own."""
        return self.open_table(name)

    def prepare(self, state: ExportState, schema: pa.Schema) -> DataTarget:
        """Makes the table of a topic, or evolves it to ``schema``, and returns where its files go."""
        times, schema = dump(schema), physical_schema(schema)
        with self._errors(state.topic):
            name = table_name(state.topic)
            table = self.open_table(name)
            schemas.check(table, schema, state.topic, where=self.describe(state.topic))
            if table is None:
                properties = {TOPIC: state.topic, EXPORT: export_state.dump(state), TIMES: times}
                self.create(name, schema, properties, is_by_day=True)
                table = self.open_table(name)
            self._evolve(table, schema, {} if table.properties.get(TIMES) == times else {TIMES: times})
            return self._target(table, state.topic, schema)

    def missing_files(self, topic: str) -> list[str]:
        """Return the data files that the newest snapshot of a table lists and that are not there."""
        with self._errors(topic):
            table = self.open_table(table_name(topic))
            if table is None:
                return []
            settings = {name: str(value) for name, value in table.io.properties.items()}
            directory = _local(_data_directory(table))
            target = DataTarget("iceberg", topic, directory, schema=schemas.columns(table), settings=settings)
            return missing_files(target, arrow.values(table.inspect.files().column("file_path")))

    def commit(self, target: DataTarget, files: Sequence[ParquetFile], before: ExportState, after: ExportState) -> None:
        """Adds files to a topic's table, and records what is exported now, in one commit. Raises
        :class:`AnotherExportError` where the table does not say ``before`` any more."""
        with self._errors(before.topic):
            from pyiceberg.typedef import Record

            table = self.open_table(table_name(before.topic))
            if table is None:
                raise AnotherExportError(f"{self.describe(before.topic)}: the table has gone meanwhile")
            properties = {EXPORT: export_state.dump(after), COMMIT: uuid4().hex}
            entries = [
                data_file(
                    table,
                    _url(paths.join(target.directory, each.name)),
                    each.footer,
                    size=each.size,
                    partition=Record(each.day),
                )
                for each in files
            ]
            self._append(table, entries, properties, before)

    def listed_files(self, topic: str) -> set[str]:
        """Return the paths below the table's data directory of all files that one of its snapshots lists."""
        with self._errors(topic):
            table = self.open_table(table_name(topic))
            root = f"{paths.same_place(_data_directory(table))}/"
            files = arrow.values(table.inspect.all_data_files().column("file_path"))
            return {paths.same_place(each).removeprefix(root) for each in files}

    def append_rows(self, name: str, rows: pa.Table, properties: dict[str, str] | None = None) -> None:
        """Appends rows to a table that is no topic's, such as one of findings, in one commit; it is made, or gets the
        columns that it lacks. ``properties``: of the snapshot."""
        with self._errors(name):
            table = self.open_table(name)
            if table is None:
                self.create(name, rows.schema, {})
                table = self.open_table(name)
            self._evolve(table, rows.schema, {})
            table.append(rows, snapshot_properties=properties or {})

    def replace_rows(self, name: str, rows: pa.Table) -> None:
        """Makes ``rows`` all that such a table has, in one commit."""
        with self._errors(name), warnings.catch_warnings():
            table = self.open_table(name)
            if table is None:
                self.append_rows(name, rows)
                return
            warnings.simplefilter("ignore")  # that an empty table has nothing to delete
            with table.update_schema() as update:
                update.union_by_name(rows.schema)  # an earlier version's table may have fewer columns
            table.overwrite(rows)

    def create(self, name: str, schema: pa.Schema, properties: dict[str, str], *, is_by_day: bool = False) -> None:
        """Makes an empty table. ``is_by_day``: partitioned by the day of ``kafka.timestamp``."""
        from pyiceberg.transforms import DayTransform

        catalog = self._load_catalog()
        catalog.create_namespace_if_not_exists(self._catalog.namespace)
        identifier = (*self._catalog.namespace.split("."), name)
        location = None if self._to is None else paths.join(_url(self._to), "/".join(identifier))
        staged = catalog.create_table_transaction(identifier, schema=schema, location=location)
        location = _free(staged.table_metadata.location)
        with catalog.create_table_transaction(
            identifier, schema=schema, location=location, properties=properties
        ) as transaction:
            if is_by_day:
                with transaction.update_spec() as spec:
                    spec.add_field("kafka.timestamp", DayTransform(), DATE)

    def _append(self, table: Any, entries: list[Any], properties: dict[str, str], before: ExportState) -> None:
        from pyiceberg.exceptions import CommitFailedException

        for attempt in range(_TRIES):
            if self._state(table, before.topic) != before:
                raise AnotherExportError(f"{self.describe(before.topic)}: another export has been here meanwhile")
            # pyiceberg would try again by itself, whatever was committed meanwhile: the same offsets, say.
            table.metadata.properties["commit.retry.num-retries"] = "0"
            try:
                with table.transaction() as transaction:
                    with transaction.update_snapshot(snapshot_properties=properties).fast_append() as append:
                        for each in entries:
                            append.append_data_file(each)
                    transaction.set_properties({EXPORT: properties[EXPORT]})
                return
            except CommitFailedException:
                if attempt == _TRIES - 1:
                    raise
            except Exception:
                if self._is_there(table, properties[COMMIT]):
                    return  # the answer was lost, not the commit
                raise
            table.refresh()

    def _is_there(self, table: Any, commit: str) -> bool:
        try:
            table.refresh()
        except Exception:
            return False
        return any(_summary(each).get(COMMIT) == commit for each in table.metadata.snapshots)

    def _state(self, table: Any, topic: str) -> ExportState:
        """Return the state that the newest snapshot with one has: after a rollback, that is an older one. Other
        writers' snapshots have none; where those of exports have expired, the table's properties do."""
        check_topic(self.describe(topic), topic, table.properties.get(TOPIC))
        where, snapshot = self.describe(topic), table.current_snapshot()
        while snapshot is not None:
            if (found := _summary(snapshot).get(EXPORT)) is not None:
                return export_state.parse(found.encode(), topic, where)
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else table.snapshot_by_id(parent)
        said = [_summary(each)[EXPORT] for each in table.metadata.snapshots if EXPORT in _summary(each)]
        text = table.properties.get(EXPORT) or (said[-1] if said else None)
        if text is None:
            advice = f"put its property {EXPORT} back, or export to another directory or namespace"
            raise RefusedTopicError(topic, f"{where}: the table does not say any more what was exported; {advice}")
        newest = export_state.parse(text.encode(), topic, where)
        return replace(newest, partitions={}) if said else newest  # said, and rolled back to before

    def _evolve(self, table: Any, schema: pa.Schema, properties: dict[str, str]) -> None:
        is_same = schemas.has_columns(table, schema)
        if is_same and not properties:
            return
        with table.transaction() as transaction:
            if properties:
                transaction.set_properties(properties)
            if not is_same:
                with transaction.update_schema() as update:
                    update.union_by_name(schema)

    def _check_partitions(self, table: Any, topic: str) -> None:
        spec = [(each.name, str(each.transform)) for each in table.spec().fields]
        times = [table.schema().find_column_name(each.source_id) for each in table.spec().fields]
        if (spec, times) != ([(DATE, "day")], ["kafka.timestamp"]):
            raise not_by_day(topic, self.describe(topic))

    def _check_version(self, table: Any, topic: str) -> None:
        """Refuse a table of a format version that pyiceberg does not write, before anything is written."""
        from pyiceberg import __version__
        from pyiceberg.manifest import write_manifest

        version: Any = table.metadata.format_version
        nothing: Any = None  # written is nothing
        try:
            write_manifest(
                version, table.spec(), table.schema(), output_file=nothing, snapshot_id=0, avro_compression="null"
            )
        except ValueError as error:
            text = (
                f"{self.describe(topic)}: the table has format version {version}, which pyiceberg {__version__} reads"
            )
            advice = "export to another directory or namespace, or with a newer pyiceberg"
            raise RefusedTopicError(topic, f"{text} and does not write; {advice}") from error

    def _target(self, table: Any, topic: str, schema: pa.Schema) -> DataTarget:
        self._check_partitions(table, topic)
        fields = schemas.fields(table, include_ids=True)
        own = pa.schema([fields[each.name] for each in schema])
        settings = {name: str(value) for name, value in table.io.properties.items()}
        return DataTarget("iceberg", topic, _local(_data_directory(table)), schema=own, settings=settings)

    def _load_catalog(self) -> Any:
        if self._opened is None:
            from pyiceberg.catalog import load_catalog

            properties, root = dict(self._catalog.properties), None
            if self._catalog.is_own:
                root = Path(paths.local(self._to or ""))
                make_directory(root)
                properties = {"type": "sql", "uri": f"sqlite:///{root / OWN_CATALOG}", "warehouse": _url(str(root))}
                properties["py-io-impl"] = _SYNCED
            file = root / OWN_CATALOG if root is not None else None
            is_new = file is not None and not file.exists()
            self._opened = load_catalog(self._catalog.name or _NAME, **properties)
            if file is not None and is_new:
                give_to_owner(file)
            place = self._to or self._opened.properties.get("warehouse", "")
            if place.startswith(("/", "file:")):  # a catalogue's warehouse may be a name
                self._opened.properties.setdefault("py-io-impl", _SYNCED)
            weakref.finalize(self, self._opened.close)  # or SQLite's file stays open until objects are collected
        return self._opened

    @contextmanager
    def _errors(self, name: str) -> Generator[None]:
        """Raise what pyiceberg, a catalogue and a storage raise as errors of ours."""
        with library_errors("Iceberg", "pyiceberg", self.describe(name)):
            try:
                yield
            except FileNotFoundError as error:
                raise UnreadableError(self.describe(name), _missing_file(error)) from error


def _missing_file(error: FileNotFoundError) -> str:
    """Says which of a table's own files is gone; Arrow has its path in the text alone."""
    found = re.search("'([^']+)'", str(error))
    path = error.filename or (found[1] if found else str(error))
    return f"a file that the table needs is not there: {path}; put it back, or export to another directory or namespace"


def _data_directory(table: Any) -> str:
    return table.properties.get("write.data.path") or paths.join(table.location(), "data")


def _free(location: str) -> str:
    """Return the location of a new table, or one beside it where another table has files: one that was renamed, or
    dropped without its files. Two tables of one directory take each other's files for orphaned ones."""
    metadata = Path(paths.local(location), "metadata")
    if paths.is_remote(location) or not (metadata.is_dir() and any(metadata.iterdir())):
        return location
    return f"{location}-{uuid4().hex[:8]}"


def _url(path: str) -> str:
    """Return the URL by which Iceberg's tables name a file: nothing in it is encoded."""
    return path if paths.is_remote(path) else f"file://{paths.local(path)}"


def _local(url: str) -> str:
    return url if paths.is_remote(url) else paths.local(url)


def _summary(snapshot: Any) -> dict[str, str]:
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


def data_file(table: Any, location: str, footer: Any, size: int, partition: Any) -> Any:
    """Return a file of ``size`` bytes as Iceberg's manifests have it, with the bounds of what is not repeated.
    ``footer``: Parquet's. ``partition``: as pyiceberg 0.12 finds none where it is the day of a time within a struct."""
    from pyiceberg.io.pyarrow import (
        MetricModeTypes,
        MetricsMode,
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
    )
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

    schema = table.schema()
    modes = compute_statistics_plan(schema, table.metadata.properties)
    mapping = parquet_path_to_id_mapping(schema)
    for number in _without_statistics(footer, mapping):
        modes[number] = replace(modes[number], mode=MetricsMode(MetricModeTypes.NONE))
    for number, each in modes.items():
        # pyiceberg counts alone what is within a struct; its own readers and others prune by bounds there.
        if each.mode.type == MetricModeTypes.COUNTS and _is_in_structs(schema, each.column_name):
            is_text = str(each.iceberg_type) in ("string", "binary")
            mode = MetricsMode(MetricModeTypes.TRUNCATE, 16) if is_text else MetricsMode(MetricModeTypes.FULL)
            modes[number] = replace(each, mode=mode)
    for number in _unlimited_texts(footer, mapping, modes):
        modes[number] = replace(modes[number], mode=MetricsMode(MetricModeTypes.COUNTS))
    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=footer, stats_columns=modes, parquet_column_mapping=mapping
    )
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=partition,
        file_size_in_bytes=size,
        sort_order_id=None,
        spec_id=table.spec().spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )


def _columns_of(footer: Any, mapping: dict[str, int]) -> Iterator[tuple[int, Any]]:
    """The statistics of each row group's columns, by field IDs."""
    for group in range(footer.num_row_groups):
        row_group = footer.row_group(group)
        for column in map(row_group.column, range(row_group.num_columns)):
            yield mapping[column.path_in_schema], column.statistics


def _without_statistics(footer: Any, mapping: dict[str, int]) -> set[int]:
    return {number for number, own in _columns_of(footer, mapping) if own is None}


def _unlimited_texts(footer: Any, mapping: dict[str, int], modes: dict[int, Any]) -> set[int]:
    """Columns of text for whose upper bound pyiceberg would make a character that no text has: U+D7FF and one."""
    from pyiceberg.utils.truncate import truncate_upper_bound_text_string

    found: set[int] = set()
    for number, own in _columns_of(footer, mapping):
        if own is None or not own.has_min_max or not isinstance(own.max, str):
            continue
        bound = truncate_upper_bound_text_string(own.max, modes[number].mode.length)
        if bound is not None and any(0xD800 <= ord(each) < 0xE000 for each in bound):
            found.add(number)
    return found


def _is_in_structs(schema: Any, name: str) -> bool:
    """Return whether a column is in structs alone, not in a list or map."""
    from pyiceberg.types import StructType

    above = name.split(".")[:-1]
    try:
        found = [schema.find_field(".".join(above[: depth + 1])).field_type for depth in range(len(above))]
    except ValueError:
        return False
    return all(isinstance(each, StructType) for each in found)
