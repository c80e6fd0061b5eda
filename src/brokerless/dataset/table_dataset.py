"""A ``pyarrow.dataset.Dataset`` whose rows are read when it is scanned, of which it leaves out what a filter does not
need."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any, Protocol, cast

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as fs

from brokerless.dataset.pruning import Expression, both, columns_of
from brokerless.errors import UsageError
from brokerless.tables.partition_tables import first_rows
from brokerless.tables.read_options import whole_number

BATCH_ROWS = 1 << 17
_ELSEWHERE = "/a table of brokerless is read by the methods of its dataset only/"
"""What Arrow says it cannot open where something in C++ reads the dataset without its methods."""

Columns = Sequence[str] | Mapping[str, Expression] | None
_ArrowDataset: Any = ds.UnionDataset  # the published stubs lack most of it


class Rows(Protocol):
    """Reads the rows of one table."""

    @property
    def schema(self) -> pa.Schema: ...

    def read(self, columns: Sequence[str], filter: Expression | None) -> Iterator[pa.RecordBatch]:
        """All rows for which ``filter`` may be true, and maybe others, with some columns in the order of the schema."""
        ...


class TableDataset(_ArrowDataset):
    """One table of a log as an Arrow dataset. DuckDB, Polars and others call :meth:`scanner`, :meth:`to_batches` or
    :meth:`to_table` with the columns and the filter of a query; only what these need is read, each time again.

    Arrow's own code in C++ cannot call these methods. Where it would read a dataset by itself (a union of datasets, a
    declaration of Acero) it fails, and yields nothing.
    """

    def __init__(self, rows: Rows, filter: Expression | None = None) -> None:
        form, nowhere = ds.IpcFileFormat(), fs.LocalFileSystem()
        fragment = cast(Any, form).make_fragment(_ELSEWHERE, nowhere)
        files = ds.FileSystemDataset([fragment], rows.schema, form, nowhere)
        _ArrowDataset.__init__(self, rows.schema, [files])
        self.rows, self._filter = rows, filter

    def __reduce__(self) -> tuple[Any, ...]:
        return TableDataset, (self.rows, self._filter)

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """All rows as Arrow's stream of C, which ``pyarrow.dataset.write_dataset`` and others read."""
        return cast(Any, self.scanner().to_reader()).__arrow_c_stream__(requested_schema)

    def scanner(
        self,
        columns: Columns = None,
        filter: Expression | None = None,
        batch_size: int = BATCH_ROWS,
        **_: Any,
    ) -> TableScanner:
        """Some columns (names, or expressions by name; all by default) of rows for which ``filter`` is true, in record
        batches of at most ``batch_size`` rows. Other arguments of Arrow's method say how files are read, and are
        ignored.

        Raises Arrow's errors for columns and filters that do not fit the schema; while reading, what the table's
        reader raises."""
        condition = both(self._filter, filter)
        needed = self._needed(columns, condition)
        selected = columns if isinstance(columns, Mapping) else list(self.schema.names if columns is None else columns)
        return TableScanner(self.rows, needed, condition, columns=selected, batch_size=batch_size)

    def _needed(self, columns: Columns, condition: Expression | None) -> list[str]:
        expressions = [] if condition is None else [condition]
        if columns is None:
            columns_of(expressions, self.schema)  # which raises what is wrong with them
            return list(self.schema.names)
        if isinstance(columns, Mapping):
            expressions += columns.values()
            names = set[str]()
        else:
            expressions += map(ds.field, columns)
            names = set(columns)
        names.update(columns_of(expressions, self.schema))
        # A reader of no columns would have no rows.
        return [name for name in self.schema.names if name in names] or [self._cheapest]

    @property
    def _cheapest(self) -> str:
        fixed = [each.name for each in self.schema if pa.types.is_int64(each.type)]
        return fixed[0] if fixed else self.schema.names[0]

    def to_batches(self, columns: Columns = None, filter: Expression | None = None, **options: Any) -> Iterator[Any]:
        """Yield record batches as they are read, with the arguments of :meth:`scanner`."""
        return self.scanner(columns, filter, **options).to_batches()

    def to_table(self, columns: Columns = None, filter: Expression | None = None, **options: Any) -> pa.Table:
        """Return all rows, in memory, with the arguments of :meth:`scanner`."""
        return self.scanner(columns, filter, **options).to_table()

    def head(
        self, num_rows: int, columns: Columns = None, filter: Expression | None = None, **options: Any
    ) -> pa.Table:
        """Return the first rows, as :meth:`scanner` has them."""
        return self.scanner(columns, filter, **options).head(num_rows)

    def take(self, indices: Any, columns: Columns = None, filter: Expression | None = None, **options: Any) -> pa.Table:
        """Some rows by their number, of all that :meth:`scanner` has."""
        return self.scanner(columns, filter, **options).take(indices)

    def count_rows(self, filter: Expression | None = None, **options: Any) -> int:
        """Return how many rows there are."""
        return self.scanner([self._cheapest], filter, **options).count_rows()

    def filter(self, expression: Expression) -> TableDataset:
        """Return the rows for which an expression is true, as a dataset."""
        return TableDataset(self.rows, both(self._filter, expression))

    def sort_by(self, sorting: Any, **options: Any) -> Any:
        """All rows in memory, sorted, as an ``InMemoryDataset``."""
        return ds.InMemoryDataset(self.to_table().sort_by(sorting, **options))

    def join(self, right_dataset: Any, *arguments: Any, **options: Any) -> Any:
        """All rows in memory, joined with another dataset, as an ``InMemoryDataset``."""
        return cast(Any, ds.InMemoryDataset(self.to_table())).join(_in_memory(right_dataset), *arguments, **options)

    def join_asof(self, right_dataset: Any, *arguments: Any, **options: Any) -> Any:
        """As :meth:`join`."""
        left = cast(Any, ds.InMemoryDataset(self.to_table()))
        return left.join_asof(_in_memory(right_dataset), *arguments, **options)

    def get_fragments(self, filter: Expression | None = None) -> Any:
        """Not for these datasets, which have no files that Arrow could read. Raises :class:`UsageError`."""
        raise UsageError("a table of a log has no fragments; use scanner, to_batches or to_table")

    def replace_schema(self, schema: pa.Schema) -> Any:
        """As :meth:`get_fragments`."""
        raise UsageError("the schema of a table of a log is fixed; cast the columns of what scanner returns")


@dataclass(frozen=True)
class TableScanner:
    """What :meth:`TableDataset.scanner` returns, with the methods of ``pyarrow.dataset.Scanner``. Rows are read
    when they are requested, by whoever requests them: Arrow's own scanner reads ahead in threads, which nothing
    stops when nobody asks any more."""

    rows: Rows
    needed: Sequence[str]
    filter: Expression | None
    columns: Sequence[str] | Mapping[str, Expression]
    batch_size: int = BATCH_ROWS

    @property
    def dataset_schema(self) -> pa.Schema:
        return self.rows.schema

    @cached_property
    def projected_schema(self) -> pa.Schema:
        return self._selected(self._read_schema.empty_table()).schema

    @property
    def _read_schema(self) -> pa.Schema:
        return pa.schema([self.rows.schema.field(name) for name in self.needed])

    def _selected(self, read: Any) -> pa.Table:
        """The rows and columns of what was read that are requested."""
        columns = self.columns if isinstance(self.columns, Mapping) else list(self.columns)
        scanned: Any = ds.InMemoryDataset(read).scanner(columns=columns, filter=self.filter, use_threads=False)
        return scanned.to_table()

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Record batches as they are read."""
        is_all = self.filter is None and not isinstance(self.columns, Mapping) and self.columns
        for batch in self.rows.read(self.needed, self.filter):
            found = [batch.select(list(self.columns))] if is_all else self._selected(batch).to_batches()
            del batch  # freed before the next one is read
            for each in found:
                for start in range(0, each.num_rows, self.batch_size):
                    yield each.slice(start, self.batch_size)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def scan_batches(self) -> Iterator[pa.RecordBatch]:
        """As :meth:`to_batches`."""
        return self.to_batches()

    def to_table(self) -> pa.Table:
        """All of it in memory."""
        return pa.Table.from_batches(list(self.to_batches()), self.projected_schema)

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows; nothing more is read."""
        num_rows = whole_number("num_rows", num_rows) or 0
        with closing(cast("Generator[pa.RecordBatch]", self.to_batches())) as batches:
            found = [batch for batch, _ in first_rows(zip(batches, repeat(None), strict=False), num_rows)]
        return pa.Table.from_batches(found, self.projected_schema)

    def take(self, indices: Any) -> pa.Table:
        """Some rows by their number."""
        return self.to_table().take(indices)

    def count_rows(self) -> int:
        """Return how many rows there are."""
        return sum(batch.num_rows for batch in self.to_batches())


def _in_memory(dataset: Any) -> Any:
    return ds.InMemoryDataset(dataset.to_table()) if isinstance(dataset, TableDataset) else dataset
