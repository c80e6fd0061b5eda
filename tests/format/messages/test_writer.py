"""What was decoded is encoded to the same bytes, whatever Kafka wrote; and what does not fit is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.internals.test_records import random_logs

import brokerless
from brokerless import UsageError
from brokerless.format.messages.reader import decode
from brokerless.format.messages.writer import encode
from brokerless.internals.messages import message
from brokerless.internals.metadata.records import encode_record
from brokerless.internals.records import decode_record

METADATA = "__cluster_metadata"
TOPIC = {"name": "orders", "topicId": "A" * 21 + "g"}


def test_random_records_of_every_type_and_version_are_written_as_kafka_wrote_them(
    kafka_jars: Path, tmp_path: Path
) -> None:
    log = random_logs(tmp_path, 20_263, 12, mutate=False)[METADATA]
    types: set[tuple[Any, Any]] = set()
    for rows in brokerless.open(log).records(["value"]):
        for value in rows.column("value").to_pylist():
            record = decode_record(METADATA, None, value)
            assert record.payload is not None
            again = encode_record(str(record.type), record.payload["version"], record.payload["data"])
            (was, now) = (decode_record(METADATA, None, each).payload for each in (value, again))
            assert was == now
            assert again == value or _has_unknown_tags(again, value)
            types.add((record.type, record.payload["version"]))
    assert len(types) > 30


def _has_unknown_tags(again: bytes, value: bytes) -> bool:
    """Tagged fields that Kafka does not know are dropped: by its reader, too."""
    return len(again) < len(value)


GROUP = "ConsumerGroupMemberMetadataValue"


def test_null_structures_and_messages_without_tagged_fields_are_written() -> None:
    fields = {
        "instanceId": None, "rackId": "r", "clientId": "c", "clientHost": "h", "subscribedTopicNames": ["a", "b"],
        "subscribedTopicRegex": None, "rebalanceTimeoutMs": 5, "serverAssignor": None,
    }  # fmt: skip
    protocols = [{"name": "range", "metadata": "AAE="}]
    classic = {"sessionTimeoutMs": 7, "supportedProtocols": protocols}
    for data in (fields, {**fields, "classicMemberMetadata": classic}):
        written = encode(message(GROUP), 0, data)
        assert decode(message(GROUP), 0, written)[0] == data
    old = {"assignedPartitions": [{"topic": "t", "partitions": [0, 3]}], "userData": None}
    assignment = message("ConsumerProtocolAssignment")
    assert decode(assignment, 1, encode(assignment, 1, old))[0] == old


@pytest.mark.parametrize(
    ("type_", "version", "data", "text"),
    [
        ("TOPIC_RECORD", 1, TOPIC, "version 1"),
        ("TOPIC_REC", 0, TOPIC, "no metadata record of type 'TOPIC_REC'"),
        ("TOPIC_RECORD", 0, {"name": "orders"}, r"TopicRecord\.topicId is missing"),
        ("TOPIC_RECORD", 0, {**TOPIC, "id": 1}, "no field 'id'"),
        ("TOPIC_RECORD", 0, {**TOPIC, "name": None}, "is null"),
        ("TOPIC_RECORD", 0, {**TOPIC, "name": 5}, "is text"),
        ("TOPIC_RECORD", 0, {**TOPIC, "name": "x" * 40_000}, "32767 bytes"),
        ("TOPIC_RECORD", 0, {**TOPIC, "topicId": "short"}, "UUID"),
        ("FEATURE_LEVEL_RECORD", 0, {"name": "f", "featureLevel": 1 << 15}, "int16"),
        ("FEATURE_LEVEL_RECORD", 0, {"name": "f", "featureLevel": True}, "int16"),
        ("CLIENT_QUOTA_RECORD", 0, {"entity": {}, "key": "k", "value": 1, "remove": False}, "array"),
        ("CLIENT_QUOTA_RECORD", 0, {"entity": [3], "key": "k", "value": 1, "remove": False}, "entity.0. is an object"),
        ("CLIENT_QUOTA_RECORD", 0, {"entity": [], "key": "k", "value": "1", "remove": False}, "a number"),
        ("CLIENT_QUOTA_RECORD", 0, {"entity": [], "key": "k", "value": 1, "remove": 0}, "true or false"),
        ("CONFIG_RECORD", 0, [], "an object"),
    ],
)
def test_values_that_do_not_fit_are_refused(type_: str, version: int, data: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        encode_record(type_, version, data)


def test_a_field_that_a_version_does_not_have_is_refused_unless_it_is_the_default() -> None:
    row = {
        "partitionId": 0, "topicId": TOPIC["topicId"], "replicas": [1], "isr": [1], "removingReplicas": [],
        "addingReplicas": [], "leader": 1, "leaderEpoch": 0, "partitionEpoch": 0, "directories": [],
    }  # fmt: skip
    assert encode_record("PARTITION_RECORD", 0, row)
    with pytest.raises(UsageError, match="directories is not in version 0"):
        encode_record("PARTITION_RECORD", 0, {**row, "directories": ["A" * 22]})
