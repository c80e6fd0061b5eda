"""Records as rows of a table: key and value, and Kafka's own columns in a struct `kafka`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless import arrow
from brokerless.table_formats.catalog import TableFormat
from brokerless.table_formats.column_types import convert, stored_type

TIMESTAMP = pa.timestamp("us", tz="UTC")
KAFKA = pa.struct(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", TIMESTAMP),
        pa.field("timestampRaw", pa.int64()),
        pa.field("timestampType", pa.int32()),
        pa.field("headers", pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))),
    ]
)
"""``timestamp`` is null where a record has none, and where it is outside of the years 1 to 9999, which few readers of
tables take; ``timestampRaw`` is that in milliseconds then, and null otherwise."""
DATE = "date"
"""The partitions are days (UTC): in Iceberg, a hidden field of ``kafka.timestamp``; in Delta, a column."""

_DAY = 86_400_000


def days_of(milliseconds: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the days since 1970 of timestamps, and which of these have none: -1, and those outside of the years 1 to
    9999."""
    days = milliseconds // _DAY
    return days, (milliseconds == -1) | (days < arrow.FIRST_DAY) | (days > arrow.LAST_DAY)


def table_schema(decoded: pa.Schema, form: TableFormat) -> pa.Schema:
    """Return the columns of a table for records of a schema, which may be decoded; times of day are such, and Delta's
    ``date`` is not there."""
    own = [pa.field(name, stored_type(decoded.field(name).type, form)) for name in ("key", "value")]
    names = ("keyRaw", "keyError", "valueRaw", "valueError")
    rest = [pa.field(name, decoded.field(name).type) for name in names if name in decoded.names]
    return pa.schema([*own, pa.field("kafka", KAFKA), *rest])


@dataclass(frozen=True, slots=True)
class RowMaker:
    """Makes rows of a table's files out of records, which may be decoded."""

    topic: str
    schema: pa.Schema

    def __call__(self, records: pa.RecordBatch) -> pa.RecordBatch:
        columns: dict[str, Any] = {name: records.column(name) for name in records.schema.names}
        columns["kafka"] = self._kafka(records)
        return pa.RecordBatch.from_arrays(
            [convert(columns[each.name], each.type) for each in self.schema], schema=self.schema
        )

    def _kafka(self, records: pa.RecordBatch) -> Any:
        rows = records.num_rows
        milliseconds = arrow.numbers(records.column("timestamp"), np.int64)
        _, has_none = days_of(milliseconds)
        times = arrow.column_of_numbers(TIMESTAMP, np.where(has_none, 0, milliseconds) * 1000, has_none)
        columns = {
            "topic": arrow.repeated(self.topic, rows),
            "timestamp": times,
            "timestampRaw": arrow.column_of_numbers(pa.int64(), milliseconds, ~has_none),
            "headers": convert(records.column("headers"), KAFKA.field("headers").type),
        }
        own = [columns[each.name] if each.name in columns else records.column(each.name) for each in KAFKA]
        return pa.StructArray.from_arrays(own, fields=list(KAFKA))
