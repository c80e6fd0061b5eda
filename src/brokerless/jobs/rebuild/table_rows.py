"""The state of a cluster from tables as JSON Lines, which ``internals --json`` prints and people may have edited."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, cast

from brokerless.errors import UsageError
from brokerless.internals.metadata.cluster import RESOURCE_TYPES, SCRAM_MECHANISMS, Cluster, apply
from brokerless.internals.metadata.records import encode_record
from brokerless.internals.records import InternalRecord
from brokerless.internals.schemas import STATE
from brokerless.log.storage.location import Location
from brokerless.values import Row

_LIMIT = 1 << 30
_TYPES = {name: number for number, name in RESOURCE_TYPES.items()}
_MECHANISMS = {name: number for number, name in SCRAM_MECHANISMS.items()}


def is_tables(path: str) -> bool:
    """Return whether a path names tables as JSON Lines, and no log or snapshot."""
    return path.endswith((".json", ".jsonl", ".ndjson"))


def load_tables(path: str) -> Cluster:
    """Reads tables as ``brokerless internals --json`` and ``brokerless cluster --json`` print them: one row a line,
    with its table's name as ``table``. Tables that are not of the cluster's metadata are passed over.

    Raises :class:`UsageError` for an unknown table, and a row that no record can be written of, with the line,
    and UnreadableError.
    """
    cluster = Cluster()
    for number, line in enumerate(Location(path).read(_LIMIT).split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row: Any = json.loads(line)
            if not isinstance(row, dict):
                raise UsageError("this is no JSON object, such as a line of internals --json")
            fields = cast("Row", row)
            for type_, data in _records(str(fields.pop("table", "")), fields):
                encode_record(type_, _NEWEST.get(type_, 0), data)  # refused here, where its line is known
                apply(cluster, InternalRecord(type_, None, {"type": type_, "version": 0, "data": data}))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UsageError(f"{path}, line {number}: {_reason(error)}") from error
        except UsageError as error:
            raise UsageError(f"{path}, line {number}: {error}") from error
    return cluster


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"there is no {error.args[0]}"
    if isinstance(error, RecursionError):
        return "this is nested too deep for a row"
    return "a value is of another type than in internals --json" if isinstance(error, TypeError) else str(error)


_NEWEST = {"PARTITION_RECORD": 2, "REGISTER_BROKER_RECORD": 4}


def _records(table: str, row: Row) -> Iterator[tuple[str, Row]]:
    make = _MAKERS.get(table)
    if make is not None:
        yield from make(row)
    elif table not in STATE and table not in _OF_JOBS:
        raise UsageError(_unknown(table))


def _unknown(table: str) -> str:
    from difflib import get_close_matches  # which no right name needs

    near = get_close_matches(table, _MAKERS, 3)
    named = f"there is no table {table!r}" if table else "there is no table's name, as table"
    return f"{named}; {'near are' if near else 'there are'} {', '.join(near or _MAKERS)}"


def _topic(row: Row) -> Iterator[tuple[str, Row]]:
    if row.get("isInMetadata", True):  # of cluster --json
        yield "TOPIC_RECORD", {"name": row["topic"], "topicId": row["topicId"]}


_LISTS = ("isr", "removingReplicas", "addingReplicas")
_ACL = ("id", "resourceType", "resourceName", "patternType", "principal", "host", "operation", "permissionType")
"""The codes count, and not the names beside them."""


def _partition(row: Row) -> Iterator[tuple[str, Row]]:
    if row.get("replicas") is None:  # on a disk only
        return
    replicas = row["replicas"]
    yield (
        "PARTITION_RECORD",
        {
            "partitionId": row["partition"],
            "topicId": row["topicId"],
            "replicas": replicas,
            **{name: row.get(name) or [] for name in _LISTS},
            "leader": row.get("leader", -1),
            "leaderRecoveryState": row.get("leaderRecoveryState", 0),
            "leaderEpoch": row.get("leaderEpoch", 0),
            "partitionEpoch": row.get("partitionEpoch", 0),
            "directories": row.get("directories") or ["A" * 22] * len(replicas),
        },
    )


def _config(row: Row) -> Iterator[tuple[str, Row]]:
    type_ = _TYPES.get(row["resourceType"])
    if type_ is None:
        raise UsageError(f"resourceType is none of {', '.join(_TYPES)}")
    yield "CONFIG_RECORD", {**_only(row, "resourceName", "name", "value"), "resourceType": type_}


def _broker(row: Row) -> Iterator[tuple[str, Row]]:
    yield "REGISTER_BROKER_RECORD", {"isMigratingZkBroker": False, **row}


def _user(row: Row) -> Iterator[tuple[str, Row]]:
    mechanism = _MECHANISMS.get(row["mechanism"])
    if mechanism is None:
        raise UsageError(f"mechanism is none of {', '.join(_MECHANISMS)}")
    yield "USER_SCRAM_CREDENTIAL_RECORD", {**row, "mechanism": mechanism}


def _only(row: Row, *names: str) -> Row:
    return {name: row[name] for name in names}


_MAKERS: dict[str, Callable[[Row], Iterator[tuple[str, Row]]]] = {
    "topics": _topic,
    "partitions": _partition,
    "configs": _config,
    "brokers": _broker,
    "features": lambda row: iter([("FEATURE_LEVEL_RECORD", _only(row, "name", "featureLevel"))]),
    "quotas": lambda row: iter([("CLIENT_QUOTA_RECORD", {**row, "remove": False})]),
    "acls": lambda row: iter([("ACCESS_CONTROL_ENTRY_RECORD", _only(row, *_ACL))]),
    "users": _user,
    "tokens": lambda row: iter([("DELEGATION_TOKEN_RECORD", row)]),
    "producerIds": lambda row: iter(
        [("PRODUCER_IDS_RECORD", {"brokerId": -1, "brokerEpoch": -1, "nextProducerId": row["nextProducerId"]})]
    ),
}
"""What makes records of a table's rows. A controller's registration is made again at its start."""
_OF_JOBS = (
    "cluster",
    "disks",
    "nodes",
    "directories",
    "endedPartitions",
    "pausedRetention",
    "remotePartitions",
    "positions",
    "lost",
    "findings",
)
"""Tables of ``cluster`` and ``rebuild``, beside those of internal topics, of which no records are made."""
