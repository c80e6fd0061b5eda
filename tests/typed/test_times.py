"""Times of schemas: into other types as Python's arithmetic has it, and null where readers have no value for them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from brokerless.arrow import time_text
from brokerless.typed.reasons import FINER, left_out_reason
from brokerless.typed.times import Moment, as_written, cut, in_microseconds, without_unreadable

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
UNITS = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}


def test_a_time_is_the_same_time_in_another_unit_or_none() -> None:
    for one, per_second in UNITS.items():
        for two, other in UNITS.items():
            for number in (0, -1, 7 * per_second, 1_577_836_800_123):
                found = Moment(number, pa.timestamp(one, "UTC")).into(pa.timestamp(two, "UTC"))
                exact, rest = divmod(number * other, per_second)
                assert found == (None if rest or abs(exact) >= 1 << 63 else exact)
    day, zoned, local, time = pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.time64("us")
    for one in (day, zoned, local, time):
        for two in (day, zoned, local, time, pa.int64(), pa.float64(), pa.decimal128(38, 2), pa.string()):
            assert (Moment(5, one).into(two) == 5) is (one == two)


@pytest.mark.parametrize("unit", UNITS)
def test_the_years_1_to_9999_are_there_and_no_others(unit: str) -> None:
    per_second = UNITS[unit]
    first = (FIRST - EPOCH) // timedelta(seconds=1) * per_second
    last = ((LAST - EPOCH) // timedelta(seconds=1) + 1) * per_second - 1
    numbers = [-(1 << 63), (1 << 63) - 1, 0, None]
    numbers += [first - 1, first, last, last + 1] if unit != "ns" else []
    column = pa.array(numbers, pa.timestamp(unit, "UTC"))
    found, reasons = without_unreadable(column)
    wanted = [each if each is not None and first <= each <= last else None for each in numbers]
    assert found.view(pa.int64()).to_pylist() == wanted
    assert set(reasons) == {row for row, each in enumerate(numbers) if each is not None and wanted[row] is None}


def test_dates_and_times_of_day() -> None:
    days = [(date.min - EPOCH.date()).days, (date.max - EPOCH.date()).days]
    numbers = [days[0] - 1, days[0], days[1], days[1] + 1, (1 << 31) - 1, -(1 << 31), None]
    found, reasons = without_unreadable(pa.array(numbers, pa.date32()))
    assert found.to_pylist() == [None, date.min, date.max, None, None, None, None]
    assert reasons[0] == left_out_reason("a date outside of the years 1 to 9999")
    for type_ in (pa.time32("ms"), pa.time64("us"), pa.time64("ns")):
        day = 86_400 * UNITS[type_.unit]
        found, reasons = without_unreadable(pa.array([-1, 0, day - 1, day], type_))
        assert [each.is_valid for each in found] == [False, True, True, False]
        assert set(reasons) == {0, 3}


def test_what_is_null_in_a_value_is_only_the_time() -> None:
    late = (1 << 63) - 1
    struct = pa.struct([
        ("id", pa.int64()), ("at", pa.timestamp("ms", "UTC")), ("list", pa.list_(pa.struct([("d", pa.date32())]))),
        ("map", pa.map_(pa.string(), pa.timestamp("us"))),
    ])  # fmt: skip
    rows: list[Any] = [
        {"id": 1, "at": 5, "list": [{"d": 1}], "map": [("a", 5)]},
        None,
        {"id": 2, "at": late, "list": None, "map": None},
        {"id": 3, "at": None, "list": [], "map": []},
        {"id": 4, "at": 5, "list": [{"d": 1}, {"d": (1 << 31) - 1}, None], "map": [("a", late), ("b", 7)]},
        {"id": 5, "at": 6, "list": [{"d": 2}], "map": [("c", 8)]},
    ]
    wanted: list[Any] = [
        rows[0], None, {**rows[2], "at": None}, rows[3],
        {**rows[4], "list": [{"d": 1}, {"d": None}, None], "map": [("a", None), ("b", 7)]}, rows[5],
    ]  # fmt: skip
    whole = pa.array(rows, struct)
    for column, first in ((whole, 0), (pa.concat_arrays([whole, whole]).slice(2, 6), 2)):
        found, reasons = without_unreadable(column)
        found.validate(full=True)
        assert found.equals(pa.array((wanted * 2)[first : first + 6], struct))
        assert set(reasons) == {(row - first) % 6 for row in (2, 4)}
        assert reasons[2 - first] == left_out_reason("field at: a timestamp outside of the years 1 to 9999")
        assert reasons[4 - first] == left_out_reason("field list[].d: a date outside of the years 1 to 9999")


def test_nanoseconds_are_cut_downwards_to_microseconds_where_a_column_has_these() -> None:
    nanos, micros = pa.timestamp("ns", "UTC"), pa.timestamp("us", "UTC")
    assert [Moment(each, nanos).cut_into(micros) for each in (1, -1, 1999, 1000)] == [0, -1, 1, None]
    assert [Moment(1, nanos).cut_into(each) for each in (pa.timestamp("ms", "UTC"), pa.timestamp("us"))] == [None, None]
    inner = pa.struct([("at", nanos), ("map", pa.map_(pa.string(), nanos)), ("id", pa.int32())])
    fine = pa.struct([("id", pa.int64()), ("local", pa.timestamp("ns")), ("list", pa.list_(inner))])
    coarse = in_microseconds(fine)
    assert coarse.field("local").type == pa.timestamp("us")
    assert as_written(coarse, fine) == fine
    assert as_written(coarse, coarse) == coarse == in_microseconds(coarse)
    rows: list[Any] = [
        {"id": 1, "local": 1000, "list": [{"at": 1000, "map": [("a", -1000)], "id": 1}]},
        {"id": 2, "local": 1, "list": []},
        None,
        {
            "id": 3,
            "local": None,
            "list": [{"at": 5, "map": [], "id": 1}, {"at": None, "map": [("a", -1)], "id": 2}, None],
        },
    ]
    wanted: list[Any] = [
        {"id": 1, "local": 1, "list": [{"at": 1, "map": [("a", -1)], "id": 1}]},
        {"id": 2, "local": 0, "list": []},
        None,
        {
            "id": 3,
            "local": None,
            "list": [{"at": 0, "map": [], "id": 1}, {"at": None, "map": [("a", -1)], "id": 2}, None],
        },
    ]
    found, reasons = cut(pa.array(rows, fine))
    found.validate(full=True)
    assert found.equals(pa.array(wanted, coarse))
    assert reasons == {1: FINER.in_field("local"), 3: FINER.in_field("list[].at")}


def test_a_time_as_text() -> None:
    assert time_text(-1, pa.timestamp("us", "UTC")) == (EPOCH - MICROSECOND).isoformat().replace("+00:00", "Z")
    assert time_text(1_577_836_800_123, pa.timestamp("ms")) == "2020-01-01T00:00:00.123"
    assert time_text(18_262, pa.date32()) == "2020-01-01"
    assert [time_text(each, pa.time32("ms")) for each in (0, 86_399_999, -1, 86_400_000)] == [
        "00:00:00.000", "23:59:59.999", -1, 86_400_000,
    ]  # fmt: skip
    assert time_text((1 << 31) - 1, pa.date32()) == (1 << 31) - 1


def test_lists_without_any_time_are_cut_as_well() -> None:
    for kind in (pa.list_(pa.timestamp("ns")), pa.map_(pa.string(), pa.struct([("at", pa.timestamp("ns", "UTC"))]))):
        column, finer = cut(pa.array([[], None], kind))
        assert column.type == in_microseconds(kind)
        assert column.to_pylist() == [[], None]
        assert not finer
