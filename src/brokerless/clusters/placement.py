"""Judges where a replica is by what the cluster's metadata says: one verdict, which all commands report alike.

:data:`KINDS` is the table: a kind for each verdict, whose severities are in ``findings.toml``. A broker starts with all
its log directories at once, so that replicas are placed node by node. Sources: ``LogManager.isStrayKraftReplica``,
``recoverAbandonedFutureLogs``, ``ReplicaManager``, ``ReplicationControlManager.handleDirectoriesOffline`` (4.4.0);
KIP-858. Each verdict was tried with a broker (``tests/kafka/test_directory_restart.py``, ``tests/states``).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

from brokerless.clusters.missing_partitions import partition_missing
from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind, Severities, describe_kinds
from brokerless.internals.metadata.cluster import Cluster
from brokerless.kafka_names import TopicPartition
from brokerless.log import names
from brokerless.log.directory import resolve
from brokerless.log.seek import end_offset
from brokerless.log.storage.location import Location

Row = Mapping[str, Any]


class Replica(Protocol):
    """A directory that a broker loads as a partition's, whatever is in it."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def state(self) -> names.PartitionState:
        """By the directory's name."""
        ...

    @property
    def path(self) -> str: ...
    @property
    def topic_id(self) -> str | None:
        """That in its ``partition.metadata``; None without one that can be read."""
        ...

    @property
    def corruption(self) -> Finding | None:
        """What is wrong with its ``partition.metadata``, if that is there and cannot be parsed."""
        ...


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """Whose log directories these are."""

    node_id: int | None = None
    directory_ids: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    """By path; None where a directory has none."""


class Verdict(StrEnum):
    """What a replica is to a broker that starts."""

    HERE = "here"
    PROMOTED = "promoted"
    MOVING = "moving"
    EMPTIED = "emptied"
    BLOCKED = "blocked"
    OTHER_DIRECTORY = "other-directory"
    OTHER_TOPIC = "other-topic"
    TOPIC_UNKNOWN = "topic-unknown"
    PARTITION_UNKNOWN = "partition-unknown"
    ELSEWHERE = "elsewhere"
    NO_ID = "no-id"
    ID_CORRUPT = "id-corrupt"
    TWICE = "twice"
    STRAY = "stray"
    DELETED = "deleted"


KINDS: Mapping[Verdict, Kind] = {
    Verdict.PROMOTED: Kind.FUTURE_PROMOTED,
    Verdict.MOVING: Kind.FUTURE_DIRECTORY,
    Verdict.EMPTIED: Kind.FUTURE_EMPTIED,
    Verdict.BLOCKED: Kind.FUTURE_REPEATED,
    Verdict.OTHER_DIRECTORY: Kind.DIRECTORY_ID_MISMATCH,
    Verdict.OTHER_TOPIC: Kind.TOPIC_ID_MISMATCH,
    Verdict.TOPIC_UNKNOWN: Kind.TOPIC_UNKNOWN,
    Verdict.PARTITION_UNKNOWN: Kind.PARTITION_UNKNOWN,
    Verdict.ELSEWHERE: Kind.REPLICA_ELSEWHERE,
    Verdict.NO_ID: Kind.PARTITION_METADATA_MISSING,
    Verdict.ID_CORRUPT: Kind.PARTITION_METADATA_CORRUPT,
    Verdict.TWICE: Kind.PARTITION_REPEATED,
    Verdict.STRAY: Kind.STRAY_DIRECTORY,
    Verdict.DELETED: Kind.DELETED_DIRECTORY,
}
"""The kind of the finding of each verdict; a replica that is where it should be is none."""

MADE_STRAY = (Verdict.TOPIC_UNKNOWN, Verdict.PARTITION_UNKNOWN, Verdict.ELSEWHERE, Verdict.NO_ID)
"""Verdicts by which a broker renames a live or future directory to ``-stray``; its topic is served without it."""
UNSERVED = (Verdict.OTHER_TOPIC, Verdict.OTHER_DIRECTORY)
"""Verdicts by which a directory is loaded, and clients get nothing of it, or may not."""
NOT_LIVE = (Verdict.STRAY, Verdict.DELETED, Verdict.MOVING, Verdict.BLOCKED, Verdict.EMPTIED)
"""Verdicts of directories that no broker serves, and that nothing is written of."""
NOT_KNOWN = (Verdict.TOPIC_UNKNOWN, Verdict.PARTITION_UNKNOWN, Verdict.OTHER_TOPIC)
"""Verdicts of directories whose partition the cluster's metadata does not have."""
_BY_ID = (*MADE_STRAY, Verdict.OTHER_TOPIC)
"""Verdicts by what ``partition.metadata`` says, or would say, whose findings name that file."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A replica, and what it is to a broker that starts."""

    replica: Replica
    verdict: Verdict
    node: BrokerNode = BrokerNode()
    row: Row | None = None
    """Its partition in the cluster's metadata, by the topic's ID."""
    assigned: str | None = None
    """The ID of the directory that the metadata has the replica in; None where it says none."""
    other: Replica | None = None
    """The live replica that a promoted one replaces, or of the same partition on the same node."""
    expected: str | None = None
    """The ID or the name that the metadata has instead."""

    @property
    def place(self) -> TopicPartition:
        return self.replica.topic, self.replica.partition

    @property
    def kind(self) -> Kind | None:
        return KINDS.get(self.verdict)

    @property
    def finding(self) -> Finding | None:
        """Return the finding of the verdict, as it is without a look at other nodes; None for a replica that is where
        it should be. :func:`of_cluster` has the severity in the scope of the cluster."""
        kind = self.kind
        if kind is None:
            return None
        if self.verdict == Verdict.ID_CORRUPT:
            corruption = self.replica.corruption
            return None if corruption is None else replace(corruption, kind=kind)
        file = self.replica.path.rstrip("/")
        if self.verdict in _BY_ID:
            file = f"{file}/{names.PARTITION_METADATA}"
        found, expected = self._found_and_expected()
        return kind.at(file, self._text(), severity=self._severities(kind), expected=expected, found=found)

    def of_cluster(self, *, is_spare: bool) -> Finding | None:
        """Return the finding with its severity in the scope of the cluster. ``is_spare``: whether another replica that
        is served goes as far as this one."""
        finding = self.finding
        if finding is None:
            return None
        severities = finding.severities
        if self.verdict in (Verdict.ELSEWHERE, Verdict.STRAY, Verdict.DELETED):
            severities = severities._replace(cluster="info" if is_spare else "warning")
        elif self.verdict == Verdict.EMPTIED:
            severities = severities._replace(cluster="warning" if is_spare else "error")
        return finding.with_severities(severities).in_scope("cluster")

    def _severities(self, kind: Kind) -> Severities | None:
        known = describe_kinds()[kind].by_scope
        replaces = self.verdict == Verdict.PROMOTED and self.other is not None
        return known._replace(start="warning") if known is not None and replaces else known

    def _found_and_expected(self) -> tuple[str | None, str | None]:
        replica = self.replica
        match self.verdict:
            case Verdict.OTHER_TOPIC:
                return replica.topic, self.expected
            case Verdict.TOPIC_UNKNOWN | Verdict.PARTITION_UNKNOWN:
                return replica.topic_id, self.expected
            case Verdict.ELSEWHERE:
                nodes = [] if self.row is None else self.row["replicas"]
                return str(self.node.node_id), f"one of {nodes}"
            case Verdict.OTHER_DIRECTORY:
                own = (id for path, id in self.node.directory_ids.items() if replica.path.startswith(path))
                return next(own, None) or "none", self.assigned
            case _:
                return None, None

    def _text(self) -> str:
        name = f"{self.replica.topic}-{self.replica.partition}"
        match self.verdict:
            case Verdict.PROMOTED:
                text = (
                    "the cluster's metadata has this replica, which was being moved, in this directory: a start gives "
                )
                text += "it its partition's name"
                return text if self.other is None else f"{text}, and deletes {self.other.path}"
            case Verdict.BLOCKED:
                return f"{name} is in this directory already, so that a broker cannot rename this"
            case Verdict.OTHER_TOPIC:
                return f"by its ID this is a partition of {self.expected}, so that it is served under neither name"
            case Verdict.PARTITION_UNKNOWN:
                number = self.replica.partition
                return f"the cluster's metadata has no partition {number} of the topic with this ID"
            case Verdict.TWICE:
                return f"{name} is there twice, also as {self._other_path()}: a broker ends at its start{self._ends()}"
            case _:
                return _TEXTS[self.verdict]

    def _other_path(self) -> str:
        return "" if self.other is None else self.other.path

    @property
    def is_assigned(self) -> bool:
        """Whether the metadata has the replica in the directory that it is in."""
        return self._has(self.replica)

    def _has(self, replica: Replica) -> bool:
        return self.assigned is not None and self.assigned == self.node.directory_ids.get(_parent(replica))

    def _ends(self) -> str:
        """Say which of two replicas the metadata has, and where both end."""
        pair = (self.other, self.replica)
        of_metadata = [each.path for each in pair if each is not None and self._has(each)]
        text = f"; the cluster's metadata has it as {of_metadata[0]}" if len(of_metadata) == 1 else ""
        return f"{text}; that here ends at {_end_of(self.replica.path)}, the other at {_end_of(self._other_path())}"


def _end_of(path: str) -> str:
    """The offset after the last one of a partition's directory, by headers."""
    with suppress(UnreadableError):
        (partition,) = resolve(Location(path)).partitions
        return f"offset {end_offset(partition) or 0}"
    return "an unknown offset"


_TEXTS: Mapping[Verdict, str] = {
    Verdict.MOVING: "a replica that was being moved to this log directory",
    Verdict.EMPTIED: "this was being moved from a directory that is gone: a broker begins that empty, and truncates "
    "this to it",
    Verdict.OTHER_DIRECTORY: "the cluster's metadata has this replica in another directory of the broker, which is not "
    "here: it has no leader unless the broker gets to assign it to this one",
    Verdict.TOPIC_UNKNOWN: "the cluster's metadata has no topic with this ID",
    Verdict.ELSEWHERE: "the cluster's metadata has no replica of this partition on this node",
    Verdict.NO_ID: "there is no partition.metadata",
    Verdict.STRAY: "a replica that the cluster no longer has here; no broker serves it",
    Verdict.DELETED: "a deleted partition; a broker removes it soon, or at its next start",
}


@dataclass(frozen=True, slots=True)
class Absent:
    """A replica that the metadata has on a node, whose directory is not there: a broker begins it again, empty."""

    topic: str
    partition: int
    node_id: int
    path: str
    """The log directory that it begins in."""
    row: Row
    is_nowhere: bool = False
    """No disk of another broker has a replica either."""

    @property
    def place(self) -> TopicPartition:
        return self.topic, self.partition

    @property
    def finding(self) -> Finding:
        name = f"{self.topic}-{self.partition}"
        if self.is_nowhere:
            expected = f"on one of the nodes {', '.join(map(str, self.row['replicas']))}"
            return partition_missing(self.path, name, "metadata", expected=expected)
        text = (
            f"the cluster's metadata has a replica of {name} here, but there is no such directory: a broker begins it "
        )
        text += "again, empty"
        found = f"replicas {self.row['replicas']}, in sync {self.row['isr']}"
        return Kind.REPLICA_MISSING.at(self.path, text, expected="a directory", found=found)


def state_finding(state: names.PartitionState, path: str) -> Finding | None:
    """Return what the name of a partition's directory says of it, whatever the metadata says; None for a live one."""
    verdict = {"stray": Verdict.STRAY, "future": Verdict.MOVING, "delete": Verdict.DELETED}.get(state)
    return None if verdict is None else KINDS[verdict].at(path, _TEXTS[verdict])


def is_reserved(directory_id: str) -> bool:
    """Return whether a directory ID is one of the first hundred, of which three say that it is not known which
    directory it is (``DirectoryId.reserved``)."""
    number = base64.urlsafe_b64decode(directory_id + "==")
    return int.from_bytes(number, "big") < 100


def assigned_directory(row: Row | None, node_id: int | None) -> str | None:
    """Return the ID of the directory that a replica is in, if the metadata says one."""
    if row is None or node_id not in row["replicas"]:
        return None
    at, ids = row["replicas"].index(node_id), row.get("directories") or ()
    found = ids[at] if at < len(ids) else ""
    return found if found and not is_reserved(found) else None


def place(replicas: Sequence[Replica], cluster: Cluster | None, node: BrokerNode) -> list[Placement]:
    """Judge the replicas of one node, in this order; one that is there twice has two placements. ``cluster``: None
    where its metadata is not known, and then of strays only those are known that have no ``partition.metadata``."""
    live = {(each.topic, each.partition): each for each in replicas if each.state == "live"}
    beside = {(*_name(each), _parent(each)) for each in live.values()}
    placed = [_placed(each, cluster, node) for each in replicas]
    found: list[Placement] = []
    for each in placed:
        at = each.replica
        if at.state == "future" and each.verdict == Verdict.HERE:
            current = live.get(_name(at))
            is_beside = (*_name(at), _parent(at)) in beside
            found.append(_replace(each, Verdict.BLOCKED if is_beside else Verdict.PROMOTED, current))
        else:
            found.append(each)
    begun = {each.place for each in absent(found, cluster, node)} if cluster is not None else set[TopicPartition]()
    found = [
        _replace(each, Verdict.EMPTIED, None) if each.verdict == Verdict.MOVING and each.place in begun else each
        for each in found
    ]
    return [*found, *_repeated(found)]


def _placed(each: Replica, cluster: Cluster | None, node: BrokerNode) -> Placement:
    if each.state == "stray":
        return Placement(each, Verdict.STRAY, node)
    if each.state == "delete":
        return Placement(each, Verdict.DELETED, node)
    if each.corruption is not None:
        return Placement(each, Verdict.ID_CORRUPT, node)
    if each.topic_id is None:
        return Placement(each, Verdict.NO_ID, node)
    if cluster is None:
        return Placement(each, Verdict.HERE if each.state == "live" else Verdict.MOVING, node)
    topic = cluster.topics.get(each.topic_id)
    if topic is None:
        return Placement(each, Verdict.TOPIC_UNKNOWN, node, expected=cluster.id_of(each.topic))
    row = cluster.partitions.get(each.topic_id, {}).get(each.partition)
    if row is None:
        return Placement(each, Verdict.PARTITION_UNKNOWN, node)
    if node.node_id is not None and node.node_id not in row["replicas"]:
        return Placement(each, Verdict.ELSEWHERE, node, row)
    assigned = assigned_directory(row, node.node_id)
    verdict = Verdict.HERE
    if each.state == "future":
        is_here = assigned is not None and assigned == node.directory_ids.get(_parent(each))
        verdict = Verdict.HERE if is_here else Verdict.MOVING
    elif topic != each.topic:
        return Placement(each, Verdict.OTHER_TOPIC, node, row, expected=topic)
    elif assigned is not None and assigned not in node.directory_ids.values():
        # Brokers (4.4.0) were seen to leave it without a leader, and to assign it to where they found it: a race.
        verdict = Verdict.OTHER_DIRECTORY
    return Placement(each, verdict, node, row, assigned=assigned)


def _replace(each: Placement, verdict: Verdict, other: Replica | None) -> Placement:
    return Placement(each.replica, verdict, each.node, each.row, assigned=each.assigned, other=other)


def _repeated(placed: Iterable[Placement]) -> Iterator[Placement]:
    """Yield the replicas of which a node has another one, in the same state: one that the metadata has there, or the
    first."""
    seen: dict[tuple[str, int, str], Replica] = {}
    for each in sorted(placed, key=lambda each: not each.is_assigned):
        at = each.replica
        if at.state in ("live", "future"):
            first = seen.setdefault((*_name(at), at.state), at)
            if first is not at:
                yield _replace(each, Verdict.TWICE, first)


def absent(placed: Iterable[Placement], cluster: Cluster, node: BrokerNode) -> Iterator[Absent]:
    """Yield the replicas that a node should have, and does not have, or makes stray. One that the metadata has in a
    directory that is gone begins in one of the others."""
    there = {
        each.place
        for each in placed
        if each.verdict == Verdict.PROMOTED or (each.replica.state == "live" and each.verdict not in MADE_STRAY)
    }
    for topic_id, partitions in cluster.partitions.items():
        for number, row in partitions.items():
            at = cluster.topics.get(topic_id, ""), number
            if at in there or node.node_id is None or node.node_id not in row["replicas"]:
                continue
            assigned = assigned_directory(row, node.node_id)
            paths = [path for path, known in node.directory_ids.items() if assigned == known]
            for path in paths or node.directory_ids:
                yield Absent(*at, node.node_id, path, row, is_nowhere={*row["replicas"]} == {node.node_id})
                break


def _name(each: Replica) -> TopicPartition:
    return each.topic, each.partition


def _parent(each: Replica) -> str:
    return each.path.rstrip("/").rpartition("/")[0]
