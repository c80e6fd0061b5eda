"""Describes a cluster by its disks: its identity, nodes, topics and groups, and where the disks disagree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from brokerless.clusters.directory_state import compare_topic_ids, no_metadata
from brokerless.clusters.disk import Disk, DiskReplica, absent_replicas, load_disk, place_replicas, refuse_other_paths
from brokerless.clusters.metadata_replicas import MetadataReplica, best_of, compare_replicas
from brokerless.clusters.placement import Absent, Placement, Verdict
from brokerless.clusters.start.directory_files import check_directory_ids
from brokerless.clusters.start.job import RecoveredLogs
from brokerless.clusters.start.remote_deletions import deletion_of, remote_segments_deleted
from brokerless.errors import UsageError
from brokerless.findings import Finding, Kind
from brokerless.internals.groups.positions import GroupPosition, lost_positions, read_positions
from brokerless.internals.metadata.cluster import Cluster, cluster_rows
from brokerless.internals.records import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from brokerless.internals.remote.storage import read_remote_storage
from brokerless.internals.schemas import STATE
from brokerless.internals.tables import state_rows
from brokerless.kafka_names import TopicPartition
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.names import REMOTE_LOG_METADATA
from brokerless.progress import Done, ignore
from brokerless.schemas import NAME, TIMESTAMP
from brokerless.text import short_html, short_repr
from brokerless.values import Row

SCHEMAS: Mapping[str, pa.Schema] = {
    "cluster": pa.schema(
        {
            "clusterId": pa.string(),
            "metadataVersion": pa.int16(),
            "kraftVersion": pa.int16(),
            "voters": pa.list_(pa.int32()),
            "metadataReplica": NAME,
            "endOffset": pa.int64(),
            "leaderEpoch": pa.int32(),
            "lastTimestamp": TIMESTAMP,
        }
    ),
    "disks": pa.schema(
        {
            "path": NAME,
            "clusterId": pa.string(),
            "nodeId": pa.int32(),
            "directoryId": pa.string(),
            "wasClean": pa.bool_(),
            "partitions": pa.int32(),
            "sizeInBytes": pa.int64(),
            "metadataEndOffset": pa.int64(),
            "metadataEpoch": pa.int32(),
            "isMetadataIntact": pa.bool_(),
        }
    ),
    "nodes": pa.schema(
        {
            "nodeId": pa.int32(),
            "roles": pa.list_(pa.string()),
            "isVoter": pa.bool_(),
            "rack": pa.string(),
            "endPoints": pa.list_(pa.string()),
            "directories": pa.list_(pa.string()),
            "disks": pa.list_(NAME),
        }
    ),
    "topics": pa.schema(
        {
            "topic": pa.string(),
            "topicId": pa.string(),
            "partitions": pa.int32(),
            "replicas": pa.int32(),
            "replicasOnDisks": pa.int32(),
            "sizeInBytes": pa.int64(),
            "isInMetadata": pa.bool_(),
        }
    ),
    "partitions": pa.schema(
        {
            "topic": pa.string(),
            "topicId": pa.string(),
            "partition": pa.int32(),
            "leader": pa.int32(),
            "leaderEpoch": pa.int32(),
            "replicas": pa.list_(pa.int32()),
            "isr": pa.list_(pa.int32()),
            "disks": pa.list_(NAME),
            "endOffset": pa.int64(),
        }
    ),
    **{name: STATE[name] for name in ("configs", "acls", "users", "quotas", "features", "groups", "offsets")},
}
"""The tables of a description. In ``topics``, ``replicas`` are those of the metadata; of the largest log on the disks
are ``sizeInBytes`` and, in ``partitions``, ``endOffset``."""


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster that some disks were of."""

    rows: Mapping[str, Sequence[Row]]
    """Of each table in :data:`SCHEMAS`; timestamps in ms."""
    disks: tuple[Disk, ...]
    findings: tuple[Finding, ...]
    """Where disks disagree, what is on none of them, and what the cluster does not know."""

    __repr__ = short_repr
    _repr_html_ = short_html

    @property
    def cluster_id(self) -> str | None:
        return self.rows["cluster"][0]["clusterId"]

    @property
    def metadata(self) -> MetadataReplica | None:
        """The replica that everything is read from: the one with the longest valid log."""
        return best_of(each.metadata for each in self.disks if each.metadata is not None)

    def table(self, name: str) -> pa.Table:
        """Return a table in Arrow's form. Raises :class:`UsageError` for an unknown one."""
        if name not in SCHEMAS:
            raise UsageError(f"there is no table {name!r}; there are {', '.join(SCHEMAS)}")
        return pa.Table.from_pylist(list(self.rows[name]), SCHEMAS[name])


def describe_cluster(
    directories: Sequence[LogDirectory], *, max_batch_bytes: int | None = None, done: Done = ignore
) -> ClusterDescription:
    """Describes the cluster of some log directories, each a disk; nothing is changed. ``done`` is called with bytes as
    disks are read. Raises :class:`UsageError` for anything but log directories."""
    disks: list[Disk] = []
    for each in directories:
        refuse_other_paths(each)
        disks.append(load_disk(each, max_batch_bytes))
        done(sum(partition.size for partition in each.partitions))
    best = best_of(each.metadata for each in disks if each.metadata is not None)
    findings = [finding for each in disks for finding in each.findings]
    remote: list[Finding] = []
    cluster = Cluster()
    if best is None:
        findings.append(no_metadata(disks[0].path))
    else:
        cluster = best.load_cluster(max_batch_bytes)
        others = [each.metadata for each in disks if each.metadata is not None and each.metadata is not best]
        findings += compare_replicas(best, others)
    findings += _compare_identities(disks)
    findings += check_placements(disks, cluster if best is not None else None)
    started = _with_promoted(disks, cluster if best is not None else None)
    if best is not None:
        remote += _remote_deletions(started, cluster, max_batch_bytes)
    state = cluster_rows(cluster)
    rows: dict[str, list[Row]] = {
        "cluster": [_cluster_row(disks, best, cluster)],
        "disks": [_disk_row(each) for each in disks],
        "nodes": list(_node_rows(disks, best, cluster)),
        "topics": list(_topic_rows(started, cluster)),
        "partitions": list(_partition_rows(started, cluster)),
        **{name: state[name] for name in ("configs", "acls", "users", "quotas", "features")},
        **state_rows(_longest_replicas(started, CONSUMER_OFFSETS), ("groups", "offsets"), ignore, max_batch_bytes),
    }
    findings += _lost_positions(started, cluster, max_batch_bytes)
    return ClusterDescription(rows, tuple(disks), (*remote, *findings))


def _with_promoted(disks: Sequence[Disk], cluster: Cluster | None) -> list[Disk]:
    """Return the disks as a start leaves them: a replica that was being moved, and that the cluster's metadata has in
    its new directory, takes its partition's name there, and the one that it replaces goes."""
    if cluster is None or not any(each.state == "future" for disk in disks for each in disk.replicas):
        return [*disks]
    promoted = [each for each in place_replicas(disks, cluster) if each.verdict == Verdict.PROMOTED]
    renamed = {each.replica.path for each in promoted}
    gone = {each.other.path for each in promoted if each.other is not None}
    return [
        replace(
            disk,
            replicas=tuple(
                replace(each, state="live") if each.path in renamed else each
                for each in disk.replicas
                if each.path not in gone
            ),
        )
        for disk in disks
    ]


def _live(disks: Iterable[Disk]) -> Iterator[tuple[Disk, DiskReplica]]:
    for disk in disks:
        for each in disk.replicas:
            if each.state == "live":
                yield disk, each


def _topic_id(replica: DiskReplica, ids: Mapping[str, str]) -> str | None:
    """The topic's ID; by its name where ``partition.metadata`` is there and cannot be parsed, as such a replica is
    neither stray nor begun again."""
    is_corrupt = replica.topic_id is None and replica.paths.partition_metadata is not None
    return ids.get(replica.topic) if is_corrupt else replica.topic_id


def _compare_identities(disks: Sequence[Disk]) -> Iterator[Finding]:
    known = [each.properties for each in disks if each.properties is not None and not each.properties.findings]
    for each in known[1:]:
        if each.cluster_id != known[0].cluster_id:
            text = f"this disk is of another cluster than {known[0].file}"
            expected, found = str(known[0].cluster_id), str(each.cluster_id)
            yield Kind.CLUSTER_ID_DIFFERS.at(each.file, text, expected=expected, found=found)
    yield from check_directory_ids(known, "too: one is a copy of the other")


def check_placements(disks: Sequence[Disk], cluster: Cluster | None) -> Iterator[Finding]:
    """Yield where replicas are not as the cluster's metadata has them, and which ones are missing: partitions that no
    disk has, and replicas of the nodes all of whose disks are there."""
    placed = place_replicas(disks, cluster)
    served = _served(placed)
    for each in placed:
        others = served.get(each.place, ())
        finding = each.of_cluster(is_spare=any(_reaches(other, each) for other in others if other is not each))
        if finding is not None and finding.severity != "info":
            yield finding
    if cluster is None:
        yield from compare_topic_ids(
            (each.place[0], each.replica.topic_id, each.replica.path)
            for each in placed
            if each.replica.topic_id and each.replica.state == "live"
        )
        return
    nowhere: set[TopicPartition] = set()
    for topic_id, partitions in cluster.partitions.items():
        for number, row in partitions.items():
            at = cluster.topics.get(topic_id, topic_id), number
            if at not in served:
                nowhere.add(at)
                first = row["replicas"][0] if row["replicas"] else -1
                yield Absent(*at, first, disks[0].path, row, is_nowhere=True).finding
    for each in absent_replicas(disks, placed, cluster):
        if each.place not in nowhere:
            yield each.finding.in_scope("cluster")


def _served(placed: Iterable[Placement]) -> dict[TopicPartition, list[Placement]]:
    """The replicas that brokers have of each partition of the metadata after a start; those in a directory whose
    ``partition.metadata`` cannot be parsed are neither stray nor begun again."""
    found: dict[TopicPartition, list[Placement]] = defaultdict(list)
    for each in placed:
        if each.verdict in (Verdict.HERE, Verdict.PROMOTED, Verdict.OTHER_DIRECTORY, Verdict.ID_CORRUPT):
            found[each.place].append(each)
    return found


def _reaches(other: Placement, each: Placement) -> bool:
    """Return whether another replica goes as far."""
    assert isinstance(other.replica, DiskReplica)
    assert isinstance(each.replica, DiskReplica)
    return (other.replica.end_offset or 0) >= (each.replica.end_offset or 0)


def _remote_deletions(disks: Sequence[Disk], cluster: Cluster, max_batch_bytes: int | None) -> Iterator[Finding]:
    """Remote segments of tiered partitions that no disk has: the leader of the new, empty replica deletes them."""
    readers = [each.paths for _, each in _live(disks) if each.topic == REMOTE_LOG_METADATA]
    storage = read_remote_storage(cluster, readers, max_batch_bytes)
    there = {(each.topic_id, each.partition) for _, each in _live(disks)}
    for (topic_id, number), segments in storage.segments.items():
        name = storage.topics.get(topic_id)
        if name is not None and segments and (topic_id, number) not in there:
            yield remote_segments_deleted(disks[0].path, [deletion_of(name, number, segments)])


def _cluster_row(disks: Sequence[Disk], best: MetadataReplica | None, cluster: Cluster) -> Row:
    ids = [each.properties.cluster_id for each in disks if each.properties is not None]
    return {
        "clusterId": max((each for each in ids if each is not None), key=ids.count, default=None),
        "metadataVersion": cluster.features.get("metadata.version"),
        "kraftVersion": None if best is None else best.kraft_version,
        "voters": [] if best is None else [each["voterId"] for each in best.voters],
        "metadataReplica": None if best is None else best.paths.path,
        "endOffset": None if best is None else best.end_offset,
        "leaderEpoch": None if best is None else best.epoch,
        "lastTimestamp": None if best is None else best.timestamp,
    }


def _disk_row(disk: Disk) -> Row:
    metadata = disk.metadata
    return {
        "path": disk.path,
        "clusterId": None if disk.properties is None else disk.properties.cluster_id,
        "nodeId": disk.node_id,
        "directoryId": disk.directory_id,
        "wasClean": disk.was_clean,
        "partitions": len(disk.replicas),
        "sizeInBytes": sum(each.size for each in disk.replicas),
        "metadataEndOffset": None if metadata is None else metadata.end_offset,
        "metadataEpoch": None if metadata is None else metadata.epoch,
        "isMetadataIntact": None if metadata is None else not metadata.damage,
    }


def _node_rows(disks: Sequence[Disk], best: MetadataReplica | None, cluster: Cluster) -> Iterator[Row]:
    voters = set[Any]() if best is None else {each["voterId"] for each in best.voters}
    given: set[Any] = {each.node_id for each in disks if each.node_id is not None}
    known: set[Any] = {*cluster.brokers, *cluster.controllers, *voters, *given}
    for node in sorted(known):
        broker, controller = cluster.brokers.get(node), cluster.controllers.get(node)
        roles = [name for name, row in (("broker", broker), ("controller", controller)) if row is not None]
        ends = [each for row in (broker, controller) if row is not None for each in row["endPoints"]]
        yield {
            "nodeId": node,
            "roles": roles if controller is not None or node not in voters else [*roles, "controller"],
            "isVoter": node in voters,
            "rack": None if broker is None else broker.get("rack"),
            "endPoints": [f"{each['name']}://{each['host']}:{each['port']}" for each in ends],
            "directories": [] if broker is None else broker["logDirs"],
            "disks": [each.path for each in disks if each.node_id == node],
        }


def _topic_rows(disks: Sequence[Disk], cluster: Cluster) -> Iterator[Row]:
    sizes: dict[tuple[str, str | None], dict[int, int]] = defaultdict(dict)
    counts: dict[tuple[str, str | None], int] = defaultdict(int)
    for _, each in _live(disks):
        name = each.topic, each.topic_id
        sizes[name][each.partition] = max(each.size, sizes[name].get(each.partition, 0))
        counts[name] += 1
    known = {(topic, topic_id) for topic_id, topic in cluster.topics.items()}
    for topic, topic_id in sorted({*known, *counts}, key=lambda each: (each[0], each[1] or "")):
        partitions = cluster.partitions.get(topic_id or "", {})
        own = sizes[topic, topic_id]
        yield {
            "topic": topic,
            "topicId": topic_id,
            "partitions": len(partitions) or len(own),
            "replicas": sum(len(row["replicas"]) for row in partitions.values()) if partitions else None,
            "replicasOnDisks": counts[topic, topic_id],
            "sizeInBytes": sum(own.values()),
            "isInMetadata": (topic, topic_id) in known,
        }


def _partition_rows(disks: Sequence[Disk], cluster: Cluster) -> Iterator[Row]:
    places: dict[tuple[str, str | None, int], list[tuple[str, int | None]]] = defaultdict(list)
    for disk, each in _live(disks):
        places[each.topic, each.topic_id, each.partition].append((disk.path, each.end_offset))
    for topic_id, partitions in cluster.partitions.items():
        for number in partitions:
            places[cluster.topics.get(topic_id, ""), topic_id, number] += []
    for topic, topic_id, number in sorted(places, key=lambda each: (each[0], each[1] or "", each[2])):
        row = cluster.partitions.get(topic_id or "", {}).get(number, {})
        found = places[topic, topic_id, number]
        yield {
            "topic": topic or None,
            "topicId": topic_id,
            "partition": number,
            **{name: row.get(name) for name in ("leader", "leaderEpoch", "replicas", "isr")},
            "disks": [path for path, _ in found],
            "endOffset": max((end for _, end in found if end is not None), default=None),
        }


def _lost_positions(disks: Sequence[Disk], cluster: Cluster, max_batch_bytes: int | None) -> Iterator[Finding]:
    """Yield the positions of groups past the end that the longest replica has after a start. A partition that is on no
    disk ends at 0."""
    ids = {each.topic: each.topic_id for _, each in _live(disks) if each.topic_id is not None}
    ids |= {name: topic_id for topic_id, name in cluster.topics.items()}
    replicas: dict[TopicPartition, list[DiskReplica]] = defaultdict(list)
    for _, each in _live(disks):
        if _topic_id(each, ids) == ids.get(each.topic):
            replicas[each.topic, each.partition].append(each)
    recovered = RecoveredLogs({each.path: each.checkpoints for each in disks})
    known = {(cluster.topics.get(topic_id, ""), number) for topic_id, number in cluster.rows_by_id()}

    def limits_of(position: GroupPosition) -> tuple[int, int] | None:
        place = position.topic, position.partition
        limits = [
            recovered.limits(each.paths) or (each.start_offset or 0, each.end_offset or 0) for each in replicas[place]
        ]
        return max(limits, key=lambda each: each[1], default=(0, 0) if place in known else None)

    own = [each for topic in (CONSUMER_OFFSETS, SHARE_GROUP_STATE) for each in _longest_replicas(disks, topic)]
    topics = {topic_id: name for name, topic_id in ids.items()}
    paths = {(each.topic, each.partition): each.path for each in own}
    positions = read_positions(own, topics, ignore, max_batch_bytes=max_batch_bytes, end_of=recovered.end_of)
    for each in lost_positions(positions, limits_of):
        yield each.finding(paths[each.position.source])


def _longest_replicas(disks: Sequence[Disk], topic: str) -> Iterator[PartitionPath]:
    """Yield the replica with the longest log of each partition of a topic."""
    found = [each for _, each in _live(disks) if each.topic == topic]
    found.sort(key=lambda each: (each.partition, -(each.end_offset or 0)))
    for number, each in enumerate(found):
        if not number or found[number - 1].partition != each.partition:
            yield each.paths
