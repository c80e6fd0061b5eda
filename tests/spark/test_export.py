"""What was exported is read by Spark itself as what the source gives of the log; and Spark runs an export's tasks."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.types import StructType
from tests.golden import broker_data

from brokerless.jobs.export import tasks as planning
from brokerless.jobs.export.commit import ExportedPartition
from brokerless.jobs.export.job import export, plan
from brokerless.jobs.export.tasks import Export
from brokerless.jobs.run.types import RunOptions
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location

PATHS = [str(broker_data("clean") / name) for name in ("segments-0", "txn-1", "codec-lz4-2", "append-time-0")]
SCHEMA = (
    "key binary, value binary, partition int, offset long, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>, topic string, date date"
)


def exported(to: Path, settings: Export, spark: SparkSession | str = "none") -> list[ExportedPartition]:
    partitions = [each for path in PATHS for each in resolve(Location(path)).partitions]
    return list(export(plan(partitions, PATHS, Location.of(to), settings), pytest.fail, RunOptions(spark=spark)))


def test_sparks_parquet_reader_gives_what_the_source_gives(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "_TASK_BYTES", 10_000)  # several tasks of a partition
    results = exported(tmp_path, Export(by_date=True), spark)
    found = spark.read.parquet(str(tmp_path))
    assert {field.name: field.dataType for field in found.schema} == {
        field.name: field.dataType for field in StructType.fromDDL(SCHEMA)
    }
    assert found.where("date <> to_date(timestamp)").count() == 0
    source = spark.read.format("brokerless").options(includeHeaders=True).load(PATHS)
    # Where a record has no headers, the source says null, as spark-sql-kafka does.
    rows = found.withColumn("headers", expr("if(size(headers) = 0, null, headers)")).select(source.columns)
    assert sorted(map(str, rows.collect())) == sorted(map(str, source.collect()))
    assert sum(each.records for each in results) == rows.count()
    assert exported(tmp_path, Export(by_date=True), spark) == []


def test_pandas_reads_it(tmp_path: Path) -> None:
    exported(tmp_path, Export())
    frame = pd.read_parquet(tmp_path, filters=[("topic", "==", "codec-lz4"), ("partition", "==", 2)])
    assert len(frame) == 152
    assert frame["offset"].tolist() == list(range(152))
    assert str(frame["timestamp"].dtype) == "datetime64[ms, UTC]"
    assert isinstance(frame["value"].dropna().iloc[0], bytes)
