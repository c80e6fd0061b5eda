"""Spark runs the tasks of an export to tables, the driver commits once; Spark reads the files that a table lists."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.golden import broker_data
from tests.jobs.filtered import filtered_log
from tests.jobs.tables import FORMATS, delta, exported, iceberg, table

from brokerless.jobs.export import tasks as planning
from brokerless.table_formats.catalog import TableFormat

SOURCE = broker_data("clean") / "segments-0"
SIMPLY = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.files.openCostInBytes": "0",
}
"""Eighteen queries for a few rows: to compile and to plan each of them takes longer than to find those."""


@pytest.mark.parametrize("form", FORMATS)
def test_tasks_write_files_and_the_driver_commits_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: TableFormat
) -> None:
    monkeypatch.setattr(planning, "_TASK_BYTES", 10_000)  # several tasks of a partition
    (only,) = exported(SOURCE, tmp_path, form, spark=spark)
    assert len(only.files) > 1
    if form == "iceberg":
        own = iceberg(tmp_path, "segments")
        assert len(own.metadata.snapshots) == 1
        files = [each.file.file_path for each in own.scan().plan_files()]
    else:
        assert sum(each["operation"] == "WRITE" for each in delta(tmp_path, "segments").history()) == 1
        files = delta(tmp_path, "segments").file_uris()
    found = spark.read.option("recursiveFileLookup", "true").parquet(*files).orderBy("kafka.offset").collect()
    rows = table(tmp_path, "segments", form)
    assert [(row.kafka.offset, row.key, row.value, row.kafka.timestampType) for row in found] == [
        (row["kafka"]["offset"], row["key"], row["value"], row["kafka"]["timestampType"]) for row in rows
    ]
    assert [int(row.kafka.timestamp.timestamp() * 1000) for row in found] == [
        int(row["kafka"]["timestamp"].timestamp() * 1000) for row in rows
    ]
    assert exported(SOURCE, tmp_path, form, spark=spark) == []


@pytest.mark.parametrize("form", FORMATS)
def test_spark_finds_the_same_with_and_without_statistics(
    spark: SparkSession, tmp_path: Path, form: TableFormat
) -> None:
    source, decoding = filtered_log(tmp_path, "double")
    exported(source, tmp_path / "out", form, decoding=decoding)
    if form == "iceberg":
        files = [each.file.file_path for each in iceberg(tmp_path / "out", "t").scan().plan_files()]
    else:
        files = delta(tmp_path / "out", "t").file_uris()
    spark.read.option("recursiveFileLookup", "true").parquet(*files).createOrReplaceTempView("filtered")
    conditions = ["key IS NULL", "value.d IS NOT NULL", "valueError IS NULL"]
    for name in ("key", "value.d", "value.e"):
        values = ("NaN", "5", "6", "0", "-Infinity")
        conditions += [f"{name} {each} double('{value}')" for each in ("=", "<", ">=") for value in values]
    query = " UNION ALL ".join(
        f"SELECT {at} AS at, count(*) AS n FROM filtered WHERE {each}" for at, each in enumerate(conditions)
    )
    found: list[dict[int, int]] = []
    for name, value in SIMPLY.items():
        spark.conf.set(name, value)
    for pushes in ("true", "false"):
        spark.conf.set("spark.sql.parquet.filterPushdown", pushes)
        found.append({row.at: row.n for row in spark.sql(query).collect()})
    for name in (*SIMPLY, "spark.sql.parquet.filterPushdown"):
        spark.conf.unset(name)
    assert {conditions[at] for at in found[0] if found[0][at] != found[1][at]} == set()
    assert len(found[0]) == len(conditions)
