"""An empty result is a table without rows, in every recipe: all columns are there, and nothing fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest

import brokerless
from brokerless import internals, schemas
from brokerless.tables.record_filter import RecordFilter
from tests.cli.conftest import Run
from tests.cli.conftest import run as run
from tests.jobs.pipeline.works import own_table

DEMO = "demo/data"
LATER = "2030-01-01"
CSV = "topic,partition,offset,timestamp,key,value,headers"
NO_ORDERS = 'SELECT key, "offset", timestamp FROM orders WHERE "offset" < 0'
NOTHING: dict[str, dict[str, Any]] = {
    "times": {"start_timestamp": LATER},
    "offsets": {"start_offset": 1 << 40},
    "keys": {"filter": RecordFilter(keys=["nobody"])},
    "decoded": {"start_timestamp": LATER, "decode": True},
}


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A log directory of one partition into which nobody wrote."""
    (tmp_path / "log" / "fresh-0").mkdir(parents=True)
    (tmp_path / "log" / "fresh-0" / f"{0:020d}.log").touch()
    return tmp_path / "log"


@pytest.mark.parametrize("nothing", NOTHING)
def test_frames_have_all_columns(nothing: str, fresh: Path) -> None:
    options = NOTHING[nothing]
    empty, log = brokerless.open(str(fresh)), brokerless.open(DEMO)
    for own in (log.topic("orders"), log.partition("users", 0), empty.topic("fresh"), empty.partition("fresh", 0)):
        table = own.to_table(**options)
        assert table.num_rows == 0
        assert set(schemas.RECORDS.names) <= set(table.column_names)
        assert own.records(**options).read_all().schema == table.schema
        assert list(own.to_pandas(**options).columns) == own.to_polars(**options).columns == table.column_names


def test_tables_of_an_empty_log_have_all_columns(fresh: Path) -> None:
    log = brokerless.open(str(fresh))
    assert log.batches().read_all().schema.names == schemas.BATCHES.names
    assert (log.transactions().num_rows, log.transactions().schema) == (0, schemas.TRANSACTIONS)
    scanned = log.dataset("records").to_table()
    assert (scanned.num_rows, set(schemas.RECORDS.names) <= set(scanned.column_names)) == (0, True)
    assert log.dataset("batches").to_table(columns=["topic", "count"]).column_names == ["topic", "count"]
    assert log.dataset("records").scanner(columns=["offset", "value"]).to_table().column_names == ["offset", "value"]
    polars = pl.scan_pyarrow_dataset(log.dataset("records")).select("topic", "offset").collect()
    assert (polars.columns, len(polars)) == (["topic", "offset"], 0)
    assert log.sql("SELECT * FROM fresh").read_all().num_rows == 0
    found = brokerless.open(DEMO).sql(NO_ORDERS).read_all()
    assert (found.num_rows, found.column_names) == (0, ["key", "offset", "timestamp"])


def test_recipes_of_the_cookbook_make_files_and_tables_without_rows(fresh: Path, tmp_path: Path) -> None:
    log = brokerless.open(str(fresh))
    columns = ["key", "value", "partition", "offset", "timestamp"]
    records = log.topic("fresh").records(columns)
    with pq.ParquetWriter(tmp_path / "rows.parquet", records.schema) as writer:
        for batch in records:
            writer.write_batch(batch)
    assert pq.read_table(tmp_path / "rows.parquet").column_names == columns
    batches = log.partition("fresh", 0).batches(["producerId", "count"]).read_all()
    counted = batches.group_by("producerId").aggregate([("count", "sum")])
    assert (counted.column_names, counted.num_rows) == (["producerId", "count_sum"], 0)
    history = internals.history(log.partitions).read_all()
    assert ("topic" in history.column_names, history.num_rows) == (True, 0)
    assert [row["state"] for row in log.partition("fresh", 0).transactions().to_pylist()] == []


@pytest.mark.parametrize("form", ["parquet", "delta", "iceberg"])
def test_tables_of_a_pipeline_that_found_nothing_have_their_columns(form: str, run: Run, fresh: Path) -> None:
    to = fresh.parent / "tables"
    found = run("pipeline", fresh, "--to", to, "--as", form, "--no-report")
    assert (found.exit_code, own_table(to, "findings", form), own_table(to, "damaged", form)) == (0, [], [])
    assert [row["records"] for row in own_table(to, "runs", form)] == [0]


def test_lag_of_nobody_is_a_table_without_rows(run: Run) -> None:
    lag = internals.state(brokerless.open(DEMO).partitions, ["lag"])["lag"]
    assert (lag.num_rows, lag.slice(0, 0).schema) == (1, lag.schema)
    for form in ((), ("--json",)):
        found = run("internals", DEMO, "--table", "lag", "-t", "users", *form)
        assert (found.exit_code, found.err.count("Traceback")) == (0, 0), found.err
    assert run("internals", DEMO, "--table", "lag", "-t", "users", "--json").out == b""


def test_cat_prints_a_header_and_no_row(run: Run, fresh: Path, tmp_path: Path) -> None:
    for words in ((DEMO, "-t", "orders", "--from", LATER), (DEMO, "--key", "nobody"), (fresh,)):
        found = run("cat", *words, "--csv")
        assert (found.exit_code, found.lines) == (0, [CSV])
        assert (run("cat", *words, "--json").out, run("cat", *words).out) == (b"", b"")
        assert run("cat", *words, "-o", tmp_path / "rows.csv").exit_code == 0
        assert (tmp_path / "rows.csv").read_text().splitlines() == [CSV]
        assert run("cat", *words, "-o", tmp_path / "rows.jsonl").exit_code == 0
        assert (tmp_path / "rows.jsonl").read_bytes() == b""


def test_cat_writes_no_text_into_a_file_that_a_reader_takes_for_a_table(run: Run, tmp_path: Path) -> None:
    found = run("cat", DEMO, "-o", tmp_path / "rows.parquet")
    assert (found.exit_code, (tmp_path / "rows.parquet").exists()) == (2, False)
    assert "brokerless sql QUERY PATH -o FILE" in found.err


def test_sql_prints_and_writes_columns_and_no_row(run: Run, tmp_path: Path) -> None:
    assert run("sql", NO_ORDERS, DEMO).lines == ["key  offset  timestamp"]
    assert run("sql", NO_ORDERS, DEMO, "--csv").lines == ["key,offset,timestamp"]
    assert run("sql", NO_ORDERS, DEMO, "--json").out == b""
    for ending in ("csv", "json", "jsonl", "parquet", "arrow"):
        assert run("sql", NO_ORDERS, DEMO, "-o", tmp_path / f"rows.{ending}").exit_code == 0
    assert (tmp_path / "rows.csv").read_text().splitlines() == ["key,offset,timestamp"]
    assert (tmp_path / "rows.jsonl").read_bytes() == b""
    assert json.loads((tmp_path / "rows.json").read_text() or "[]") == []
    assert pq.read_table(tmp_path / "rows.parquet").column_names == ["key", "offset", "timestamp"]
    assert ipc.open_file(tmp_path / "rows.arrow").read_all().column_names == ["key", "offset", "timestamp"]


@pytest.mark.parametrize("form", ["parquet", "delta", "iceberg"])
def test_an_export_of_nothing_says_so_and_is_no_error(form: str, run: Run, fresh: Path, tmp_path: Path) -> None:
    found = run("export", fresh, "--to", tmp_path / "out", "--as", form)
    assert (found.exit_code, found.lines) == (0, ["nothing new in 1 partition, so nothing was written"])
    assert "no table is written of " in found.err
    assert not (tmp_path / "out").exists()
    assert brokerless.open(fresh).export(tmp_path / "out", as_=form) == []
