"""Finds the log directories of stopped brokers that get each partition, by their cluster's metadata.

A broker serves a partition only where the metadata assigns it, with the ID that the metadata knows (KIP-516), and in
the log directory that the metadata says (KIP-858). All replicas have to be written: one that is not, and leads at the
next start, makes all others truncate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from brokerless.clusters.directory_state import load_directory_state, running_broker
from brokerless.clusters.metadata_replicas import best_of, load_replica
from brokerless.clusters.placement import assigned_directory
from brokerless.clusters.start.directory_files import load_properties
from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding, Kind
from brokerless.internals.metadata.cluster import Cluster
from brokerless.log import names
from brokerless.log.directory import LogDirectory, PartitionPath, resolve
from brokerless.log.settings.topic import TopicSettings
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import is_remote, local

_DEFAULTS = {"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"}
"""Kafka's; a broker's ``server.properties`` may have others."""


@dataclass(frozen=True, slots=True)
class TargetDisk:
    """A log directory that is written to."""

    path: Path
    directory: LogDirectory
    node_id: int
    directory_id: str | None


@dataclass(frozen=True, slots=True)
class StoppedCluster:
    """The log directories of stopped brokers, and what their cluster knows."""

    disks: tuple[TargetDisk, ...]
    cluster: Cluster
    metadata_path: str
    settings: Mapping[str, TopicSettings]

    def settings_of(self, topic: str) -> TopicSettings:
        return {**_DEFAULTS, **self.settings.get(topic, {})}


@dataclass(frozen=True, slots=True)
class PartitionTarget:
    """The place that a partition is written to."""

    topic: str
    partition: int
    topic_id: str
    leader_epoch: int
    """The partition's leader epoch by the metadata, which batches may not exceed."""
    replicas: tuple[TargetDisk, ...]
    existing: Mapping[Path, bool]
    """The directories that have the partition already, and whether it has records there."""

    @property
    def name(self) -> str:
        return names.partition_directory(self.topic, self.partition)


def load_target(
    paths: Sequence[str], metadata: str | None = None, max_batch_bytes: int | None = None
) -> StoppedCluster:
    """Read the stopped cluster whose log directories ``paths`` are. ``metadata`` is a log directory of the same cluster
    to read its metadata from, where ``paths`` have none.

    Raises :class:`UsageError` for what is no stopped broker's log directory, or of several clusters, and
    UnreadableError.
    """
    disks: list[TargetDisk] = []
    clusters: dict[str | None, str] = {}
    for path in paths:
        if is_remote(path):
            raise UsageError(f"{path}: give log directories of this machine; a broker has no others")
        directory = _resolve(path)
        properties = load_properties(directory)
        if properties is None or properties.findings or properties.node_id is None:
            text = "this is no log directory of a broker: it has no meta.properties that can be read"
            raise UsageError(f"{path}: {text}")
        if running_broker(load_directory_state(directory)) is not None:
            raise UsageError(f"{path}: a broker is running on this directory; stop it, and all others with replicas")
        clusters.setdefault(properties.cluster_id, path)
        disks.append(TargetDisk(Path(local(path)), directory, properties.node_id, properties.directory_id))
    if len(clusters) > 1:
        raise UsageError(f"{' and '.join(clusters.values())} are of several clusters; restore into one at a time")
    others = [] if metadata is None else [_resolve(metadata)]
    replicas = [
        load_replica(each, max_batch_bytes)
        for directory in (*(disk.directory for disk in disks), *others)
        for each in directory.partitions
        if each.topic == names.CLUSTER_METADATA
    ]
    best = best_of(replicas)
    if best is None:
        text = "none of these directories has __cluster_metadata-0, which says where partitions belong"
        raise UsageError(f"{paths[0]}: {text}; give one of the cluster's that has, with --metadata")
    cluster = best.load_cluster(max_batch_bytes)
    return StoppedCluster(tuple(disks), cluster, best.paths.path, cluster.settings_by_topic())


def _resolve(path: str) -> LogDirectory:
    directory = resolve(Location(path))
    if directory.kind != "log-directory":
        raise UsageError(f"{path}: give the log directory of a stopped broker, with its meta.properties")
    return directory


def place(
    target: StoppedCluster, topic: str, readers: Iterable[PartitionPath], configs: TopicSettings | None, count: int
) -> tuple[list[PartitionTarget], list[Finding]]:
    """Return where the partitions of a topic go, and why some cannot. ``configs``, ``count``: its settings and
    partitions in the source, for the command that creates it."""
    topic_id = target.cluster.id_of(topic)
    if topic_id is None:
        own = "".join(f" --config {name}={value}" for name, value in sorted((configs or {}).items()))
        text = (
            f"the cluster has no topic {topic}. Start it, and create the topic: kafka-topics --create --topic {topic} "
        )
        text += (
            f"--partitions {count}{own}; it gets an ID of its own, which is written here. Stop it, and run this again"
        )
        return [], [Kind.TARGET_TOPIC_MISSING.at(target.metadata_path, text)]
    found: list[PartitionTarget] = []
    findings: list[Finding] = []
    for reader in readers:
        number = reader.partition or 0
        row = target.cluster.row(topic, number)
        if row is None:
            text = (
                f"the cluster has no partition {number} of {topic}. Start it, and add it: kafka-topics --alter --topic "
            )
            text += f"{topic} --partitions {count}; then stop it, and run this again"
            findings.append(Kind.TARGET_PARTITION_MISSING.at(target.metadata_path, text))
            continue
        name = names.partition_directory(topic, number)
        missing = sorted(set(row["replicas"]) - {disk.node_id for disk in target.disks})
        if missing:
            text = (
                f"{name} has replicas on the nodes {', '.join(map(str, missing))}, too, whose log directories are not "
            )
            text += "given: one of them may lead, and all others would truncate what is restored. Give them with --to"
            findings.append(Kind.REPLICAS_NOT_GIVEN.at(target.metadata_path, text))
            continue
        chosen = [_disk_of(target, node, assigned_directory(row, node), name) for node in row["replicas"]]
        existing = {disk.path: _has_records(disk.path / name) for disk in chosen if (disk.path / name).exists()}
        found.append(
            PartitionTarget(
                topic, number, topic_id, leader_epoch=row["leaderEpoch"], replicas=tuple(chosen), existing=existing
            )
        )
    return found, findings


def _disk_of(target: StoppedCluster, node: int, directory_id: str | None, name: str) -> TargetDisk:
    """The log directory of a node that has the partition, or that the metadata says, or else its first one."""
    own = [disk for disk in target.disks if disk.node_id == node]
    there = [disk for disk in own if (disk.path / name).exists()]
    assigned = [disk for disk in own if disk.directory_id is not None and disk.directory_id == directory_id]
    return (there or assigned or own)[0]


def _has_records(path: Path) -> bool:
    """Return whether a partition has anything that would be lost; one that cannot be read counts as such."""
    try:
        found = resolve(Location(str(path)))
        return any(each.size for partition in found.partitions for each in partition.segments)
    except UnreadableError:
        return True
