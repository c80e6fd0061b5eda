"""ListOffsets (1 to 11): first and last offsets, and offsets by time.

-1 is the end (with read_committed the last stable offset), -2 and -4 the log start offset, -3 the first record with the
largest timestamp, all others the first record with that timestamp or a later one. -5 and -6 are of tiered storage, of
which only what is on these disks is served: there is none. Leader epochs: that of the record, at the end the announced
one.
"""

from __future__ import annotations

from collections import Counter

from brokerless.serving.answers.leader_epochs import epoch_error
from brokerless.serving.context import NOT_READ, Request, Serving
from brokerless.serving.protocol.errors import Error
from brokerless.serving.source.partition import NO_TIMESTAMP, Located, ServedPartition
from brokerless.values import Row

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6
SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}
"""The version from which on a negative timestamp is known (``ReplicaManager``, 4.4.0)."""


async def answer_list_offsets(serving: Serving, request: Request) -> Row:
    """Find an offset in each partition."""
    await serving.loaded()
    return await serving.in_thread(_answer, serving, request)


def _answer(serving: Serving, request: Request) -> Row:
    topics = request.body["topics"]
    counts = Counter((topic["name"], each["partitionIndex"]) for topic in topics for each in topic["partitions"])
    repeated = {place for place, count in counts.items() if count > 1}
    is_committed = request.body.get("isolationLevel") == 1
    rows: list[Row] = []
    for topic in topics:
        name, partitions = topic["name"], dict[int, Row]()
        for each in topic["partitions"]:
            number = each["partitionIndex"]
            if (name, number) in repeated:
                row: Row = {"errorCode": Error.INVALID_REQUEST}
            else:
                row = _find(serving, name, each, request.version, is_committed=is_committed)
            partitions[number] = {"partitionIndex": number, "timestamp": -1, "offset": -1, **row}
        rows.append({"name": name, "partitions": list(partitions.values())})
    return {"topics": rows}


def _find(serving: Serving, topic: str, wanted: Row, version: int, *, is_committed: bool) -> Row:
    timestamp: int = wanted["timestamp"]
    partition = serving.topics.partition(topic, wanted["partitionIndex"])
    if timestamp < 0 and version < SINCE.get(timestamp, 1 << 15):
        return {"errorCode": Error.UNSUPPORTED_VERSION}
    if partition is None:
        is_elsewhere = serving.topics.has(topic, wanted["partitionIndex"])
        return {"errorCode": Error.NOT_LEADER_OR_FOLLOWER if is_elsewhere else Error.UNKNOWN_TOPIC_OR_PARTITION}
    error = epoch_error(partition, wanted.get("currentLeaderEpoch", -1))
    if error is not None:
        return {"errorCode": error}
    try:
        found = _located(partition, timestamp, is_committed=is_committed)
    except NOT_READ as reason:
        return {"errorCode": serving.not_read(partition.paths.path, reason)}
    return {"timestamp": found.timestamp, "offset": found.offset, "leaderEpoch": found.epoch}


def _located(partition: ServedPartition, timestamp: int, *, is_committed: bool) -> Located:
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return partition.earliest()
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING):
        return Located()
    offsets = partition.offsets(needs_stable=is_committed)
    end = offsets.end if not is_committed or offsets.stable is None else offsets.stable
    if timestamp == LATEST:
        return Located(end, NO_TIMESTAMP, partition.announced_epoch())
    found = partition.latest_time() if timestamp == MAX_TIMESTAMP else partition.at_time(timestamp)
    return found if found.offset < end else Located()
