"""What Spark wrote as Parquet is loaded as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.golden import broker_data

import brokerless
from brokerless.cli import main

TOPICS = ["segments", "edges", "codec-lz4"]
COLUMNS = ["topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers"]


def rows(path: Path) -> list[dict[str, Any]]:
    batches = [
        batch
        for partition in brokerless.open(path).partitions
        if partition.topic in TOPICS
        for batch in partition.records(COLUMNS)
    ]
    table = pa.Table.from_batches(batches)
    at = table.schema.get_field_index("timestamp")
    return table.set_column(at, "timestamp", table["timestamp"].cast(pa.int64())).to_pylist()


@pytest.mark.parametrize("timestamps", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
def test_sparks_parquet_is_loaded_as_it_was(spark: SparkSession, timestamps: str, tmp_path: Path) -> None:
    setting = "spark.sql.parquet.outputTimestampType"
    before = spark.conf.get(setting)
    spark.conf.set(setting, timestamps)
    try:
        options = {"subscribe": ",".join(TOPICS), "includeHeaders": True}
        records = spark.read.format("brokerless").options(**options).load(str(broker_data("clean")))
        ordered = records.repartitionByRange(3, "topic", "partition").sortWithinPartitions(
            "topic", "partition", "offset"
        )
        ordered.write.parquet(str(tmp_path / "parquet"))
    finally:
        spark.conf.set(setting, before)
    assert len(list((tmp_path / "parquet").glob("*.parquet"))) > 1
    assert main(["load", str(tmp_path / "parquet"), "--to", str(tmp_path / "log"), "--codec", "zstd"]) == 0
    assert rows(tmp_path / "log") == rows(broker_data("clean"))
