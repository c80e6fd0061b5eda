"""Delta's tables, by deltalake: one for each topic, whose commits record what was exported."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from brokerless import arrow
from brokerless.clock import now
from brokerless.log.storage import file_tree, paths
from brokerless.log.storage.guarded_files import give_to_owner, read_own, sync_path
from brokerless.log.storage.location import Location
from brokerless.table_formats import export_state
from brokerless.table_formats.catalog import table_name
from brokerless.table_formats.data_files import DataTarget, is_there_remote, missing_files
from brokerless.table_formats.delta import schemas
from brokerless.table_formats.export_state import Exported, ExportState, RefusedTopicError
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

_APPLICATION = "brokerless"
"""The transaction of every export: of two at the same time, Delta takes one. Its version is the number of partitions;
those of ``brokerless/N`` are the offsets where the next run goes on."""
_CONSTRAINT = "delta.constraints."
_MAPPING = "delta.columnMapping.mode"
_RULES = {
    "delta.invariants": "an invariant",
    "delta.generationExpression": "an expression",
    "delta.identity.start": "the identity",
}
_OF_FSSPEC = {"key": "AWS_ACCESS_KEY_ID", "secret": "AWS_SECRET_ACCESS_KEY"}
"""What a URL with a key says, as deltalake calls it."""
_TRIES = 10
ROWS = 1 << 14
"""Rows of a table that are read at once."""
_NEWEST = "_last_checkpoint"
_ENTRY = re.compile(r"[0-9]{20}\.json")
_LOG_FILE = re.compile(rf"{schemas.LOG}/{_ENTRY.pattern}")
_CHECKPOINT = re.compile(r"_delta_log/[0-9]{20}\.checkpoint.*\.parquet")
_LOG_LIMIT = 1 << 30
_EPOCH = date(1970, 1, 1)
_STATISTICS = ("partition", "offset", "timestamp")
BOUNDED = "delta.dataSkippingStatsColumns"
"""Of the columns that it names, a table's files are to have statistics; deltalake takes those that are absent for
nulls, and finds no row by them."""
_NOT_IN_PATHS = re.compile(r"%[0-9A-Fa-f]{2}|[\\\x00-\x1f\x7f\ud800-\udfff]")
"""What deltalake (1.6) reads as another path, or as none."""
_BOUNDS = ",".join(f"kafka.{name}" for name in _STATISTICS)


class DeltaTables:
    """Delta's tables in a directory, whose options are deltalake's, for an object store."""

    def __init__(self, to: Location) -> None:
        self._to = paths.full_path(to.path)
        check_directory("Delta", self._to, _NOT_IN_PATHS)
        self._options = {_OF_FSSPEC.get(name, name): str(value) for name, value in (to.options or {}).items()}

    def describe(self, topic: str) -> str:
        return self._path(table_name(topic))

    def has_file(self, name: str) -> bool:
        """Return whether a file is in the directory of the tables; False where an object store does not say."""
        if paths.is_remote(self._to):
            return is_there_remote("delta", self._to, name, self._options)
        return (Location(self._to) / name).exists()

    def load(self, topic: str) -> TableState | None:
        """Return what a topic's table says was exported, and its columns without ``date``; None where there is no
        table.

        Raises :class:`UsageError` for a table that is not the topic's, :class:`UnreadableError` where it cannot be
        read.
        """
        with self._errors(topic):
            name = table_name(topic)
            if name.casefold() == schemas.LOG:
                text = f"{self.describe(topic)}: Delta takes what is above a directory of this name for a table"
                raise RefusedTopicError(topic, f"{text}; export the topic {topic} to another format")
            if (lost := self._lost_entry(name)) is not None:
                entry, text = lost
                raise RefusedTopicError(topic, f"{entry}: {text}")
            table = self.open_table(name)
            if table is None or self._is_begun(table, topic):
                return None
            state = self._state(table, topic)
            self._check_partitions(table, topic)
            self._check_rules(table, topic)
            schema = with_times(schemas.columns(table), table.metadata().configuration.get(TIMES))
            return TableState(state, schema)

    def topics(self, tables: Sequence[str]) -> Generator[str]:
        """Yield the topics of those of some tables that an export made."""
        for name in (each for each in tables if (Location(self._path(each)) / schemas.LOG).is_directory()):
            with self._errors(name):
                table = self.open_table(name)
                topic = None if table is None else table.metadata().configuration.get(TOPIC)
            if topic is not None:
                yield topic

    def read(
        self, topic: str, partition: int | None = None, names: Sequence[str] = ("key", "value", "kafka")
    ) -> Generator[pa.RecordBatch]:
        """Yield the rows of a partition of a topic, in no order. ``partition``: None for all."""
        with self._errors(topic), damaged_files(self.describe(topic)):
            rows = self.open_table(table_name(topic)).to_pyarrow_dataset()
            chosen = None if partition is None else pc.field("kafka", "partition") == partition
            scanner = rows.scanner([*names], chosen, batch_size=ROWS, batch_readahead=1, fragment_readahead=1)
            yield from scanner.to_batches()

    def open_table(self, name: str) -> Any:
        """Return the ``deltalake.DeltaTable`` of this name; None if there is none."""
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        path = self._path(name)
        try:
            return DeltaTable(path, storage_options=self._options)
        except TableNotFoundError:
            return None
        except Exception as error:
            if not DeltaTable.is_deltatable(path, self._options):  # it raises where the path is no directory
                return None
            # Old versions of deltalake raise a general error of their kernel for a table whose structs have mapped
            # columns, before its properties can be asked: nothing but the text tells it from others.
            if "columnMapping" in str(error):
                raise self._has_mapping(name) from error
            raise

    def open_own_table(self, name: str) -> Any:
        """Open a table of a pipeline's own, of which a commit that was not durable as the power failed is removed: its
        runs and findings are written again."""
        if (lost := self._lost_entry(name, is_own=True)) is not None:
            lost[0].unlink()
        return self.open_table(name)

    def prepare(self, state: ExportState, schema: pa.Schema) -> DataTarget:
        """Makes the table of a topic, or evolves it to ``schema``, and returns where its files go."""
        times, schema = dump(schema), physical_schema(schema)
        with self._errors(state.topic):
            name = table_name(state.topic)
            file_tree.refuse_link(Location(self._path(name)))
            table = self.open_table(name)
            schemas.check(table, schema, state.topic, where=self.describe(state.topic))
            if table is None:
                columns = [*schema, pa.field(DATE, pa.date32())]
                self._create(name, pa.schema(columns), state.topic)
                table = self.open_table(name)
            configuration = table.metadata().configuration
            properties = {} if configuration.get(TIMES) == times else {TIMES: times}
            if EXPORT not in configuration:  # or a run was killed before that
                properties |= {TOPIC: state.topic, EXPORT: export_state.dump(state), BOUNDED: _BOUNDS}
            elif not _is_bounded(table):  # somebody has named others
                properties[BOUNDED] = _BOUNDS
            with self._durable(name):
                if properties:
                    table.alter.set_table_properties(properties, raise_if_not_exists=False)
                schemas.evolve(table, schema)
            self._check_partitions(table, state.topic)
            return DataTarget("delta", state.topic, self._path(name), schema=schema, settings=self._options)

    def missing_files(self, topic: str) -> list[str]:
        """Return the data files that a table lists and that are not there."""
        with self._errors(topic):
            table, path = self.open_table(table_name(topic)), self.describe(topic)
            if table is None:
                return []
            target = DataTarget("delta", topic, path, schema=schemas.columns(table), settings=self._options)
            return missing_files(target, table.file_uris())

    def commit(self, target: DataTarget, files: Sequence[ParquetFile], before: ExportState, after: ExportState) -> None:
        """Adds files to a topic's table, and records what is exported now, in one commit. Raises
        :class:`AnotherExportError` where the table does not say ``before`` any more."""
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import CommitProperties

        with self._errors(before.topic):
            text = f"{self.describe(before.topic)}: another export has been here meanwhile"
            properties = {EXPORT: export_state.dump(after), COMMIT: uuid4().hex}
            own = CommitProperties(custom_metadata=properties, app_transactions=_transactions(before, after))
            for attempt in range(_TRIES):
                table = self.open_table(table_name(before.topic))
                if table is None or self._state(table, before.topic) != before:
                    raise AnotherExportError(text)
                actions = [_add_action(each) for each in files]
                try:
                    with self._durable(table_name(before.topic)):
                        table.create_write_transaction(actions, "append", table.schema(), [DATE], commit_properties=own)
                    return
                except CommitFailedError:
                    if attempt == _TRIES - 1:
                        raise

    def listed_files(self, topic: str) -> set[str]:
        """Return the paths in its directory of all files that a version of a local table lists, or listed."""
        with self._errors(topic):
            found: set[str] = set()
            directory = self.describe(topic)
            for name in file_tree.find(Location(directory)):
                if _LOG_FILE.fullmatch(name):
                    found |= _paths_in_log(read_own(Location(directory) / name, _LOG_LIMIT))
                elif _CHECKPOINT.fullmatch(name):
                    found |= _paths_in_checkpoint(paths.join(directory, name))
            return found

    def append_rows(self, name: str, rows: pa.Table, properties: dict[str, str] | None = None) -> None:
        """Appends rows to a table that is no topic's, such as one of findings, in one commit; it is made, or gets the
        columns that it lacks. ``properties``: of the commit."""
        from deltalake import write_deltalake
        from deltalake.transaction import CommitProperties

        with self._errors(name):
            file_tree.refuse_link(Location(self._path(name)))
            self.open_own_table(name)
            with self._durable(name):
                write_deltalake(
                    self._path(name), rows, mode="append", schema_mode="merge", storage_options=self._options,
                    commit_properties=CommitProperties(custom_metadata=properties or {}),
                )  # fmt: skip

    def replace_rows(self, name: str, rows: pa.Table) -> None:
        """Makes ``rows`` all that such a table has, in one commit."""
        from deltalake import write_deltalake

        with self._errors(name):
            table = self.open_own_table(name)
            if table is None:
                self.append_rows(name, rows)
                return
            with self._durable(name):
                write_deltalake(table, rows, mode="overwrite", schema_mode="overwrite")

    def _create(self, name: str, schema: pa.Schema, topic: str) -> None:
        try:
            with self._durable(name):
                schemas.make_table(self._path(name), schema, topic, self._options)
        except Exception as error:
            if self.open_table(name) is None:
                raise
            text = (
                f"{self.describe(topic)}: another export has been here meanwhile, which made the table; run this again"
            )
            raise AnotherExportError(text) from error

    def _lost_entry(self, name: str, *, is_own: bool = False) -> tuple[Path, str] | None:
        """The newest commit of a local table where it, or a file that deltalake wrote for it, was not durable as the
        power failed; and what to do. ``is_own``: deltalake writes all files of the table, else merged ones."""
        path = self._path(name)
        log = Path(paths.local(path), schemas.LOG)
        entries = [] if paths.is_remote(path) else sorted(each for each in _names(log) if _ENTRY.fullmatch(each))
        if not entries:
            return None
        entry = log / entries[-1]
        newest = "the newest entry of the table's log"
        actions = _actions(read_own(Location(str(entry)), _LOG_LIMIT))
        if actions is None:
            text = f"{newest} is cut off, as after a power failure; remove this file, and run again"
            return entry, f"{text}: what it added is exported again"
        added = [each["add"] for each in actions if "add" in each]
        is_merged = bool(added) and not any(each.get("dataChange", True) for each in added)
        if (is_own or is_merged) and not all(_is_whole(log.parent, each) for each in added):
            text = f"{newest} merged files into one that is not there whole, as after a power failure; remove this file"
            return entry, f"{text}, and run again: what was merged is there still"
        return None

    @contextmanager
    def _durable(self, name: str) -> Generator[None]:
        """Makes durable at its end what is new in a local table and its log, and the owner's of the directory, which
        deltalake does not."""
        path = self._path(name)
        if paths.is_remote(path):
            yield
            return
        log = Path(paths.local(path), schemas.LOG)
        before = {directory: _names(directory) for directory in (log.parent, log)}
        new = [each for each in before if not each.exists()]
        yield
        for each in new:
            give_to_owner(each)
        for directory, known in before.items():
            for each in (directory / name for name in sorted(_names(directory) - known)):
                if each.is_file():
                    give_to_owner(each)
                    sync_path(each)
        if (log / _NEWEST).is_file():  # which names a checkpoint
            sync_path(log / _NEWEST)
        for each in (log, log.parent, log.parent.parent):
            sync_path(each)

    def _path(self, name: str) -> str:
        return paths.join(self._to, name)

    def _is_begun(self, table: Any, topic: str) -> bool:
        """Return whether a run that was killed made the table and had not added its columns yet."""
        metadata = table.metadata()
        if metadata.name != topic or EXPORT in metadata.configuration or table.version() > 1 or table.file_uris():
            return False
        return not {"key", "value"} <= set(schemas.columns(table).names)

    def _check_partitions(self, table: Any, topic: str) -> None:
        if table.metadata().partition_columns != [DATE]:
            raise not_by_day(topic, self.describe(topic))

    def _check_rules(self, table: Any, topic: str) -> None:
        """Refuses a table with rules for its rows, which every writer has to keep and this one does not check, and one
        whose columns have other names in its files."""
        names = [each for each in table.metadata().configuration if each.startswith(_CONSTRAINT)]
        if table.metadata().configuration.get(_MAPPING, "none") != "none":
            raise self._has_mapping(topic)
        rules = [f"the constraint {each.removeprefix(_CONSTRAINT)}" for each in names]
        for each in table.schema().fields:
            kinds = sorted(_RULES[name] for name in each.metadata if name in _RULES)
            rules += [f"{kind} of {each.name}" for kind in [*kinds, *([] if each.nullable else ["NOT NULL"])]]
        if rules:
            text = f"{self.describe(topic)}: the table has rules for its rows that an export does not check"
            advice = "drop them, or export to another directory"
            raise RefusedTopicError(topic, f"{text} ({', '.join(rules)}); {advice}")

    def _has_mapping(self, topic: str) -> RefusedTopicError:
        text = f"{self.describe(topic)}: the table has column mapping, so that its files have names of their own for"
        advice = "drop it (ALTER TABLE ... DROP FEATURE columnMapping), or export to another directory"
        return RefusedTopicError(topic, f"{text} columns, which an export does not write; {advice}")

    def _state(self, table: Any, topic: str) -> ExportState:
        """Return the state that the newest commit with one has. After a restore, that is one of the restored version or
        before; where the log of such commits was cleaned up, their transactions are there still."""
        where, metadata = self.describe(topic), table.metadata()
        check_topic(where, topic, metadata.configuration.get(TOPIC, metadata.name))
        found, later = metadata.configuration.get(EXPORT), None
        ceiling, limit = table.version(), 8
        is_restored = False
        while True:
            history = table.history(limit)
            for each in history:
                if EXPORT in each:
                    later = later or each[EXPORT]
                    if each["version"] <= ceiling:
                        return export_state.parse(each[EXPORT].encode(), topic, where)
                if each["version"] <= ceiling and each["operation"] == "RESTORE":
                    ceiling, is_restored = self._restored(each, topic), True
            if len(history) < limit:
                break
            ceiling, limit, is_restored = table.version(), limit * 8, False
        if found is None and later is None:
            return ExportState(topic, None, True, "read_uncommitted")
        initial = replace(export_state.parse((found or later or "").encode(), topic, where), partitions={})
        if is_restored:
            if history[-1]["version"] == 0:
                return initial  # there was nothing in it yet
            raise RefusedTopicError(
                topic,
                f"{where}: the table was restored to version {ceiling}, of which its log does not say any more what "
                "was exported; restore it to a later one, or export to another directory",
            )
        count = table.transaction_version(_APPLICATION) or 0
        offsets = {number: table.transaction_version(f"{_APPLICATION}/{number}") for number in range(count)}
        known = {number: Exported(offset) for number, offset in offsets.items() if offset is not None}
        return replace(initial, partitions=known)

    def _restored(self, entry: dict[str, Any], topic: str) -> int:
        """The version that a table was restored to."""
        parameters = entry.get("operationParameters", {})
        if (version := parameters.get("version")) is not None:
            return int(version)
        stated = parameters.get("datetime") or parameters.get("timestamp")
        raise RefusedTopicError(
            topic,
            f"{self.describe(topic)}: the table was restored to {stated}; restore it to a version by number, by which "
            "it is known what was exported then, or export to another directory",
        )

    def _errors(self, name: str) -> AbstractContextManager[None]:
        """Return what deltalake and a storage raise, as errors of ours."""
        return library_errors("Delta", "deltalake", self.describe(name))


def _actions(data: bytes) -> list[dict[str, Any]] | None:
    """Return the actions of an entry of a table's log; None where the entry is not complete."""
    try:
        found = [json.loads(each) for each in data.splitlines()]
    except ValueError:
        return None
    return found if found and all(isinstance(each, dict) for each in found) else None


def _is_whole(directory: Path, added: dict[str, Any]) -> bool:
    """Return whether a file that was added to a table is there as large as it was, and ends as Parquet does."""
    path = directory / unquote(str(added.get("path")))
    try:
        with pq.ParquetFile(path):
            return path.stat().st_size == added.get("size")
    except (OSError, pa.ArrowInvalid):
        return False


def _names(directory: Path) -> set[str]:
    return {each.name for each in directory.iterdir()} if directory.exists() else set()


def _paths_in_log(data: bytes) -> set[str]:
    entries = [json.loads(line) for line in data.splitlines() if line.strip()]
    return {unquote(each[kind]["path"]) for each in entries for kind in ("add", "remove") if kind in each}


def _paths_in_checkpoint(path: str) -> set[str]:
    found: set[str] = set()
    with pq.ParquetFile(paths.local(path)) as checkpoint:
        for batch in checkpoint.iter_batches(columns=["add.path", "remove.path"]):
            for row in arrow.rows(batch):
                found |= {unquote(each["path"]) for each in row.values() if each is not None and each["path"]}
    return found


def _transactions(before: ExportState, after: ExportState) -> list[Any]:
    from deltalake.transaction import Transaction

    count = max(after.partitions, default=-1) + 1
    changed = {
        number: each.next_offset
        for number, each in after.partitions.items()
        if number not in before.partitions or before.partitions[number].next_offset != each.next_offset
    }
    found = [Transaction(f"{_APPLICATION}/{number}", offset, None) for number, offset in sorted(changed.items())]
    return [Transaction(_APPLICATION, count, None), *found]


def _add_action(written: ParquetFile) -> Any:
    from deltalake.transaction import AddAction

    day = None if written.day is None else (_EPOCH + timedelta(days=written.day)).isoformat()
    statistics = json.dumps(_statistics(written))
    return AddAction(written.name, written.size, {DATE: day}, now(), True, statistics)


def _statistics(written: ParquetFile) -> dict[str, Any]:
    """Return how many records, and the bounds of Kafka's own columns."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    footer: Any = written.footer
    for group in range(footer.num_row_groups):
        row_group = footer.row_group(group)
        for number in range(row_group.num_columns):
            column = row_group.column(number)
            above, _, name = column.path_in_schema.rpartition(".")
            found = column.statistics
            if above != "kafka" or name not in _STATISTICS or found is None:
                continue
            nulls[name] = nulls.get(name, 0) + (found.null_count or 0)
            if found.has_min_max:
                least[name] = min(least.get(name, found.min), found.min)
                most[name] = max(most.get(name, found.max), found.max)
    bounds = {"minValues": {"kafka": _plain(least)}, "maxValues": {"kafka": _plain(most)}}
    return {"numRecords": written.records, **bounds, "nullCount": {"kafka": nulls}}


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {name: _text(each) if isinstance(each, datetime) else each for name, each in values.items()}


def _text(time: datetime) -> str:
    own = time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)
    return own.isoformat(timespec="milliseconds") + "Z"


def _is_bounded(table: Any) -> bool:
    """Return whether readers expect statistics of those columns alone that all files have some of."""
    named = table.metadata().configuration.get(BOUNDED)
    return named is not None and {each.strip() for each in named.split(",")} <= set(_BOUNDS.split(","))
