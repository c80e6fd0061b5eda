"""The tables of a log: records, batches, segments and transactions, SQL on all of them, and what a partition's offsets
are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import pyarrow as pa

from brokerless.api import jobs
from brokerless.api.jobs import records as all_records
from brokerless.api.jobs import select_topics
from brokerless.arrow import table_of
from brokerless.clock import Time, milliseconds
from brokerless.errors import UsageError, missing_libraries
from brokerless.kafka_names import Isolation, TopicPartition
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.progress import Done, Report, ignore
from brokerless.schemas import SEGMENTS, TRANSACTIONS
from brokerless.tables.partition_tables import offset_for_time, read_batches, read_transactions, segment_rows

if TYPE_CHECKING:
    from brokerless.dataset.table_dataset import TableDataset
    from brokerless.dataset.tables import TableName
    from brokerless.explanation.files import Explanation
    from brokerless.tables.record_filter import RecordFilter
    from brokerless.typed.records import Decode
    from brokerless.typed.topic_type import Decoding
    from brokerless.typed.usage import SchemaReport


class ReadingOptions(TypedDict, total=False):
    """The options of :meth:`Log.records`."""

    topics: Iterable[str] | str | None
    start_offset: int | None
    end_offset: int | None
    start_timestamp: Time | None
    end_timestamp: Time | None
    prune: bool
    isolation: Isolation
    control: bool
    filter: RecordFilter | None
    limit: int | None
    max_batch_bytes: int | None
    on_damage: Report | None
    done: Done
    decode: Decode
    jobs: int | None


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
        """The log start offset of one partition: the first segment's base offset, or a later one after records were
        deleted; None without a segment. Raises :class:`UsageError` for several partitions."""
        return self._only("start_offset").start_offset

    @cached_property
    def end_offset(self) -> int | None:
        """The offset after the last one of one partition, by the last segment's headers; None without a segment.
        Raises :class:`UsageError` for several partitions."""
        from brokerless.log.seek import end_offset

        return end_offset(self._only("end_offset"))

    def offset_for_timestamp(
        self, timestamp: Time, *, isolation: Isolation = "read_uncommitted", max_batch_bytes: int | None = None
    ) -> int | None:
        """Return the offset of one partition's first record whose timestamp is at least this; None if there is none.

        As ``KafkaConsumer.offsetsForTimes``: from the log start offset on, and with ``read_committed`` only before the
        last stable offset (``Partition.fetchOffsetForTimestamp``, 4.1.1).

        Parameters
        ----------
        timestamp : int (ms), datetime or text such as ``"2026-11-01"`` or ``"-7d"``
            The time.
        isolation : {"read_uncommitted", "read_committed"}
            As in :meth:`records`.
        max_batch_bytes : int, optional
            Bytes that one batch may inflate to (128 MiB).

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
        at = milliseconds(timestamp)
        assert at is not None
        return offset_for_time(self._only("offset_for_timestamp"), at, isolation, max_batch_bytes)

    def records(
        self,
        columns: Sequence[str] | None = None,
        *,
        topics: Iterable[str] | str | None = None,
        start_offset: int | None = None,
        end_offset: int | None = None,
        start_timestamp: Time | None = None,
        end_timestamp: Time | None = None,
        prune: bool = True,
        isolation: Isolation = "read_uncommitted",
        control: bool = False,
        filter: RecordFilter | None = None,
        limit: int | None = None,
        max_batch_bytes: int | None = None,
        on_damage: Report | None = None,
        done: Done = ignore,
        decode: Decode = None,
        jobs: int | None = None,
    ) -> pa.RecordBatchReader:
        """Read the records of all partitions, one partition after the other, as Arrow record batches.

        Parameters
        ----------
        columns : sequence of str, optional
            The columns to read, in this order; all by default.
        topics : str or iterable of str, optional
            Only topics with these names or patterns (``"click*"``).
        start_offset, end_offset : int, optional
            Only records with ``start_offset <= offset < end_offset``; a range applies to each partition.
        start_timestamp, end_timestamp : int (ms), datetime or text such as ``"2026-11-01"`` or ``"-7d"``, optional
            Only records with ``start_timestamp <= timestamp < end_timestamp``.
        prune : bool, default True
            Batches are passed over by the times of headers and time indexes, as Kafka does. Where some are too small
            (``timestamp-above-header``), ``False`` finds all records of a range of times.
        isolation : {"read_uncommitted", "read_committed"}
            ``read_committed`` returns what such a consumer gets: no aborted transactions, nothing from the first open
            one on, and no control records.
        control : bool, default False
            Control records, too; not with ``read_committed``.
        filter : RecordFilter, optional
            Only records that it selects, yielded as they are found. Batches that cannot have any are not decoded, so
            that damage to their records which their checksum does not show is not found.
        limit : int, optional
            At most so many records of all partitions together; reading ends there.
        max_batch_bytes : int, optional
            Bytes that one batch may inflate to (128 MiB).
        on_damage : callable, optional
            Called with each :class:`Finding` after the records that could be read before it, and reading goes on.
            Without it, the first error is raised.
        done : callable, optional
            Called with the bytes of log that were read, or passed over, since the last call.
        decode : True, "auto", a format of values such as "json", or Decoding, optional
            Keys and values are typed, of topics of the same types. The selected records are read twice then: first for
            the schemas that they name.
            ``key`` and ``value`` have the topic's types, and columns ``keyRaw``, ``keyError``, ``valueRaw`` and
            ``valueError`` come after the others: the bytes of what could not be decoded, and why. How many there were
            is reported to ``on_damage`` at the end, as warnings. A :class:`TopicType` is used unchanged.
        jobs : int, optional
            Threads that decode in parallel (1: none beside the caller's); by default one for each processor, where
            there is much to read. The records and their order are the same; where record batches end may differ.

        Returns
        -------
        pyarrow.RecordBatchReader
            Schema :data:`schemas.RECORDS`. One file at a time is open, until the reader is exhausted, raises or is
            released.

        Raises
        ------
        UsageError
            For an unknown column or topic, another option that cannot be, and topics whose types differ.
        DamageError, UnreadableError
            While reading: for the first error without ``on_damage``; for a file that the system does not read.

        Examples
        --------
        >>> import brokerless
        >>> log = brokerless.open("demo/data")
        >>> log.records(["offset", "key"], topics="orders", limit=2).read_all().to_pylist()
        [{'offset': 0, 'key': b'o-101230'}, {'offset': 1, 'key': b'o-101230'}]
        """
        from brokerless.tables.read_options import ReadOptions, range_of

        options = ReadOptions(
            columns=columns,
            range=range_of(start_offset, end_offset, start_timestamp, end_timestamp, prune=prune),
            isolation=isolation,
            control=control,
            filter=filter,
            limit=limit,
            max_batch_bytes=max_batch_bytes,
            on_damage=on_damage,
            done=done,
            jobs=jobs,
        )
        return all_records(select_topics(self.paths, topics), options, decode)

    def to_table(self, columns: Sequence[str] | None = None, **options: Unpack[ReadingOptions]) -> pa.Table:
        """Return all records in memory as Arrow's table.

        Parameters
        ----------
        columns : sequence of str, optional
            The columns to read, in this order; all by default.
        **options
            As :meth:`Log.records` takes them.

        Returns
        -------
        pyarrow.Table
            Schema :data:`schemas.RECORDS`.
        """
        return self.records(columns, **options).read_all()

    def to_pandas(self, columns: Sequence[str] | None = None, **options: Unpack[ReadingOptions]) -> Any:
        """Return all records in memory as a DataFrame of pandas.

        Parameters
        ----------
        columns : sequence of str, optional
            The columns to read, in this order; all by default.
        **options
            As :meth:`Log.records` takes them.

        Returns
        -------
        pandas.DataFrame
            A column for each of the table's.

        Raises
        ------
        UsageError
            Where pandas is not installed.
        """
        try:
            import pandas  # noqa: F401  # pyright: ignore[reportMissingTypeStubs, reportUnusedImport]
        except ImportError as error:
            raise missing_libraries("to_pandas needs pandas", "notebook") from error
        return self.to_table(columns, **options).to_pandas()

    def to_polars(self, columns: Sequence[str] | None = None, **options: Unpack[ReadingOptions]) -> Any:
        """Return all records in memory as a DataFrame of Polars.

        Parameters
        ----------
        columns : sequence of str, optional
            The columns to read, in this order; all by default.
        **options
            As :meth:`Log.records` takes them.

        Returns
        -------
        polars.DataFrame
            A column for each of the table's.

        Raises
        ------
        UsageError
            Where Polars is not installed.
        """
        try:
            import polars  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise missing_libraries("to_polars needs Polars", "polars") from error
        return polars.from_arrow(self.to_table(columns, **options))

    def batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        topics: Iterable[str] | str | None = None,
        max_batch_bytes: int | None = None,
        on_damage: Report | None = None,
        done: Done = ignore,
    ) -> pa.RecordBatchReader:
        """Read the batches of all partitions (v0 and v1: messages and wrapper messages), one partition after the
        other, in file order, as Arrow record batches.

        Those before the log start offset, which the files still hold, are among them. Only headers are read, unless
        ``isValid`` (checksums) or ``baseOffset`` (of wrapper messages) is requested.

        Parameters
        ----------
        columns : sequence of str, optional
            The columns to read, in this order; all by default.
        topics : str or iterable of str, optional
            Only topics with these names or patterns (``"click*"``).
        max_batch_bytes : int, optional
            Bytes that a wrapper message may inflate to (128 MiB).
        on_damage : callable, optional
            Called with each :class:`Finding`; a batch whose checksum is wrong is listed all the same.
        done : callable, optional
            Called with the bytes of log that were read, or passed over, since the last call.

        Returns
        -------
        pyarrow.RecordBatchReader
            Schema :data:`schemas.BATCHES`.

        Raises
        ------
        UsageError
            For an unknown column or topic.
        DamageError, UnreadableError
            While reading: without ``on_damage`` where a batch scan breaks off, and for a wrapper message that inflates
            past ``max_batch_bytes``; for a file that the system does not read.

        Examples
        --------
        >>> import brokerless
        >>> brokerless.open("demo/data").batches(["compression"], topics="users").read_all().num_rows > 1
        True
        """
        return read_batches(select_topics(self.paths, topics), columns, max_batch_bytes, on_damage=on_damage, done=done)

    def segments(self, *, max_batch_bytes: int | None = None, on_damage: Report | None = None) -> pa.Table:
        """Return a row for each segment of all partitions, from its batch headers.

        Records are counted from the log start offset on, without control records: as many as :meth:`records` returns;
        offsets and timestamps are of what is from there on, too.

        Parameters
        ----------
        max_batch_bytes : int, optional
            Bytes that a wrapper message may inflate to (128 MiB); its records are counted by looking into it.
        on_damage : callable, optional
            Called with each :class:`Finding`, and reading goes on. Without it, the first error is raised.

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
        rows = (segment_rows(each, max_batch_bytes=max_batch_bytes, on_damage=on_damage) for each in self.paths)
        return table_of([row for of_partition in rows for row in of_partition], SEGMENTS)

    def transactions(self, *, topics: Iterable[str] | str | None = None, on_damage: Report | None = None) -> pa.Table:
        """Return a row for each transaction of all partitions that did not end before the log start offset, in the
        order in which they ended.

        Parameters
        ----------
        topics : str or iterable of str, optional
            Only topics with these names or patterns (``"click*"``).
        on_damage : callable, optional
            Called with each :class:`Finding`, and reading goes on. Without it, the first error is raised.

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
        found = (read_transactions(each, on_damage) for each in select_topics(self.paths, topics))
        return pa.concat_tables([table_of([], TRANSACTIONS), *found])

    def dataset(
        self,
        table: TableName | str,
        *,
        isolation: Isolation = "read_uncommitted",
        control: bool = False,
        prune: bool = True,
        max_batch_bytes: int | None = None,
        on_damage: Report | None = None,
    ) -> TableDataset:
        """Return a table as a ``pyarrow.dataset.Dataset``, for DuckDB, Polars, pandas and Arrow.

        Its scanner reads only what columns and filter need, each time again.

        Parameters
        ----------
        table : str
            A table's name, such as ``"records"`` or ``"batches"``, or that of a topic, whose keys and values are typed
            as in :meth:`sql`.
        isolation : {"read_uncommitted", "read_committed"}
            As in :meth:`records`.
        control : bool, default False
            Control records, too; not with ``read_committed``.
        prune : bool, default True
            As in :meth:`records`, for filters by timestamp.
        max_batch_bytes : int, optional
            Bytes that one batch may inflate to (128 MiB).
        on_damage : callable, optional
            Called with each :class:`Finding`, and reading goes on. Without it, the first error is raised.

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
        how = jobs.TableOptions(isolation, control, max_batch_bytes, on_damage, prune=prune)
        return jobs.dataset(self.directory, self.paths, table, how)

    def schema(self, decode: Decoding | None = None, *, max_batch_bytes: int | None = None) -> SchemaReport:
        """List the schemas that values name, and which topics use them, as ``brokerless schema``.

        All records are read.

        Parameters
        ----------
        decode : Decoding, optional
            Where schemas are, and what the formats of keys and values are.
        max_batch_bytes : int, optional
            Bytes that one batch may inflate to (128 MiB).

        Returns
        -------
        SchemaReport
            ``topics`` with their types, and the schemas.

        Raises
        ------
        UsageError
            For schemas that are not where ``decode`` says.
        """
        return jobs.schema(self.paths, decode, max_batch_bytes)

    def sql(
        self,
        query: str,
        *,
        schemas: str | None = None,
        isolation: Isolation = "read_uncommitted",
        control: bool = False,
        prune: bool = True,
        memory_limit: int | None = None,
        max_batch_bytes: int | None = None,
        on_damage: Report | None = None,
    ) -> pa.RecordBatchReader:
        """Run a query of SQL on the tables of :meth:`dataset` and a view for each topic, as ``brokerless sql``.

        Parameters
        ----------
        query : str
            A statement of DuckDB's SQL that has a result.
        schemas : str, optional
            Where schemas are by which the topics' views are typed; by default the topic ``_schemas`` beside them.
        isolation, control, prune, max_batch_bytes, on_damage
            As in :meth:`records`, for the tables that the query reads.
        memory_limit : int, optional
            Bytes that DuckDB may take before it spills to disk (2 GiB).

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
            isolation, control, max_batch_bytes, on_damage=on_damage, schemas=schemas, prune=prune
        )
        return jobs.sql(self.directory, self.paths, query, options, memory_limit)

    def explain(
        self, *, offset: int | None = None, records: int | None = None, max_batch_bytes: int | None = None
    ) -> Explanation:
        """Explain every byte of a batch of one partition, as ``brokerless explain``.

        Parameters
        ----------
        offset : int, optional
            The batch that has this offset, or the next one; by default the first.
        records : int, optional
            How many records are explained; all by default.
        max_batch_bytes : int, optional
            Bytes that one batch may inflate to (128 MiB).

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
        return jobs.explain(self._only("explain"), offset, records, max_batch_bytes)
