"""Values have the same hash where they are the same values, in whatever types of Arrow, and another one otherwise."""

from __future__ import annotations

import datetime
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerless.jobs.diff.exported.value_hashes import ValueHasher

HASHER = ValueHasher()
TIME = datetime.datetime(2026, 11, 30, 12, 5, 7, tzinfo=datetime.UTC)


def hashes(column: Any) -> list[tuple[int, ...]]:
    return [tuple(each) for each in HASHER.hash(column).tolist()]


SAME: dict[str, tuple[pa.Array, pa.Array]] = {
    "numbers": (pa.array([1, None, -7], pa.int32()), pa.array([1, None, -7], pa.int64())),
    "unsigned": (pa.array([1, 200], pa.uint8()), pa.array([1, 200], pa.int64())),
    "floats": (pa.array([0.5, -0.0], pa.float32()), pa.array([0.5, 0.0], pa.float64())),
    "texts": (pa.array(["a", "", None]), pa.array(["a", "", None], pa.large_string())),
    "bytes": (pa.array(["a"]), pa.array([b"a"], pa.large_binary())),
    "dictionaries": (pa.array(["a", "b", "a"]), pa.array(["a", "b", "a"]).dictionary_encode()),
    "times": (pa.array([TIME], pa.timestamp("ms", "UTC")), pa.array([TIME], pa.timestamp("us", "UTC"))),
    "lists": (pa.array([[1, None], [], None]), pa.array([[1, None], [], None], pa.large_list(pa.int64()))),
    "fields that are null": (
        pa.array([{"a": 1, "b": None}]),
        pa.array([{"a": 1}], pa.struct([pa.field("a", pa.int64())])),
    ),
    "the order of fields": (
        pa.array([{"a": 1, "b": 2}]),
        pa.array([{"b": 2, "a": 1}]).cast(pa.struct([pa.field("b", pa.int64()), pa.field("a", pa.int64())])),
    ),
    "maps": (
        pa.array([[("a", 1), ("b", 2)]], pa.map_(pa.string(), pa.int64())),
        pa.array([[("b", 2), ("a", 1)]], pa.map_(pa.large_string(), pa.int32())),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_values_have_one_hash(name: str) -> None:
    left, right = SAME[name]
    assert hashes(left) == hashes(right)


def test_other_values_have_another_hash() -> None:
    columns: list[pa.Array] = [
        pa.array(["", "a", "ab", "0"]), pa.array([0, 1, 97]), pa.array([0.5, 1.0, float("nan")]),
        pa.array([[], [None], [None, None], [0], [0, 0], [0, 1], [1, 0]]), pa.array([[[]], [[], []], [[0]]]),
        pa.array([{"a": None, "b": None}, {"a": 1, "b": None}, {"a": None, "b": 1}]),
        pa.array([["a", "b"], ["ab"], ["b", "a"]]),
        pa.array([[("a", 1)], [("a", None)], [("a", 1), ("b", 1)]], pa.map_(pa.string(), pa.int64())),
    ]  # fmt: skip
    found = [each for column in columns for each in hashes(column)]
    assert len(set(found)) == len(found)
    assert (0, 0) not in found


def test_bytes_that_were_not_decoded_are_no_value() -> None:
    column = pa.array([b"a", None], pa.binary())
    assert HASHER.hash_raw(column).tolist()[1] == [0, 0]
    assert HASHER.hash_raw(column).tolist()[0] != HASHER.hash(column).tolist()[0]


@given(
    st.lists(
        st.fixed_dictionaries({"a": st.none() | st.integers(-9, 9), "b": st.lists(st.text(max_size=2))}), min_size=1
    )
)
def test_rows_are_the_same_wherever_they_are(rows: list[dict[str, Any]]) -> None:
    """In a slice, and in another batch; and only equal rows have equal hashes."""
    type_ = pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.list_(pa.string()))])
    column = pa.array(rows, type_)
    whole = HASHER.hash(column)
    for at in range(len(rows)):
        assert np.array_equal(HASHER.hash(column.slice(at, 1)), whole[at : at + 1])
        assert np.array_equal(HASHER.hash(pa.array([rows[at]], type_)), whole[at : at + 1])
    texts = {json.dumps(row, sort_keys=True) for row in rows}
    assert len({tuple(each) for each in whole.tolist()}) == len(texts)
