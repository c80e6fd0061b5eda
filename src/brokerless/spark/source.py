"""``spark.read.format("brokerless")``: the data source that Spark finds by itself (``pyspark_brokerless``)."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from brokerless.spark.columns import Columns, choose_columns, default_schema
from brokerless.spark.options import Options, parse_options
from brokerless.spark.plan import Pushed, Task, plan
from brokerless.spark.pushdown import push


class BrokerlessSource(DataSource):
    """Kafka's log files as a DataFrame: the options and columns of spark-sql-kafka, and a path instead of servers.

    >>> spark.read.format("brokerless").load("/var/lib/kafka").where("topic = 'orders'").count()
    """

    @classmethod
    def name(cls) -> str:
        return "brokerless"

    def schema(self) -> StructType:
        return default_schema(parse_options(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = parse_options(self.options)
        # Spark fails a query whose reader takes filters while spark.sql.python.filterPushdown.enabled is false, and
        # does not tell a source; but with filters to push, another of its modules asks.
        frame = inspect.currentframe()
        asks = "" if frame is None or frame.f_back is None else frame.f_back.f_code.co_filename
        takes_filters = asks.endswith("data_source_pushdown_filters.py")
        return (PushdownReader if takes_filters else Reader)(options, choose_columns(schema, options))


class Reader(DataSourceReader):
    """Plans on the driver, reads on the executors."""

    def __init__(self, options: Options, columns: Columns) -> None:
        self.options = options
        self.columns = columns
        self.pushed = Pushed()

    def partitions(self) -> list[InputPartition]:
        return plan(self.options, self.pushed)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from brokerless.spark.read import read_split

        assert isinstance(partition, Task)
        for split in partition.splits:
            yield from read_split(split, self.options, self.columns)


class PushdownReader(Reader):
    """A reader that also prunes by the query's filters."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        self.pushed, rest = push(filters, self.options)
        return rest
