"""Encodes records of ``__cluster_metadata``, and writes a cluster's state as the records of a snapshot.

A record's value is a frame version, its type and its version as unsigned varints, then its message (KIP-631). The order
is that in which Kafka writes an image: features first, as the other records depend on them. Sources:
``AbstractApiMessageSerde``, ``MetadataImage.write`` and the images of its parts (4.4.0).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from brokerless.errors import UsageError
from brokerless.format.messages.layouts import Message
from brokerless.format.messages.writer import encode
from brokerless.format.plain_varint import encode_unsigned
from brokerless.internals.messages import messages
from brokerless.internals.metadata.cluster import Cluster
from brokerless.internals.metadata.versions import (
    DELEGATION_TOKENS,
    DIRECTORIES,
    ELR,
    KRAFT_VERSION,
    METADATA_VERSION,
    SCRAM,
    level_name,
    record_version,
)
from brokerless.internals.records import type_name
from brokerless.log.names import CLUSTER_METADATA
from brokerless.values import Row

MetadataRecord = tuple[str, int, Row]
"""A record's type, version and fields."""

_FRAME_VERSION = b"\1"


def encode_record(type_: str, version: int, data: Row) -> bytes:
    """Return the value of a metadata record, such as ``TOPIC_RECORD``, from its fields as ``internals`` shows them.

    Raises :class:`UsageError` for an unknown type or version, and for values that do not fit.
    """
    layout = _layouts().get(type_)
    if layout is None:
        raise UsageError(f"there is no metadata record of type {type_!r}")
    head = _FRAME_VERSION + encode_unsigned(layout.api_key or 0) + encode_unsigned(version)
    return head + encode(layout, version, data)


@cache
def _layouts() -> dict[str, Message]:
    return {type_name(each.name): each for each in messages(CLUSTER_METADATA).values.values()}


def cluster_records(cluster: Cluster, level: int) -> Iterator[MetadataRecord]:
    """Yield the records that add up to a cluster's state at a metadata version.

    Raises :class:`UsageError` where that version has no record, or no field, for something of it.
    """
    _check(cluster, level)
    for type_, data in _records(cluster, level):
        yield type_, record_version(type_, level), data


def _records(cluster: Cluster, level: int) -> Iterator[tuple[str, Row]]:
    yield "FEATURE_LEVEL_RECORD", {"name": METADATA_VERSION, "featureLevel": level}
    for name, feature_level in sorted(cluster.features.items()):
        if name not in (METADATA_VERSION, KRAFT_VERSION):  # that is in the control records
            yield "FEATURE_LEVEL_RECORD", {"name": name, "featureLevel": feature_level}
    for _, row in sorted(cluster.brokers.items()):
        yield "REGISTER_BROKER_RECORD", _of_level(row, level)
    for _, row in sorted(cluster.controllers.items()):
        yield "REGISTER_CONTROLLER_RECORD", row
    for topic_id, name in sorted(cluster.topics.items(), key=lambda each: each[1]):
        yield "TOPIC_RECORD", {"name": name, "topicId": topic_id}
        for _, row in sorted(cluster.partitions.get(topic_id, {}).items()):
            yield "PARTITION_RECORD", _of_level(row, level)
    for (type_, resource), configs in sorted(cluster.configs.items()):
        for name, value in sorted(configs.items()):
            row: Row = {"resourceType": type_, "resourceName": resource, "name": name, "value": value}
            yield "CONFIG_RECORD", row
    for _, row in sorted(cluster.quotas.items()):
        yield "CLIENT_QUOTA_RECORD", {**row, "remove": False}
    if cluster.next_producer_id is not None:
        yield "PRODUCER_IDS_RECORD", {"brokerId": -1, "brokerEpoch": -1, "nextProducerId": cluster.next_producer_id}
    for _, row in sorted(cluster.acls.items()):
        yield "ACCESS_CONTROL_ENTRY_RECORD", row
    for _, row in sorted(cluster.users.items()):
        yield "USER_SCRAM_CREDENTIAL_RECORD", row
    for _, row in sorted(cluster.tokens.items()):
        yield "DELEGATION_TOKEN_RECORD", row


_SINCE = {
    "logDirs": DIRECTORIES,
    "directories": DIRECTORIES,
    "isMigratingZkBroker": 8,
    "cordonedLogDirs": 30,
    "eligibleLeaderReplicas": ELR,
    "lastKnownElr": ELR,
}
"""Fields of broker and partition records that lower levels have not."""


def _of_level(row: Row, level: int) -> Row:
    found = {name: value for name, value in row.items() if level >= _SINCE.get(name, 0)}
    if "brokerId" in row and level >= _SINCE["isMigratingZkBroker"]:
        found.setdefault("isMigratingZkBroker", False)
    if "partitionId" in row and level >= DIRECTORIES:
        found.setdefault("directories", ["A" * 22] * len(row["replicas"]))  # DirectoryId.MIGRATING: not yet known
    return found


def _check(cluster: Cluster, level: int) -> None:
    several = [each for each, row in cluster.brokers.items() if len(row.get("logDirs") or ()) > 1]
    checks = (
        (SCRAM, cluster.users, "SCRAM users"),
        (DELEGATION_TOKENS, cluster.tokens, "delegation tokens"),
        (DIRECTORIES, several, "brokers with several log directories"),
        (ELR, cluster.features.get("eligible.leader.replicas.version"), "eligible leader replicas"),
    )
    for since, has, what in checks:
        if has and level < since:
            text = f"metadata version {level_name(level)} ({level}) cannot express {what}"
            raise UsageError(f"{text}; give --metadata-version {level_name(since)} or a newer one")
