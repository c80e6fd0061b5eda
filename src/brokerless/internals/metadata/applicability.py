"""Finds metadata records that cannot be applied to the state before them: a controller that comes to one ends.

Such a record is intact, and of a known type; it says something of a thing that is not there, or is there already. Each
was tried with a broker (``tests/kafka/test_metadata_start.py``). Sources: ``ClusterControlManager``,
``ReplicationControlManager``, ``AclControlManager``, ``ScramControlManager``, ``ProducerIdControlManager``,
``FeatureControlManager``, and the deltas of ``org.apache.kafka.image`` (3.9.1, 4.4.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from brokerless.values import Row


class Entities(Protocol):
    """What of a cluster decides; :class:`brokerless.internals.metadata.cluster.Cluster` has it."""

    @property
    def topics(self) -> Mapping[str, str]: ...
    @property
    def partitions(self) -> Mapping[str, Mapping[int, Row]]: ...
    @property
    def brokers(self) -> Mapping[int, Row]: ...
    @property
    def controllers(self) -> Mapping[int, Row]: ...
    @property
    def acls(self) -> Mapping[str, Row]: ...
    @property
    def users(self) -> Mapping[tuple[str, int], Row]: ...
    @property
    def next_producer_id(self) -> int | None: ...


_OF_BROKERS = {
    "UNREGISTER_BROKER_RECORD": ("brokerId", "brokerEpoch"),
    "FENCE_BROKER_RECORD": ("id", "epoch"),
    "UNFENCE_BROKER_RECORD": ("id", "epoch"),
    "BROKER_REGISTRATION_CHANGE_RECORD": ("brokerId", "brokerEpoch"),
}
"""Fields with the broker and its epoch."""


def inapplicable(cluster: Entities, type_: str | None, data: Row) -> str | None:
    """Return why a record cannot be applied to a cluster; None if it can."""
    if type_ in _OF_BROKERS:
        return _of_broker(cluster, *(data[name] for name in _OF_BROKERS[type_]))
    match type_:
        case "TOPIC_RECORD" if data["name"] in cluster.topics.values():
            return f"the topic {data['name']} is there already"
        case "REMOVE_TOPIC_RECORD" | "PARTITION_RECORD" if data["topicId"] not in cluster.topics:
            return f"there is no topic with the ID {data['topicId']}"
        case "PARTITION_CHANGE_RECORD" if data["partitionId"] not in cluster.partitions.get(data["topicId"], {}):
            return f"there is no partition {data['partitionId']} of a topic with the ID {data['topicId']}"
        case "PRODUCER_IDS_RECORD" if data["nextProducerId"] <= (cluster.next_producer_id or -1):
            return f"the next producer ID is {cluster.next_producer_id} already"
        case "UNREGISTER_CONTROLLER_RECORD" if data["controllerId"] not in cluster.controllers:
            return f"controller {data['controllerId']} is not registered"
        case "REMOVE_ACCESS_CONTROL_ENTRY_RECORD" if data["id"] not in cluster.acls:
            return f"there is no ACL {data['id']}"
        case "REMOVE_USER_SCRAM_CREDENTIAL_RECORD" if (data["name"], data["mechanism"]) not in cluster.users:
            return f"there is no such credential of user {data['name']}"
        case _:
            return None


def _of_broker(cluster: Entities, broker_id: int, epoch: int) -> str | None:
    broker = cluster.brokers.get(broker_id)
    if broker is None:
        return f"broker {broker_id} is not registered"
    if broker["brokerEpoch"] != epoch:
        return f"the epoch of broker {broker_id} is {broker['brokerEpoch']}, and not {epoch}"
    return None
