"""Streaming offsets: their JSON in Spark's checkpoint, and the limit of records for each trigger.

The JSON is spark-sql-kafka's, with the IDs of the topics that have one (KIP-516) and the last record that was read of
each partition (its offset, timestamp, batch checksum and leader epoch), so that a topic which was deleted and made
again is known, and a log that was cut back and written again: ``{"@lastRecords":{"orders":{"0":[22,1714564800000,
2868129430,4]}},"@topicIds":{"orders":"q3SQG4VfRSuR91UGfdxWVA"},"orders":{"0":23,"1":7}}``. Spark compares positions as
text, so they are in order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from brokerless.errors import UsageError
from brokerless.kafka_names import TopicPartition
from brokerless.tables.last_record import LastRecord

Positions = Mapping[TopicPartition, int]
TopicIdsByName = Mapping[str, str]
"""The IDs of topics, in base64 as in ``partition.metadata``; topics without one are left out."""
AsJson = dict[str, dict[str, Any]]
_LAST, _IDS = "@lastRecords", "@topicIds"
"""No topic has such a name: ``@`` is not among the characters that Kafka allows."""


@dataclass(frozen=True)
class Identity:
    """What tells the logs of a position from others of their names, as far as it is known."""

    topic_ids: TopicIdsByName = field(default_factory=dict[str, str])
    last_records: Mapping[TopicPartition, LastRecord] = field(default_factory=dict[TopicPartition, LastRecord])


_UNKNOWN = Identity()


def to_json(positions: Positions, identity: Identity = _UNKNOWN) -> AsJson:
    """By topic and partition, sorted."""
    topics = {topic for topic, _ in positions}
    found: AsJson = {}
    for (topic, partition), last in sorted(identity.last_records.items()):
        if (topic, partition) in positions:
            found.setdefault(_LAST, {}).setdefault(topic, {})[str(partition)] = list(last)
    known = {topic: topic_id for topic, topic_id in sorted(identity.topic_ids.items()) if topic in topics}
    found |= {_IDS: known} if known else {}
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
            if topic not in (_LAST, _IDS)
            for partition, offset in offsets.items()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        }
    except (AssertionError, AttributeError, TypeError, ValueError):
        raise UsageError(
            f"the query's checkpoint holds {value!r}, where offsets by topic and partition are expected; was it "
            "another source's? Give this query a checkpointLocation of its own"
        ) from None


def identity_from_json(value: object) -> Identity:
    """Return the identity in a position; nothing where an earlier version, or spark-sql-kafka, wrote it."""
    position = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    ids, last = position.get(_IDS), position.get(_LAST)
    topic_ids = {str(topic): str(topic_id) for topic, topic_id in ids.items()} if isinstance(ids, dict) else {}
    try:
        records = {
            (str(topic), int(partition)): LastRecord(*map(int, record))
            for topic, of_topic in (last or {}).items()
            for partition, record in of_topic.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise UsageError(
            f"the query's checkpoint has {last!r} as {_LAST}, where the last record of each partition is expected; "
            "give this query a checkpointLocation of its own"
        ) from None
    return Identity(topic_ids, records)


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
