"""Writes the result of a query to a file: Parquet, Arrow, CSV or JSON Lines."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Literal, get_args

import pyarrow as pa

from brokerless.errors import UsageError
from brokerless.interchange.result_text import csv_lines, json_lines, rows_of
from brokerless.log.storage.atomic import open_output
from brokerless.log.storage.write_errors import unwritable

Format = Literal["parquet", "arrow", "csv", "json"]
FORMATS: tuple[Format, ...] = get_args(Format)
_ENDINGS: dict[str, Format] = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}


def format_of(path: str | os.PathLike[str]) -> Format:
    """Return the format of a file, by its ending. Raises :class:`UsageError` for one that says none."""
    ending = Path(path).suffix.lower()
    if ending not in _ENDINGS:
        raise UsageError(f"{os.fspath(path)}: its ending is none of {', '.join(_ENDINGS)}; use one, or --output-format")
    return _ENDINGS[ending]


def write_result(reader: pa.RecordBatchReader, to: str | os.PathLike[str], format: Format | None = None) -> int:
    """Writes a result to the file ``to``, and returns how many rows there are. Where anything is raised, ``to`` stays
    what it was.

    Raises :class:`UsageError` for an ending without a format, and :class:`UnwritableError`."""
    chosen = format or format_of(to)
    with unwritable(to), open_output(os.fspath(to)) as file:
        return _write(reader, file, chosen)


def _write(reader: pa.RecordBatchReader, file: BinaryIO, format: Format) -> int:
    rows = 0
    match format:
        case "parquet":
            import pyarrow.parquet as pq

            from brokerless.table_formats.parquet_bounds import columns_with_bounds, float_columns

            try:
                bounds = columns_with_bounds(reader.schema, float_columns(reader.schema))
                with pq.ParquetWriter(file, reader.schema, compression="zstd", write_statistics=bounds) as writer:
                    for batch in reader:
                        writer.write_batch(batch)
                        rows += batch.num_rows
            except pa.ArrowNotImplementedError as error:
                text = (
                    f"Parquet has no type for a column of this result ({error}); cast it, or write CSV, JSON or Arrow"
                )
                raise UsageError(text) from error
        case "arrow":
            with pa.ipc.new_file(file, reader.schema) as writer:
                for batch in reader:
                    writer.write_batch(batch)
                    rows += batch.num_rows
        case "csv":
            file.writelines(csv_lines(reader.schema, iter(())))
            for batch in reader:
                file.writelines(csv_lines(None, rows_of(batch)))
                rows += batch.num_rows
        case "json":
            for batch in reader:
                file.writelines(json_lines(reader.schema, rows_of(batch)))
                rows += batch.num_rows
    return rows


def lines_of(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, format: Literal["csv", "json"], is_terminal: bool = False
) -> Iterable[bytes]:
    """Yield a result as CSV with the names of its columns, or as JSON Lines, piece by piece. ``is_terminal``: control
    characters in CSV are escaped, which a terminal would obey; JSON has none."""
    if format == "csv":
        yield from csv_lines(schema, iter(()), is_terminal)
    for batch in batches:
        yield from (
            csv_lines(None, rows_of(batch), is_terminal) if format == "csv" else json_lines(schema, rows_of(batch))
        )
