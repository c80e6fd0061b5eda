"""Tables of Iceberg and Delta for tests, and what readers of both make of them."""

from __future__ import annotations

import io
import struct
import weakref
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable
from fastavro import parse_schema, schemaless_writer
from pyiceberg.catalog import load_catalog
from tests.log.whole_batches import batch

from brokerless.findings import Finding
from brokerless.jobs.export.commit import ExportedPartition
from brokerless.jobs.export.job import export, plan
from brokerless.jobs.export.tasks import Export
from brokerless.jobs.run.types import RunOptions
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from brokerless.table_formats.catalog import TableFormat

FORMATS: tuple[TableFormat, ...] = ("iceberg", "delta")
Rows = list[dict[str, Any]]
DAY = 86_400_000


def exported(
    source: Path | list[str], to: Path, form: TableFormat, found: list[Finding] | None = None, **settings: Any
) -> list[ExportedPartition]:
    """One run; findings go to ``found``, and without it there are to be none."""
    findings = list[Finding]() if found is None else found
    sources = [str(source)] if isinstance(source, Path) else source
    spark = settings.pop("spark", "none")
    partitions = [each for path in sources for each in resolve(Location(path)).partitions]
    planned = plan(partitions, sources, Location.of(to), Export(form=form, **settings))
    results = list(export(planned, findings.append, RunOptions(spark=spark)))
    assert found is not None or not findings
    return results


def iceberg(to: Path, name: str) -> Any:
    """The table as whoever has pyiceberg opens it."""
    return own_catalog(to).load_table(("kafka", name))


def own_catalog(to: Path) -> Any:
    """The catalogue beside exported tables, as pyiceberg opens it; SQLite's file is closed with it."""
    catalog: Any = load_catalog("brokerless", type="sql", uri=f"sqlite:///{to}/catalog.db")
    weakref.finalize(catalog, catalog.engine.dispose)
    return catalog


def delta(to: Path, name: str) -> DeltaTable:
    return DeltaTable(str(to / name))


def rows(found: Any) -> Rows:
    """By partition and offset; without Delta's column of the date, which has to be that of the timestamp."""
    known = sorted(found, key=lambda row: (row["kafka"]["partition"], row["kafka"]["offset"]))
    for row in known:
        if "date" in row:
            timestamp = row["kafka"]["timestamp"]
            assert row.pop("date") == (None if timestamp is None else date.fromordinal(timestamp.date().toordinal()))
    return known


def table(to: Path, name: str, form: TableFormat) -> Rows:
    """What the format's own library reads."""
    if form == "iceberg":
        return rows(iceberg(to, name).scan().to_arrow().to_pylist())
    return rows(pa.table(delta(to, name).to_pyarrow_table()).to_pylist())


def by_duckdb(to: Path, name: str, form: TableFormat) -> Rows:
    """What DuckDB reads of the files that the table lists."""
    if form == "delta":
        found = delta(to, name).to_pyarrow_dataset()
        return rows(duckdb.from_arrow(found).to_arrow_table().to_pylist())
    files = [each.file.file_path.removeprefix("file://") for each in iceberg(to, name).scan().plan_files()]
    query = f"SELECT * FROM read_parquet({files}, hive_partitioning = false, union_by_name = true)"
    return rows(duckdb.sql(query).to_arrow_table().to_pylist())


def by_polars(to: Path, name: str, form: TableFormat) -> Rows:
    scan = pl.scan_iceberg(iceberg(to, name)) if form == "iceberg" else pl.scan_delta(delta(to, name))
    return rows(scan.collect().to_dicts())


READERS: tuple[Callable[[Path, str, TableFormat], Rows], ...] = (table, by_duckdb, by_polars)


def avro(schema: dict[str, Any], schema_id: int, value: Any) -> bytes:
    """A value in Confluent's framing."""
    out = io.BytesIO()
    out.write(struct.pack(">bI", 0, schema_id))
    schemaless_writer(out, parse_schema(schema), value)
    return out.getvalue()


def log_of(directory: Path, values: list[bytes], first: int = 0, start_ms: int = 1_700_000_000_000) -> Path:
    """Appends a batch for each value to a partition, six hours from one to the next."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "00000000000000000000.log").open("ab") as file:
        for offset, value in enumerate(values, first):
            file.write(batch(offset, 1, start_ms + offset * DAY // 4, value, key=b"k%d" % offset).tobytes())
    (directory / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    return directory
