"""Filter pushdown: what a query's filters make unnecessary to read."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import datasource as spark
from pyspark.sql.datasource import Filter

from brokerless.bounds import MAX_INT64, MIN_INT64
from brokerless.log.ranges import Range
from brokerless.spark.options import Options
from brokerless.spark.plan import Pushed

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def push(filters: list[Filter], options: Options) -> tuple[Pushed, list[Filter]]:
    """Return what the filters leave to read, and those that Spark still has to apply.

    Topic, partition and file are the same for all rows of a file, so they are applied in full; ranges of offsets and
    timestamps spare reading, and Spark filters the rows that are left.
    """
    constant: dict[str, frozenset[Any] | None] = {"topic": None, "partition": None, "file": None}
    types = {"topic": str, "partition": int, "file": str}
    requested, rest = Range(prune=options.prune), list[Filter]()
    for each in filters:
        name = ".".join(getattr(each, "attribute", ()))
        values = _values(each)
        if name in constant and values is not None and all(type(value) is types[name] for value in values):
            before = constant[name]
            constant[name] = frozenset(values) if before is None else before & frozenset(values)
            # Of a transaction's partition there are many files, and no column for them.
            continue
        if options.table == "records":
            if name == "offset":
                requested = requested.narrow(_offsets(each))
            elif name == "timestamp":
                requested = requested.narrow(_timestamps(each))
        rest.append(each)
    return Pushed(constant["topic"], constant["partition"], constant["file"], requested), rest


def _values(each: Filter) -> Iterable[Any] | None:
    match each:
        case spark.EqualTo(_, value) | spark.EqualNullSafe(_, value):
            return (value,)
        case spark.In(_, value):
            return value
        case _:
            return None


def _bounds(each: Filter) -> tuple[Any, bool, Any, bool]:
    """The least and the largest value that pass, and for each whether it passes itself; None is without bound."""
    match each:
        case spark.EqualTo(_, value) | spark.EqualNullSafe(_, value):
            return value, True, value, True
        case spark.In(_, value) if value:
            return min(value), True, max(value), True
        case spark.GreaterThan(_, value):
            return value, False, None, False
        case spark.GreaterThanOrEqual(_, value):
            return value, True, None, False
        case spark.LessThan(_, value):
            return None, False, value, False
        case spark.LessThanOrEqual(_, value):
            return None, False, value, True
        case _:
            return None, False, None, False


def _offsets(each: Filter) -> Range:
    least, with_least, largest, with_largest = _bounds(each)
    start = least + (not with_least) if type(least) is int else None
    end = largest + with_largest if type(largest) is int else None
    return Range(start_offset=_as_int64(start), end_offset=_as_int64(end))


def _timestamps(each: Filter) -> Range:
    """Spark's microseconds as whole milliseconds, never fewer than pass."""
    least, _, largest, _ = _bounds(each)
    start = (least - _EPOCH) // _MILLISECOND if _is_aware(least) else None
    end = (largest - _EPOCH) // _MILLISECOND + 1 if _is_aware(largest) else None
    return Range(start_timestamp=_as_int64(start), end_timestamp=_as_int64(end))


def _is_aware(value: Any) -> bool:
    return isinstance(value, datetime) and value.tzinfo is not None


def _as_int64(value: int | None) -> int | None:
    return None if value is None else max(MIN_INT64, min(value, MAX_INT64))
