"""A Spark application of its own for what cannot be done in the one that tests share: ``sink_job.py WHAT DIRECTORY``.

``fail``: tasks that fail once, and one that always fails. ``wait``: tasks that write something, and then wait to be
killed.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

COLUMNS = "topic string, partition int, value string"
ROWS, SIZE = 9000, 4000
"""Of each of three tasks, more than the 8 MiB that are written at once; ``SIZE``: bytes of a value."""


def rows(spark: SparkSession, count: int = ROWS) -> DataFrame:
    return spark.range(count, numPartitions=3).selectExpr(
        "'t' as topic", "cast(id % 8 as int) as partition", f"rpad(concat(id, ' '), {SIZE}, 'x') as value"
    )


def has_written(directory: Path) -> bool:
    return any(log.stat().st_size for log in directory.glob("*-delete/*.log"))


def fail(spark: SparkSession, directory: Path) -> None:
    seen = directory / "seen"

    def once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        for batch in batches:
            for row in range(0, batch.num_rows, 500):
                yield batch.slice(row, 500)
        if context is not None and context.attemptNumber() == 0 and context.partitionId() != 1:
            until = time.monotonic() + 20
            while not has_written(directory / "once") and time.monotonic() < until:
                time.sleep(0.01)
            if has_written(directory / "once"):
                seen.touch()
            raise ValueError("the first attempt fails")

    def always(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        yield from batches
        if context is not None and context.partitionId() == 2:
            raise ValueError("every attempt fails")

    write = rows(spark).mapInArrow(once, COLUMNS).write.format("brokerless").mode("append")
    write.save(str(directory / "once"))
    print(f"failed attempts left something: {seen.exists()}")
    with contextlib.suppress(PythonException):
        write = rows(spark, 300).mapInArrow(always, COLUMNS).write.format("brokerless").mode("append")
        write.save(str(directory / "never"))
        return
    print("failed for good")


def wait(spark: SparkSession, directory: Path) -> None:
    def stay(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        time.sleep(600)

    write = rows(spark).mapInArrow(stay, COLUMNS).write.format("brokerless").mode("append")
    write.save(str(directory / "log"))


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2,3]")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    {"fail": fail, "wait": wait}[sys.argv[1]](session, Path(sys.argv[2]))
    session.stop()
