"""What a filter leaves to read: never less than the rows for which Arrow's own compute says that it is true."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from brokerless.bounds import MAX_INT64, MIN_INT64
from brokerless.dataset.pruning import (
    columns_of,
    known_values,
    possible,
    possible_ranges,
    required_values,
    runs_of,
)
from brokerless.schemas import RECORDS, TIMESTAMP

offset, topic, partition, time, key = (ds.field(name) for name in ("offset", "topic", "partition", "timestamp", "key"))
ALL = [(MIN_INT64, MAX_INT64)]


def at(milliseconds: int, unit: str = "ms") -> Any:
    return pa.scalar(milliseconds * {"ms": 1, "us": 1000}[unit], pa.timestamp(unit, "UTC"))


@pytest.mark.parametrize(
    ("filter", "ranges"),
    [
        ((offset >= 1000) & (offset <= 1999), [(1000, 1999)]),
        (offset == 7, [(7, 7)]),
        (offset.isin([5, 777, 10**15]), [(5, 5), (777, 777), (10**15, 10**15)]),
        ((offset > 41) & (key == b"a"), [(42, MAX_INT64)]),
        ((offset < 3) | (offset == 10**9), [(MIN_INT64, 2), (10**9, 10**9)]),
        (~(offset >= 3), [(MIN_INT64, 2)]),
        ((offset >= 5) & (offset < 5), []),
        (offset.is_null(), []),
        (ds.scalar(False), []),
        (key == b"a", ALL),
        (offset + 1 == 7, ALL),
        ((offset == 7) | (key == b"a"), ALL),
    ],
)
def test_ranges_of_offsets(filter: Any, ranges: list[tuple[int, int]]) -> None:
    assert possible_ranges(filter, RECORDS, "offset") == ranges


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_ranges_of_timestamps_in_the_units_of_query_engines(unit: str) -> None:
    filter = (time >= at(8500, unit)) & (time < at(9000, unit))
    assert possible_ranges(filter, RECORDS, "timestamp") == [(8500, 8999)]


def test_what_is_known_of_a_partition_decides_between_its_ranges() -> None:
    filter = ((topic == "a") & (offset < 10)) | ((topic == "b") & (offset >= 90) & (offset < 100))
    known = [known_values({"topic": name}, RECORDS) for name in ("a", "b", "c", None)]
    assert possible(filter, RECORDS, known) == [0, 1]
    ranges = [possible_ranges(filter, RECORDS, "offset", each) for each in known]
    assert ranges == [[(MIN_INT64, 9)], [(90, 99)], [], []]


def test_a_file_without_a_topic_has_null() -> None:
    known = [known_values({"topic": None, "partition": None}, RECORDS)]
    assert possible(topic == "a", RECORDS, known) == []
    assert possible(topic.is_null(), RECORDS, known) == [0]
    assert possible(topic.is_null() & (partition == 1), RECORDS, known) == []


@pytest.mark.parametrize(
    ("filter", "values"),
    [
        (key == b"a", [b"a"]),
        (key.isin([b"b", b"a"]), [b"a", b"b"]),
        ((key == b"a") | ((key == b"b") & (offset < 7)), [b"a", b"b"]),
        ((key == b"a") & (ds.field("topic") == "b"), [b"a"]),
        ((key >= b"b") & key.isin([b"a", b"b", b"c"]), [b"b", b"c"]),
        ((key == b"a") & (key == b"b"), []),
        ((key == b"a") & (offset >= 1000), [b"a"]),
        (key == b"a" * 1000, [b"a" * 1000]),
        (key.isin([b"%d" % i for i in range(17)]), None),
        ((key == b"a") | (offset == 5), None),
        ((key == b"a") | key.is_null(), None),
        (key != b"a", None),
        (key >= b"a", None),
        (offset == 10, None),
    ],
)
def test_bytes_that_a_row_must_have(filter: Any, values: list[bytes] | None) -> None:
    assert required_values(filter, SCHEMA, "key") == values


def test_columns_that_expressions_name() -> None:
    assert columns_of([(offset > 5) & (topic == "a"), key.is_valid()], RECORDS) == ["key", "topic", "offset"]
    assert columns_of([ds.scalar(True)], RECORDS) == []
    assert columns_of([], RECORDS) == []


def test_a_column_by_its_position_needs_all() -> None:
    import pyarrow.compute as pc

    assert columns_of([pc.field(4) > 5], RECORDS) == RECORDS.names


@pytest.mark.parametrize("filter", [ds.field("nothing") > 5, offset == "text"])
def test_a_filter_that_does_not_fit_is_an_error(filter: Any) -> None:
    with pytest.raises((pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)):
        columns_of([filter], RECORDS)


def test_cells_that_touch_are_a_run() -> None:
    assert runs_of([(0, 4), (5, 9), (20, 24)]) == [(0, 2), (2, 3)]
    assert runs_of([]) == []


SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("key", pa.binary()),
    ]
)
KEYS = [b"", b"a", b"b", b"\xff\0", b"user-1"]


def table(choice: random.Random) -> pa.Table:
    rows = [
        {
            "topic": choice.choice(["a", "b", None]),
            "partition": choice.choice([0, 1, None]),
            "offset": choice.choice([0, 1, 5, 99, 100, 101, 4096, 10**12, MAX_INT64, -1]),
            "timestamp": choice.choice([0, 1, 999, 1000, 1_800_000_000_000, -5]),
            "key": choice.choice([*KEYS, b"c", None]),
        }
        for _ in range(60)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def filter_of(choice: random.Random, depth: int) -> Any:
    """A filter of any shape."""
    if depth:
        one, other = filter_of(choice, depth - 1), filter_of(choice, depth - 1)
        return choice.choice([one & other, one | other, ~one, one, one & ~other])
    name = choice.choice(SCHEMA.names)
    field, values = (
        ds.field(name),
        {"topic": ["a", "b", "c"], "partition": [0, 1, 2], "key": KEYS}.get(name, [0, 1, 100, 4096, 10**12]),
    )
    if name == "timestamp":
        values = [at(each, choice.choice(["ms", "us"])) for each in (0, 1000, 1_800_000_000_000)]
    value = choice.choice(values)
    comparisons = [field == value, field != value, field < value, field >= value, field.is_null(), field.is_valid()]
    return choice.choice([*comparisons, field > value, field <= value, field.isin(values[:1])])


@pytest.mark.parametrize("seed", range(150))
def test_no_row_of_a_filter_is_left_out(seed: int) -> None:
    choice = random.Random(seed)
    rows, filter = table(choice), filter_of(choice, choice.randrange(4))
    selected = rows.filter(filter).to_pylist()
    pairs = sorted({(row["topic"], row["partition"]) for row in rows.to_pylist()}, key=str)
    known = [known_values({"topic": topic, "partition": number}, SCHEMA) for topic, number in pairs]
    left = {pairs[i] for i in possible(filter, SCHEMA, known)}
    offsets, times = (possible_ranges(filter, SCHEMA, name) for name in ("offset", "timestamp"))
    columns = set(columns_of([filter], SCHEMA))
    keys = required_values(filter, SCHEMA, "key")
    for row in selected:
        assert (row["topic"], row["partition"]) in left
        assert any(first <= row["offset"] <= last for first, last in offsets)
        milliseconds = round(row["timestamp"].timestamp() * 1000)
        assert any(first <= milliseconds <= last for first, last in times)
        assert keys is None or row["key"] in keys
    only = rows
    for name in set(SCHEMA.names) - columns:  # what is said not to matter does not
        index = SCHEMA.names.index(name)
        only = only.set_column(index, SCHEMA.field(name), pa.nulls(len(rows), SCHEMA.field(name).type))
    assert len(only.filter(filter)) == len(selected)
