"""One topic of a log: its partitions, and its records as a table of whichever library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import pyarrow as pa

from brokerless.api import jobs
from brokerless.api.partition import DataFrames, Partition, ReadingOptions
from brokerless.arrow import table_of
from brokerless.errors import UsageError
from brokerless.progress import Done, Report, ignore
from brokerless.schemas import TRANSACTIONS
from brokerless.tables.arguments import checked_methods
from brokerless.tables.partition_reader import read_batches
from brokerless.text import format_bytes, html_table

if TYPE_CHECKING:
    from brokerless.dataset.table_dataset import TableDataset
    from brokerless.kafka_names import Isolation
    from brokerless.log.directory import LogDirectory


class BatchOptions(TypedDict, total=False):
    """The options of :meth:`Log.batches`."""

    max_batch_bytes: int | None
    on_damage: Report | None
    done: Done


@checked_methods
@dataclass(frozen=True)
class Topic(DataFrames):
    """What :meth:`Log.topic` returns. Its methods are those of :class:`Log`, with the same options, for this topic."""

    directory: LogDirectory
    name: str
    partitions: Sequence[Partition]

    def partition(self, partition: int) -> Partition:
        """One partition.

        Parameters
        ----------
        partition : int
            Its number.

        Raises
        ------
        UsageError
            If it is not there.
        """
        for each in self.partitions:
            if each.partition == partition:
                return each
        raise UsageError(f"there is no partition {self.name}-{partition} in {self.directory.path}")

    def records(self, columns: Sequence[str] | None = None, **options: Unpack[ReadingOptions]) -> pa.RecordBatchReader:
        """Read records, as :meth:`Log.records`.

        Parameters
        ----------
        columns : sequence of str, optional
            The columns to read, in this order; all by default.
        **options
            As :meth:`Log.records` takes them.

        Returns
        -------
        pyarrow.RecordBatchReader
            Schema :data:`schemas.RECORDS`.

        Examples
        --------
        >>> import brokerless
        >>> brokerless.open("demo/data").topic("orders").records(["key"], limit=2).read_all().num_rows
        2
        """
        from brokerless.tables.read_options import ReadOptions, range_of

        others: dict[str, Any] = dict(options)
        decode = others.pop("decode", None)
        ranges = ("start_offset", "end_offset", "start_timestamp", "end_timestamp")
        read = range_of(*(others.pop(name, None) for name in ranges), prune=others.pop("prune", True))
        return jobs.records(self.partitions, ReadOptions(columns=columns, range=read, **others), decode)

    def batches(self, columns: Sequence[str] | None = None, **options: Unpack[BatchOptions]) -> pa.RecordBatchReader:
        """Read batches, as :meth:`Log.batches`.

        Parameters
        ----------
        columns : sequence of str, optional
            The columns to read, in this order; all by default.
        **options
            As :meth:`Log.batches` takes them.

        Returns
        -------
        pyarrow.RecordBatchReader
            Schema :data:`schemas.BATCHES`.
        """
        bound, on_damage, done = (options.get(name) for name in ("max_batch_bytes", "on_damage", "done"))
        return read_batches(self.partitions, columns, bound, on_damage=on_damage, done=done or ignore)

    def transactions(self, *, on_damage: Report | None = None) -> pa.Table:
        """Return a row for each transaction, as :meth:`Log.transactions`.

        Parameters
        ----------
        on_damage : callable, optional
            Called with each :class:`Finding`, and reading goes on. Without it, the first error is raised.

        Returns
        -------
        pyarrow.Table
            Schema :data:`schemas.TRANSACTIONS`.
        """
        found = (each.transactions(on_damage=on_damage) for each in self.partitions)
        return pa.concat_tables([table_of([], TRANSACTIONS), *found])

    def dataset(
        self,
        *,
        isolation: Isolation = "read_uncommitted",
        control: bool = False,
        prune: bool = True,
        max_batch_bytes: int | None = None,
        on_damage: Report | None = None,
    ) -> TableDataset:
        """Return the records as a ``pyarrow.dataset.Dataset``, as ``log.dataset("orders")``.

        Parameters
        ----------
        isolation, control, prune, max_batch_bytes, on_damage
            As :meth:`Log.dataset` takes them.

        Returns
        -------
        TableDataset
            A dataset with the topic's keys and values typed.
        """
        how = jobs.TableOptions(isolation, control, max_batch_bytes, on_damage, prune=prune)
        return jobs.topic_dataset(self.directory, self.partitions, self.name, how)

    def sql(
        self, query: str, *, schemas: str | None = None, prune: bool = True, on_damage: Report | None = None
    ) -> pa.RecordBatchReader:
        """Run a query of SQL, as :meth:`Log.sql`: on tables of this topic's partitions alone, and a view by its name.

        Parameters
        ----------
        query : str
            A statement of DuckDB's SQL that has a result.
        schemas : str, optional
            Where schemas are; by default the topic ``_schemas`` beside it.
        prune : bool, default True
            As in :meth:`Partition.records`.
        on_damage : callable, optional
            Called with each :class:`Finding`, and reading goes on. Without it, the first error is raised.

        Returns
        -------
        pyarrow.RecordBatchReader
            The result, as a stream.

        Raises
        ------
        UsageError
            For a query that DuckDB refuses.

        Examples
        --------
        >>> import brokerless
        >>> orders = brokerless.open("demo/data").topic("orders")
        >>> orders.sql("SELECT count(*) AS records FROM orders").read_all().to_pylist()
        [{'records': 3796}]
        """
        how = jobs.TableOptions(on_damage=on_damage, schemas=schemas, prune=prune)
        return jobs.sql(self.directory, self.partitions, query, how)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self.partitions)

    def __len__(self) -> int:
        return len(self.partitions)

    def _table_row(self) -> dict[str, Any]:
        """Return what a table of topics shows of it, by the listing; nothing is read."""
        segments = sum(len(each.paths.segments) for each in self.partitions)
        size = sum(each.paths.size for each in self.partitions)
        return {"topic": self.name, "partitions": len(self.partitions), "segments": segments, "bytes": size}

    def __repr__(self) -> str:
        """``Topic(orders, 3 partitions, 378.3 KB)``, by the listing; nothing is read."""
        own = self.partitions
        size = format_bytes(sum(each.paths.size for each in own))
        return f"Topic({self.name}, {len(own):,} partition{'' if len(own) == 1 else 's'}, {size})"

    def _repr_html_(self) -> str:
        rows = [
            (each.partition, each.paths.state, len(each.paths.segments), each.paths.size) for each in self.partitions
        ]
        return html_table(self.name, ("partition", "state", "segments", "bytes"), rows)
