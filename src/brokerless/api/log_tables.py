"""The tables of a log: records, batches, segments and transactions, SQL on all of them, and what a partition's offsets
are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from brokerless.api import jobs
from brokerless.api.jobs import records as all_records
from brokerless.api.jobs import select_topics
from brokerless.arrow import table_of
from brokerless.clock import milliseconds
from brokerless.errors import UsageError, missing_libraries
from brokerless.kafka_names import TopicPartition
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.requests.options import takes
from brokerless.requests.reading import (
    BatchesRequest,
    DatasetRequest,
    ExplainRequest,
    OffsetForTimestampRequest,
    RecordsRequest,
    SchemaRequest,
    SegmentsRequest,
    SqlRequest,
    TransactionsRequest,
)
from brokerless.schemas import SEGMENTS, TRANSACTIONS
from brokerless.tables.partition_tables import offset_for_time, read_batches, read_transactions, segment_rows

if TYPE_CHECKING:
    from brokerless.dataset.table_dataset import TableDataset
    from brokerless.explanation.files import Explanation
    from brokerless.typed.usage import SchemaReport


@dataclass(frozen=True)
class LogTables:
    """A log as tables; all of its partitions, one after the other."""

    directory: LogDirectory
    """What is in the path."""
    selected: tuple[PartitionPath, ...] | None = None
    """The partitions that it was narrowed to, by :meth:`Log.topic` or :meth:`Log.partition`; None for all."""
    name: str = ""
    """What it was narrowed to, such as ``orders`` or ``orders-0``; ``""`` for all."""

    @property
    def paths(self) -> tuple[PartitionPath, ...]:
        """What is in the directory of each of its partitions."""
        return self.directory.partitions if self.selected is None else self.selected

    @property
    def path(self) -> str:
        # What was opened, or where one partition is. Without a docstring, as "path" in others would lead here.
        return self.directory.path if self._one is None else self._one.path

    @property
    def _one(self) -> PartitionPath | None:
        """The partition, where it is just one by its path or by its name."""
        if self.directory.kind == "log-directory" and (self.selected is None or self.name == self.selected[0].topic):
            return None
        return self.paths[0] if len(self.paths) == 1 else None

    @property
    def topic_partition(self) -> TopicPartition | None:
        """The topic and the number of one partition; None for several, and for a lone file."""
        one = self._one
        return None if one is None or one.topic is None or one.partition is None else (one.topic, one.partition)

    def _only(self, what: str) -> PartitionPath:
        """Return its one partition, of which ``what`` is said. Raises :class:`UsageError`."""
        if len(self.paths) != 1:
            count = f"{len(self.paths):,} partitions" if self.paths else "no partition"
            raise UsageError(f"{what} is of one partition, and here is {count}; use log.partition(topic, partition)")
        return self.paths[0]

    @property
    def start_offset(self) -> int | None:
        """A partition's log start offset: the first segment's base offset, or a later one after records were
        deleted; None without a segment. Raises :class:`UsageError` for several partitions."""
        return self._only("start_offset").start_offset

    @cached_property
    def end_offset(self) -> int | None:
        """The offset after a partition's last one, by the headers of its last segment; None without a segment. Raises
        :class:`UsageError` for a log with several partitions."""
        from brokerless.log.seek import end_offset

        return end_offset(self._only("end_offset"))

    @takes(OffsetForTimestampRequest)
    def offset_for_timestamp(self, request: OffsetForTimestampRequest) -> int | None:
        """Return the offset of a partition's first record of this time or later; None if there is none.

        As ``KafkaConsumer.offsetsForTimes``: from the log start offset on, and with ``read_committed`` only before the
        last stable offset (``Partition.fetchOffsetForTimestamp``, 4.1.1).

        Returns
        -------
        int or None
            The offset.

        Raises
        ------
        UsageError
            For several partitions.
        DamageError, UnreadableError
            Where what is read for it is damaged, or cannot be read.

        Examples
        --------
        >>> import brokerless
        >>> brokerless.open("demo/data").partition("orders", 0).offset_for_timestamp("2026-11-01")
        0
        """
        at = milliseconds(request.timestamp)
        assert at is not None
        return offset_for_time(self._only("offset_for_timestamp"), at, request.isolation, request.max_batch_bytes)

    @takes(RecordsRequest)
    def records(self, request: RecordsRequest) -> pa.RecordBatchReader:
        """Read the records of all partitions, one partition after the other, as Arrow record batches.

        Returns
        -------
        pyarrow.RecordBatchReader
            Schema :data:`schemas.RECORDS`. One file at a time is open, until the reader is exhausted, raises or is
            released.

        Raises
        ------
        UsageError
            For an unknown column or topic, an invalid option, and, with ``decode``, topics of different types.
        DamageError, UnreadableError
            While reading: for the first error without ``on_damage``; for a file that the system does not read.

        Examples
        --------
        >>> import brokerless
        >>> log = brokerless.open("demo/data")
        >>> log.records(["offset", "key"], topics="orders", limit=2).read_all().to_pylist()
        [{'offset': 0, 'key': b'o-101230'}, {'offset': 1, 'key': b'o-101230'}]
        """
        return self._records(request)

    def _records(self, request: RecordsRequest) -> pa.RecordBatchReader:
        from brokerless.tables.read_options import ReadOptions, range_of

        times = request.start_timestamp, request.end_timestamp
        options = ReadOptions(
            columns=request.columns,
            range=range_of(request.start_offset, request.end_offset, *times, prune=request.prune),
            isolation=request.isolation,
            control=request.control,
            filter=request.filter,
            limit=request.limit,
            max_batch_bytes=request.max_batch_bytes,
            on_damage=request.on_damage,
            done=request.done,
            jobs=request.jobs,
        )
        return all_records(select_topics(self.paths, request.topics), options, request.decode)

    @takes(RecordsRequest)
    def to_table(self, request: RecordsRequest) -> pa.Table:
        """Return all records in memory as Arrow's table.

        Returns
        -------
        pyarrow.Table
            Schema :data:`schemas.RECORDS`.
        """
        return self._records(request).read_all()

    @takes(RecordsRequest)
    def to_pandas(self, request: RecordsRequest) -> Any:
        """Return all records in memory as a DataFrame of pandas.

        Returns
        -------
        pandas.DataFrame
            With the columns of the table of records.

        Raises
        ------
        UsageError
            Where pandas is not installed.
        """
        try:
            import pandas  # noqa: F401  # pyright: ignore[reportMissingTypeStubs, reportUnusedImport]
        except ImportError as error:
            raise missing_libraries("to_pandas needs pandas", "notebook") from error
        return self._records(request).read_all().to_pandas()

    @takes(RecordsRequest)
    def to_polars(self, request: RecordsRequest) -> Any:
        """Return all records in memory as a DataFrame of Polars.

        Returns
        -------
        polars.DataFrame
            With the columns of the table of records.

        Raises
        ------
        UsageError
            Where Polars is not installed.
        """
        try:
            import polars  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise missing_libraries("to_polars needs Polars", "polars") from error
        return polars.from_arrow(self._records(request).read_all())

    @takes(BatchesRequest)
    def batches(self, request: BatchesRequest) -> pa.RecordBatchReader:
        """Read the batches of all partitions (v0 and v1: messages and wrapper messages), one partition after the
        other, in file order, as Arrow record batches.

        Batches before the log start offset are included if the files still contain them. Only headers are read, unless
        ``isValid`` (checksums) or ``baseOffset`` (of wrapper messages) is requested.

        Returns
        -------
        pyarrow.RecordBatchReader
            Schema :data:`schemas.BATCHES`.

        Raises
        ------
        UsageError
            For an unknown column or topic.
        DamageError, UnreadableError
            While reading. DamageError without ``on_damage``, where no batch follows, or a wrapper message inflates to
            more than ``max_batch_bytes``; UnreadableError for a file that the system does not read.

        Examples
        --------
        >>> import brokerless
        >>> brokerless.open("demo/data").batches(["compression"], topics="users").read_all().num_rows > 1
        True
        """
        return read_batches(
            select_topics(self.paths, request.topics),
            request.columns,
            request.max_batch_bytes,
            on_damage=request.on_damage,
            done=request.done,
        )

    @takes(SegmentsRequest)
    def segments(self, request: SegmentsRequest) -> pa.Table:
        """Return a row for each segment of all partitions, from its batch headers.

        All numbers are from the log start offset on. Control records are not counted: there are as many records as
        :meth:`records` returns.

        Returns
        -------
        pyarrow.Table
            Schema :data:`schemas.SEGMENTS`.

        Raises
        ------
        DamageError, UnreadableError
            Without ``on_damage``, for the first error.

        Examples
        --------
        >>> import brokerless
        >>> segments = brokerless.open("demo/data").segments()
        >>> segments["topic"].to_pylist().count("users")
        6
        """
        rows = (
            segment_rows(each, max_batch_bytes=request.max_batch_bytes, on_damage=request.on_damage)
            for each in self.paths
        )
        return table_of([row for of_partition in rows for row in of_partition], SEGMENTS)

    @takes(TransactionsRequest)
    def transactions(self, request: TransactionsRequest) -> pa.Table:
        """Return a row for each transaction of all partitions, in the order in which they ended.

        Those that ended before the log start offset are left out.

        Returns
        -------
        pyarrow.Table
            Schema :data:`schemas.TRANSACTIONS`.

        Raises
        ------
        UsageError
            For an unknown topic.
        DamageError
            For the first damage, without ``on_damage``.

        Examples
        --------
        >>> import brokerless
        >>> transactions = brokerless.open("demo/data").transactions(topics="payments")
        >>> sorted(set(transactions["state"].to_pylist()))
        ['aborted', 'committed']
        """
        found = (read_transactions(each, request.on_damage) for each in select_topics(self.paths, request.topics))
        return pa.concat_tables([table_of([], TRANSACTIONS), *found])

    @takes(DatasetRequest)
    def dataset(self, request: DatasetRequest) -> TableDataset:
        """Return a table as a ``pyarrow.dataset.Dataset``, for DuckDB, Polars, pandas and Arrow.

        Each scan reads the files again, and of them only what its columns and its filter need.

        Returns
        -------
        TableDataset
            A dataset of the table's schema.

        Raises
        ------
        UsageError
            For a name that is neither a table's nor a topic's.

        Examples
        --------
        >>> import brokerless
        >>> brokerless.open("demo/data").dataset("orders").count_rows()
        3796
        """
        how = jobs.TableOptions(
            request.isolation, request.control, request.max_batch_bytes, request.on_damage, prune=request.prune
        )
        return jobs.dataset(self.directory, self.paths, request.table, how)

    @takes(SchemaRequest)
    def schema(self, request: SchemaRequest) -> SchemaReport:
        """List the schemas that values name, and which topics use them, as ``brokerless schema``.

        All records are read.

        Returns
        -------
        SchemaReport
            ``topics`` with their types, and the schemas.

        Raises
        ------
        UsageError
            If there are no schemas where ``decode`` says.
        """
        return jobs.schema(self.paths, request.decode, request.max_batch_bytes)

    @takes(SqlRequest)
    def sql(self, request: SqlRequest) -> pa.RecordBatchReader:
        """Run a query of SQL on the tables of :meth:`dataset` and a view for each topic, as ``brokerless sql``.

        Returns
        -------
        pyarrow.RecordBatchReader
            The result, as a stream.

        Raises
        ------
        UsageError
            For a query that DuckDB refuses, and one without a result.

        Examples
        --------
        >>> import brokerless
        >>> log = brokerless.open("demo/data")
        >>> log.sql("SELECT count(*) AS records FROM records WHERE topic = 'orders'").read_all().column_names
        ['records']
        """
        options = jobs.TableOptions(
            request.isolation,
            request.control,
            request.max_batch_bytes,
            on_damage=request.on_damage,
            schemas=None if request.schemas is None else os.fspath(request.schemas),
            prune=request.prune,
        )
        return jobs.sql(self.directory, self.paths, request.query, options, request.memory_limit)

    @takes(ExplainRequest)
    def explain(self, request: ExplainRequest) -> Explanation:
        """Explain every byte of a batch of one partition, as ``brokerless explain``.

        Returns
        -------
        Explanation
            Named fields, each with its place and value.

        Raises
        ------
        UsageError
            For several partitions.
        UnreadableError
            Where no batch has this offset or a later one.

        Examples
        --------
        >>> import brokerless
        >>> explained = brokerless.open("demo/data").partition("orders", 0).explain(records=1)
        >>> explained.fields[0].name
        'batch'
        """
        return jobs.explain(self._only("explain"), request.offset, request.records, request.max_batch_bytes)
