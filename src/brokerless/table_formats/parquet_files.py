"""Writes the records of one partition as Parquet files of bounded size, optionally by date."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from brokerless.arrow import column_of_numbers, is_valid, numbers
from brokerless.interchange.input_splits import TOPIC, TOPIC_ID
from brokerless.log.storage import file_tree
from brokerless.log.storage.location import Location
from brokerless.log.storage.write_errors import storage_errors
from brokerless.schemas import RECORDS
from brokerless.table_formats.data_files import DataTarget, OpenDataFile, data_file_name
from brokerless.table_formats.export_state import file_name
from brokerless.table_formats.parquet_bounds import columns_with_bounds, nan_columns
from brokerless.table_formats.rows import days_of

COLUMNS = ("key", "value", "partition", "offset", "timestamp", "timestampType", "headers")
"""Those of a record as Kafka's consumers know it. The topic is in the path: in the files as well, it would be there
twice, in types of which some readers say that they do not fit."""
SCHEMA = pa.schema([RECORDS.field(name) for name in COLUMNS])
FILE_BYTES = 256 << 20
"""About how large a file gets, unless the caller says otherwise."""
NO_DATE = "__HIVE_DEFAULT_PARTITION__"
"""Hive's null: for records without a timestamp, and for those outside of the years 1 to 9999, which have no date."""

_ROW_GROUP = 32 << 20
"""Bytes of records, before they are encoded, that make a row group."""
_WAITING = 64 << 20
"""Bytes of records of all dates together that wait to become row groups."""
_OPEN = 16
"""Files that are being written at once, of as many dates."""
_DAY = 86_400_000
_EPOCH = date(1970, 1, 1)
_NO_DAY = -(1 << 40)


@dataclass(frozen=True, slots=True)
class ParquetFile:
    """A finished file."""

    name: str
    """The file's path in the topic's directory."""
    unfinished: str | None
    """Where in that directory it waits to be published; None where it does not wait."""
    records: int
    size: int
    """In bytes."""
    first_offset: int
    last_offset: int
    day: int | None = None
    """The date of its records, by days since 1970; None for those without one."""
    footer: pq.FileMetaData | None = None
    """Of a table's data file, by which its commit has statistics."""


@dataclass(frozen=True, slots=True)
class ParquetLayout:
    """The places and the form of Parquet files."""

    directory: Location | None
    """The topic's directory; None writes nothing, and only counts."""
    partition: int
    by_date: bool
    codec: str
    file_bytes: int
    """A file ends with the row group that reaches this size."""
    topic: str | None = None
    topic_id: str | None = None
    """Both are recorded in the metadata of each file, if they are known."""
    schema: pa.Schema = SCHEMA
    """Of the records, which may be decoded."""
    table: DataTarget | None = None
    """The table that the files are of, in which rows have another form."""


class ParquetFiles:
    """The files of a partition, while they are written; one of :meth:`finish` and :meth:`abandon` ends them."""

    def __init__(self, layout: ParquetLayout) -> None:
        self._layout = layout
        self._row_group = max(1, min(_ROW_GROUP, layout.file_bytes // 8))
        self._waiting: dict[int, _RowGroup] = {}
        self._size = 0
        self._open: dict[int, _OpenParquetFile] = {}
        self._written: list[ParquetFile] = []
        self._with_nan: set[int] = set()

    def add(self, batch: pa.RecordBatch) -> None:
        """Write a batch, which has the columns of :data:`SCHEMA`, or of the table, in the order of offsets. Raises
        :class:`UnwritableError`."""
        for day, part in _by_day(batch) if self._layout.by_date else ((0, batch),):
            for bounded in _bounded(part, self._row_group):
                if day in self._waiting and self._waiting[day].size + bounded.nbytes > self._row_group:
                    self._write(day)
                waiting = self._waiting.setdefault(day, _RowGroup())
                waiting.batches.append(bounded)
                waiting.size += bounded.nbytes
                self._size += bounded.nbytes
        while self._size > _WAITING:
            self._write(max(self._waiting, key=lambda day: self._waiting[day].size))

    def finish(self) -> tuple[ParquetFile, ...]:
        """Writes what waits, and finishes all files."""
        for day in list(self._waiting):
            self._write(day)
        for day in list(self._open):
            self._close(day)
        return tuple(sorted(self._written, key=lambda each: (each.first_offset, each.name)))

    def abandon(self) -> None:
        """Takes away all that was written."""
        for parquet in self._open.values():
            parquet.abandon()
        self._open.clear()
        self._waiting.clear()
        for each in self._written:
            discard_file(each, self._layout)
        self._written.clear()

    def _write(self, day: int) -> None:
        waiting = self._waiting.pop(day)
        self._size -= waiting.size
        nan = nan_columns(waiting.batches)
        self._with_nan |= nan
        if day in self._open and not nan <= self._open[day].without_bounds:
            self._close(day)  # in another file, the column has no bounds
        parquet = self._open.pop(day, None)
        if parquet is None:
            if len(self._open) >= _OPEN:
                self._close(next(iter(self._open)))  # the one that was not written to for longest
            parquet = _OpenParquetFile(self._layout, day, int(_offsets(waiting.batches[0])[0]), self._with_nan)
        self._open[day] = parquet
        parquet.write(waiting.batches)
        if parquet.size >= self._layout.file_bytes:
            self._close(day)

    def _close(self, day: int) -> None:
        parquet = self._open[day]
        self._written.append(parquet.finish())
        del self._open[day]


@dataclass(slots=True)
class _RowGroup:
    """Records of one date that wait to become a row group."""

    batches: list[pa.RecordBatch] = field(default_factory=list[pa.RecordBatch])
    size: int = 0


class _OpenParquetFile:
    """One file that is being written. ``without_bounds``: the numbers of columns that may get a NaN."""

    def __init__(self, layout: ParquetLayout, day: int, first_offset: int, without_bounds: set[int]) -> None:
        self.without_bounds = frozenset(without_bounds)
        self._day = None if day == _NO_DAY else day
        self._first_offset = self._last_offset = first_offset
        self._records = 0
        self._file: OpenDataFile | None = None
        self._footer: list[pq.FileMetaData] = []
        self.name = file_name(layout.partition, first_offset)
        if layout.table is not None:
            self.name = data_file_name(_date(day), layout.partition, first_offset)
        elif layout.by_date:
            self.name = f"date={_date(day)}/{self.name}"
        if layout.directory is None:
            self._sink: Any = cast(Any, pa).MockOutputStream()
        else:
            if layout.table is not None:
                self._file = layout.table.new_file(self.name)
            else:
                self._file = file_tree.NewFile(layout.directory, self.name)
            self._sink = pa.PythonFile(self._file.sink, mode="w")
        self._path = self.name if self._file is None else self._file.path
        schema = self._schema = layout.schema if layout.table is None else layout.table.schema
        if layout.topic is not None and layout.topic_id is not None:
            schema = schema.with_metadata({TOPIC: layout.topic, TOPIC_ID: layout.topic_id})
        own: Any = {} if layout.table is None else {"metadata_collector": self._footer, "store_schema": False}
        own["write_statistics"] = columns_with_bounds(schema, without_bounds) if without_bounds else True
        with storage_errors(self._path):
            self._writer = pq.ParquetWriter(self._sink, schema, compression=layout.codec, **own)

    @property
    def size(self) -> int:
        return int(self._sink.tell()) if self._file is None else int(self._file.sink.tell())

    def write(self, batches: list[pa.RecordBatch]) -> None:
        table = pa.Table.from_batches(batches, self._schema)
        with storage_errors(self._path):
            self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._records += table.num_rows
        self._last_offset = int(_offsets(batches[-1])[-1])

    def finish(self) -> ParquetFile:
        with storage_errors(self._path):
            self._writer.close()
        size = self.size
        if self._file is not None:
            self._file.finish()
        unfinished = None if self._file is None else self._file.unfinished
        footer = self._footer[0] if self._footer else None
        records, first, last = self._records, self._first_offset, self._last_offset
        return ParquetFile(
            self.name,
            unfinished,
            records,
            size=size,
            first_offset=first,
            last_offset=last,
            day=self._day,
            footer=footer,
        )

    def abandon(self) -> None:
        with suppress(Exception):
            self._writer.close()  # which it would try by itself, when nobody listens
        # Where that fails, as on a full disk, pyarrow (24.0) would try again as it is collected, and print a traceback.
        self._writer.is_open = False
        if self._file is not None:
            self._file.abandon()


def discard_file(written: ParquetFile, layout: ParquetLayout) -> None:
    """Takes a file away that was finished, but is not to be published."""
    if written.unfinished is None or layout.directory is None:
        return
    if layout.table is not None:
        layout.table.remove(written.unfinished)
    else:
        file_tree.remove(layout.directory, written.unfinished)


def publish_file(written: ParquetFile, layout: ParquetLayout) -> None:
    """Gives a finished file its name."""
    if written.unfinished is None or layout.directory is None:
        return
    if layout.table is not None:
        layout.table.publish(written.unfinished, written.name)
    else:
        file_tree.publish(layout.directory, written.unfinished, written.name)


def _bounded(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """Slices of about ``size`` bytes at most."""
    slices = min(batch.num_rows, -(-batch.nbytes // size))
    rows = -(-batch.num_rows // max(slices, 1))
    for start in range(0, batch.num_rows, max(rows, 1)):
        yield batch.slice(start, rows) if slices > 1 else batch


def _by_day(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each date (UTC), by days since 1970, in their order."""
    days = _days_of(batch)
    if not len(days) or (days == days[0]).all():
        if len(days):
            yield int(days[0]), batch
        return
    order = np.argsort(days, kind="stable")
    bounds = np.flatnonzero(np.diff(days[order])) + 1
    for rows in np.split(order, bounds):
        # Copied: a slice would keep all of the batch as long as the rarest of its dates waits.
        yield int(days[rows[0]]), batch.take(column_of_numbers(pa.int64(), rows))


def _days_of(batch: pa.RecordBatch) -> NDArray[np.int64]:
    if "kafka" not in batch.schema.names:
        return _days(numbers(batch.column("timestamp"), np.int64))
    times = _of_kafka(batch, "timestamp")
    return np.where(is_valid(times), numbers(times, np.int64) // (_DAY * 1000), _NO_DAY)


def _offsets(batch: pa.RecordBatch) -> NDArray[np.int64]:
    is_row = "kafka" in batch.schema.names
    return numbers(_of_kafka(batch, "offset") if is_row else batch.column("offset"), np.int64)


def _of_kafka(batch: pa.RecordBatch, name: str) -> Any:
    """Return one of Kafka's own columns of a table's rows."""
    return cast(Any, batch.column("kafka")).field(name)


def _days(timestamps: NDArray[np.int64]) -> NDArray[np.int64]:
    days, has_none = days_of(timestamps)
    return np.where(has_none, _NO_DAY, days)


def _date(day: int) -> str:
    return NO_DATE if day == _NO_DAY else (_EPOCH + timedelta(days=day)).isoformat()
