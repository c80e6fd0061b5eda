"""Columns with a NaN are found wherever it is; all others keep their bounds."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from brokerless.table_formats.parquet_bounds import (
    columns_with_bounds,
    float_columns,
    floats_without_bounds,
    nan_columns,
)

NAN = float("nan")
INNER = pa.struct([("x", pa.float32()), ("y", pa.int64())])
SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("a.b", pa.float64()),
        ("in", INNER),
        ("many", pa.list_(INNER)),
        ("map", pa.map_(pa.string(), pa.list_(pa.float64()))),
    ]
)
PATHS = [
    "text", "a.b", "in.x", "in.y", "many.list.element.x", "many.list.element.y", "map.key_value.key",
    "map.key_value.value.list.element",
]  # fmt: skip
ROW: dict[str, Any] = {
    "text": "t", "a.b": 1.0, "in": {"x": 1.0, "y": 1}, "many": [{"x": 1.0, "y": 1}], "map": [("k", [1.0])]
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({}, None),
        ({"a.b": NAN}, "a.b"),
        ({"in": {"x": NAN, "y": 1}}, "in.x"),
        ({"many": [{"x": 1.0, "y": 1}, {"x": NAN, "y": 1}]}, "many.list.element.x"),
        ({"map": [("k", [1.0, NAN])]}, "map.key_value.value.list.element"),
    ],
)
def test_a_nan_is_found_wherever_it_is(changed: dict[str, Any], path: str | None) -> None:
    nothing: dict[str, Any] = dict.fromkeys(ROW)
    batch = pa.RecordBatch.from_pylist([nothing, ROW, ROW | changed, nothing], SCHEMA)
    found = nan_columns([batch.slice(0, 2), batch.slice(2)])
    assert [PATHS[number] for number in found] == ([] if path is None else [path])
    assert columns_with_bounds(SCHEMA, found) == [each for each in PATHS if each != path]
    sink = io.BytesIO()
    pq.write_table(pa.table(batch), sink, write_statistics=columns_with_bounds(SCHEMA, found))
    footer: Any = pq.read_metadata(sink)
    columns = [footer.row_group(0).column(number) for number in range(footer.num_columns)]
    assert [each.path_in_schema for each in columns if each.statistics is None] == ([] if path is None else [path])
    assert floats_without_bounds(footer) == (set() if path is None else {path})


def test_a_nan_where_there_is_no_value_does_not_count() -> None:
    inner = pa.StructArray.from_arrays([pa.array([NAN, 1.0])], ["x"], mask=pa.array([True, False]))
    assert nan_columns([pa.record_batch({"in": inner})]) == set()


def test_only_floating_point_numbers_have_one() -> None:
    assert [PATHS[number] for number in sorted(float_columns(SCHEMA))] == [PATHS[1], PATHS[2], PATHS[4], PATHS[7]]
