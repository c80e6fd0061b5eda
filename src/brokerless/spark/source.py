"""``spark.read.format("brokerless")``: the data source that Spark finds by itself (``pyspark_brokerless``)."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.types import StructType

from brokerless.errors import BrokerlessError, UsageError
from brokerless.jobs.run.spark_worker import keep_what_is_loaded
from brokerless.spark.columns import SelectedColumns, choose_columns, default_schema
from brokerless.spark.options import Options, parse_any_options, parse_options, parse_stream_options
from brokerless.spark.typed import with_types

if TYPE_CHECKING:
    from brokerless.spark.plan import Pushed
    from brokerless.spark.sink import StreamWriter, Writer
    from brokerless.spark.split import ReadTask


class BrokerlessSource(DataSource):
    """Kafka's log files as a DataFrame: the options and columns of spark-sql-kafka, and a path instead of servers.

    >>> spark.read.format("brokerless").load("/var/lib/kafka").where("topic = 'orders'").count()
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        keep_what_is_loaded()  # the process in which Spark makes sources is one that stays

    @classmethod
    def name(cls) -> str:
        return "brokerless"

    def schema(self) -> StructType:
        return default_schema(with_types(parse_any_options(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = with_types(parse_options(self.options))
        frame = inspect.currentframe()
        asks = "" if frame is None or frame.f_back is None else frame.f_back.f_code.co_filename
        takes_filters = _pushes_filters(asks) and options.push_filters is not False and _keeps_scans_apart()
        if options.push_filters and _pushes_filters(asks) and not takes_filters:
            raise UsageError(
                "pushFilters: this Spark keeps one plan for all queries of a DataFrame, so that a second one would "
                "miss rows; leave it out, and say what to read by options (subscribe, assign, startingOffsets, "
                "startingTimestamp, ...)"
            )
        return (PushdownReader if takes_filters else LogReader)(options, choose_columns(schema, options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from brokerless.spark.stream.reader import RefusingReader

        try:
            options = with_types(parse_stream_options(self.options))
            return _stream_reader(options, choose_columns(schema, options))
        except BrokerlessError as error:
            return RefusingReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> Writer:
        from brokerless.spark.sink import Writer
        from brokerless.spark.sink_options import parse_sink_options

        _refuse(overwrite, 'mode("overwrite")')
        return Writer(parse_sink_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        from brokerless.spark.sink import StreamWriter
        from brokerless.spark.sink_options import parse_sink_options

        _refuse(overwrite, 'outputMode("complete")')
        return StreamWriter(parse_sink_options(self.options), schema)


def _refuse(overwrite: bool, what: str) -> None:
    if overwrite:
        raise UsageError(
            f"{what} is not possible: a log is appended to, and partitions that are there are never deleted; write to "
            "another directory, or append"
        )


def _pushes_filters(asks: str) -> bool:
    """Return whether Spark wants to push filters, by the source file that asks for a reader.

    While ``spark.sql.python.filterPushdown.enabled`` is false, Spark fails a query whose reader takes filters, and does
    not say so before. With filters to push, it is another of its modules that asks.
    """
    return Path(asks).name.startswith("data_source_pushdown")


def _keeps_scans_apart() -> bool:
    """Return whether this Spark plans each scan for itself.

    In 4.1 to 4.3, all scans of one DataFrame share the plan that was made for the filters of the last, and so a second
    query, or the other side of a join, silently misses rows. That was put right along with ``pushLimit`` (SPARK-58551).
    """
    return hasattr(DataSourceReader, "pushLimit")


def _stream_reader(options: Options, columns: SelectedColumns) -> DataSourceStreamReader:
    """The reader for the Spark that runs. Raises :class:`UsageError` for a limit that it would not keep."""
    if hasattr(DataSourceStreamReader, "getDefaultReadLimit"):
        from brokerless.spark.stream.limited_reader import LimitedReader

        return LimitedReader(options, columns)
    from brokerless.spark.stream.reader import EverythingReader

    return EverythingReader(options, columns)


class LogReader(DataSourceReader):
    """Plans on the driver, reads on the executors."""

    def __init__(self, options: Options, columns: SelectedColumns) -> None:
        self.options = options
        self.columns = columns
        self.pushed: Pushed | None = None

    def partitions(self) -> list[InputPartition]:
        from brokerless.spark.plan import plan

        planned = plan(self.options, self.pushed)
        keep_what_is_loaded()  # as that in which it plans
        return planned

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from brokerless.spark.reader import read_task

        return read_task(cast("ReadTask", partition), self.options, self.columns)


class PushdownReader(LogReader):
    """A reader that also prunes by the query's filters."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        from brokerless.spark.pushdown import push

        self.pushed, rest = push(filters, self.options)
        return rest
