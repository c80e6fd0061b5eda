"""Records as rows of a table: key and value, and Kafka's own columns in a struct `kafka`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless import arrow
from brokerless.findings import NOT_DECODED, Finding
from brokerless.table_formats.catalog import TableFormat
from brokerless.table_formats.column_types import convert, finer_than_stored, stored_type

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
FINER = "times finer than microseconds, which the table cuts"

_DAY = 86_400_000
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, by days since 1970."""


def table_schema(decoded: pa.Schema, form: TableFormat) -> pa.Schema:
    """The columns of a table for records of a schema, which may be decoded; times of day are such, and Delta's ``date``
    is not there."""
    own = [pa.field(name, stored_type(decoded.field(name).type, form)) for name in ("key", "value")]
    names = ("keyRaw", "keyError", "valueRaw", "valueError")
    rest = [pa.field(name, decoded.field(name).type) for name in names if name in decoded.names]
    return pa.schema([*own, pa.field("kafka", KAFKA), *rest])


Cut = Mapping[str, tuple[int, int]]
"""Of keys and of values, how many the table does not have exactly, and the first offset."""


def add_cut(one: Cut, two: Cut) -> Cut:
    """Those of earlier and of later records."""
    sums = {side: (one[side][0] + two[side][0], one[side][1]) for side in one.keys() & two.keys()}
    return {**one, **two, **sums}


def cut_findings(cut: Cut, path: str) -> Iterator[Finding]:
    """A warning for keys, and one for values, that the table does not have exactly."""
    for side, (count, first) in sorted(cut.items()):
        what = f"{count} {side}s have" if count > 1 else f"a {side} has"
        text = f"{what} {FINER}; the bytes are kept ({'the first at ' if count > 1 else ''}offset {first})"
        yield Finding("warning", NOT_DECODED[side], path, offset=first, message=text)


@dataclass(slots=True)
class RowMaker:
    """Makes rows of a table's files out of decoded records, and counts what the table cannot have exactly."""

    topic: str
    schema: pa.Schema
    cut: Cut = field(default_factory=dict[str, tuple[int, int]])

    def __call__(self, records: pa.RecordBatch, raw: pa.RecordBatch) -> pa.RecordBatch:
        """``raw``: the same records before they were decoded."""
        columns: dict[str, Any] = {name: records.column(name) for name in records.schema.names}
        for side in ("key", "value"):
            if f"{side}Raw" in columns:
                self._keep_exact(side, columns, raw)
        columns["kafka"] = self._kafka(records)
        return pa.RecordBatch.from_arrays(
            [convert(columns[each.name], each.type) for each in self.schema], schema=self.schema
        )

    def _keep_exact(self, side: str, columns: dict[str, Any], raw: pa.RecordBatch) -> None:
        rows = keep_exact(side, columns, raw)
        if len(rows):
            first = cast(int, raw.column("offset")[int(rows[0])].as_py())
            self.cut = add_cut(self.cut, {side: (len(rows), first)})

    def _kafka(self, records: pa.RecordBatch) -> Any:
        rows = records.num_rows
        milliseconds = arrow.numbers(records.column("timestamp"), np.int64)
        days = milliseconds // _DAY
        has_none = (milliseconds == -1) | (days < _FIRST_DAY) | (days > _LAST_DAY)
        times = arrow.column_of_numbers(TIMESTAMP, np.where(has_none, 0, milliseconds) * 1000, has_none)
        columns = {
            "topic": arrow.repeated(self.topic, rows),
            "timestamp": times,
            "timestampRaw": arrow.column_of_numbers(pa.int64(), milliseconds, ~has_none),
            "headers": convert(records.column("headers"), KAFKA.field("headers").type),
        }
        own = [columns[each.name] if each.name in columns else records.column(each.name) for each in KAFKA]
        return pa.StructArray.from_arrays(own, fields=list(KAFKA))


def keep_exact(side: str, columns: dict[str, Any], raw: pa.RecordBatch) -> NDArray[np.int64]:
    """Keeps the bytes of keys or values (``side``) of which a time will be cut, and says so beside them; the rows.
    ``raw``: the same records before they were decoded."""
    finer = finer_than_stored(columns[side])
    if finer is None or not finer.any():
        return np.empty(0, np.int64)
    mask = arrow.column_of_flags(finer)
    pc = _compute()
    error = columns[f"{side}Error"]
    columns[f"{side}Raw"] = pc.if_else(mask, raw.column(side), columns[f"{side}Raw"])
    columns[f"{side}Error"] = pc.if_else(mask, pc.coalesce(error, pa.scalar(FINER)), error)
    return np.flatnonzero(finer)


def _compute() -> Any:
    import pyarrow.compute

    return pyarrow.compute
