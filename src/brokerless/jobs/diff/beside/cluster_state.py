"""Compares what two clusters know beside their records: settings, topics, ACLs, users and quotas, by their metadata."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Literal

from brokerless.findings import Finding
from brokerless.internals.metadata.cluster import RESOURCE_TYPES, Cluster, ResourceType, cluster_rows, read_cluster
from brokerless.jobs.diff.live.cluster import RunningCluster, connect, describe
from brokerless.jobs.diff.pairs import Side, replicas_of
from brokerless.log import names
from brokerless.log.settings.definitions import is_password
from brokerless.progress import Report
from brokerless.text import short_list

StateKind = Literal["setting", "topic", "acl", "user", "quota"]
QUOTAS = "quotas"
PARTS: dict[str, StateKind] = {
    "settings": "setting",
    "topics": "topic",
    "acls": "acl",
    "users": "user",
    QUOTAS: "quota",
}
"""What ``--only`` names, and what one of these is called."""
HIDDEN = "hidden"
"""In place of a secret."""


@dataclass(frozen=True, slots=True)
class StateDifference:
    """What one cluster has in another way than the other one, or not at all: None. A secret is :data:`HIDDEN`."""

    kind: StateKind
    name: str
    left: str | None
    right: str | None

    def __str__(self) -> str:
        if self.left is None or self.right is None:
            here, there = ("left", "right") if self.right is None else ("right", "left")
            value = self.left if self.right is None else self.right
            shown = "" if value in ("", HIDDEN) else f" is {value} on the {here},"
            if self.kind == "setting" and shown:
                return f"setting {self.name}{shown} not set on the {there}"
            return f"{self.kind} {self.name}: on the {here} only"
        if HIDDEN in (self.left, self.right):
            return f"{self.kind} {self.name}: another one on the right"
        return f"{self.kind} {self.name} is {self.left} on the left, {self.right} on the right"


@dataclass(frozen=True, slots=True)
class _StateValue:
    """A value of a cluster's state: what is compared, and what is shown."""

    exact: object
    shown: str
    """What is printed of it."""


ClusterState = Cluster | RunningCluster | None
"""What a side says of its cluster: metadata on its disks, or what a running one answers; None where nothing is."""


def cluster_of(side: Side, report: Report) -> ClusterState:
    """Return the metadata on the disks of a side, by the replica that counts; None where there is none, or not all of
    it can be read: what is missing of it is no difference. Of a running cluster, what it tells. Raises
    :class:`ClusterError`."""
    if side.url is not None:
        return describe(connect(side.url, side.client), replicas_of(side, None).values())
    found = replicas_of(side, (names.CLUSTER_METADATA,))
    partition = found.get((names.CLUSTER_METADATA, 0))
    if partition is None:
        return None
    findings: list[Finding] = []
    cluster = read_cluster(partition, findings.append)
    for each in findings:
        report(each)
    return None if any(each.severity == "error" for each in findings) else cluster


def compare_clusters(
    left: Cluster | RunningCluster,
    right: Cluster | RunningCluster,
    parts: Set[str],
    topics: Collection[str] | None,
) -> Iterator[StateDifference]:
    """Yield what differs. ``parts``: keys of :data:`PARTS`; ``topics``: of these alone, and then of nothing that is of
    no topic; None for all."""
    for part, kind in PARTS.items():
        if part not in parts or part not in compared_of(topics):
            continue
        ours, theirs = (_read(part, each, topics) for each in (left, right))
        if ours is None or theirs is None:
            continue
        if part == "users" and (isinstance(left, RunningCluster) or isinstance(right, RunningCluster)):
            # A running cluster tells nobody what a password is checked by.
            ours, theirs = ({name: _StateValue("", HIDDEN) for name in each} for each in (ours, theirs))
        hidden = _hidden(left) | _hidden(right) if part == "settings" else frozenset[str]()
        for name in sorted(each for each in ours.keys() | theirs.keys() if each.rpartition(": ")[0] not in hidden):
            one, other = ours.get(name), theirs.get(name)
            if one is None or other is None or one.exact != other.exact:
                shown = [None if each is None else each.shown for each in (one, other)]
                yield StateDifference(kind, name, *shown)


def compared_of(topics: Collection[str] | None) -> Set[str]:
    """Return the keys of :data:`PARTS` that are compared of some topics; None for all of the cluster."""
    return PARTS.keys() if topics is None else {"settings", "topics"}


def why_unknown(cluster: ClusterState, part: str, topics: Collection[str] | None = None) -> str | None:
    """Return why a part of a running cluster is not known, or not all of it; None where it is. ``topics``: as
    :func:`compare_clusters` has them."""
    if not isinstance(cluster, RunningCluster):
        return None
    if part == QUOTAS:
        return "confluent-kafka does not ask a running cluster for quotas"
    hidden = sorted(each for each in cluster.hidden if topics is None or each in topics)
    if part == "settings" and hidden:
        return f"the client's user may not describe those of {short_list(hidden)} (ACL)"
    return cluster.denied.get(part)


def _hidden(cluster: Cluster | RunningCluster) -> frozenset[str]:
    return frozenset(cluster.hidden) if isinstance(cluster, RunningCluster) else frozenset()


def _read(
    part: str, cluster: Cluster | RunningCluster, topics: Collection[str] | None
) -> dict[str, _StateValue] | None:
    if isinstance(cluster, RunningCluster):
        is_known = part == "settings" or why_unknown(cluster, part) is None
        return _READERS_OF_LIVE[part](cluster, topics) if is_known else None
    return _READERS[part](cluster, topics)


def _is_compared(topic: str, topics: Collection[str] | None) -> bool:
    """Return whether a topic is one of ``topics``; of all, without those that Kafka makes when it needs them."""
    return not names.is_internal(topic) if topics is None else topic in topics


def _settings(cluster: Cluster, topics: Collection[str] | None) -> dict[str, _StateValue]:
    found: dict[str, _StateValue] = {}
    for (type_, resource), own in cluster.configs.items():
        is_topic = type_ == ResourceType.TOPIC
        if topics is not None and not is_topic:
            continue
        if is_topic and (resource not in cluster.topics.values() or not _is_compared(resource, topics)):
            continue
        of = resource if is_topic else f"{RESOURCE_TYPES.get(type_, str(type_))} {resource or 'default'}"
        found |= {
            f"{of}: {name}": _StateValue(value, HIDDEN if is_password(name) else value) for name, value in own.items()
        }
    return found


def _topics(cluster: Cluster, topics: Collection[str] | None) -> dict[str, _StateValue]:
    found: dict[str, _StateValue] = {}
    for name in cluster.topics.values():
        if _is_compared(name, topics):
            partitions = cluster.partitions_of(name)
            replicas = max((len(each["replicas"]) for each in partitions.values()), default=0)
            text = f"of {len(partitions)} partitions with {replicas} replicas"
            found[name] = _StateValue(text, text)
    return found


def _acls(cluster: Cluster, _: Collection[str] | None) -> dict[str, _StateValue]:
    found: dict[str, _StateValue] = {}
    for row in cluster_rows(cluster)["acls"]:
        permission, operation, type_, pattern = (
            str(row[f"{each}Name"] or row[each])
            for each in ("permissionType", "operation", "resourceType", "patternType")
        )
        what = f"{type_} {row['resourceName']}" + ("" if pattern == "LITERAL" else f" ({pattern})")
        found[f"{permission} {operation} on {what} to {row['principal']} from {row['host']}"] = _StateValue("", "")
    return found


def _users(cluster: Cluster, _: Collection[str] | None) -> dict[str, _StateValue]:
    return {
        f"{row['name']} ({row['mechanism']})": _StateValue(tuple(sorted(row.items())), HIDDEN)
        for row in cluster_rows(cluster)["users"]
    }


def _quotas(cluster: Cluster, _: Collection[str] | None) -> dict[str, _StateValue]:
    found: dict[str, _StateValue] = {}
    for row in cluster.quotas.values():
        entity = ", ".join(f"{each['entityType']} {each['entityName'] or 'default'}" for each in row["entity"])
        found[f"{entity}: {row['key']}"] = _StateValue(row["value"], f"{row['value']:g}")
    return found


def _live_settings(cluster: RunningCluster, topics: Collection[str] | None) -> dict[str, _StateValue]:
    found: dict[str, _StateValue] = {}
    for name, value in (cluster.settings or {}).items():
        of, _, setting = name.rpartition(": ")
        is_topic = of in cluster.topics
        if (is_topic and _is_compared(of, topics)) or (not is_topic and topics is None):
            found[name] = _StateValue(value, HIDDEN if value is None or is_password(setting) else value)
    return found


def _live_topics(cluster: RunningCluster, topics: Collection[str] | None) -> dict[str, _StateValue]:
    return {name: _StateValue(text, text) for name, text in cluster.topics.items() if _is_compared(name, topics)}


_READERS_OF_LIVE: Mapping[str, Callable[[RunningCluster, Collection[str] | None], dict[str, _StateValue]]] = {
    "settings": _live_settings,
    "topics": _live_topics,
    "acls": lambda cluster, _: {each: _StateValue("", "") for each in cluster.acls or ()},
    "users": lambda cluster, _: {each: _StateValue("", HIDDEN) for each in cluster.users or ()},
}
_READERS: Mapping[str, Callable[[Cluster, Collection[str] | None], dict[str, _StateValue]]] = {
    "settings": _settings,
    "topics": _topics,
    "acls": _acls,
    "users": _users,
    "quotas": _quotas,
}
