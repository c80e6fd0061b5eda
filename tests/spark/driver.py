"""What the tests run on a cluster: a driver in a process of its own, as there is one Spark session in a process."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from tests.sources import sources_of

import brokerless
from brokerless.format.convert import ConversionTarget
from brokerless.jobs.convert import job as convert_job
from brokerless.jobs.rewrite.copy import Rewritten
from brokerless.jobs.run.types import RunOptions
from brokerless.progress import Done

CONVERTING, COPYING = "converting", "copying"
_as_it_is = convert_job.run_task


def wait(what: str, directory: Path) -> None:
    """Says that a task is in the middle, and waits until a file is there."""
    (directory / f"{what}-{os.getpid()}").touch()
    while not (directory / f"go-on-{what}").exists():
        time.sleep(0.02)


def wait_in_the_middle(task: convert_job.ConvertTask, done: Done) -> Rewritten:
    """Converts a partition, but waits when a part of it was read."""
    directory = task.directory.local.parent

    def wait_and_go_on(size: int) -> None:
        wait(CONVERTING, directory)
        done(size)

    return _as_it_is(task, wait_and_go_on)


def convert(session: SparkSession, source: str, to: str) -> dict[str, Any]:
    """Reads, verifies and converts; what came out of it."""
    frame = session.read.format("brokerless").load(source)
    rows: Any = frame.selectExpr("topic", "partition", "offset", "md5(value)").collect()
    read = sorted(list(row) for row in rows)
    findings = [str(each) for each in brokerless.open(source).verify(spark=session)]
    convert_job.run_task = wait_in_the_middle
    tasks = convert_job.plan(sources_of(source), to, convert_job.Conversion(ConversionTarget(codec="zstd")))
    converted = [each.as_dict() for each in convert_job.convert(tasks, print, RunOptions(spark=session))]
    return {"read": read, "findings": findings, "converted": converted}


def copy(session: SparkSession, source: str, directory: Path) -> None:
    """What is read is written again by DataFrames, at once and as a stream."""

    def in_the_middle(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Hands on the first rows, and waits before the others."""
        for number, batch in enumerate(batches):
            yield batch
            if not number:
                wait(COPYING, directory)

    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    options = {"includeHeaders": "true", "mode": "DROPMALFORMED"}
    frame = session.read.format("brokerless").options(**options).load(source)
    slow = frame.mapInArrow(in_the_middle, frame.schema)
    slow.write.format("brokerless").mode("append").save(str(directory / "sink"))
    stream = (
        session.readStream.format("brokerless")
        .options(startingOffsets="earliest", maxOffsetsPerTrigger="1500", **options)
        .load(source)
        .writeStream.format("brokerless")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(directory / "stream"))
    )
    stream.awaitTermination()


def main(master: str, source: str, to: str) -> None:
    """Converts into ``to``, and copies into directories beside it; prints what came out of the first as JSON."""
    session = SparkSession.builder.master(master).appName("tests").getOrCreate()  # pyright: ignore
    converted = convert(session, source, to)
    copy(session, source, Path(to).parent)
    print(json.dumps(converted))
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
