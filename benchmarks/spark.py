"""Queries in a warm Spark on two cores: a broker's log directory, beside the broker that serves it."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tests.kafka.jars import NEWEST

from benchmarks.broker import serving, with_events
from benchmarks.data import CACHE, CODECS
from benchmarks.measure import WARM_UP_SECONDS_OF_SPARK, Pass, Workload, python, warm_process

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONNECTOR = "4.0.0"
"""Of spark-sql-kafka; the newest that resolves whole, and PySpark runs it up to its own newest version."""
TASKS = 2
COUNTED = "topic string, partition int, count int, sizeInBytes long, baseTimestamp timestamp, maxTimestamp timestamp"


def workloads(records: int) -> Iterator[Workload]:
    for codec in ("none", "lz4"):
        yield against_connector(f"spark-rows-{codec}", "rows", f"events-{codec}", records)
    yield against_connector("spark-counts", "counts", ",".join(f"events-{codec}" for codec in CODECS), records)


def against_connector(name: str, query: str, topics: str, records: int) -> Workload:
    def ours() -> contextlib.AbstractContextManager[Callable[[], Pass]]:
        directory = with_events(records).log_dir
        return warm_process(python(f"{__name__}:{query}_of_files", str(directory), topics))

    @contextlib.contextmanager
    def theirs() -> Iterator[Callable[[], Pass]]:
        with (
            serving(records) as broker,
            warm_process(python(f"{__name__}:{query}_of_topics", broker.bootstrap, topics)) as run,
        ):
            yield run

    # Spark ends Python workers, which only ours has, after an idle minute; so each run starts behind a pass of its own.
    anchor = f"spark-sql-kafka {CONNECTOR}, kafka {NEWEST}"
    return Workload(
        name, "records/s", ours, anchor, theirs, runs=3, cores=TASKS, settle=True, warm_up=WARM_UP_SECONDS_OF_SPARK
    )


def rows_of_files(path: str, topics: str) -> int:
    return all_rows(files(path, topics, "records"))


def rows_of_topics(servers: str, topics: str) -> int:
    return all_rows(served(servers, topics))


def counts_of_files(path: str, topics: str) -> int:
    """How many records and bytes, and from when to when, by partition: ours needs no more than batch headers."""
    from pyspark.sql import functions as f

    batches = files(path, topics, "batches", COUNTED)
    return counted(
        batches.groupBy("topic", "partition").agg(
            f.sum("count").alias("records"), f.sum("sizeInBytes"), f.min("baseTimestamp"), f.max("maxTimestamp")
        )
    )


def counts_of_topics(servers: str, topics: str) -> int:
    from pyspark.sql import functions as f

    records = served(servers, topics)
    size = f.coalesce(f.length("key"), f.lit(0)) + f.coalesce(f.length("value"), f.lit(0))
    return counted(
        records.groupBy("topic", "partition").agg(
            f.count("*").alias("records"), f.sum(size), f.min("timestamp"), f.max("timestamp")
        )
    )


def files(path: str, topics: str, table: str, schema: str | None = None) -> DataFrame:
    reader = session().read.format("brokerless").option("table", table).option("subscribe", topics)
    return (reader.schema(schema) if schema else reader).option("minPartitions", TASKS).load(path)


def served(servers: str, topics: str) -> DataFrame:
    reader = session(connector=True).read.format("kafka").option("kafka.bootstrap.servers", servers)
    return reader.option("subscribe", topics).option("minPartitions", TASKS).load()


def all_rows(frame: DataFrame) -> int:
    """All columns of all rows into Spark's sink that throws them away, and how many they were."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    seen = Observation()
    frame.observe(seen, f.count(f.lit(1)).alias("records")).write.format("noop").mode("overwrite").save()
    return seen.get["records"]


def counted(summary: DataFrame) -> int:
    return sum(row["records"] for row in summary.collect())


@functools.cache
def session(connector: bool = False) -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{TASKS}]").appName("brokerless-benchmarks")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        # Else Spark adds up the sizes of a batch's columns before each row that it gives to Python (docs/cookbook.md).
        "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
        "spark.python.unix.domain.socket.enabled": "true",
    }
    if connector:
        settings["spark.jars.packages"] = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{CONNECTOR}"
        settings["spark.jars.ivy"] = str(CACHE / "ivy")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
