"""Reads the records of one partition out of a table, in the order of their offsets, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from brokerless import arrow
from brokerless.errors import UnreadableError, missing_libraries
from brokerless.interchange.hive_paths import find_sources, put_together
from brokerless.interchange.input_files import InputFiles
from brokerless.jobs.diff.exported.listing import TablePartition
from brokerless.schemas import HEADERS
from brokerless.table_formats import export_state
from brokerless.table_formats.store import open_store

_MEMORY = "512MB"
"""What DuckDB takes before it sorts on disk."""
_ROWS = 1 << 14
SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64()), pa.field("timestamp", pa.int64()), pa.field("key", pa.binary()),
        pa.field("value", pa.binary()), pa.field("headers", HEADERS),
    ]
)  # fmt: skip
"""``timestamp`` in ms, -1 for none."""


def table_rows(partition: TablePartition, scratch: Path) -> Iterator[pa.RecordBatch]:
    """Yield the records of a partition with rising offsets, as :func:`brokerless.jobs.load.loader.load_into` takes
    them. ``scratch``: an own directory for what is sorted.

    Raises :class:`UsageError` without the libraries that the format needs, and UnreadableError."""
    try:
        yield from _exported(partition) if partition.form == "parquet" else _sorted(partition, scratch)
    except (pa.ArrowException, KeyError, AttributeError) as error:
        raise _failed(partition, error) from error


def _exported(partition: TablePartition) -> Iterator[pa.RecordBatch]:
    topic, number = partition.place
    directory = export_state.topic_directory(partition.store, topic)
    start = f"partition-{number}-"
    sources = [
        each
        for each in find_sources(directory.path, (".parquet",))
        if each.files[0].rpartition("/")[2].startswith(start)
    ]
    for batch in InputFiles(put_together(sources)) if sources else ():
        _check_columns(partition, batch)
        _check_partition(partition, batch)
        yield batch.select([name for name in batch.schema.names if name in (*SCHEMA.names, "timestampType")])


def _check_columns(partition: TablePartition, batch: pa.RecordBatch) -> None:
    """Raise :class:`UnreadableError` where a column of an export is not there: ``load`` would give each row an offset
    of its own, and the present time."""
    lacking = [name for name in SCHEMA.names if name not in batch.schema.names]
    if lacking:
        text = f"these are no rows of an export: there is no column {', '.join(lacking)}"
        raise UnreadableError(partition.url, f"{text}, so that it cannot be compared; put back what was exported")


def _check_partition(partition: TablePartition, batch: pa.RecordBatch) -> None:
    """Raise :class:`UnreadableError` for a row of another partition, or of none, in the files of this one."""
    if "partition" not in batch.schema.names:
        return
    column = batch.column("partition").cast(pa.int64())
    is_own = arrow.is_valid(column) & (arrow.numbers(column, np.int64) == partition.place[1])
    if not is_own.all():
        other: Any = column[int(np.argmin(is_own))].as_py()
        text = "says no partition" if other is None else f"is of partition {other}"
        raise UnreadableError(partition.url, f"a row in the files of this partition {text}; put back what was exported")


def _flat(partition: TablePartition) -> Iterator[pa.RecordBatch]:
    """The rows of a partition in a table of Iceberg or Delta, in no order."""
    topic, number = partition.place
    assert partition.form != "parquet"
    tables = open_store(partition.form, partition.store)
    for batch in tables.read(topic, number):
        kafka = cast(Any, batch.column("kafka"))
        times, raw = kafka.field("timestamp"), kafka.field("timestampRaw")
        milliseconds = np.where(
            arrow.is_valid(times),
            arrow.numbers(times.cast(pa.timestamp("us", "UTC")), np.int64) // 1000,
            np.where(arrow.is_valid(raw), arrow.numbers(raw, np.int64), -1),
        )
        columns = {
            "offset": kafka.field("offset"),
            "timestamp": arrow.column_of_numbers(pa.int64(), milliseconds),
            "key": batch.column("key").cast(pa.binary()),
            "value": batch.column("value").cast(pa.binary()),
            "headers": kafka.field("headers").cast(HEADERS),
        }
        yield pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _sorted(partition: TablePartition, scratch: Path) -> Iterator[pa.RecordBatch]:
    """Yield rows by their offsets: files of a table may have been written again by others, in any order."""
    try:
        import duckdb
    except ImportError as error:
        raise missing_libraries("sorting the rows of a table needs DuckDB", "sql") from error
    with ExitStack() as stack:
        connection = stack.enter_context(duckdb.connect(":memory:"))
        for setting, value in (("memory_limit", _MEMORY), ("temp_directory", str(scratch)), ("threads", "1")):
            connection.execute(f"SET {setting} = '{value}'")
        connection.register("rows", pa.RecordBatchReader.from_batches(SCHEMA, _flat(partition)))
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
            raise _failed(partition, error) from error


def _failed(partition: TablePartition, error: Exception) -> UnreadableError:
    return UnreadableError(partition.url, f"these are no rows of an export: {' '.join(str(error).split())[:500]}")
