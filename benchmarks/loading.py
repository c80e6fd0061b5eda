"""Putting records into a topic: written as a partition's files, beside a producer that sends them to a broker."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kafka.jars import NEWEST

from benchmarks import data
from benchmarks.broker import empty
from benchmarks.jvm import command
from benchmarks.measure import WARM_UP_SECONDS, WARM_UP_SECONDS_OF_SPARK, Pass, Side, Workload, python, warm_process
from benchmarks.spark import CONNECTOR, TASKS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

TOPIC = "events"
BATCH_SIZE = 64 << 10
PRODUCER = {
    "acks": "1",
    "enable.idempotence": "false",
    "batch.size": str(BATCH_SIZE),
    "buffer.memory": str(128 << 20),
    "max.request.size": str(4 << 20),
}
"""All else is the producer's default. lz4 and a longer linger were no faster; ``acks=0`` would wait for nothing."""

numbers = itertools.count()


def workloads(records: int) -> Iterator[Workload]:
    yield against_producer("load", "load_arrow", records)
    yield against_producer("load-synced", "load_arrow_synced", records)
    yield against_producer("load-parquet", "load_parquet", records)
    yield against_producer("sink", "sink_parquet", records, WARM_UP_SECONDS_OF_SPARK)
    yield against_connector(records)
    yield beside_handing_over(records)


def against_producer(name: str, function: str, records: int, warm_up: float = WARM_UP_SECONDS) -> Workload:
    @contextlib.contextmanager
    def theirs() -> Iterator[Callable[[], Pass]]:
        with empty(TOPIC) as broker:
            settings = {"bootstrap.servers": broker.bootstrap, **PRODUCER}
            arguments = [f"{setting}={value}" for setting, value in settings.items()]
            line = command("SendRecords", str(data.segment("none", records)), TOPIC, *arguments, heap="2g")
            with warm_process(line) as run:
                yield lambda: settled(run)

    ours = functools.partial(writing, function, records)
    anchor = f"kafka-java producer {NEWEST}"
    return Workload(name, "records/s", ours, anchor, theirs, runs=3, cores=2, warm_up=warm_up)


def against_connector(records: int) -> Workload:
    """The same DataFrame, written by Spark's own connector to a broker with the producer's settings from above."""

    @contextlib.contextmanager
    def theirs() -> Iterator[Callable[[], Pass]]:
        with (
            empty(TOPIC, TASKS) as broker,
            warm_process(python(f"{__name__}:send_parquet", str(data.tables(records)), broker.bootstrap)) as run,
        ):
            yield lambda: settled(run)

    return beside_spark("sink-connector", records, f"spark-sql-kafka {CONNECTOR}, kafka {NEWEST}", theirs)


def beside_handing_over(records: int) -> Workload:
    """What of the sink's time is Spark's own: reading the same rows, and giving them to Python."""

    def theirs() -> contextlib.AbstractContextManager[Callable[[], Pass]]:
        return warm_process(python(f"{__name__}:hand_over_parquet", str(data.tables(records))))

    return beside_spark("sink-handover", records, "mapInArrow, rows dropped", theirs)


def beside_spark(name: str, records: int, anchor: str, theirs: Side) -> Workload:
    ours = functools.partial(writing, "sink_parquet", records)
    return Workload(name, "records/s", ours, anchor, theirs, runs=3, cores=2, warm_up=WARM_UP_SECONDS_OF_SPARK)


@contextlib.contextmanager
def writing(function: str, records: int) -> Iterator[Callable[[], Pass]]:
    """Our side: ``function`` of this module writes a new log directory in each pass."""
    with (
        tempfile.TemporaryDirectory(dir=data.CACHE) as scratch,
        warm_process(python(f"{__name__}:{function}", str(data.tables(records)), f"{scratch}/log")) as run,
    ):
        yield lambda: settled(run, Path(scratch) / "log")


def settled(run: Callable[[], Pass], written: Path | None = None) -> Pass:
    """A pass that does not wait for the disk to take what earlier ones wrote; ``written``: where those of ours are."""
    if written is not None:
        shutil.rmtree(written, ignore_errors=True)
    os.sync()
    return run()


def load_arrow(path: str, directory: str) -> int:
    with no_sync():
        return load_arrow_synced(path, directory)


@contextlib.contextmanager
def no_sync() -> Iterator[None]:
    """Nobody waits for the disk, as a broker does not that answers a producer."""
    sync, os.fsync = os.fsync, lambda _: None
    try:
        yield
    finally:
        os.fsync = sync


def load_arrow_synced(path: str, directory: str) -> int:
    return written(in_memory(path), directory)


@functools.cache
def in_memory(path: str) -> Sequence[pa.RecordBatch]:
    """The records as the producer has them, who copied them from a file into memory before the first pass."""
    import pyarrow as pa

    with pa.OSFile(f"{path}/events.arrow") as file:
        return pa.ipc.open_file(file).read_all().to_batches()


def load_parquet(path: str, directory: str) -> int:
    from brokerless.interchange.input_files import InputFiles

    with no_sync():
        return written(InputFiles([f"{path}/events.parquet"]), directory)


def sink_parquet(path: str, directory: str) -> int:
    """Spark reads Parquet in two tasks, and each writes a partition; all is synced, and the driver gives the names."""
    options = {"topic": f"{TOPIC}-{next(numbers)}", "batch.size": BATCH_SIZE}
    rows, count = frame(path)
    rows.write.format("brokerless").mode("append").options(**options).save(directory)
    return count


def send_parquet(path: str, servers: str) -> int:
    """Spark reads Parquet in two tasks, and each sends a partition."""
    rows, count = frame(path, connector=True)
    settings = {f"kafka.{name}": value for name, value in PRODUCER.items()}
    rows.write.format("kafka").options(**settings).option("kafka.bootstrap.servers", servers).option(
        "topic", TOPIC
    ).save()
    return count


def hand_over_parquet(path: str) -> int:
    """The same rows to Python, which drops them."""

    def drop(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield from ()

    rows, count = frame(path)
    rows.mapInArrow(drop, "nothing int").collect()
    return count


def frame(path: str, *, connector: bool = False) -> tuple[DataFrame, int]:
    import pyarrow.parquet as pq
    from pyspark.sql import functions as f

    from benchmarks.spark import session

    source = Path(path) / "events.parquet"
    spark = session(connector)
    spark.conf.set("spark.sql.files.maxPartitionBytes", source.stat().st_size // TASKS + (1 << 20))
    spark.conf.set("spark.sql.files.openCostInBytes", 0)
    rows = spark.read.parquet(str(source)).withColumn("partition", f.spark_partition_id())
    return rows, pq.read_metadata(source).num_rows


def written(batches: Iterable[pa.RecordBatch], directory: str) -> int:
    """How many records are a new partition."""
    from brokerless.api.loading import load
    from brokerless.jobs.load.routing import Routing
    from brokerless.tables.batcher import BatchSettings

    return load(batches, directory, Routing(TOPIC, next(numbers)), BatchSettings(batch_size=BATCH_SIZE)).rows
