"""``df.write`` and ``df.writeStream`` with ``format("brokerless")``: rows are written into partitions' logs.

Each task writes its rows of each partition beside, syncs them and hands back a small value; the driver commits all of
them at once, or none (``log/commit/job_commit.py``). What tasks left that failed or ran twice is known by its owner and
removed.
"""

from __future__ import annotations

import inspect
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from brokerless import arrow
from brokerless.errors import BrokerlessError, RefusedError, UsageError
from brokerless.jobs.load.loader import Loader, Loading, PartOfJob
from brokerless.jobs.run.spark_worker import keep_what_is_loaded
from brokerless.log import names
from brokerless.log.commit.commit import check_continued
from brokerless.log.commit.job_commit import (
    commit_staged,
    owner_of,
    partitions_of,
    prepare,
    remove_staged_of,
    remove_unused,
)
from brokerless.log.commit.partition_writer import allow_many_files
from brokerless.log.commit.types import StagedPartition
from brokerless.log.storage.paths import directory_name
from brokerless.log.storage.write_errors import unwritable
from brokerless.spark.columns import arrow_schema
from brokerless.spark.sink_options import SinkOptions
from brokerless.tables.joined import Size, joined
from brokerless.tables.local_times import in_zone
from brokerless.tables.rows import RowError, bounded, column_name, normalize

_QUERY = "sql.streaming.queryId"
"""The local property of a streaming query's tasks with its ID, which is the same after a restart from its checkpoint
(``StreamExecution.QUERY_ID_KEY``, Spark 4.1)."""
_TIME_ZONE = "spark.sql.session.timeZone"
_HINT = "; brokerless.spark.arrange(df) puts each partition into one task, in order"
_WITHOUT = {
    "offset": "then offsets are counted from the end of the partition on",
    "timestamp": "then it is the time of writing",
    "timestampType": "then it is that of the option message.timestamp.type",
}
"""What a record has for each column that is not there."""
_ANY = 1 << 31
_SMALL, _ENOUGH = Size(_ANY, 4 << 20), Size(_ANY, 8 << 20)
"""Spark gives 10,000 rows at once, and checking and writing more of them takes less time for each."""
_REMEMBERED = 16 << 20
"""Bytes of rows that are kept for what is said of one that is refused."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The partitions that a task wrote."""

    staged: tuple[StagedPartition, ...]
    query: str | None = None
    """The ID of the task's streaming query."""


class Writer(DataSourceArrowWriter):
    """A batch query's. Spark makes it on the driver, and tasks, commit and abort get copies of it."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check(options, schema)
        with unwritable(options.directory):
            if options.directory.is_remote:
                prepare(options.directory)
        self.options = options
        self.job = uuid.uuid4().hex
        self.makes_directory = options.directory.is_missing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return Written(write_rows(iterator, self.options, self.job))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if not commit_written(self.options, messages, self.job, None):  # a log directory without partitions, so
            with unwritable(self.options.directory):
                self.options.directory.make()
            commit_staged(self.options.directory, ())

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _remove_staged(self.options, self.job)
        if self.makes_directory:
            with suppress(BrokerlessError, OSError):
                remove_unused(self.options.directory)


class StreamWriter(DataSourceStreamArrowWriter):
    """A streaming query's: of each of its batches all is committed once, whatever is repeated after a restart."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check(options, schema)  # Spark makes one to commit as well, when what tasks have written is there
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY)
        if query is None:
            raise UsageError("this Spark does not give its tasks the ID of their streaming query")
        return Written(write_rows(iterator, self.options, query), query)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        for query in _queries(messages):
            commit_written(self.options, messages, query, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        for query in _queries(messages):
            _remove_staged(self.options, query)


def _remove_staged(options: SinkOptions, job: str) -> None:
    """Remove what tasks left, as far as that is possible: on a disk that is full it may not be, and of an error here
    Spark would report "Writing job failed" in place of the first one. The next commit removes it."""
    with suppress(BrokerlessError, OSError):
        remove_staged_of(options.directory, owner_of(job))


def _queries(messages: Sequence[WriterCommitMessage | None]) -> set[str]:
    """One, or none if no task came to its end."""
    return {each.query for each in messages if isinstance(each, Written) and each.query is not None}


def check(options: SinkOptions, schema: StructType) -> None:
    """Raises :class:`UsageError` for what can be known beforehand to go wrong: columns, options, or the directory."""
    found = pa.schema([field.with_name(column_name(field.name)) for field in arrow_schema(schema)])
    normalize(pa.RecordBatch.from_pylist([], found))
    placement = options.placement
    if placement.topic is None and "topic" not in found.names:
        raise UsageError("there is no column 'topic'; say which topic it is (option topic)")
    is_open = placement.partition is None and placement.partitions is None and "partition" not in found.names
    if is_open and _has_several_partitions(options):
        raise UsageError(
            "there is no column 'partition', and the topic has several; say how many partitions it has (option "
            "partitions), so that keys decide as for Kafka's producers, or which one all rows go to (option partition)"
        )
    directory = options.directory
    if names.parse_partition_directory(directory_name(directory.path)) and directory.exists(names.PARTITION_METADATA):
        raise UsageError(f"{directory}: this is a partition; give the log directory that it is in")
    directory.refuse_running_broker()


def _has_several_partitions(options: SinkOptions) -> bool:
    """Return whether the topic, or any if it is not known, has more than partition 0, which is taken where nothing is
    said."""
    return max(partitions_of(options.directory, options.placement.topic), default=0) > 0


def commit_written(
    options: SinkOptions, messages: Sequence[WriterCommitMessage | None], job: str, batch: int | None
) -> bool:
    """Commits what tasks wrote, in their order; False if they have not written anything. Raises what
    :func:`commit_staged` raises."""
    directory = options.directory
    staged = [each_staged for each in messages if isinstance(each, Written) for each_staged in each.staged]
    try:
        if staged:
            query = None if batch is None else (job, batch)
            commit_staged(directory, staged, options.config, query=query, hint=_HINT)
        return bool(staged)
    finally:
        remove_staged_of(directory, owner_of(job))


def write_rows(batches: Iterator[pa.RecordBatch], options: SinkOptions, job: str) -> tuple[StagedPartition, ...]:
    """A task: writes its rows beside, and hands over what it wrote. Raises :class:`RowError` for a row that cannot
    become a record, and what :class:`PartitionOutput` raises; then nothing is left."""
    context = TaskContext.get()
    task = 0 if context is None else context.partitionId()
    settings = options.settings
    allow_many_files()
    rows = _Remembered(task, options)
    own = PartOfJob(
        job=job, check=check_continued, threads=1, without_key=task * settings.batch_size, owner=owner_of(job)
    )
    with Loader(options.directory, Loading(options.placement, settings, options.config), own) as loader:
        try:
            for batch in joined(batches, _SMALL, _ENOUGH):
                named = batch.rename_columns(list(map(column_name, batch.schema.names)))
                for part in bounded(_with_zone(named)):
                    rows.check(part)
                    loader.add(part)
            written = tuple(loader.finish())
            keep_what_is_loaded()
            return written
        except RowError as error:
            rows.refuse(error)
        except RefusedError as error:  # all that a log refuses of batches that were made for it
            raise UsageError(f"task {task}: {error}; give a larger segment.bytes, or a smaller batch.size") from error


def _with_zone(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows whose timestamps are points in time: of ``timestamp_ntz`` those that Spark's cast makes of them."""
    number = batch.schema.get_field_index("timestamp")
    if number < 0 or not pa.types.is_timestamp(batch.schema.field(number).type):
        return batch
    if batch.schema.field(number).type.tz is not None:
        return batch
    column = in_zone(batch.column(number), _session_zone())
    return batch.set_column(number, "timestamp", column)


def _session_zone() -> str:
    """The time zone of the session whose task this is. Raises :class:`UsageError` where this Spark does not say it."""
    context = TaskContext.get()
    found = None if context is None else context.getLocalProperty(_TIME_ZONE)  # where it was set
    frame = inspect.currentframe()  # PySpark's worker knows it, and hands it to nobody
    while found is None and frame is not None:
        found, frame = getattr(frame.f_locals.get("runner_conf"), "timezone", None), frame.f_back
    if found is None:
        raise UsageError(
            "the column 'timestamp' is a timestamp_ntz, and this Spark does not say the session's time zone unless "
            f"{_TIME_ZONE} is set; set it, or cast the column to timestamp"
        )
    return found


class _Remembered:
    """The last rows of a task, so that one that is refused can be found by more than its number."""

    def __init__(self, task: int, options: SinkOptions) -> None:
        self._task = task
        self._needs_partition = options.placement.partition is None and options.placement.partitions is None
        self._batches: deque[tuple[int, pa.RecordBatch]] = deque()
        self._rows = self._size = 0

    def check(self, batch: pa.RecordBatch) -> None:
        """Remembers rows, and refuses those of which nobody says to which partition they go."""
        self._batches.append((self._rows, batch))
        self._size += batch.nbytes
        while len(self._batches) > 1 and self._size > _REMEMBERED:
            self._size -= self._batches.popleft()[1].nbytes
        if self._needs_partition and "partition" in batch.schema.names and batch.column("partition").null_count:
            row = int((~arrow.is_valid(batch.column("partition"))).argmax())
            reason = "is null; say how many partitions the topic has (option partitions), and its key decides"
            raise RowError(self._rows + row, "partition", reason)
        self._rows += batch.num_rows

    def refuse(self, error: RowError) -> NoReturn:
        place = f"task {self._task}, row {error.row} of it (from 0)"
        for first, batch in self._batches:
            if first <= error.row < first + batch.num_rows:
                place += _describe(batch, error.row - first)
        text = f"{place}, column {error.column}: {error.reason}".replace("(--", "(option ")
        if error.kind == "not-rising":
            text += _HINT
        elif error.kind == "null" and error.column in _WITHOUT:
            text += f"; fill it in, or leave the column out: {_WITHOUT[error.column]}"
        raise RefusedRowError(text) from error


class RefusedRowError(BrokerlessError):
    """A row of a DataFrame that cannot become a record: which task met it, where in it, and its topic, partition and
    offset as far as it has them."""


def _describe(batch: pa.RecordBatch, row: int) -> str:
    found = {name: cast(Any, batch.column(name)[row]).as_py() for name in ("topic", "partition", "offset")
             if name in batch.schema.names}  # fmt: skip
    return "".join(f", {name} {value}" for name, value in found.items() if value is not None)
