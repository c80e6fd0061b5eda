"""Records go to the partition that they say, or that was asked for, or where Kafka's producers would send them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from brokerless.errors import UsageError
from brokerless.jobs.load.routing import Router, Routing
from brokerless.tables.partitioner import partition_for_key
from brokerless.tables.rows import RowError, normalize


def places(placement: Routing, *parts: dict[str, Any], sticky: int = 100) -> list[tuple[str, int]]:
    placer, found, number = Router(placement, sticky), list[tuple[str, int]](), 10
    for part in parts:
        rows = normalize(pa.RecordBatch.from_pydict(part))
        numbers = np.arange(number, number + rows.num_rows)
        number += rows.num_rows
        found += [placer.names[code] for code in placer.place(rows, numbers)]
    return found


VALUES = [b"v"] * 4


def test_columns_say_where_records_go() -> None:
    first = {"value": VALUES, "topic": ["a", "b", "a", "a"], "partition": [0, 0, 7, 0]}
    second = {"value": VALUES[:2], "topic": ["c", "a"], "partition": [2**31 - 1, 7]}
    assert places(Routing(), first, second) == [
        ("a", 0), ("b", 0), ("a", 7), ("a", 0), ("c", 2**31 - 1), ("a", 7),
    ]  # fmt: skip


def test_rows_may_all_go_to_one_partition_and_others_to_another() -> None:
    parts = [
        {"value": VALUES, "topic": [topic] * 4, "partition": [number] * 4} for topic, number in (("a", 3), ("b", 3))
    ]
    assert places(Routing(), *parts) == [("a", 3)] * 4 + [("b", 3)] * 4


def test_what_was_asked_for_counts_more_than_columns() -> None:
    rows = {"value": VALUES[:2], "topic": ["a", None], "partition": [0, None]}
    assert places(Routing("t"), rows) == [("t", 0), ("t", 0)]
    assert places(Routing("t", partition=5), rows) == [("t", 5), ("t", 5)]


def test_a_key_decides_where_nothing_else_does() -> None:
    keys = [b"user-%d" % number for number in range(100)]
    expected = partition_for_key(pa.array(keys, pa.binary()), 12).tolist()
    rows = {"value": [b""] * 100, "key": keys}
    assert [number for _, number in places(Routing("t", partitions=12), rows)] == expected
    known = [3 if number % 2 else None for number in range(100)]
    mixed = [
        number for _, number in places(Routing("t", partitions=12), rows | {"partition": pa.array(known, pa.int32())})
    ]
    assert mixed == [3 if number % 2 else expected[number] for number in range(100)]


def test_records_without_a_key_stick_to_a_partition_for_a_batch() -> None:
    part = {"value": [b"x" * 50] * 3, "key": pa.nulls(3)}
    found = [number for _, number in places(Routing("t", partitions=3), part, part, part)]
    assert found == [0, 0, 1, 1, 2, 2, 0, 0, 1]


def test_only_bytes_without_a_key_or_partition_count_for_that() -> None:
    partition = pa.array([None, 1, None], pa.int32())
    part = {"value": [b"x" * 50] * 3, "key": [None, None, "k"], "partition": partition}
    found = [number for _, number in places(Routing("t", partitions=2), *[part] * 4)]
    assert found[::3] == [0, 0, 1, 1]


def test_a_topic_has_one_partition_unless_it_is_said() -> None:
    assert set(places(Routing("t"), {"value": VALUES, "key": list("abcd")})) == {("t", 0)}


@pytest.mark.parametrize(
    ("placement", "columns", "row", "reason"),
    [
        (Routing(), {"topic": ["a", None]}, 11, "topic: is null; say which topic all records have (topic=)"),
        (Routing("t", partitions=3), {"partition": [2, 3]}, 11, "partition: is 3, and there are 3 (partitions=)"),
    ],
)
def test_a_row_whose_place_cannot_be_is_refused(placement: Routing, columns: Any, row: int, reason: str) -> None:
    with pytest.raises(RowError) as refused:
        places(placement, {"value": VALUES[:2]} | columns)
    assert f"row {row} (from 0), column {reason}" in str(refused.value)


def test_a_topic_has_to_be_known() -> None:
    with pytest.raises(UsageError, match="there is no column 'topic'; say which topic it is"):
        places(Routing(), {"value": VALUES})


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"topic": "a/b"}, "'a/b' is not a valid topic name"),
        ({"topic": ".."}, "'..' is not a valid topic name"),
        ({"topic": ""}, "'' is not a valid topic name"),
        ({"topic": "a" * 250}, "is not a valid topic name"),
        ({"partition": -1}, "partition: -1 is not from 0"),
        ({"partition": 2**31}, "partition: 2147483648 is not"),
        ({"partitions": 0}, "partitions: 0 is not from 1"),
        ({"partition": 3, "partitions": 3}, "there is no partition 3 among 3"),
        ({"start_offset": -1}, "start_offset: -1 is not from 0"),
        ({"timestamp": -2}, "timestamp: -2 is not from -1"),
        ({"topic_id": "P4KqAlm-RcmdL3bLO8vOmg"}, "an ID is that of one topic"),
        ({"topic": "t", "topic_id": "P4KqAlm-RcmdL3bLO8vOm"}, "is not a topic ID"),
        ({"topic": "t", "topic_id": "P4KqAlm-RcmdL3bLO8vOmh"}, "is not a topic ID"),
        ({"topic": "t", "topic_id": "A" * 22}, "is not a topic ID"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(arguments: Any, reason: str) -> None:
    with pytest.raises(UsageError) as refused:
        Routing(**arguments)
    assert reason in str(refused.value)
