"""What a cluster's state answers about topics by their names, as later records change them."""

from __future__ import annotations

from brokerless.internals.metadata.cluster import Cluster, ResourceType, apply
from brokerless.internals.records import InternalRecord

ORDERS, LATER = "A" * 21 + "Q", "A" * 21 + "g"


def record(type_: str, **data: object) -> InternalRecord:
    return InternalRecord(type_, {}, {"version": 0, "data": data}, None)


def test_a_topic_created_again_has_its_new_id_partitions_and_settings() -> None:
    cluster = Cluster()
    apply(cluster, record("TOPIC_RECORD", topicId=ORDERS, name="orders"))
    apply(cluster, record("PARTITION_RECORD", topicId=ORDERS, partitionId=3, replicas=[1]))
    apply(cluster, record("CONFIG_RECORD", resourceType=2, resourceName="orders", name="retention.ms", value="5"))
    assert cluster.id_of("orders") == ORDERS
    assert cluster.row("orders", 3) == {"topicId": ORDERS, "partitionId": 3, "replicas": [1]}
    assert cluster.settings_of("orders") == {"retention.ms": "5"}

    apply(cluster, record("REMOVE_TOPIC_RECORD", topicId=ORDERS))
    assert cluster.id_of("orders") is None
    assert cluster.row("orders", 3) is None
    assert cluster.settings_of("orders") == {}

    apply(cluster, record("TOPIC_RECORD", topicId=LATER, name="orders"))
    assert cluster.id_of("orders") == LATER
    assert cluster.row("orders", 3) is None


def test_of_two_topics_with_one_name_the_later_one_has_it() -> None:
    cluster = Cluster(topics={ORDERS: "orders"})
    cluster.add_topic(LATER, "orders")
    assert cluster.id_of("orders") == LATER
    cluster.remove_topic(ORDERS)
    assert cluster.id_of("orders") == LATER


def test_a_renamed_id_is_not_found_by_its_old_name() -> None:
    cluster = Cluster(topics={ORDERS: "orders"})
    cluster.add_topic(ORDERS, "payments")
    assert (cluster.id_of("orders"), cluster.id_of("payments")) == (None, ORDERS)


def test_no_topic_has_no_id_and_no_partition() -> None:
    cluster = Cluster(topics={ORDERS: "orders"}, partitions={ORDERS: {0: {"partitionId": 0}}})
    assert cluster.id_of(None) is None
    assert cluster.row("orders", None) is None
    assert cluster.row("orders", 0) == {"partitionId": 0}
    assert dict(cluster.partitions_of("payments")) == {}


def test_defaults_of_brokers_are_below_a_topics_own_settings() -> None:
    cluster = Cluster(
        topics={ORDERS: "orders"},
        configs={
            (ResourceType.BROKER, ""): {"log.retention.ms": "7", "log.cleanup.policy": "compact", "log.dirs": "/d"},
            (ResourceType.BROKER, "3"): {"log.cleanup.policy": "delete"},
            (2, "orders"): {"retention.ms": "5"},
        },
    )
    assert cluster.settings_of("orders") == {"retention.ms": "5"}
    assert cluster.settings_on(None, "orders") == {"retention.ms": "5", "cleanup.policy": "compact"}
    assert cluster.settings_on(3, "orders") == {"retention.ms": "5", "cleanup.policy": "delete"}
    assert cluster.settings_by_topic(4) == {"orders": {"retention.ms": "5", "cleanup.policy": "compact"}}
    cluster.settings_of("orders")["retention.ms"] = "9"
    assert cluster.settings_of("orders") == {"retention.ms": "5"}, "a copy"
