"""Columns from Python's values are what PyArrow makes of them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from brokerless import arrow
from brokerless.schemas import NAME, SEGMENTS, TIMESTAMP


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([1, None, -(2**63), 2**63 - 1], pa.int64()),
        ([1, -128, 127], pa.int8()),
        ([None, 0, 1_600_000_000_123], TIMESTAMP),
        ([True, None, False], pa.bool_()),
        (["", None, "añb"], pa.string()),
        ([b"", None, b"\xff\0"], pa.binary()),
        ([[1, 2], [], None, [3]], pa.list_(pa.int8())),
        ([["gzip"], [], ["none", "lz4"]], pa.list_(pa.string())),
        (["a", "b", None, "a"], NAME),
        ([], pa.int64()),
        ([], pa.string()),
        ([], NAME),
        ([None, None], pa.string()),
    ],
)
def test_a_column_of_values_is_pyarrows(values: list[Any], type_: pa.DataType) -> None:
    column = arrow.column_of_values(values, type_)
    column.validate(full=True)
    expected = pa.array(values, type_)
    assert column.type == type_
    assert column.equals(expected)


def test_an_empty_table_has_its_schema() -> None:
    assert arrow.table_of([], SEGMENTS).equals(SEGMENTS.empty_table())


def test_what_is_read_from_a_slice_is_the_slices() -> None:
    numbers = pa.array([1, 2, None, 4], pa.int32()).slice(1)
    assert arrow.numbers(numbers, np.int32)[[0, 2]].tolist() == [2, 4]
    assert arrow.flags(pa.array([True, False, True]).slice(1)).tolist() == [0, 1]
    assert arrow.is_valid(numbers).tolist() == [True, False, True]
    texts = pa.array([b"ab", b"c", b"def"]).slice(1)
    ends, data = arrow.ends(texts), arrow.data(texts)
    assert [data[start:end].tobytes() for start, end in pairwise(ends)] == [b"c", b"def"]


FAR = 253_402_300_800_000
"""The first millisecond of the year 10000."""


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([FAR, None], pa.timestamp("ms", "UTC")), [FAR, None]),
        (pa.array([1], pa.timestamp("ns")), [1]),
        (pa.array([2**31 - 1], pa.int32()).view(pa.date32()), [2**31 - 1]),
        (pa.array([-1], pa.int64()).view(pa.time64("us")), [-1]),
        (pa.array([-1], pa.int32()).view(pa.time32("ms")), [-1]),
        (pa.array([2**62], pa.int64()).view(pa.duration("s")), [2**62]),
        (pa.array([[FAR], None], pa.list_(pa.timestamp("ms"))), [[FAR], None]),
        (pa.array([[1, 2]], pa.list_(pa.timestamp("ms"), 2)), [[1, 2]]),
        (pa.array([[1]], pa.large_list(pa.timestamp("ms"))), [[1]]),
        (pa.array([[("a", FAR)]], pa.map_(pa.string(), pa.timestamp("ms"))), [[("a", FAR)]]),
        (pa.array([{"a": FAR}], pa.struct({"a": pa.timestamp("ms")})), [{"a": FAR}]),
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        (pa.array([b"\0", None]), [b"\0", None]),
    ],
)  # fmt: skip
def test_values_have_numbers_in_place_of_times(column: Any, expected: list[Any]) -> None:
    assert arrow.values(column) == expected
    assert arrow.values(pa.chunked_array([column, column])) == expected * 2
    assert arrow.rows(pa.table({"a": column})) == [{"a": each} for each in expected]
