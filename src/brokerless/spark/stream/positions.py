"""Streaming offsets: their JSON in Spark's checkpoint, and the limit of records for each trigger.

The JSON is spark-sql-kafka's: ``{"orders":{"0":23,"1":7}}``. Spark compares positions as text, so they are in order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from brokerless.errors import UsageError
from brokerless.spark.options import TopicPartition

Positions = Mapping[TopicPartition, int]
AsJson = dict[str, dict[str, int]]


def to_json(positions: Positions) -> AsJson:
    """By topic and partition, sorted."""
    found: AsJson = {}
    for (topic, partition), offset in sorted(positions.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def from_json(value: object) -> dict[TopicPartition, int]:
    """Raises :class:`UsageError` for what is not ours or spark-sql-kafka's."""
    try:
        if value is None:
            return {}
        assert isinstance(value, dict)
        return {
            (str(topic), int(partition)): int(offset)  # pyright: ignore[reportUnknownArgumentType]
            for topic, offsets in value.items()  # pyright: ignore[reportUnknownVariableType]
            for partition, offset in offsets.items()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        }
    except (AssertionError, AttributeError, TypeError, ValueError):
        raise UsageError(
            f"the query's checkpoint holds {value!r}, where offsets by topic and partition are expected; was it "
            "another source's? Give this query a checkpointLocation of its own"
        ) from None


def count(start: Positions, end: Positions) -> int:
    """How many offsets are between."""
    return sum(max(0, offset - start.get(each, offset)) for each, offset in end.items())


def at_most(limit: int, start: Positions, end: Positions) -> dict[TopicPartition, int]:
    """Where a trigger ends that takes about ``limit`` offsets: of each partition its share of the present data, and at
    least one. ``start`` has all partitions of ``end``."""
    there = {each: offset - start[each] for each, offset in end.items()}
    total = sum(size for size in there.values() if size > 0)
    return {
        each: offset if there[each] <= 0 else start[each] + min(there[each], _share(limit * there[each], total))
        for each, offset in end.items()
    }


def _share(part: int, total: int) -> int:
    share = part / total
    return math.ceil(share) if share < 1 else math.floor(share)
