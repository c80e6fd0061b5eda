"""Record batches for the tests of views, from plain dicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from brokerless import schemas

NAMES = list(schemas.RECORDS.names)
Row = dict[str, Any]


def batch_of(rows: Sequence[Row], columns: Sequence[str] = NAMES) -> pa.RecordBatch:
    schema = pa.schema([schemas.RECORDS.field(name) for name in columns])
    arrays: list[pa.Array] = []
    for field in schema:
        values = [row[field.name] for row in rows]
        if pa.types.is_timestamp(field.type):
            arrays.append(pa.array(values, pa.int64()).cast(field.type))
        else:
            arrays.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def record(**values: Any) -> Row:
    row: Row = dict.fromkeys(NAMES)
    row |= {"offset": 0, "timestamp": 0, "timestampType": 0, "headers": [], "file": "a.log"}
    return row | {"batchPosition": 0, "sequence": -1, "isControl": False} | values
