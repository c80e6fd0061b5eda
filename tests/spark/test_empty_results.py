"""What nobody wrote is a DataFrame without rows and with all columns, and so is what is made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

DEMO = str(Path(__file__).parents[2] / "demo" / "data")
NOTHING: dict[str, dict[str, str]] = {
    "times": {"startingTimestamp": "1893456000000", "startingOffsetsByTimestampStrategy": "latest"},
    "pattern": {"subscribePattern": "users", "endingOffsets": '{"users":{"0":0}}'},
}


@pytest.fixture
def fresh(tmp_path: Path) -> str:
    """A log directory of one partition into which nobody wrote."""
    (tmp_path / "log" / "fresh-0").mkdir(parents=True)
    (tmp_path / "log" / "fresh-0" / f"{0:020d}.log").touch()
    return str(tmp_path / "log")


def load(spark: SparkSession, path: str, **options: Any) -> Any:
    return spark.read.format("brokerless").options(**options).load(path)


def test_tables_of_an_empty_log_have_the_columns_of_others(spark: SparkSession, fresh: str, tmp_path: Path) -> None:
    for table in ("records", "batches", "transactions"):
        rows = load(spark, fresh, table=table)
        assert (rows.columns, rows.count()) == (load(spark, DEMO, table=table).columns, 0)
        assert list(rows.toPandas().columns) == rows.columns == rows.toArrow().column_names
    records = load(spark, fresh)
    records.write.parquet(str(tmp_path / "rows"))
    assert spark.read.parquet(str(tmp_path / "rows")).columns == records.columns
    assert records.groupBy("partition").count().collect() == []
    records.write.format("brokerless").mode("append").save(str(tmp_path / "copy"))
    assert load(spark, str(tmp_path / "copy")).count() == 0


@pytest.mark.parametrize("nothing", NOTHING)
def test_ranges_without_records_have_all_columns(nothing: str, spark: SparkSession) -> None:
    given = {"subscribe": "users"} | NOTHING[nothing] if nothing == "times" else NOTHING[nothing]
    for options in (given, {**given, "includeHeaders": "true"}):
        rows = load(spark, DEMO, **options)
        assert (len(rows.columns), rows.count()) == (8 if "includeHeaders" in options else 7, 0)
