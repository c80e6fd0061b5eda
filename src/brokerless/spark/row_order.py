"""Sorts a DataFrame's rows for the sink: each partition's in one task, in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from brokerless.jobs.load.routing import Routing


def arrange(df: DataFrame, partitions: int | None = None) -> DataFrame:
    """Arrange the rows of a DataFrame for the sink: all of a Kafka partition in one Spark task, in order.

    Tasks then write partitions as they stay, and the driver only renames them. Rows are ordered by offset; without
    offsets by timestamp; without both they keep any order.

    Parameters
    ----------
    df
        The rows.
    partitions
        How many partitions each topic has; not needed if all rows have a partition. Rows without one get it as Kafka's
        producers choose it: by the murmur2 hash of the key, or, without a key, one after the other.

    Returns
    -------
    DataFrame
        The rows, with a column ``partition``.

    Raises
    ------
    UsageError
        Without a column ``partition`` and without ``partitions``, and for a number below 1.
    """
    from brokerless.errors import UsageError
    from brokerless.jobs.load.routing import Routing
    from brokerless.tables.rows import column_name

    df = df.toDF(*map(column_name, df.columns))
    if partitions is None and "partition" not in df.columns:
        raise UsageError("there is no column 'partition'; say how many partitions the topic has: arrange(df, 12)")
    if partitions is not None:
        df = _with_partitions(df, Routing("any", partitions=partitions))
    place = [name for name in ("topic", "partition") if name in df.columns]
    order = next(([name] for name in ("offset", "timestamp") if name in df.columns), [])
    return df.repartition(*place).sortWithinPartitions(*place, *order)


def _with_partitions(df: DataFrame, placement: Routing) -> DataFrame:
    from pyspark.sql.types import IntegerType, StructField, StructType

    fields = list(df.schema.fields)
    if "partition" not in df.columns:
        fields.append(StructField("partition", IntegerType()))

    def fill(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import numpy as np
        import pyarrow as pa
        from pyspark import TaskContext

        from brokerless.jobs.load.routing import Router
        from brokerless.tables.batcher import BATCH_SIZE
        from brokerless.tables.rows import normalize

        context = TaskContext.get()
        placer = Router(placement, BATCH_SIZE, 0 if context is None else context.partitionId() * BATCH_SIZE)
        row = 0
        for batch in batches:
            columns = [name for name in ("key", "value", "partition") if name in batch.schema.names]
            chosen = placer.partitions(normalize(batch.select(columns), row), np.arange(row, row + batch.num_rows))
            row += batch.num_rows
            column = pa.array(chosen, pa.int32())
            at = batch.schema.get_field_index("partition")
            yield batch.append_column("partition", column) if at < 0 else batch.set_column(at, "partition", column)

    return df.mapInArrow(fill, StructType(fields))
