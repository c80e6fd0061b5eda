"""Compares log directories with the cluster's metadata: stray, unserved and missing partitions.

Sources: ``LogManager.isStrayKraftReplica``, ``recoverAbandonedFutureLogs``, ``ReplicaManager``,
``ReplicationControlManager.handleDirectoriesOffline`` (4.1.1); KIP-858. Each was tried with a broker
(``tests/kafka/test_directory_restart.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from brokerless.findings import Finding, Kind
from brokerless.internals.metadata.cluster import cluster_rows, read_cluster
from brokerless.internals.remote.storage import topic_settings
from brokerless.jobs.restart.directory_files import LoadedDirectory, is_reserved
from brokerless.jobs.restart.retention_forecast import Settings, settings_by_topic
from brokerless.log import names
from brokerless.log.checkpoint.meta_properties import MetaProperties
from brokerless.log.segment import ignore
from brokerless.tables.partition_reader import OnDamage, PartitionReader

_BROKER = 4
"""``ConfigResource.Type``."""
Place = tuple[str, int]
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What the metadata says: partitions by topic ID and number, names of topics by ID, brokers by node ID, and the
    settings of each topic: ``settings`` with the brokers' defaults, ``topic_settings`` without them.
    ``broker_settings`` by node ID as text, those of all brokers by none. ``features``: levels by name."""

    partitions: Mapping[tuple[str, int], Row] = field(default_factory=dict[tuple[str, int], Row])
    topics: Mapping[str, str] = field(default_factory=dict[str, str])
    brokers: Mapping[int, Row] = field(default_factory=dict[int, Row])
    settings: Mapping[str, Settings] = field(default_factory=dict[str, Settings])
    topic_settings: Mapping[str, Settings] = field(default_factory=dict[str, Settings])
    broker_settings: Mapping[str, Settings] = field(default_factory=dict[str, Settings])
    features: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """Whose log directories these are. ``directory_ids`` by path; None where a directory has none."""

    node_id: int | None = None
    directory_ids: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])


def read_state(
    partition: PartitionReader,
    end_offset: int | None,
    max_batch_bytes: int | None = None,
    on_damage: OnDamage = ignore,
) -> ClusterState | None:
    """The metadata up to ``end_offset``, where KRaft's own log ends after its recovery; None if it says nothing."""
    cluster = read_cluster(partition, on_damage, end_offset, max_batch_bytes)
    rows = cluster_rows(cluster)
    if not rows["topics"] and not rows["brokers"]:
        return None
    return ClusterState(
        {(row["topicId"], row["partition"]): row for row in rows["partitions"]},
        {row["topicId"]: row["topic"] for row in rows["topics"]},
        {row["brokerId"]: row for row in rows["brokers"]},
        settings=settings_by_topic(cluster),
        topic_settings=topic_settings(cluster),
        broker_settings={name: values for (type_, name), values in cluster.configs.items() if type_ == _BROKER},
        features=cluster.features,
    )


def node_of(properties: Mapping[str, MetaProperties | None]) -> BrokerNode:
    """``properties`` by the directory's path."""
    ids = {path: None if each is None else each.directory_id for path, each in properties.items()}
    known = (each.node_id for each in properties.values() if each is not None and not each.findings)
    return BrokerNode(next(known, None), ids)


def check_owners(properties: Iterable[MetaProperties], state: ClusterState) -> Iterator[Finding]:
    """Directories that another broker registered as its own."""
    owners = {each: number for number, broker in state.brokers.items() for each in broker["logDirs"]}
    for each in properties:
        owner = None if each.directory_id is None else owners.get(each.directory_id)
        if owner is not None and each.node_id is not None and owner != each.node_id:
            text = f"the node.id is {each.node_id}, but the cluster knows this directory as broker {owner}'s"
            expected, found = f"node.id={owner}", f"node.id={each.node_id}"
            yield Finding("error", Kind.NODE_ID_MISMATCH, each.file, message=text, expected=expected, found=found)


def stray(each: LoadedDirectory, state: ClusterState | None, node: BrokerNode) -> Finding | None:
    """Return why a broker renames a partition's directory to ``-stray``; its topic is served without it."""
    if each.state not in ("live", "future") or each.is_corrupt:
        return None
    path = f"{each.path.rstrip('/')}/{names.PARTITION_METADATA}"
    topic_id = each.topic_id
    if topic_id is None:
        return Finding(
            "error",
            Kind.PARTITION_METADATA_MISSING,
            path,
            message="there is no partition.metadata",
        )
    if state is None:
        return None
    if topic_id not in state.topics:
        text = "the cluster's metadata has no topic with this ID"
        expected = next((known for known, topic in state.topics.items() if topic == each.topic), None)
        return Finding(
            "error",
            Kind.TOPIC_UNKNOWN,
            path,
            message=text,
            expected=expected,
            found=topic_id,
        )
    row = state.partitions.get((topic_id, each.partition))
    if row is None:
        text = f"the cluster's metadata has no partition {each.partition} of the topic with this ID"
        return Finding("error", Kind.PARTITION_UNKNOWN, path, message=text, found=topic_id)
    if node.node_id is not None and node.node_id not in row["replicas"]:
        text = "the cluster's metadata has no replica of this partition on this node"
        return Finding(
            "error",
            Kind.REPLICA_ELSEWHERE,
            path,
            message=text,
            expected=f"one of {row['replicas']}",
            found=str(node.node_id),
        )
    return None


def unserved(each: LoadedDirectory, state: ClusterState, node: BrokerNode) -> Finding | None:
    """Return why a partition that is loaded, and is not stray, is not served, or may not be.

    A replica that the metadata has in a directory that is not here: brokers (4.4.0) were seen to leave it without a
    leader, and to assign it to the directory in which they found it. Which of both comes first is a race.
    """
    if each.state != "live":
        return None
    path = f"{each.path.rstrip('/')}/{names.PARTITION_METADATA}"
    topic_id = each.topic_id or ""
    topic = state.topics.get(topic_id)
    if topic is not None and topic != each.topic:
        text = f"by its ID this is a partition of {topic}, so that it is served under neither name"
        return Finding("error", Kind.TOPIC_ID_MISMATCH, path, message=text, expected=topic, found=each.topic)
    assigned = _assigned(state.partitions.get((topic_id, each.partition)), node)
    if assigned is not None and assigned not in node.directory_ids.values():
        text = "the cluster's metadata has this replica in another directory of the broker, which is not here: it has "
        text += "no leader unless the broker gets to assign it to this one"
        found = next((id for path, id in node.directory_ids.items() if each.path.startswith(path)), None)
        return Finding(
            "error", Kind.DIRECTORY_ID_MISMATCH, each.path, message=text, expected=assigned, found=found or "none"
        )
    return None


def check_topics_applied(unserved: Mapping[str, Finding]) -> Iterator[Finding]:
    """A topic's directory with the ID of another topic: a broker gives up to apply the topics where it comes to it
    (InconsistentTopicIdException, "metadata publishing fault"), and all that it had not applied by then is not served.
    That are others in each state; of 15 partitions, 7 to 13 were seen (3.9.1, 4.4.0)."""
    for path, finding in unserved.items():
        if finding.kind == Kind.TOPIC_ID_MISMATCH:
            text = f"a broker gives up to apply the topics at {path}, so that clients get nothing of many other "
            text += "partitions either, Kafka's own among them"
            yield Finding("error", Kind.TOPICS_NOT_APPLIED, finding.file, message=text)


def created(
    loaded: Sequence[LoadedDirectory], taken: Collection[str], state: ClusterState, node: BrokerNode
) -> Iterator[tuple[Place, str]]:
    """Partitions that should be in these directories and are not, with the path of the directory; a broker begins them
    again, empty. One that the metadata has in a directory that is gone begins in one of the others. ``taken``: paths of
    replicas that were being moved and take the partition's name; others do not count."""
    there = {(each.topic, each.partition) for each in loaded if each.state == "live" or each.path in taken}
    for (topic_id, number), row in state.partitions.items():
        place = state.topics.get(topic_id, ""), number
        if place in there or node.node_id not in row["replicas"]:
            continue
        assigned = _assigned(row, node)
        paths = [path for path, directory_id in node.directory_ids.items() if assigned == directory_id]
        for path in paths or node.directory_ids:
            yield place, path
            break


def promoted(
    loaded: Sequence[LoadedDirectory], state: ClusterState, node: BrokerNode
) -> Iterator[tuple[str, str | None]]:
    """Replicas that were being moved into the directory that the metadata has them in, and that take their name there;
    with the replica in another directory, if there is one, which is deleted
    (``LogManager.findAbandonedFutureLogs``, 4.4.0)."""
    live = {(each.topic, each.partition): each for each in loaded if each.state == "live"}
    for each in loaded:
        if each.state == "future" and stray(each, state, node) is None and is_assigned_here(each, state, node):
            current = live.get((each.topic, each.partition))
            if current is None or _parent(current) != _parent(each):
                yield each.path, None if current is None else current.path


def overwritten(loaded: Sequence[LoadedDirectory], created: Collection[tuple[Place, str]]) -> Iterator[str]:
    """Replicas that were being moved from a directory that is gone. A broker begins that again, empty, goes on with the
    move, and truncates the replica to what it is moved from: all its records are lost (seen with 4.4.0)."""
    begun = {place for place, _ in created}
    for each in loaded:
        if each.state == "future" and (each.topic, each.partition) in begun:
            yield each.path


def check_future(loaded: Sequence[LoadedDirectory], state: ClusterState, node: BrokerNode) -> Iterator[Finding]:
    """A replica that was being moved into a directory which has it already: a broker fails to give it its name."""
    live = {(each.topic, each.partition, _parent(each)): each for each in loaded if each.state == "live"}
    for each in loaded:
        is_here = each.state == "future" and is_assigned_here(each, state, node)
        if is_here and (each.topic, each.partition, _parent(each)) in live:
            text = f"{each.topic}-{each.partition} is in this directory already, so that a broker cannot rename this"
            yield Finding("error", Kind.FUTURE_REPEATED, each.path, message=text)


def is_assigned_here(each: LoadedDirectory, state: ClusterState, node: BrokerNode) -> bool:
    """Return whether the metadata has a replica in the directory of the broker that it is in."""
    assigned = _assigned(state.partitions.get((each.topic_id or "", each.partition)), node)
    return assigned is not None and assigned == node.directory_ids.get(_parent(each))


def _parent(each: LoadedDirectory) -> str:
    return each.path.rstrip("/").rpartition("/")[0]


def _assigned(row: Row | None, node: BrokerNode) -> str | None:
    """The ID of the directory that a replica is in, if the metadata says one."""
    if row is None or node.node_id not in row["replicas"]:
        return None
    at = row["replicas"].index(node.node_id)
    found = row["directories"][at] if at < len(row["directories"]) else ""
    return found if found and not is_reserved(found) else None
