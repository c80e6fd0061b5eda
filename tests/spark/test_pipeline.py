"""A pipeline on Spark writes what it writes without, and runs as an application of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from tests.jobs.exports import facts, table
from tests.jobs.pipeline.works import PRIVATE, offsets, own_table, pipeline, segments, table_offsets
from tests.spark.java import submit_arguments

import brokerless
from brokerless.spark.pipeline import main


def damaged(root: Path) -> Path:
    for number in range(3):
        segments(root / f"t-{number}", range(0, 50), range(50, 100), wrong=(20, 70))
    return root


def test_tables_findings_and_figures_are_the_same(spark: SparkSession, tmp_path: Path) -> None:
    source = damaged(tmp_path / "logs")
    here = pipeline(source, tmp_path / "here")
    there = brokerless.pipeline(source, tmp_path / "there", report=False, as_="parquet", spark=spark)
    assert facts(table(tmp_path / "there")) == facts(table(tmp_path / "here"))
    assert sorted(map(str, there.findings)) == sorted(map(str, here.findings))
    assert there.ranges == here.ranges
    found = spark.read.parquet(f"{tmp_path}/there/{PRIVATE}/damaged").orderBy("partition", "firstOffset").collect()
    assert [(row.partition, row.firstOffset) for row in found] == [(n, at) for n in range(3) for at in (20, 70)]
    assert not brokerless.pipeline(source, tmp_path / "there", report=False, as_="parquet", spark=spark).is_new


def test_a_stream_goes_on_into_the_same_tables_from_where_the_files_ended(spark: SparkSession, tmp_path: Path) -> None:
    source, to = segments(tmp_path / "logs" / "t-0", range(0, 50)).parent, tmp_path / "to"
    segments(source / "t-1", range(0, 20))
    run = partial(brokerless.pipeline, source, to, report=False, topic=("t",), spark=spark)
    run()
    assert brokerless.next_offsets(source, to) == '{"t": {"0": 50, "1": 20}}'
    segments(source / "t-0", range(50, 90))
    segments(source / "u-0", range(0, 10))
    assert brokerless.next_offsets(source, to) == '{"t": {"0": 50, "1": 20}, "u": {"0": -2}}'
    starts = brokerless.next_offsets(source, to, topic=("t",))
    frame = spark.readStream.format("brokerless").option("subscribe", "t").option("startingOffsets", starts)
    rows: list[int] = []

    def take(batch: DataFrame, _: int) -> None:
        rows.extend(row.offset for row in batch.select("offset").collect())
        run()

    query = frame.load(str(source)).writeStream.foreachBatch(take).trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    assert sorted(rows) == list(range(50, 90))
    assert sorted(table_offsets(to, "t", 0, "iceberg")) == list(range(90))
    assert sorted(table_offsets(to, "t", 1, "iceberg")) == list(range(20))


def test_the_application_prints_its_figures(quick_spark: str, tmp_path: Path) -> None:
    damaged(tmp_path / "logs")
    (tmp_path / "pipeline.yaml").write_text("path: logs\nto: to\nreport: false\nas: parquet\n")
    command = [sys.executable, "-m", "brokerless.spark.pipeline", "pipeline.yaml"]
    settings = submit_arguments(quick_spark, **{"spark.master": "local[2]"})
    environment = {**os.environ, **settings, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr[-2000:]
    row = json.loads(done.stdout)
    assert (row["records"], row["damagedRanges"]) == (240, 6)
    assert len(offsets(tmp_path / "to")) == 240
    assert [each["runId"] for each in own_table(tmp_path / "to", "runs")] == [row["runId"]]


def test_wrong_settings_end_it_before_spark_starts(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text("path: logs\ntoo: to\n")
    assert (main([str(file)]), main([])) == (2, 2)
