"""What two clusters have in another way: settings, topics, ACLs, users and quotas; no secret is shown."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

import brokerless
from brokerless.errors import UsageError
from brokerless.internals.metadata.cluster import Cluster, ResourceType, read_cluster
from brokerless.jobs.diff.beside.cluster_state import PARTS, StateDifference, compare_clusters

DEMO = Path(__file__).parents[4] / "demo" / "data"


@pytest.fixture
def cluster() -> Cluster:
    found = read_cluster(brokerless.open(DEMO).partition("__cluster_metadata", 0).paths[0], lambda _: None)
    found.acls["1"] = acl("User:ada", 3)
    found.users["ada", 1] = user("stored")
    found.quotas["user", "ada"] = quota(1024.0)
    found.configs[ResourceType.BROKER, "1"] = {"ssl.keystore.password": "secret", "log.retention.ms": "5"}
    return copy.deepcopy(found)


def acl(principal: str, permission: int) -> dict[str, object]:
    return {
        "id": "AAAAAAAAAAAAAAAAAAAAAQ", "resourceType": 2, "resourceName": "orders", "patternType": 3,
        "principal": principal, "host": "*", "operation": 3, "permissionType": permission,
    }  # fmt: skip


def user(stored: str) -> dict[str, object]:
    return {
        "name": "ada", "mechanism": 1, "iterations": 4096, "salt": "c2FsdA==", "storedKey": stored, "serverKey": "x",
    }  # fmt: skip


def quota(value: float) -> dict[str, object]:
    return {"entity": [{"entityType": "user", "entityName": "ada"}], "key": "producer_byte_rate", "value": value}


def compare(left: Cluster, right: Cluster, *parts: str, topics: set[str] | None = None) -> list[StateDifference]:
    return list(compare_clusters(left, right, parts or tuple(PARTS), topics))


def test_a_cluster_is_the_same_as_itself_with_other_ids(cluster: Cluster) -> None:
    other = copy.deepcopy(cluster)
    other.acls = {"2": {**acl("User:ada", 3), "id": "AAAAAAAAAAAAAAAAAAAAAg"}}
    assert compare(cluster, other) == []


def test_what_differs_is_a_sentence(cluster: Cluster) -> None:
    other = copy.deepcopy(cluster)
    other.configs[ResourceType.TOPIC, "orders"] = {"retention.ms": "604800000"}
    cluster.configs[ResourceType.TOPIC, "orders"] = {"retention.ms": "-1", "segment.bytes": "1000000"}
    other.acls = {"1": acl("User:ada", 3), "2": acl("User:bob", 2)}
    other.users["ada", 1] = user("another")
    other.quotas["user", "ada"] = quota(2048.0)
    other.configs[ResourceType.BROKER, "1"]["ssl.keystore.password"] = "other"
    topic_id = other.id_of("users")
    assert topic_id is not None
    other.remove_topic(topic_id)
    assert [*map(str, compare(cluster, other))] == [
        "setting broker 1: ssl.keystore.password: another one on the right",
        "setting orders: retention.ms is -1 on the left, 604800000 on the right",
        "setting orders: segment.bytes is 1000000 on the left, not set on the right",
        *[text for text in map(str, compare(cluster, other)) if text.startswith("setting users: ")],
        "topic users: on the left only",
        "acl DENY READ on TOPIC orders to User:bob from *: on the right only",
        "user ada (SCRAM-SHA-256): another one on the right",
        "quota user ada: producer_byte_rate is 1024 on the left, 2048 on the right",
    ]


def test_settings_of_kafkas_own_topics_are_compared_where_these_are_named(cluster: Cluster) -> None:
    """A cluster has no ``__transaction_state`` until a producer begins a transaction."""
    other = copy.deepcopy(cluster)
    topic_id = other.id_of("__transaction_state")
    assert topic_id is not None
    other.remove_topic(topic_id)
    assert compare(cluster, other) == []
    found = compare(cluster, other, topics={"__transaction_state"})
    assert {each.kind for each in found} == {"setting", "topic"}


def test_no_secret_is_shown(cluster: Cluster) -> None:
    other = copy.deepcopy(cluster)
    other.users["ada", 1] = user("stored-key")
    other.configs[ResourceType.BROKER, "1"]["ssl.keystore.password"] = "hunter2"
    for found in (compare(cluster, other), compare(cluster, Cluster())):
        text = repr(found) + "".join(map(str, found))
        assert not any(each in text for each in ("hunter2", "secret", "stored", "c2FsdA"))
    assert len(compare(cluster, other)) == 2


def test_parts_and_topics_are_compared_alone(cluster: Cluster) -> None:
    other = copy.deepcopy(cluster)
    other.acls.clear()
    other.configs[ResourceType.TOPIC, "orders"] = {"retention.ms": "1"}
    other.configs[ResourceType.TOPIC, "users"] = {"retention.ms": "1"}
    assert {each.kind for each in compare(cluster, other, "acls")} == {"acl"}
    assert compare(cluster, other, "quotas", "users", "topics") == []
    found = compare(cluster, other, topics={"orders"})
    assert {each.name.partition(":")[0] for each in found} == {"orders"}


def test_the_metadata_of_both_sides_is_compared() -> None:
    found = brokerless.diff(DEMO, DEMO, only=PARTS)
    assert found.is_same
    assert (found.partitions, found.groups, found.state) == ([], (), ())
    with pytest.raises(UsageError, match="there is no 'acl' to compare; there are records, groups"):
        brokerless.diff(DEMO, DEMO, only=["acl"])
