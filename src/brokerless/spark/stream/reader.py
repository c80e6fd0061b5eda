"""The stream reader for Spark 4.1, the parts common to all readers, and a reader that reports why a query is refused.

The driver finds where partitions end, and plans; executors read. Positions are offsets, so that a query that starts
again from its checkpoint reads on where it was, in whatever files those offsets are by then, and each record comes
once. What a query was to read and is not there any more is lost: ``failOnDataLoss`` says whether that ends the query or
is logged.

Spark runs a reader in one process of its own for each query. Up to 4.1 it asks for all that is there
(:class:`EverythingReader`); from 4.2 on it says how much it wants (``limited_reader.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from brokerless.errors import BrokerlessError, UsageError
from brokerless.spark.columns import SelectedColumns
from brokerless.spark.options import Options
from brokerless.spark.stream.positions import AsJson, from_json, identity_from_json, to_json

if TYPE_CHECKING:
    from brokerless.spark.split import ReadTask
    from brokerless.spark.stream.log_tracker import LogTracker


class StreamReader(DataSourceStreamReader):
    """What all have in common. Executors get a reader that never followed anything."""

    def __init__(self, options: Options, columns: SelectedColumns) -> None:
        self.options = options
        self.columns = columns

    @cached_property
    def tracker(self) -> LogTracker:
        from brokerless.spark.stream.log_tracker import LogTracker

        return LogTracker(self.options)

    def initialOffset(self) -> AsJson:  # noqa: N802 - this and others are Spark's names
        initial = self.tracker.initial()
        return to_json(initial, self.tracker.identity(initial))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        identities = identity_from_json(start), identity_from_json(end)
        return self.tracker.plan(from_json(start), from_json(end), *identities)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from brokerless.spark.reader import read_task

        return read_task(cast("ReadTask", partition), self.options, self.columns)

    def commit(self, end: dict[str, Any]) -> None:
        self.tracker.forget(from_json(end))


class RefusingReader(DataSourceStreamReader):
    """Raises why a stream is refused when Spark calls its first method: Spark hides behind an error of its own whatever
    ``streamReader`` raises (``python_streaming_source_runner``, 4.1 to 4.3)."""

    def __init__(self, error: BrokerlessError) -> None:
        self.error = error

    def initialOffset(self) -> AsJson:  # noqa: N802
        raise self.error

    def latestOffset(self, start: Any = None, limit: Any = None) -> AsJson:  # noqa: N802
        raise self.error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise self.error


class EverythingReader(StreamReader):
    """For Spark 4.1, which neither says how far it is nor takes a part of the available data."""

    def __init__(self, options: Options, columns: SelectedColumns) -> None:
        super().__init__(options, columns)
        self._start: AsJson = {}
        if options.most_offsets is not None or options.least_offsets is not None:
            raise UsageError("options maxOffsetsPerTrigger and minOffsetsPerTrigger: they need Spark 4.2 or newer")

    def initialOffset(self) -> AsJson:  # noqa: N802
        self._start = super().initialOffset()
        return self._start

    def latestOffset(self) -> AsJson:  # type: ignore[override]  # noqa: N802
        position, known = from_json(self._start), identity_from_json(self._start)
        ends, _ = self.tracker.ends(position, known=known)
        return to_json(ends, self.tracker.identity(ends, position, known))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        self._start = end
        return super().partitions(start, end)
