"""Spark's own limits beside ours: a Python data source that has its batch already, and a sink that drops all rows."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from benchmarks.data import events, tables
from benchmarks.loading import frame, writing
from benchmarks.measure import WARM_UP_SECONDS_OF_SPARK, Pass, Workload, python, warm_process
from benchmarks.spark import TASKS, all_rows, session
from brokerless.spark.options import SPLIT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

COLUMNS = {
    "": "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int",
    "-offset": "offset long",
    "-partition-offset": "partition int, offset long",
    "-value": "value binary",
}


def workloads(records: int) -> Iterator[Workload]:
    for codec, name in itertools.product(("none", "lz4"), COLUMNS):
        yield reading(f"spark-ceiling-{codec}{name}", codec, COLUMNS[name], records)
    yield Workload(
        "sink-ceiling",
        "records/s",
        functools.partial(writing, "sink_parquet", records),
        "a sink that drops all rows",
        lambda: warm_process(python(f"{__name__}:drop_parquet", str(tables(records)))),
        runs=3,
        cores=TASKS,
        warm_up=WARM_UP_SECONDS_OF_SPARK,
        added=functools.partial(writing, "load_arrow_synced", records),
    )


def reading(name: str, codec: str, schema: str, records: int) -> Workload:
    def side(function: str) -> AbstractContextManager[Callable[[], Pass]]:
        path = str(events(records) / f"events-{codec}-0")
        return warm_process(python(f"{__name__}:{function}", path, schema, str(records)))

    return Workload(
        name,
        "records/s",
        functools.partial(side, "read_log"),
        "a data source of one prebuilt batch",
        functools.partial(side, "read_prebuilt"),
        runs=3,
        cores=TASKS,
        settle=True,
        warm_up=WARM_UP_SECONDS_OF_SPARK,
        added=functools.partial(side, "decode"),
    )


def read_log(path: str, schema: str, records: str) -> int:
    reader = session().read.format("brokerless").schema(schema).option("minPartitions", TASKS)
    return all_rows(reader.load(path))


def decode(path: str, schema: str, records: str) -> int:
    """The same columns of all records, decoded in one thread, and dropped."""
    import brokerless

    columns = [column.split()[0] for column in schema.split(", ")]
    return sum(batch.num_rows for batch in brokerless.open(path).records(columns, jobs=1))


def read_prebuilt(path: str, schema: str, records: str) -> int:
    spark = session()
    spark.dataSource.register(PrebuiltSource)
    reader = spark.read.format("prebuilt").schema(schema)
    return all_rows(reader.options(path=path, records=records).load())


def drop_parquet(path: str) -> int:
    rows, count = frame(path)
    rows.sparkSession.dataSource.register(DroppingSink)
    rows.write.format("dropping").mode("append").save()
    return count


class PrebuiltSource(DataSource):
    """As many rows as a log has, all from the first batch that our own source makes of it."""

    @classmethod
    def name(cls) -> str:
        return "prebuilt"

    def reader(self, schema: StructType) -> DataSourceReader:
        return PrebuiltReader(self.options["path"], int(self.options["records"]), schema)


class PrebuiltReader(DataSourceReader):
    def __init__(self, path: str, records: int, schema: StructType) -> None:
        self.path, self.records, self.schema = path, records, schema.json()

    def partitions(self) -> Sequence[InputPartition]:
        """As many tasks as our own source has."""
        size = sum(each.stat().st_size for each in Path(self.path).glob("*.log"))
        tasks = max(TASKS, -(-size // SPLIT_BYTES))
        ends = [self.records * (place + 1) // tasks for place in range(tasks)]
        return [InputPartition(end - start) for start, end in zip([0, *ends], ends, strict=False)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch, left = prebuilt(self.path, self.schema), partition.value
        while left > 0:
            yield batch.slice(0, left)
            left -= batch.num_rows


@functools.cache
def prebuilt(path: str, schema: str) -> pa.RecordBatch:
    """Spark's worker stays, and makes it once."""
    import json

    from brokerless.spark.source import BrokerlessSource

    reader = BrokerlessSource({"path": path}).reader(StructType.fromJson(json.loads(schema)))
    return next(iter(reader.read(reader.partitions()[0])))  # pyright: ignore


class DroppingSink(DataSource):
    @classmethod
    def name(cls) -> str:
        return "dropping"

    def writer(self, schema: StructType, overwrite: bool) -> DroppingWriter:
        return DroppingWriter()


class DroppingWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()
