from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from tests.format.read.test_decoder import decode, rows
from tests.golden import case

from brokerless.format.columns import RecordColumns
from brokerless.format.read.decoder import Decoder
from brokerless.format.write.column_slices import concat_columns, data_size, filter_rows, slice_rows


@pytest.fixture(scope="module")
def columns() -> RecordColumns:
    """Records with headers, nulls and a large value."""
    (decoded,) = decode(case("formats/v2-none-create").log, Decoder())
    return decoded.columns


def test_a_part_has_its_rows_and_copies_nothing(columns: RecordColumns) -> None:
    third = columns.rows // 3
    some = slice_rows(columns, third, 2 * third)
    assert rows(some) == rows(columns)[third : 2 * third]
    assert np.shares_memory(some.value_data, columns.value_data)
    assert rows(slice_rows(some, 1, 3)) == rows(columns)[third + 1 : third + 3]
    assert rows(slice_rows(columns, 2, 2)) == []


def test_parts_joined_are_what_they_are_of(columns: RecordColumns) -> None:
    count = columns.rows
    borders = [0, 1, 1, count // 2, count - 1, count]
    parts = [slice_rows(columns, start, stop) for start, stop in pairwise(borders)]
    assert rows(concat_columns(parts)) == rows(columns)
    assert rows(concat_columns([*parts, *parts[::-1]])) == [
        row for each in (*parts, *parts[::-1]) for row in rows(each)
    ]
    assert sum(data_size(each) for each in parts) >= data_size(columns)


def test_rows_are_taken_by_flags(columns: RecordColumns) -> None:
    every = rows(columns)
    for step in (2, 3):
        flags = np.arange(columns.rows) % step == 0
        assert rows(filter_rows(columns, flags)) == every[::step]
    assert rows(filter_rows(columns, np.ones(columns.rows, np.bool_))) == every
    assert rows(filter_rows(columns, np.zeros(columns.rows, np.bool_))) == []
