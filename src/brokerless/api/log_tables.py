"""The tables of a log: records, batches, segments and transactions, and SQL on all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from brokerless.api import jobs
from brokerless.api.jobs import records as all_records
from brokerless.api.jobs import select_topics
from brokerless.api.partition import Partition
from brokerless.arrow import table_of
from brokerless.clock import Time
from brokerless.kafka_names import Isolation
from brokerless.log.directory import LogDirectory
from brokerless.progress import Done, Report, ignore
from brokerless.schemas import SEGMENTS, TRANSACTIONS
from brokerless.tables.partition_reader import read_batches
from brokerless.text import ShownList

if TYPE_CHECKING:
    from brokerless.dataset.table_dataset import TableDataset
    from brokerless.dataset.tables import TableName
    from brokerless.tables.record_filter import RecordFilter
    from brokerless.typed.records import Decode
    from brokerless.typed.topic_type import Decoding
    from brokerless.typed.usage import SchemaReport


@dataclass(frozen=True)
class LogTables:
    """A log as tables; all of its partitions, one after the other."""

    directory: LogDirectory

    @property
    def _source(self) -> LogDirectory:
        return self.directory

    @property
    def path(self) -> str:
        return self.directory.path

    @cached_property
    def partitions(self) -> list[Partition]:
        return ShownList(Partition(each) for each in self.directory.partitions)

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
        start_offset, end_offset, start_timestamp, end_timestamp, prune, isolation, control, filter
            As in :meth:`Partition.records`; a range applies to each partition.
        max_batch_bytes, on_damage, done, jobs
            As in :meth:`Partition.records`.
        limit : int, optional
            At most so many records of all partitions together.
        decode : True, "auto", a format of values such as "json", or Decoding, optional
            As in :meth:`Partition.records`, for topics of the same types.

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
            While reading, as in :meth:`Partition.records`.

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
        return all_records(select_topics(self.partitions, topics), options, decode)

    def batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        topics: Iterable[str] | str | None = None,
        max_batch_bytes: int | None = None,
        on_damage: Report | None = None,
        done: Done = ignore,
    ) -> pa.RecordBatchReader:
        """Read the batches of all partitions, one partition after the other, as Arrow record batches.

        Parameters
        ----------
        columns : sequence of str, optional
            The columns to read, in this order; all by default.
        topics : str or iterable of str, optional
            Only topics with these names or patterns (``"click*"``).
        max_batch_bytes, on_damage, done
            As in :meth:`Partition.batches`.

        Returns
        -------
        pyarrow.RecordBatchReader
            Schema :data:`schemas.BATCHES`.

        Raises
        ------
        UsageError
            For an unknown column or topic.
        DamageError, UnreadableError
            While reading, as in :meth:`Partition.batches`.

        Examples
        --------
        >>> import brokerless
        >>> brokerless.open("demo/data").batches(["compression"], topics="users").read_all().num_rows > 1
        True
        """
        return read_batches(
            select_topics(self.partitions, topics), columns, max_batch_bytes, on_damage=on_damage, done=done
        )

    def segments(self, *, max_batch_bytes: int | None = None, on_damage: Report | None = None) -> pa.Table:
        """Return a row for each segment of all partitions, from its batch headers.

        Parameters
        ----------
        max_batch_bytes : int, optional
            Bytes that one batch may inflate to (128 MiB).
        on_damage : callable, optional
            Called with each :class:`Finding`, and reading goes on. Without it, the first error is raised.

        Returns
        -------
        pyarrow.Table
            Schema :data:`schemas.SEGMENTS`.

        Raises
        ------
        DamageError
            For the first damage, without ``on_damage``.

        Examples
        --------
        >>> import brokerless
        >>> segments = brokerless.open("demo/data").segments()
        >>> segments["topic"].to_pylist().count("users")
        6
        """
        rows = (each.segment_rows(max_batch_bytes=max_batch_bytes, on_damage=on_damage) for each in self.partitions)
        return table_of([row for of_partition in rows for row in of_partition], SEGMENTS)

    def transactions(self, *, topics: Iterable[str] | str | None = None, on_damage: Report | None = None) -> pa.Table:
        """Return a row for each transaction of all partitions, in the order in which they ended.

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
        found = (each.transactions(on_damage=on_damage) for each in select_topics(self.partitions, topics))
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
            As in :meth:`Partition.records`.
        control : bool, default False
            Control records, too; not with ``read_committed``.
        prune : bool, default True
            As in :meth:`Partition.records`, for filters by timestamp.
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
        return jobs.dataset(self._source, self.partitions, table, how)

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
        return jobs.schema(self.partitions, decode, max_batch_bytes)

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
        return jobs.sql(self._source, self.partitions, query, options, memory_limit)
