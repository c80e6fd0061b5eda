"""Reads the records of one partition out of a table, in the order of their offsets, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from brokerless import arrow
from brokerless.errors import UnreadableError, missing_libraries
from brokerless.findings import Kind
from brokerless.interchange.hive_paths import exported_start, find_sources, merge
from brokerless.interchange.input_files import read_exported
from brokerless.jobs.diff.copied_partition import Unread
from brokerless.jobs.diff.exported.decoding import SIDES, DecodedHashes, note_undecoded
from brokerless.jobs.diff.exported.listing import TablePartition
from brokerless.jobs.diff.exported.offset_file import OffsetFile
from brokerless.jobs.diff.exported.value_hashes import ValueHasher
from brokerless.progress import ignore
from brokerless.schemas import HEADERS
from brokerless.table_formats import export_state
from brokerless.table_formats.store import open_store

_MEMORY = "512MB"
"""What DuckDB takes before it sorts on disk."""
_ROWS = 1 << 14
_RAW = ("keyRaw", "valueRaw")
SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64()), pa.field("timestamp", pa.int64()), pa.field("key", pa.binary()),
        pa.field("value", pa.binary()), pa.field("headers", HEADERS),
    ]
)  # fmt: skip
"""``timestamp`` in ms, -1 for none."""


@dataclass(frozen=True, slots=True)
class CopyNotes:
    """What is recorded while a partition is copied, in files of a directory."""

    directory: Path
    """The directory of these files."""
    hasher: ValueHasher
    """The hasher of decoded values."""
    unread: list[Unread] = field(default_factory=list[Unread])
    """The offsets of files that cannot be read."""

    @property
    def repeated(self) -> Path:
        """The offsets of rows of which there was one before."""
        return self.directory / "repeated"

    def undecoded(self, name: str) -> Path:
        """Return the offsets of rows that have the bytes of a ``key`` or ``value`` that could not be decoded."""
        return self.directory / f"undecoded-{name}"


def table_rows(partition: TablePartition, scratch: Path, notes: CopyNotes) -> Iterator[pa.RecordBatch]:
    """Yield the records of a partition with rising offsets, as :func:`brokerless.jobs.load.loader.load_into` takes
    them; of decoded ones, hashes of keys and values. ``scratch``: an own directory for what is sorted.

    Raises :class:`UsageError` without the libraries that the format needs, and UnreadableError for rows that are not
    those of an export."""
    try:
        rows = _exported(partition, notes) if partition.form == "parquet" else _sorted(partition, scratch, notes)
        with ExitStack() as stack:
            repeated = stack.enter_context(OffsetFile(notes.repeated))
            undecoded = {
                name: stack.enter_context(OffsetFile(notes.undecoded(name)))
                for name in (SIDES if partition.decoded is not None else ())
            }
            for batch in _once(rows, repeated):
                note_undecoded(batch, undecoded)
                yield batch
    except (pa.ArrowException, KeyError, AttributeError, RecursionError) as error:
        raise _failed(partition, error) from error


def _once(batches: Iterator[pa.RecordBatch], repeated: OffsetFile) -> Iterator[pa.RecordBatch]:
    """Yield the first row of each offset; the offsets of the others are recorded, however many there are."""
    last = -1
    for batch in batches:
        column = batch.column("offset")
        if not batch.num_rows or column.null_count:  # which is refused where it is written
            yield batch
            continue
        offsets = arrow.numbers(column, np.int64)
        is_again = offsets == np.append(last, offsets[:-1])
        last = int(offsets[-1])
        if is_again.any():
            repeated.add(offsets[is_again])
            batch = batch.take(arrow.column_of_numbers(pa.int64(), np.flatnonzero(~is_again)))
        yield batch


def _exported(partition: TablePartition, notes: CopyNotes) -> Iterator[pa.RecordBatch]:
    topic, number = partition.place
    directory = export_state.topic_directory(partition.store, topic)
    found: list[tuple[int, str]] = []
    for each in find_sources(directory.path, (".parquet",)):
        first = exported_start(each, number)
        if first is not None:
            found.append((first, each.files[0]))
    found.sort()
    has_days = len({path.rpartition("/")[0] for _, path in found}) > 1  # each with some of the same offsets
    ends = [max(partition.end, first + 1) for first, _ in found]
    if not has_days:
        ends[:-1] = [first for first, _ in found[1:]]
    opens = [
        partial(_intact, partition, path, first, end=end, notes=notes)
        for (first, path), end in zip(found, ends, strict=True)
    ]
    for batch in merge([first for first, _ in found], opens):
        _check_columns(partition, batch)
        _check_place(partition, batch)
        yield batch.select([name for name in batch.schema.names if name in (*SCHEMA.names, "timestampType")])


def _intact(
    partition: TablePartition, path: str, first: int, *, end: int, notes: CopyNotes
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file up to where it is damaged."""
    decoded = None if partition.decoded is None else DecodedHashes(partition.decoded, notes.hasher)
    try:
        for batch in read_exported(path, ignore, may_repeat=True, is_decoded=decoded is not None):
            yield batch if decoded is None else decoded.in_table(batch)
            if batch.num_rows:
                first = int(arrow.numbers(batch.column("offset"), np.int64)[-1]) + 1
    except UnreadableError as error:
        if error.kind == Kind.FOREIGN_FILE:
            raise
        notes.unread.append(Unread(first, max(end, first + 1), error.finding(path, first)))


def _check_columns(partition: TablePartition, batch: pa.RecordBatch) -> None:
    """Raise :class:`UnreadableError` where a column of an export is not there: ``load`` would give each row an offset
    of its own, and the present time."""
    lacking = [name for name in SCHEMA.names if name not in batch.schema.names]
    if lacking:
        text = f"these are no rows of an export: there is no column {', '.join(lacking)}"
        raise UnreadableError(partition.url, f"{text}, so that it cannot be compared; put back what was exported")


def _check_place(partition: TablePartition, batch: pa.RecordBatch) -> None:
    """Raise :class:`UnreadableError` for a row of another topic or partition, or of none, in the files of this one."""
    for name, own in zip(("topic", "partition"), partition.place, strict=True):
        there: list[Any] = arrow.values(batch.column(name).unique()) if name in batch.schema.names else []
        for other in there:
            if other != own:
                text = f"says no {name}" if other is None else f"is of {name} {other}"
                text = f"a row in the files of this partition {text}; put back what was exported"
                raise UnreadableError(partition.url, text)


def _read(partition: TablePartition, notes: CopyNotes) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table of Iceberg or Delta, up to a file that cannot be read: which offsets are in it, and in
    those after it, is not known."""
    topic, number = partition.place
    assert partition.form != "parquet"
    names = ("key", "value", "kafka", *(() if partition.decoded is None else _RAW))
    try:
        yield from open_store(partition.form, partition.store).read(topic, number, names)
    except UnreadableError as error:
        notes.unread.append(Unread(partition.begin, max(partition.end, 1), error.finding(partition.url)))


def _flat(partition: TablePartition, notes: CopyNotes, refused: list[UnreadableError]) -> Iterator[pa.RecordBatch]:
    """The rows of a partition in a table of Iceberg or Delta, in no order. ``refused`` gets why they are none, which
    DuckDB says in words of its own."""
    decoded = None if partition.decoded is None else DecodedHashes(partition.decoded, notes.hasher)
    for batch in _read(partition, notes):
        kafka = cast(Any, batch.column("kafka"))
        try:
            _check_place(partition, pa.RecordBatch.from_arrays([kafka.field("topic")], ["topic"]))
        except UnreadableError as error:
            refused.append(error)
            raise
        times, raw = kafka.field("timestamp"), kafka.field("timestampRaw")
        milliseconds = np.where(
            arrow.is_valid(times),
            arrow.numbers(times.cast(pa.timestamp("us", "UTC")), np.int64) // 1000,
            np.where(arrow.is_valid(raw), arrow.numbers(raw, np.int64), -1),
        )
        contents = batch if decoded is None else decoded.in_table(batch)
        columns = {
            "offset": kafka.field("offset"),
            "timestamp": arrow.column_of_numbers(pa.int64(), milliseconds),
            "key": contents.column("key").cast(pa.binary()),
            "value": contents.column("value").cast(pa.binary()),
            "headers": kafka.field("headers").cast(HEADERS),
        }
        yield pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _sorted(partition: TablePartition, scratch: Path, notes: CopyNotes) -> Iterator[pa.RecordBatch]:
    """Yield rows by their offsets: files of a table may have been written again by others, in any order."""
    try:
        import duckdb
    except ImportError as error:
        raise missing_libraries("sorting the rows of a table needs DuckDB", "sql") from error
    with ExitStack() as stack:
        connection = stack.enter_context(duckdb.connect(":memory:"))
        for setting, value in (("memory_limit", _MEMORY), ("temp_directory", str(scratch)), ("threads", "1")):
            connection.execute(f"SET {setting} = '{value}'")
        refused: list[UnreadableError] = []
        flat = _flat(partition, notes, refused)
        connection.register("rows", pa.RecordBatchReader.from_batches(SCHEMA, flat))
        try:
            found: Any = connection.sql('SELECT * FROM "rows" ORDER BY "offset"')
            stream = getattr(found, "to_arrow_reader", None) or found.fetch_arrow_reader  # before DuckDB 1.4
            for batch in stream(_ROWS):
                columns = [batch.column(each.name).cast(each.type) for each in SCHEMA]
                yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
        except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
            text = f"its rows cannot be sorted in the temporary directory {scratch.parent}: {error}"
            raise UnreadableError(partition.url, f"{text}; set TMPDIR to a directory with more room") from error
        except duckdb.Error as error:
            if refused:
                raise refused[0] from error
            raise _failed(partition, error) from error


def _failed(partition: TablePartition, error: Exception) -> UnreadableError:
    return UnreadableError(partition.url, f"these are no rows of an export: {' '.join(str(error).split())[:500]}")
