"""What one disk of a cluster has: whose log directory it is, its partitions, and its replica of the metadata."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from brokerless.clusters.directory_state import (
    DirectoryState,
    load_directory_state,
    moment_of_a_broker,
    no_meta_properties,
    running_broker,
)
from brokerless.clusters.metadata_replicas import MetadataReplica, load_replica
from brokerless.clusters.placement import Absent, BrokerNode, Placement, absent, place
from brokerless.clusters.start.directory_files import load_properties
from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding
from brokerless.internals.metadata.cluster import Cluster
from brokerless.log import names
from brokerless.log.checkpoint.meta_properties import MetaProperties
from brokerless.log.checkpoint.partition_metadata import load_partition_metadata
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.offset_gaps import missing_logs
from brokerless.log.seek import end_offset

if TYPE_CHECKING:
    from brokerless.log.backups.state import SnapshotState


@dataclass(frozen=True, slots=True)
class DiskReplica:
    """A partition's directory."""

    paths: PartitionPath
    topic: str
    partition: int
    state: names.PartitionState
    topic_id: str | None
    """The ID in ``partition.metadata``, if that is there."""
    start_offset: int | None
    end_offset: int | None
    """The offset after the last one, by headers."""
    size: int
    corruption: Finding | None = None
    """The finding about ``partition.metadata``; None if that is intact."""
    end_in_log: int | None = None
    """The end offset of the log on the disk, where the replica is made to end before that, at ``end_offset``."""
    markers: tuple[bytes, ...] = ()
    """Batches at the end of such a replica, which abort the transactions that it leaves open; each has one offset."""

    @property
    def path(self) -> str:
        return self.paths.path


@dataclass(frozen=True, slots=True)
class Disk:
    """One log directory."""

    path: str
    properties: MetaProperties | None
    """None without a ``meta.properties``."""
    is_running: bool
    was_clean: bool
    replicas: tuple[DiskReplica, ...]
    metadata: MetadataReplica | None
    """None without a replica of the cluster's metadata."""
    findings: tuple[Finding, ...]
    checkpoints: DirectoryState = field(default_factory=DirectoryState)
    """The checkpoints, and the mark of a clean stop."""
    snapshot: SnapshotState | None = None
    """The backup's snapshot that this is, whose logs are those that count; None for other directories."""

    @property
    def node_id(self) -> int | None:
        return None if self.properties is None else self.properties.node_id

    @property
    def is_snapshot(self) -> bool:
        return self.snapshot is not None

    @property
    def directory_id(self) -> str | None:
        return None if self.properties is None else self.properties.directory_id


def refuse_other_paths(directory: LogDirectory) -> None:
    """Raises :class:`UsageError` for what is no log directory."""
    if directory.kind != "log-directory":
        text = "this is not a log directory; give the directories of log.dirs, one a disk"
        raise UsageError(f"{directory.path}: {text}")


def load_disk(directory: LogDirectory, max_batch_bytes: int | None = None) -> Disk:
    """Reads a disk's metadata files, the last headers of its partitions, and its replica of the metadata. What of it
    cannot be read is in ``findings``."""
    state = load_directory_state(directory)
    properties = load_properties(directory)
    findings = [*state.findings, *(() if properties is None else properties.findings)]
    if properties is None:
        findings.append(no_meta_properties(directory.path).in_scope("cluster"))
    is_running = running_broker(state) is not None
    if is_running:
        findings.append(replace(moment_of_a_broker(directory.path), severity="warning"))
    replicas: list[DiskReplica] = []
    metadata = None
    for paths in (*directory.partitions, *directory.others):
        if paths.topic is None or paths.partition is None or paths.is_unfinished:
            continue
        if paths.unreadable is not None:
            findings.append(paths.unreadable)
            continue
        try:
            if paths.topic == names.CLUSTER_METADATA:
                metadata = load_replica(paths, max_batch_bytes)
                findings += metadata.damage
            else:
                findings += (finding for _, finding in missing_logs(paths))
                replicas.append(_load_partition(paths, paths.topic, paths.partition))
        except UnreadableError as error:
            findings.append(error.finding(paths.path))
    return Disk(
        directory.path,
        properties,
        is_running,
        was_clean=state.was_clean,
        replicas=tuple(replicas),
        metadata=metadata,
        findings=tuple(findings),
        checkpoints=state,
    )


def _load_partition(paths: PartitionPath, topic: str, partition: int) -> DiskReplica:
    reader = paths
    metadata = load_partition_metadata(paths.location / names.PARTITION_METADATA)
    has_file = paths.partition_metadata is not None
    return DiskReplica(
        paths,
        topic,
        partition,
        state=paths.state,
        topic_id=metadata.topic_id,
        start_offset=reader.start_offset,
        end_offset=end_offset(reader),
        size=paths.size,
        corruption=next(iter(metadata.findings), None) if has_file else None,
    )


def place_replicas(disks: Sequence[Disk], cluster: Cluster | None) -> list[Placement]:
    """Judge all replicas, node by node, as a broker starts with all its disks at once; disks whose node is not known
    are judged each by itself."""
    return [each for node, own in broker_nodes(disks) for each in place(own, cluster, node)]


def absent_replicas(disks: Sequence[Disk], placed: Sequence[Placement], cluster: Cluster) -> Iterator[Absent]:
    """Yield the replicas that the disks of their nodes do not have, of the nodes all of whose disks are there."""
    given = {each.directory_id for each in disks}
    for node, _ in broker_nodes(disks):
        registered = cluster.brokers.get(-1 if node.node_id is None else node.node_id)
        if registered is not None and given >= set(registered["logDirs"]):
            yield from absent([each for each in placed if each.node == node], cluster, node)


def broker_nodes(disks: Sequence[Disk]) -> Iterator[tuple[BrokerNode, list[DiskReplica]]]:
    """Yield the nodes that disks are of, with their replicas."""
    by_node: dict[int | str, list[Disk]] = {}
    for each in disks:
        by_node.setdefault(each.path if each.node_id is None else each.node_id, []).append(each)
    for own in by_node.values():
        node = BrokerNode(own[0].node_id, {each.path.rstrip("/"): each.directory_id for each in own})
        yield node, [replica for each in own for replica in each.replicas]


def cluster_id_of(disks: Sequence[Disk]) -> str | None:
    """Return the one cluster id of the disks; None where none says. Raises :class:`UsageError` for several."""
    found = {each.properties.cluster_id: each.path for each in disks if each.properties is not None}
    found.pop(None, None)
    if len(found) > 1:
        (one, first), (other, second) = list(found.items())[:2]
        text = f"these disks are of several clusters: {first} of {one}, {second} of {other}"
        raise UsageError(f"{text}; give those of one")
    for each in disks:
        if each.properties is not None and each.properties.findings:
            first = each.properties.findings[0]
            raise UnreadableError("", str(first), first.kind)
    return next(iter(found), None)


def topic_ids_of(disks: Sequence[Disk]) -> dict[str, str]:
    """Return the id of each topic by ``partition.metadata``: where there are several, that of most directories."""
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for disk in disks:
        for each in disk.replicas:
            if each.state == "live" and each.topic_id is not None:
                counts[each.topic][each.topic_id] += 1
    return {topic: max(sorted(ids), key=lambda known: ids[known]) for topic, ids in counts.items()}
