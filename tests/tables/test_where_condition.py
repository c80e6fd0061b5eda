"""A condition of SQL selects what DuckDB selects from a table of the same records."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from brokerless.errors import UsageError
from brokerless.tables.where_condition import COLUMNS, SqlCondition

HEADED = {"timestamp": 86_400_000, "headers": [{"key": "h", "value": b"1"}]}
ROWS = [
    {"topic": "t", "partition": 0, "offset": 0, "key": b"a", "value": b'{"n": 1, "c": "SE"}', "headers": []},
    {"topic": "t", "partition": 0, "offset": 1, "key": None, "value": b'{"n": 2}', "headers": []},
    {"topic": "t", "partition": 0, "offset": 2, "key": b"\xff", "value": b"no JSON", **HEADED},
    {"topic": "t", "partition": 0, "offset": 3, "key": b"a", "value": None, "headers": []},
    {"topic": "t", "partition": 0, "offset": 4, "key": b"5", "value": b"\xfe\xff", "headers": []},
]  # fmt: skip
BATCH = pa.RecordBatch.from_pylist(ROWS, schema=COLUMNS)


@pytest.mark.parametrize(
    ("condition", "selected"),
    [
        ("value_json->>'c' = 'SE'", [0]),
        ("key_text = 'a'", [0, 3]),
        ("key IS NULL", [1]),
        ("key_text IS NULL", [1, 2]),
        ("(value_json->>'n')::INT >= 1", [0, 1]),
        ("key_json = '5'", [4]),
        ("len(headers) > 0", [2]),
        ('"offset" % 2 = 0 -- a comment', [0, 2, 4]),
        ("json_of(value)->>'c' = 'SE' OR text_of(key) = '5'", [0, 4]),
        ("timestamp = '1970-01-02 00:00:00'", [2]),
        ("null", []),
    ],
)
def test_a_condition_selects(condition: str, selected: list[int]) -> None:
    assert SqlCondition(condition).match(BATCH).nonzero()[0].tolist() == selected


def test_it_agrees_with_a_query_of_duckdb() -> None:
    records = pa.Table.from_batches([BATCH])
    query = "SELECT \"offset\" FROM records WHERE octet_length(value) > 8 OR key = 'a'::BLOB"
    with duckdb.connect() as connection:
        expected = connection.sql(query).fetchall()
    assert len(records) == 5
    found = SqlCondition("octet_length(value) > 8 OR key = 'a'::BLOB").match(BATCH)
    assert found.nonzero()[0].tolist() == [offset for (offset,) in expected]


@pytest.mark.parametrize("condition", ["nothing = 1", "x y", "1 +", "value_json->>"])
def test_what_duckdb_does_not_take_is_refused(condition: str) -> None:
    with pytest.raises(UsageError, match=r"^where"):
        SqlCondition(condition)


def test_an_offset_without_quotes_is_explained_and_our_own_query_is_not_shown() -> None:
    with pytest.raises(UsageError, match="needs double quotes") as error:
        SqlCondition("offset = 1")
    assert "SELECT" not in str(error.value)


def test_a_condition_that_fails_on_a_record_is_reported() -> None:
    condition = SqlCondition("key_text::INT > 1")
    with pytest.raises(UsageError, match=r"^where.*Conversion"):
        condition.match(BATCH)


@pytest.mark.parametrize(
    ("condition", "message"),
    [("", "there is no condition"), (" ", "there is no condition"), ("count(*) > 1", "aggregate"),
     ("row_number() OVER () = 1", "window")],
)  # fmt: skip
def test_what_is_no_condition_of_one_record_is_refused(condition: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"^where: .*{message}"):
        SqlCondition(condition)
