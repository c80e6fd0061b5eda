"""A ``pyarrow.dataset.Dataset`` whose rows are read when it is scanned, of which it leaves out what a filter does not
need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as fs

from brokerless.dataset.pruning import Expression, both, columns_of
from brokerless.errors import UsageError

BATCH_ROWS = 1 << 17
_READAHEAD = 2
"""Record batches that are read before they are asked for."""
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
        self._rows, self._filter = rows, filter

    def __reduce__(self) -> tuple[Any, ...]:
        return TableDataset, (self._rows, self._filter)

    @property
    def schema(self) -> pa.Schema:
        return self._rows.schema

    def scanner(
        self,
        columns: Columns = None,
        filter: Expression | None = None,
        batch_size: int = BATCH_ROWS,
        use_threads: bool = True,
        **_: Any,
    ) -> Any:
        """A ``pyarrow.dataset.Scanner`` of some columns (names, or expressions by name; all by default) of the rows for
        which ``filter`` is true, in record batches of at most ``batch_size`` rows. Other arguments of Arrow's method
        say how files are read, and are ignored.

        Raises Arrow's errors for columns and filters that do not fit the schema; while reading, what the table's
        reader raises."""
        condition = both(self._filter, filter)
        needed = self._needed(columns, condition)
        schema = pa.schema([self.schema.field(name) for name in needed])
        reader = pa.RecordBatchReader.from_batches(schema, self._rows.read(needed, condition))
        selected = list(columns) if columns is not None and not isinstance(columns, Mapping) else columns
        if selected is None:
            selected = list(self.schema.names)
        return cast(Any, ds.Scanner).from_batches(
            reader, columns=selected, filter=condition, batch_size=batch_size,
            batch_readahead=_READAHEAD, use_threads=use_threads,
        )  # fmt: skip

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
        """As :meth:`scanner`; record batches as they are read."""
        return self.scanner(columns, filter, **options).to_batches()

    def to_table(self, columns: Columns = None, filter: Expression | None = None, **options: Any) -> pa.Table:
        """As :meth:`scanner`; all of it in memory."""
        return self.scanner(columns, filter, **options).to_table()

    def head(
        self, num_rows: int, columns: Columns = None, filter: Expression | None = None, **options: Any
    ) -> pa.Table:
        """The first rows, as :meth:`scanner` has them."""
        return self.scanner(columns, filter, **options).head(num_rows)

    def take(self, indices: Any, columns: Columns = None, filter: Expression | None = None, **options: Any) -> pa.Table:
        """Some rows by their number, of all that :meth:`scanner` has."""
        return self.scanner(columns, filter, **options).take(indices)

    def count_rows(self, filter: Expression | None = None, **options: Any) -> int:
        """How many rows there are."""
        return sum(each.num_rows for each in self.to_batches([self._cheapest], filter, **options))

    def filter(self, expression: Expression) -> TableDataset:
        """The rows for which an expression is true, as a dataset."""
        return TableDataset(self._rows, both(self._filter, expression))

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


def _in_memory(dataset: Any) -> Any:
    return ds.InMemoryDataset(dataset.to_table()) if isinstance(dataset, TableDataset) else dataset
