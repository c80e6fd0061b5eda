"""Spark runs the tasks of an export to tables, the driver commits once; Spark reads the files that a table lists."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.golden import broker_data
from tests.jobs.tables import FORMATS, delta, exported, iceberg, table

from brokerless.interchange.table_formats.catalog import TableFormat
from brokerless.jobs.export import tasks as planning

SOURCE = broker_data("clean") / "segments-0"


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
