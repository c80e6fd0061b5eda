"""Streaming offsets: their JSON in Spark's checkpoint, and the limit of records for each trigger.

The JSON is spark-sql-kafka's, with the IDs of the topics that have one (KIP-516), so that a topic which was deleted and
made again is known: ``{"@topicIds":{"orders":"q3SQG4VfRSuR91UGfdxWVA"},"orders":{"0":23,"1":7}}``. Spark compares
positions as text, so they are in order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from brokerless.errors import UsageError
from brokerless.spark.options import TopicPartition

Positions = Mapping[TopicPartition, int]
TopicIds = Mapping[str, str]
"""The IDs of topics, in base64 as in ``partition.metadata``; topics without one are left out."""
AsJson = dict[str, dict[str, Any]]
_IDS = "@topicIds"
"""No topic has this name: ``@`` is not among the characters that Kafka allows."""


def to_json(positions: Positions, ids: TopicIds | None = None) -> AsJson:
    """By topic and partition, sorted."""
    topics = {topic for topic, _ in positions}
    known = {topic: topic_id for topic, topic_id in sorted((ids or {}).items()) if topic in topics}
    found: AsJson = {_IDS: known} if known else {}
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
            if topic != _IDS
            for partition, offset in offsets.items()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        }
    except (AssertionError, AttributeError, TypeError, ValueError):
        raise UsageError(
            f"the query's checkpoint holds {value!r}, where offsets by topic and partition are expected; was it "
            "another source's? Give this query a checkpointLocation of its own"
        ) from None


def topic_ids_from_json(value: object) -> dict[str, str]:
    """The IDs of topics in a position; none where an earlier version, or spark-sql-kafka, wrote it."""
    ids: Any = cast("dict[str, Any]", value).get(_IDS) if isinstance(value, dict) else None
    return {str(topic): str(topic_id) for topic, topic_id in ids.items()} if isinstance(ids, dict) else {}


def count(start: Positions, end: Positions) -> int:
    """Return how many offsets are between."""
    return sum(max(0, offset - start.get(each, offset)) for each, offset in end.items())


def at_most(limit: int, start: Positions, end: Positions) -> dict[TopicPartition, int]:
    """Return where a trigger ends that takes about ``limit`` offsets: of each partition its share of the present data,
    and at least one. ``start`` has all partitions of ``end``."""
    there = {each: offset - start[each] for each, offset in end.items()}
    total = sum(size for size in there.values() if size > 0)
    return {
        each: offset if there[each] <= 0 else start[each] + min(there[each], _share(limit * there[each], total))
        for each, offset in end.items()
    }


def _share(part: int, total: int) -> int:
    share = part / total
    return math.ceil(share) if share < 1 else math.floor(share)
