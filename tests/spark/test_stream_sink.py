"""Streams are written exactly once, wherever a query is stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

import brokerless
from brokerless.log import names
from brokerless.log.checkpoint.commit_journal import last_batch
from brokerless.log.commit.partition_writer import NewPartition, PartitionWriter


def start(spark: SparkSession, root: Path, mode: str = "append", **options: Any) -> StreamingQuery:
    rows = spark.readStream.schema("key string, value string").option("maxFilesPerTrigger", 1).json(str(root / "in"))
    if mode == "complete":
        rows = rows.groupBy("value").count().selectExpr("value")
    write = (
        rows.writeStream.format("brokerless").outputMode(mode).option("checkpointLocation", str(root / "checkpoint"))
    )
    given = {"topic": "t", "partitions": "2", **options}
    return write.options(**given).trigger(availableNow=True).start(str(root / "log"))


def run(spark: SparkSession, root: Path) -> None:
    query = start(spark, root)
    assert query.awaitTermination(240)
    assert query.exception() is None


def put(root: Path, name: str, first: int, count: int) -> None:
    (root / "in").mkdir(exist_ok=True)
    lines = "".join(f'{{"key":"{number % 7}","value":"{number}"}}\n' for number in range(first, first + count))
    (root / "in" / f"{name}.json").write_text(lines)


def written(root: Path) -> list[int]:
    """All values; each partition's offsets have to be without gaps."""
    found: list[int] = []
    for partition in brokerless.open(root / "log").partitions:
        offset = 0
        for batch in partition.records(["offset", "value"]):
            found += map(int, batch["value"].to_pylist())
            assert batch["offset"].to_pylist() == list(range(offset, offset + batch.num_rows))
            offset += batch.num_rows
    return sorted(found)


def forget_last_commit(root: Path) -> None:
    """Spark's note that a batch is done goes, as if the query had been killed between our commit and Spark's."""
    commits = root / "checkpoint" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for path in (commits / str(last), commits / f".{last}.crc"):
        path.unlink(missing_ok=True)


def test_every_row_is_written_once_wherever_the_query_stops(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path, "a", 0, 20)
    put(tmp_path, "b", 20, 30)
    run(spark, tmp_path)
    assert written(tmp_path) == list(range(50))
    (query,) = [line for line in (tmp_path / "checkpoint" / "metadata").read_text().split('"') if line.count("-") == 4]
    assert last_batch(tmp_path / "log", query) == 1

    forget_last_commit(tmp_path)
    run(spark, tmp_path)
    assert written(tmp_path) == list(range(50))

    # Killed before our commit: tasks left their work behind, and Spark runs the batch again.
    put(tmp_path, "c", 50, 10)
    put(tmp_path, "empty", 0, 0)
    with PartitionWriter(NewPartition(tmp_path / "log", "t", 0, may_exist=True)) as output:
        output.finish()
    forget_last_commit(tmp_path)
    run(spark, tmp_path)
    assert written(tmp_path) == list(range(60))
    run(spark, tmp_path)
    assert written(tmp_path) == list(range(60))
    directories = {path.name for path in (tmp_path / "log").iterdir() if path.is_dir()}
    assert {"t-0", "t-1"} < directories
    assert len(directories) == 3  # what was not this query's stays
    assert not (tmp_path / "log" / names.COMMIT_JOURNAL).exists()
    assert [each for each in brokerless.open(tmp_path / "log").verify() if each.severity != "info"] == []


def test_another_query_goes_on_behind(spark: SparkSession, tmp_path: Path) -> None:
    """Another checkpoint is another query: what it writes is new, even if its batches have the same numbers."""
    put(tmp_path, "a", 0, 20)
    run(spark, tmp_path)
    (tmp_path / "checkpoint").rename(tmp_path / "first")
    run(spark, tmp_path)
    assert written(tmp_path) == sorted([*range(20), *range(20)])


def test_what_a_stream_cannot_be_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path, "a", 0, 5)
    with pytest.raises(StreamingQueryException, match=r'outputMode\("complete"\) is not possible'):
        start(spark, tmp_path, "complete").awaitTermination()
    with pytest.raises(StreamingQueryException, match="there is no option 'partitons'"):
        start(spark, tmp_path, partitons="3").awaitTermination()
