"""Each kind of record that ends a controller; ``tests/kafka/test_metadata_start.py`` starts brokers on most of them."""

from __future__ import annotations

from typing import Any

import pytest

from brokerless.internals.metadata.applicability import inapplicable
from brokerless.internals.metadata.cluster import Cluster

CLUSTER = Cluster(
    topics={"T": "plain"},
    partitions={"T": {0: {}}},
    brokers={1: {"brokerEpoch": 5}},
    controllers={2: {}},
    acls={"A": {}},
    users={("anna", 1): {}},
    next_producer_id=1000,
)


@pytest.mark.parametrize(
    ("type_", "data", "reason"),
    [
        ("FENCE_BROKER_RECORD", {"id": 1, "epoch": 5}, None),
        ("FENCE_BROKER_RECORD", {"id": 1, "epoch": 4}, "the epoch of broker 1 is 5, and not 4"),
        ("BROKER_REGISTRATION_CHANGE_RECORD", {"brokerId": 3, "brokerEpoch": 5}, "broker 3 is not registered"),
        ("UNREGISTER_BROKER_RECORD", {"brokerId": 1, "brokerEpoch": 5}, None),
        ("UNREGISTER_CONTROLLER_RECORD", {"controllerId": 2}, None),
        ("UNREGISTER_CONTROLLER_RECORD", {"controllerId": 1}, "controller 1 is not registered"),
        ("TOPIC_RECORD", {"name": "plain", "topicId": "U"}, "the topic plain is there already"),
        ("TOPIC_RECORD", {"name": "new", "topicId": "U"}, None),
        ("REMOVE_TOPIC_RECORD", {"topicId": "U"}, "there is no topic with the ID U"),
        ("PARTITION_RECORD", {"topicId": "T", "partitionId": 0}, None),
        ("PARTITION_CHANGE_RECORD", {"topicId": "T", "partitionId": 0}, None),
        ("PARTITION_CHANGE_RECORD", {"topicId": "T", "partitionId": 1}, "no partition 1 of a topic with the ID T"),
        ("PRODUCER_IDS_RECORD", {"nextProducerId": 1001}, None),
        ("PRODUCER_IDS_RECORD", {"nextProducerId": 1000}, "the next producer ID is 1000 already"),
        ("REMOVE_ACCESS_CONTROL_ENTRY_RECORD", {"id": "A"}, None),
        ("REMOVE_ACCESS_CONTROL_ENTRY_RECORD", {"id": "B"}, "there is no ACL B"),
        ("REMOVE_USER_SCRAM_CREDENTIAL_RECORD", {"name": "anna", "mechanism": 2}, "no such credential of user anna"),
        ("NO_OP_RECORD", {}, None),
    ],
)
def test_why_a_record_cannot_be_applied(type_: str, data: dict[str, Any], reason: str | None) -> None:
    found = inapplicable(CLUSTER, type_, data)
    assert (found is None) == (reason is None)
    assert reason is None or reason in (found or "")
