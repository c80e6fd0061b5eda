"""Tables of ours on users' disks and in buckets: small Parquet files, which are written and read in memory."""

from __future__ import annotations

import pyarrow as pa


def dump_table(table: pa.Table) -> bytes:
    """Return a table as a Parquet file."""
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def parse_table(data: bytes, schema: pa.Schema) -> pa.Table:
    """Return the table that a Parquet file has, with the columns of ``schema``; one that it lacks is null.

    This thread alone reads it. A thread of Arrow's that frees ``data`` while Python ends would end this process with an
    abort: ``~PyBuffer`` waits for Python's lock, and is not to raise (pyarrow 26).

    Raises ``pa.ArrowException``, OSError or ValueError for what is no such file."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(pa.BufferReader(data)) as file:
        there = [name for name in schema.names if name in file.schema_arrow.names]
        table = file.read(columns=there, use_threads=False)
    columns = [
        table.column(each.name).cast(each.type) if each.name in there else pa.nulls(table.num_rows, each.type)
        for each in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
