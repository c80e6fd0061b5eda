"""What one disk of a cluster has: whose log directory it is, its partitions, and its replica of the metadata."""

from __future__ import annotations

from dataclasses import dataclass, field

from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.jobs.cluster.metadata_replicas import MetadataReplica, load_replica
from brokerless.jobs.directory_state import DirectoryState, load_directory_state, running_broker
from brokerless.jobs.restart.directory_files import load_properties
from brokerless.log import names
from brokerless.log.checkpoint.meta_properties import MetaProperties
from brokerless.log.checkpoint.partition_metadata import load_partition_metadata
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.offset_gaps import missing_logs
from brokerless.tables.partition_reader import PartitionReader


@dataclass(frozen=True, slots=True)
class DiskReplica:
    """A partition's directory. ``topic_id``: by ``partition.metadata``, if that is there. ``end_offset``: the offset
    after the last one, by headers."""

    paths: PartitionPath
    topic: str
    partition: int
    state: names.PartitionState
    topic_id: str | None
    start_offset: int | None
    end_offset: int | None
    size: int


@dataclass(frozen=True, slots=True)
class Disk:
    """One log directory. ``properties``: None without a ``meta.properties``. ``metadata``: None without a replica.
    ``checkpoints``: and the mark of a clean stop."""

    path: str
    properties: MetaProperties | None
    is_running: bool
    was_clean: bool
    replicas: tuple[DiskReplica, ...]
    metadata: MetadataReplica | None
    findings: tuple[Finding, ...]
    checkpoints: DirectoryState = field(default_factory=DirectoryState)

    @property
    def node_id(self) -> int | None:
        return None if self.properties is None else self.properties.node_id

    @property
    def directory_id(self) -> str | None:
        return None if self.properties is None else self.properties.directory_id


def load_disk(directory: LogDirectory, max_batch_bytes: int | None = None) -> Disk:
    """Reads a disk's metadata files, the last headers of its partitions, and its replica of the metadata. What of it
    cannot be read is in ``findings``."""
    state = load_directory_state(directory)
    properties = load_properties(directory)
    findings = [*state.findings, *(() if properties is None else properties.findings)]
    if properties is None:
        text = "there is no meta.properties: which cluster and node this was of is not known"
        findings.append(Finding("warning", Kind.META_PROPERTIES_MISSING, directory.path, message=text))
    is_running = running_broker(state) is not None
    if is_running:
        text = "a broker is running on this directory: what is said here is of a moment of its work"
        findings.append(Finding("warning", Kind.BROKER_RUNNING, directory.path, message=text))
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
            findings.append(Finding("error", Kind.UNREADABLE_FILE, paths.path, message=str(error)))
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
    reader = PartitionReader(paths)
    topic_id = load_partition_metadata(paths.location / names.PARTITION_METADATA).topic_id
    return DiskReplica(
        paths,
        topic,
        partition,
        state=paths.state,
        topic_id=topic_id,
        start_offset=reader.start_offset,
        end_offset=reader.end_offset,
        size=paths.size,
    )
