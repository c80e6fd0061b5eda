"""Rows of anyone's types become what Kafka stores, or are refused with their column and number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from brokerless.errors import UsageError
from brokerless.schemas import HEADERS, RECORDS
from brokerless.tables.rows import RowError, bounded, normalize

TEXTS = ["a", None, "ü" * 40, ""]
BYTES = [None if text is None else text.encode() for text in TEXTS]
PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def one(name: str, column: pa.Array) -> pa.RecordBatch:
    value = pa.array(["v"] * len(column), pa.binary())
    return batch(**({name: column} if name == "value" else {"value": value, name: column}))


def normalized(name: str, column: pa.Array) -> pa.Array:
    result = normalize(one(name, column)).column(name)
    result.validate(full=True)
    is_name = name == "topic"  # which names there are is asked for
    assert result.type == (pa.dictionary(pa.int32(), pa.string()) if is_name else RECORDS.field(name).type)
    return result


BYTE_TYPES = [
    pa.binary(), pa.string(), pa.large_binary(), pa.large_string(), pa.string_view(), pa.binary_view(),
    pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.large_binary()),
]  # fmt: skip


@pytest.mark.parametrize("type_", BYTE_TYPES, ids=str)
@pytest.mark.parametrize("name", ["key", "value"])
def test_bytes_come_as_any_type_of_bytes_or_text(name: str, type_: pa.DataType) -> None:
    is_dictionary = isinstance(type_, pa.DictionaryType)
    column = pa.array(TEXTS, pa.string()).cast(type_.value_type if is_dictionary else type_)
    column = column.dictionary_encode().cast(type_) if is_dictionary else column
    assert normalized(name, column).to_pylist() == BYTES
    assert normalized(name, column[1:3]).to_pylist() == BYTES[1:3]


def test_bytes_of_one_width_and_nothing_but_nulls_are_bytes() -> None:
    assert normalized("key", pa.array([b"ab", None], pa.binary(2))).to_pylist() == [b"ab", None]
    assert normalized("key", pa.nulls(2)).to_pylist() == [None, None]


def test_what_has_the_right_type_is_not_copied() -> None:
    value = pa.array(BYTES, pa.binary())
    given = normalize(batch(value=value)).column("value")
    assert [each and each.address for each in given.buffers()] == [each and each.address for each in value.buffers()]


@pytest.mark.parametrize("type_", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64()], ids=str)
def test_numbers_come_as_any_integers(type_: pa.DataType) -> None:
    for name in ("offset", "partition", "timestamp"):
        column = normalized(name, pa.array([0, 1, 77], type_))
        assert (column.view(pa.int64()) if name == "timestamp" else column).to_pylist() == [0, 1, 77]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_timestamps_come_in_any_unit_and_what_is_finer_than_a_millisecond_is_cut_off(unit: str, zone: str) -> None:
    in_a_second = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}[unit]
    ticks = [0, 1_700_000_000 * in_a_second, 1_700_000_000 * in_a_second + in_a_second * 9 // 10]
    column = normalized("timestamp", pa.array(ticks, pa.timestamp(unit, zone)))
    assert column.view(pa.int64()).to_pylist() == [tick * 1000 // in_a_second for tick in ticks]


def test_no_timestamp_is_minus_one() -> None:
    assert normalized("timestamp", pa.array([-1], pa.timestamp("us"))).view(pa.int64()).to_pylist() == [-1]


def test_timestamp_types_come_as_names_or_ids() -> None:
    names = pa.array(["CreateTime", "LogAppendTime", "NoTimestampType"])
    for column in (names, names.dictionary_encode(), pa.array([0, 1, -1], pa.int8())):
        assert normalized("timestampType", column).to_pylist() == [0, 1, -1]


HEADER_ROWS = [[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], None, [], [{"key": "ü", "value": b""}]]
HEADER_TYPES = [
    HEADERS,
    pa.list_(PAIR),
    pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])),
    pa.list_(pa.struct([("value", pa.binary()), ("key", pa.binary())])),
    pa.list_(pa.struct([("key", pa.string_view()), ("value", pa.binary_view())])),
    pa.map_(pa.string(), pa.binary()),
]


@pytest.mark.parametrize("type_", HEADER_TYPES, ids=str)
def test_headers_come_as_any_list_of_keys_and_values(type_: pa.DataType) -> None:
    is_map = pa.types.is_map(type_)
    rows = [row and [tuple(pair.values()) if is_map else pair for pair in row] for row in HEADER_ROWS]
    column = pa.array(rows, type_)
    assert normalized("headers", column).to_pylist() == [row or [] for row in HEADER_ROWS]
    assert normalized("headers", column[1:]).to_pylist() == [row or [] for row in HEADER_ROWS[1:]]


def test_headers_whose_values_all_are_null_have_a_type_of_their_own() -> None:
    rows = [[{"key": "a", "value": None}]]
    assert normalized("headers", pa.array(rows)).to_pylist() == rows


def test_topics_come_as_text_and_may_be_unknown() -> None:
    for type_ in (pa.string(), pa.large_string(), pa.string_view(), pa.binary()):
        assert normalized("topic", pa.array(["t", None, "t"], type_)).to_pylist() == ["t", None, "t"]


def test_what_a_record_has_no_column_for_is_missing_or_empty() -> None:
    rows = normalize(batch(value=["v", "w"]))
    assert rows.to_pylist() == [{"key": None, "value": each, "headers": []} for each in (b"v", b"w")]


def test_where_records_were_read_is_not_taken_over() -> None:
    rows = normalize(batch(value=["v"], file=["f"], batchPosition=[0], sequence=[-1], isControl=[False]))
    assert rows.schema.names == ["key", "value", "headers", "isControl"]


@pytest.mark.parametrize("type_", [pa.int64(), pa.int32(), *map(pa.timestamp, ("s", "ms", "us", "ns"))])
def test_a_timestamp_for_rows_that_have_none_can_be_given(type_: pa.DataType) -> None:
    times = pa.array([3000, None, 7000], pa.int64())
    if type_ == pa.timestamp("s"):
        times = pa.array([3, None, 7], pa.int64())
    elif pa.types.is_timestamp(type_):
        times = times.view(pa.timestamp("ms")).cast(type_).view(pa.int64())
    rows = normalize(batch(value=["a", "b", "c"], timestamp=times.cast(type_)), timestamp=5000)
    assert rows.column("timestamp").view(pa.int64()).to_pylist() == [3000, 5000, 7000]
    nothing = normalize(batch(value=["a"], timestamp=pa.nulls(1)), timestamp=5000)
    assert nothing.column("timestamp").view(pa.int64()).to_pylist() == [5000]


REFUSED_ROWS = [
    ("offset", pa.array([0, None, 2]), 1, "is null"),
    ("offset", pa.array([0, 1, -1]), 2, "is -1, and offsets are not negative"),
    ("offset", pa.array([0, 2**63], pa.uint64()), 1, "is more than 2^63 - 1"),
    ("offset", pa.nulls(2), 0, "is null"),
    ("partition", pa.array([0, -1]), 1, "is -1"),
    ("partition", pa.array([0, 0, 2**31]), 2, "is not from 0 to 2147483647"),
    ("timestamp", pa.array([0, None], pa.timestamp("us")), 1, "is null"),
    ("timestamp", pa.array([0, -2]), 1, "is -2 ms"),
    ("timestamp", pa.array([0, -1001], pa.timestamp("us")), 1, "is -2 ms"),
    ("timestamp", pa.array([0, -500], pa.timestamp("us")), 1, "is -500 us"),
    ("timestamp", pa.array([0, 2**61], pa.timestamp("s")), 1, "is more than 2^63 - 1 ms"),
    ("timestampType", pa.array([0, 2]), 1, "is 2; there are -1 (NoTimestampType), 0 (CreateTime), 1 (LogAppendTime)"),
    ("timestampType", pa.array(["CreateTime", "x"]), 1, "is 'x'; there are NoTimestampType, CreateTime, LogAppendTime"),
    ("timestampType", pa.array(["CreateTime", None]), 1, "is null"),
    ("topic", pa.array(["t", "a/b"]), 1, "'a/b' is not a valid topic name"),
    ("topic", pa.array(["t", ".."]), 1, "'..' is not a valid topic name"),
    ("topic", pa.array([b"t", b"\xff"]), 1, "is not UTF-8"),
    ("headers", pa.array([[], [{"key": None, "value": b""}]], pa.list_(PAIR)), 1, "a header's key is null"),
    ("headers", pa.array([[], [], [None]], pa.list_(PAIR)), 2, "a header is null"),
    ("headers", pa.array([[], [{"key": b"\xff", "value": b""}]]), 1, "a header's key is not UTF-8"),
    ("isControl", pa.array([False, None]), 1, "is null"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "column", "row", "reason"), REFUSED_ROWS)
def test_a_row_that_cannot_become_a_record_is_named(name: str, column: pa.Array, row: int, reason: str) -> None:
    with pytest.raises(RowError) as refused:
        normalize(one(name, column), 100)
    assert (refused.value.row, refused.value.column) == (100 + row, name)
    assert refused.value.reason.startswith(reason)
    assert f"row {100 + row} (from 0), column {name}: {reason}" in str(refused.value)


def test_what_is_outside_of_a_slice_is_not_looked_at() -> None:
    headers = pa.array([[{"key": None, "value": b""}], [], [None]], pa.list_(PAIR))
    assert normalized("headers", headers[1:2]).to_pylist() == [[]]
    assert normalized("headers", pa.array([[{"key": b"\xff", "value": b""}], []])[1:]).to_pylist() == [[]]
    assert normalized("offset", pa.array([None, 5, -1])[1:2]).to_pylist() == [5]


REFUSED_TYPES = [
    ("value", pa.array([1]), "it has to be binary or string"),
    ("key", pa.array([1.5]), "it has to be binary or string"),
    ("key", pa.array([["a"]]), "it has to be binary or string"),
    ("offset", pa.array([1.0]), "it has to be an integer"),
    ("offset", pa.array(["1"]), "it has to be an integer"),
    ("partition", pa.array(["0"]), "it has to be an integer"),
    ("timestamp", pa.array(["2024-01-01"]), "it has to be a timestamp, or an integer in ms since the epoch"),
    ("timestamp", pa.array([1.0]), "it has to be a timestamp"),
    ("timestampType", pa.array([True]), "it has to be an integer or a name"),
    ("topic", pa.array([1]), "it has to be a string"),
    ("headers", pa.array(["a"]), "it has to be a list of structs"),
    ("headers", pa.array([["a"]]), "it has to be a list of structs"),
    ("headers", pa.array([[{"k": "a", "v": b""}]]), "with the fields key (string) and value (binary)"),
    ("headers", pa.array([[{"key": "a", "value": 1}]]), "it has to be a list of structs"),
    ("isControl", pa.array([0]), "it has to be a boolean"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "column", "reason"), REFUSED_TYPES)
def test_a_type_that_cannot_hold_what_kafka_stores_is_refused(name: str, column: pa.Array, reason: str) -> None:
    with pytest.raises(UsageError, match=f"column '{name}' is of type") as refused:
        normalize(one(name, column))
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["key"], "there is no column 'value'; there are key"),
        ([], "there is no column 'value'; there are none"),
        (["value", "Value"], "a record has no column 'Value'; it has key, value, headers, topic"),
        (["value", "value"], "there are two columns 'value'"),
    ],
)
def test_columns_that_are_missing_or_not_a_records_are_refused(names: list[str], reason: str) -> None:
    with pytest.raises(UsageError) as refused:
        normalize(pa.RecordBatch.from_arrays([pa.array(["v"])] * len(names), names))
    assert reason in str(refused.value)


@pytest.mark.parametrize("type_", [pa.string_view(), pa.dictionary(pa.int8(), pa.string()), pa.string()], ids=str)
def test_slices_are_bounded_by_what_rows_take_by_themselves(type_: pa.DataType) -> None:
    rows = 10_000
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array(["x" * 1000]))
    column = column if isinstance(type_, pa.DictionaryType) else column.dictionary_decode().cast(type_)
    parts = list(bounded(batch(value=column), 1 << 20))
    assert sum(part.num_rows for part in parts) == rows
    assert max(normalize(part).nbytes for part in parts) < 1.1 * (1 << 20)
    assert len(list(bounded(batch(value=pa.array(["x" * 4_000_000])), 1 << 20))) == 1
