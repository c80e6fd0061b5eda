"""Formats the state and history in Kafka's internal topics, as tables, lines and JSON."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from brokerless import clock
from brokerless.interchange.jsonl_writer import dumps
from brokerless.internals.groups.lag import totals
from brokerless.text import count_of, show, show_name
from brokerless.views.table import NOTHING, table
from brokerless.views.text import escape, format_times

Row = Mapping[str, Any]

_COLUMNS = {
    "offsets": ("group", "topic", "partition", "offset", "leaderEpoch", "commitTimestamp", "metadata"),
    "groups": ("group", "type", "epoch", "protocolType", "protocol", "members"),
    "members": ("group", "memberId", "clientId", "clientHost", "epoch", "assignment"),
    "transactionalIds": (
        "transactionalId", "state", "producerId", "producerEpoch", "transactionLastUpdateTimestamp",
        "transactionPartitions",
    ),
    "topics": ("topic", "topicId", "partitions"),
    "partitions": ("topic", "partition", "leader", "leaderEpoch", "replicas", "isr", "eligibleLeaderReplicas"),
    "configs": ("resourceType", "resourceName", "name", "value"),
    "brokers": ("brokerId", "brokerEpoch", "rack", "fenced", "endPoints"),
    "controllers": ("controllerId", "endPoints"),
    "features": ("name", "featureLevel"),
    "quotas": ("entity", "key", "value"),
    "acls": ("resourceType", "resourceName", "patternType", "principal", "host", "operation", "permissionType"),
    "users": ("name", "mechanism", "iterations"),
    "tokens": ("tokenId", "owner", "requester", "renewers", "maxTimestamp", "expirationTimestamp"),
    "producerIds": ("nextProducerId",),
    "remoteSegments": (
        "topic", "partition", "startOffset", "endOffset", "segmentSizeInBytes", "state", "isReferenced",
        "eventTimestamp", "segmentId",
    ),
    "mirrorOffsetSyncs": ("internalTopic", "topic", "partition", "upstreamOffset", "downstreamOffset"),
    "mirrorCheckpoints": (
        "internalTopic", "group", "topic", "partition", "upstreamOffset", "downstreamOffset", "metadata",
    ),
    "mirrorHeartbeats": ("internalTopic", "sourceClusterAlias", "targetClusterAlias", "timestamp"),
    "connectOffsets": ("internalTopic", "connector", "sourcePartition", "sourceOffset"),
    "connectConfigs": ("internalTopic", "key", "value"),
    "connectStatus": ("internalTopic", "type", "connector", "task", "topic", "state", "workerId"),
}  # fmt: skip
"""What people see of each table; JSON has all."""

_NUMBERS = {
    "partition", "offset", "leaderEpoch", "epoch", "members", "producerId", "producerEpoch", "partitions", "leader",
    "brokerId", "brokerEpoch", "controllerId", "featureLevel", "nextProducerId", "iterations", "task",
    "upstreamOffset", "downstreamOffset", "startOffset", "endOffset", "segmentSizeInBytes",
}  # fmt: skip


def state_lines(name: str, rows: Iterable[Row]) -> Iterator[str]:
    """Return an aligned table of the state (see ``internals.schemas.STATE``). Codes that have a name are shown by
    it."""
    columns = _COLUMNS[name]
    cells = [[_cell(column, row.get(f"{column}Name") or row[column]) for column in columns] for row in rows]
    return table(columns, cells, tuple(_NUMBERS), margin=2)


def lag_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a table of committed offsets with their lags, and a line for each group with the sum."""
    names = ("group", "topic", "partition", "offset", "end offset", "lag", "committed")
    cells = [
        [
            show(row["group"]),
            show(row["topic"]),
            str(row["partition"]),
            str(row["offset"]),
            NOTHING if row["endOffset"] is None else str(row["endOffset"]),
            NOTHING if row["lag"] is None else str(row["lag"]),
            format_times([row["commitTimestamp"]], "s")[0],
        ]
        for row in rows
    ]
    yield from table(names, cells, ("partition", "offset", "end offset", "lag"), margin=2)
    for group, lag, count, absent in totals(rows):
        rest = f"; {count_of(absent, 'partition')} not here" if absent else ""
        yield f"{show(group)}: {lag:,} offsets behind in {count_of(count, 'partition')}{rest}"


def open_transaction_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a table of open transactions, the oldest first, and the command that ends each."""
    names = ("partition", "first offset", "from", "age", "producer", "transactional id", "state")
    now_ms = clock.now()
    cells = [
        [
            show_name(f"{row['topic']}-{row['partition']}"),
            str(row["firstOffset"]),
            format_times([row["firstTimestamp"]], "s")[0],
            _age(now_ms, row["firstTimestamp"]),
            str(row["producerId"]),
            show(row["transactionalId"] or NOTHING),
            row["transactionState"] or NOTHING,
        ]
        for row in rows
    ]
    yield from table(names, cells, ("first offset", "age", "producer"), margin=2)
    commands = [row["abortCommand"] for row in rows if row["abortCommand"]]
    if commands:
        yield "to end one on a running cluster, if its producer is no longer at work:"
    yield from (f"  {show_name(each)}" for each in commands)


def _age(now_ms: int, since_ms: int | None) -> str:
    """``5 d 3 h``, ``3 h 12 min``, ``12 min``; nothing for a time that is not known or lies ahead."""
    if since_ms is None or not 0 <= since_ms <= now_ms:
        return NOTHING
    minutes = (now_ms - since_ms) // 60_000
    days, hours = minutes // 1440, minutes // 60 % 24
    if days:
        return f"{days:,} d {hours} h"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"


def history_line(row: Row) -> str:
    """Return a record: its partition if that is known, offset, time, type, key and payload separated by tabs, and the
    outcome of its transaction."""
    partition = row["partition"]
    place = [] if partition is None else [f"{row['topic']}-{partition}"]
    cells = [*place, str(row["offset"]), format_times([row["timestamp"]])[0], row["type"] or NOTHING]
    cells += [_format_entry(row["key"]), _format_entry(row["payload"])]
    return "\t".join([*cells, *([row["transaction"]] if row["transaction"] else [])])


def history_json(row: Row) -> Row:
    """Return a record for JSON: bytes that could not be decoded are base64."""

    def as_json(value: Any) -> Any:
        return {"base64": b64encode(value).decode()} if isinstance(value, bytes) else value

    return {**row, "key": as_json(row["key"]), "payload": as_json(row["payload"])}


def _format_entry(value: dict[str, Any] | bytes | None) -> str:
    if isinstance(value, dict):
        return show(dumps(value["data"]))
    return escape(value)


def _cell(column: str, value: Any) -> str:
    if column.endswith(("Timestamp", "timestamp")):
        return format_times([value], "s")[0]
    if value is None or value == []:
        return NOTHING
    if column == "endPoints":
        return ",".join(show(f"{each['name']}://{each['host']}:{each['port']}") for each in value)
    if column == "entity":
        return ",".join(show(f"{each['entityType']}={each['entityName'] or '<default>'}") for each in value)
    if column in ("assignment", "transactionPartitions"):
        return " ".join(show(_assigned(each)) for each in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return show(",".join(map(str, value)) if isinstance(value, list) else str(value))


def _assigned(each: Row) -> str:
    """``orders:0,1``; a topic that is known by its id only has that."""
    numbers = each["partitions"] if "partitions" in each else each["partitionIds"]
    return f"{each['topic'] or each['topicId']}:{','.join(map(str, numbers))}"
