"""The current state of MirrorMaker's and Kafka Connect's topics: rows from the last record of each key."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from brokerless.internals.records import InternalRecord
from brokerless.values import Row

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def connect_rows(table: str, topic: str, records: Iterable[tuple[int, int, InternalRecord]]) -> list[Row]:
    """Return the rows of one table from a partition of a topic: of records with their offsets and timestamps in ms.
    ``internalTopic`` is this topic: clusters may have several."""
    rows: list[Row] = []
    for offset, timestamp, record in records:
        if record.payload is None:
            continue
        own = _ROWS[table](record, record.key_data, record.payload["data"])
        rows.append({"internalTopic": topic, **own, "recordTimestamp": timestamp, "recordOffset": offset})
    return rows


def _mirrored(_: InternalRecord, key: Row, data: Row) -> Row:
    offsets = {"upstreamOffset": data["upstreamOffset"], "downstreamOffset": data["offset"]}
    return {**key, **offsets, "metadata": data.get("metadata")}


def _heartbeat(_: InternalRecord, key: Row, data: Row) -> Row:
    return {**key, "timestamp": data["timestamp"]}


def _offset(_: InternalRecord, key: Row, data: Row | None) -> Row:
    partition, offset = (None if each is None else _JSON.encode(each) for each in (key["partition"], data))
    return {"connector": key["connector"], "sourcePartition": partition, "sourceOffset": offset}


def _config(record: InternalRecord, key: Row, data: Row) -> Row:
    return {"type": record.type, **key, "value": _JSON.encode(data)}


def _status(record: InternalRecord, key: Row, data: Row) -> Row:
    if record.type == "TOPIC_STATUS":
        found = data["topic"]
        return {"type": record.type, **key, "task": found["task"], "discoverTimestamp": found["discoverTimestamp"]}
    states = {"state": data["state"], "trace": data.get("trace"), "version": data.get("version")}
    return {"type": record.type, **key, **states, "workerId": data["worker_id"], "generation": data["generation"]}


_ROWS: dict[str, Callable[[InternalRecord, Row, Any], Row]] = {
    "mirrorOffsetSyncs": _mirrored,
    "mirrorCheckpoints": _mirrored,
    "mirrorHeartbeats": _heartbeat,
    "connectOffsets": _offset,
    "connectConfigs": _config,
    "connectStatus": _status,
}

SORTED = {
    "mirrorOffsetSyncs": ("internalTopic", "topic", "partition"),
    "mirrorCheckpoints": ("internalTopic", "group", "topic", "partition"),
    "mirrorHeartbeats": ("internalTopic", "sourceClusterAlias", "targetClusterAlias"),
    "connectOffsets": ("internalTopic", "connector", "recordOffset"),
    "connectConfigs": ("internalTopic", "key"),
    "connectStatus": ("internalTopic", "key"),
}
"""What rows are sorted by; an offset's source partition may be null."""
