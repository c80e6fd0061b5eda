"""What the tests run on a cluster: a driver in a process of its own, as there is one Spark session in a process."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from pyspark.sql import SparkSession
from tests.sources import sources_of

import brokerless
from brokerless.format.convert import ConversionTarget
from brokerless.jobs.convert import job as convert_job
from brokerless.jobs.rewrite.copy import Rewritten
from brokerless.jobs.run.types import Done

_as_it_is = convert_job.run_task


def wait_in_the_middle(task: convert_job.ConvertTask, done: Done) -> Rewritten:
    """Converts a partition, but waits when a part of it was read, until a file is there."""
    directory = task.directory.local.parent

    def wait(size: int) -> None:
        (directory / f"waiting-{os.getpid()}").touch()
        while not (directory / "go-on").exists():
            time.sleep(0.02)
        done(size)

    return _as_it_is(task, wait)


def main(master: str, source: str, to: str) -> None:
    """Reads, verifies and converts; prints what came out of it as JSON."""
    session = SparkSession.builder.master(master).appName("tests").getOrCreate()  # pyright: ignore
    frame = session.read.format("brokerless").load(source)
    rows: Any = frame.selectExpr("topic", "partition", "offset", "md5(value)").collect()
    read = sorted(list(row) for row in rows)
    findings = [str(each) for each in brokerless.open(source).verify(spark=session)]
    convert_job.run_task = wait_in_the_middle
    tasks = convert_job.plan(sources_of(source), to, convert_job.Conversion(ConversionTarget(codec="zstd")))
    converted = [each.as_dict() for each in convert_job.convert(tasks, print, spark=session)]
    print(json.dumps({"read": read, "findings": findings, "converted": converted}))
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
