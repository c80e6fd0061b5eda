"""Plans a backup: which replicas of each partition there are, what the snapshot before has of it, what is missing."""

from __future__ import annotations

import base64
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from brokerless.clusters.disk import (
    Disk,
    DiskReplica,
    cluster_id_of,
    load_disk,
    place_replicas,
    refuse_other_paths,
    topic_ids_of,
)
from brokerless.clusters.metadata_replicas import MetadataReplica, best_of
from brokerless.clusters.missing_partitions import partition_missing
from brokerless.clusters.placement import NOT_KNOWN, NOT_LIVE, Placement, Verdict
from brokerless.errors import UsageError
from brokerless.findings import Finding, Kind
from brokerless.internals.metadata.cluster import Cluster
from brokerless.jobs.backup.closing import Closed, close_transactions
from brokerless.jobs.backup.cut import BackupCut, is_compacted, is_running, take_cut
from brokerless.jobs.backup.options import BackupOptions
from brokerless.jobs.backup.partition import BackupTask, SourceReplica
from brokerless.jobs.backup.previous import PreviousPartition, previous_of, snapshots_before
from brokerless.jobs.backup.sets.leaders import rows_led_by
from brokerless.jobs.recovered.reading import PartitionFiles, describe_files, list_files_again, up_to
from brokerless.jobs.rewrite.plan import Source
from brokerless.kafka_names import TopicIdPartition
from brokerless.log import names
from brokerless.log.backups.names import SnapshotName
from brokerless.log.backups.place import BackupPlace
from brokerless.log.backups.snapshot import (
    MetadataEnd,
    MissingPartition,
    SnapshotFile,
)
from brokerless.log.commit.partition_writer import output_directory
from brokerless.log.config import DEFAULTS
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.settings.topic import retention_config
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import is_local_within, refuse_repeated
from brokerless.log.tiered.detection import shown_path
from brokerless.log.tiered.writing.encryption import new_data_key
from brokerless.log.tiered.writing.objects import ObjectFormat, UploadPlace
from brokerless.progress import Report


@dataclass(frozen=True, slots=True)
class BackupPlan:
    """The plan of one run: what is read from the disks of a cluster, and where it is stored."""

    place: BackupPlace
    options: BackupOptions
    parent: SnapshotName | None
    """The newest snapshot that can be read; None where there is none."""
    disks: tuple[Disk, ...]
    directories: tuple[LogDirectory, ...]
    cluster_id: str | None
    metadata: MetadataEnd | None
    """Where the metadata of ``cluster_id`` ends; None where no disk has it."""
    metadata_replica: MetadataReplica | None
    tasks: tuple[BackupTask, ...]
    missing: tuple[MissingPartition, ...]
    findings: tuple[Finding, ...]
    is_selection: bool
    """Whether only some topics or partitions were chosen."""
    how: ObjectFormat
    """How objects are written."""
    files: Mapping[str, SnapshotFile]
    """The files of ``parent``, by their SHA-256."""
    cluster: Cluster | None
    cut: BackupCut | None = None
    """The cut of running brokers, whose files are pinned until the plan was run; None where no broker runs."""
    closed: Closed | None = None
    """How far the logs of running brokers are read; None where no broker runs."""
    nodes: frozenset[int] | None = None
    """The nodes whose lead decides what a part of a set has; None for a run that has all."""

    @property
    def size(self) -> int:
        """Bytes to read, at most."""
        return sum(each.size for each in self.tasks)


class _ReplicaOnDisk(NamedTuple):
    """A replica that a partition is read of, and its disk."""

    disk: Disk
    replica: DiskReplica


def plan_backup(sources: Sequence[Source], to: Location, options: BackupOptions) -> BackupPlan:
    """Raises :class:`UsageError` for what are no log directories of one cluster, and for a place that is no backup's,
    or another cluster's; UnreadableError."""
    place = BackupPlace(output_directory(to, [each.directory.path for each in sources]).location)
    directories = [each.directory for each in sources]
    _refuse_directories(directories, place)
    if not any(map(is_running, directories)):
        return _plan(sources, place, options, [load_disk(each, options.max_batch_bytes) for each in directories])
    cut = take_cut(directories, options.max_batch_bytes)
    try:
        now = [
            Source(each, tuple(one for one in each.partitions if _is_wanted(one, options))) for each in cut.directories
        ]
        return _plan(now, place, options, cut.disks, cut=cut)
    except BaseException:
        cut.pinned.close()
        raise


def _is_wanted(paths: PartitionPath, options: BackupOptions) -> bool:
    return paths.topic is not None and options.is_selected(paths.topic, paths.partition or 0)


def _plan(
    sources: Sequence[Source],
    place: BackupPlace,
    options: BackupOptions,
    loaded: Sequence[Disk],
    cut: BackupCut | None = None,
) -> BackupPlan:
    directories = [each.directory for each in sources]
    disks = [
        replace(disk, path=shown_path(directory.location)) for disk, directory in zip(loaded, directories, strict=True)
    ]
    cluster_id, own_nodes = cluster_id_of(disks), frozenset(each.node_id for each in disks if each.node_id is not None)
    findings = [each for disk in disks for each in disk.findings if each.kind != Kind.BROKER_RUNNING]
    snapshots = snapshots_before(place, cluster_id, options, own_nodes, report=findings.append)
    data_key = new_data_key(options.public_keys) if options.public_keys else None
    how = ObjectFormat(compression="heuristic" if options.compress else "none", data_key=data_key)
    best = best_of(each.metadata for each in disks if each.metadata is not None)
    cluster = None
    if best is not None:
        cluster = best.load_cluster(options.max_batch_bytes)
    nodes = _leading(own_nodes, cluster, options, disks[0].path)
    selected = {each.path for source in sources for each in source.partitions}
    left_out: list[Finding] = []
    found = _find_replicas(disks, cluster, cluster_id=cluster_id, selected=selected, report=left_out.append)
    found = (
        found if nodes is None else {place: found[place] for place in found.keys() & rows_led_by(cluster, nodes).keys()}
    )
    # A topic that was made after the metadata was read, or is being deleted; the second look tells.
    findings += [replace(each, severity="info") if cut is not None else each for each in left_out]
    if best is not None and best.paths.path in selected:
        found[names.CLUSTER_METADATA_ID, 0] = [_metadata_of(disks, best)]
    missing = tuple(_missing(cluster, found, options, nodes=nodes, path=disks[0].path, report=findings.append))
    closed = None if cut is None else _close(cut, found, options)
    replacements = place.replacements()
    previous = previous_of(place, snapshots, found, replacements, report=findings.append)
    erased = replacements.erased()
    tasks = tuple(
        _limited(
            replace(
                _task(each, replicas, place, cluster=cluster, previous=previous.get(each), options=options, how=how),
                erased=erased.get(each),
            ),
            cut,
            closed,
        )
        for each, replicas in sorted(found.items(), key=lambda item: (item[1][0].replica.topic, item[0]))
    )  # fmt: skip
    metadata = None
    if best is not None:
        number = next(at for at, disk in enumerate(disks, 1) if disk.metadata is best)
        metadata = MetadataEnd(best.end_offset, best.epoch, number)
    return BackupPlan(
        place, options, next((each.name for each in snapshots), None),
        disks=tuple(disks), directories=tuple(directories),
        cluster_id=cluster_id, metadata=metadata, metadata_replica=best, tasks=tasks, missing=missing,
        findings=tuple(findings), is_selection=_is_selection(sources, cluster, options), how=how,
        files={} if not snapshots else {each.sha256: each for each in snapshots[0].snapshot.files},
        cluster=cluster, cut=cut, closed=closed, nodes=nodes,
    )  # fmt: skip


def _leading(
    nodes: frozenset[int], cluster: Cluster | None, options: BackupOptions, path: str
) -> frozenset[int] | None:
    """Return the nodes whose partitions are backed up; None for all. Raises :class:`UsageError` where nothing says what
    they lead."""
    if options.set_name is None:
        return None
    if cluster is None or not nodes:
        what = "the cluster's metadata is" if cluster is None else "the ID of the node is"
        raise UsageError(f"{path}: --leader-only: {what} not on these disks, so that nobody knows what they lead")
    return nodes


def _close(cut: BackupCut, found: dict[TopicIdPartition, list[_ReplicaOnDisk]], options: BackupOptions) -> Closed:
    """Finds where logs are read to, and takes the listings of those that were opened again for that."""
    replicas = {
        (own[0].replica.topic, number): [each.replica.paths for each in own]
        for (_, number), own in found.items()
        if own[0].replica.topic != names.CLUSTER_METADATA
    }
    closed = close_transactions(cut, replicas, options.max_batch_bytes)
    for own in found.values():
        for at, each in enumerate(own):
            if (paths := closed.paths.get(each.replica.path)) is not None:
                own[at] = _ReplicaOnDisk(each.disk, replace(each.replica, paths=paths))
    return closed


def _limited(task: BackupTask, cut: BackupCut | None, closed: Closed | None) -> BackupTask:
    """A task of the log of running brokers, which is read up to where it ended."""
    place = task.place.topic, task.place.partition
    if cut is None or closed is None or place not in closed.ends:
        return task
    end, cut_at = closed.ends[place], closed.cut_at[place]

    def limited(files: PartitionFiles) -> PartitionFiles:
        is_pinned = any(map(cut.pinned.find_any, files.paths))
        now = list_files_again(files) if end > cut_at and not is_pinned else files
        # The cleaner writes its checkpoint after it was at work.
        return up_to(replace(now, cleaned_until=now.cleaned_until or 0) if task.is_compacted else now, end)

    sources = tuple(replace(each, files=limited(each.files)) for each in task.replicas)
    return replace(task, replicas=sources, cut_at=cut_at, cut_epochs=closed.epochs[place])


def by_expiry(tasks: Sequence[BackupTask], cluster: Cluster | None) -> list[int]:
    """Return the indexes of tasks in the order in which retention deletes their oldest segments."""

    def expires(task: BackupTask) -> tuple[float, int]:
        settings = {} if cluster is None else cluster.settings_on(None, task.place.topic)
        retention = (retention_config(settings) or DEFAULTS).retention_ms
        oldest = [each.log.modified or 0 for files in task.files for each in files.paths[0].segments[:1]]
        return min(oldest, default=0) + (float("inf") if retention < 0 else retention), -task.size

    return sorted(range(len(tasks)), key=lambda index: expires(tasks[index]))


def _is_selection(sources: Sequence[Source], cluster: Cluster | None, options: BackupOptions) -> bool:
    """Return whether partitions were left out that the disks or the metadata have."""
    for source in sources:
        chosen = {each.path for each in source.partitions}
        if any(each.state == "live" and each.path not in chosen for each in source.directory.partitions):
            return True
    rows = {} if cluster is None else cluster.rows_by_id()
    named = [("" if cluster is None else cluster.topics.get(topic_id, ""), number) for topic_id, number in rows]
    return any(topic and not options.is_selected(topic, number) for topic, number in named)


def _refuse_directories(directories: Sequence[LogDirectory], place: BackupPlace) -> None:
    refuse_repeated((each.path for each in directories), "give each log directory once")
    for each in directories:
        refuse_other_paths(each)
        is_local = not place.location.is_remote and not each.location.is_remote
        if is_local and is_local_within(each.path, place.location.path):
            raise UsageError(f"{each.path}, which is read, is in {place.location}; write to another directory")


def _find_replicas(
    disks: Sequence[Disk],
    cluster: Cluster | None,
    *,
    cluster_id: str | None,
    selected: set[str],
    report: Report,
) -> dict[TopicIdPartition, list[_ReplicaOnDisk]]:
    """The replicas of each partition. Those that the cluster does not have are left out, and reported."""
    found: dict[TopicIdPartition, list[_ReplicaOnDisk]] = defaultdict(list)
    by_path = {each.path: disk for disk in disks for each in disk.replicas}
    by_name = topic_ids_of(disks)
    left_out: list[Placement] = []
    for placed in place_replicas(disks, cluster):
        replica = placed.replica
        assert isinstance(replica, DiskReplica)
        if replica.path not in selected and replica.state == "live":
            continue
        topic_id = _topic_id(placed, cluster, by_name, cluster_id)
        if topic_id is None:
            left_out.append(placed)
            continue
        found[topic_id, replica.partition].append(_ReplicaOnDisk(by_path[replica.path], replica))
    there = {(each.replica.topic, each.replica.partition) for replicas in found.values() for each in replicas}
    for placed in left_out:
        finding = placed.of_cluster(is_spare=placed.place in there)
        if finding is not None:
            report(replace(finding, message=f"{finding.message}; it is not backed up"))
    return dict(found)


def _topic_id(
    placed: Placement, cluster: Cluster | None, by_name: Mapping[str, str], cluster_id: str | None
) -> str | None:
    """The ID of the topic of a replica that is backed up; None for one that is not."""
    replica = placed.replica
    if placed.verdict in (*NOT_LIVE, Verdict.TWICE, *NOT_KNOWN):
        return None
    if cluster is not None:
        return replica.topic_id or cluster.id_of(replica.topic)
    known = by_name.get(replica.topic)
    if known is not None:
        return known if replica.topic_id in (None, known) else None
    return named_id(cluster_id, replica.topic)


def named_id(cluster_id: str | None, topic: str) -> str:
    """Return the ID of a topic that has none, as of clusters of ZooKeeper's time: by the cluster's ID and its name."""
    found = uuid.uuid5(uuid.NAMESPACE_URL, f"kafka:{cluster_id or ''}/{topic}")
    return base64.urlsafe_b64encode(found.bytes).decode().rstrip("=")


def _metadata_of(disks: Sequence[Disk], best: MetadataReplica) -> _ReplicaOnDisk:
    disk = next(each for each in disks if each.metadata is best)
    replica = DiskReplica(
        best.paths, names.CLUSTER_METADATA, 0, state="live", topic_id=names.CLUSTER_METADATA_ID,
        start_offset=best.paths.start_offset, end_offset=best.end_offset, size=best.paths.size,
    )  # fmt: skip
    return _ReplicaOnDisk(disk, replica)


def _missing(
    cluster: Cluster | None,
    found: Mapping[TopicIdPartition, Sequence[_ReplicaOnDisk]],
    options: BackupOptions,
    *,
    nodes: Collection[int] | None,
    path: str,
    report: Report,
) -> Iterator[MissingPartition]:
    """The partitions of the metadata of which no disk has a replica; ``nodes``: of those that these lead."""
    for (topic_id, number), row in sorted(rows_led_by(cluster, nodes).items()):
        topic = "" if cluster is None else cluster.topics.get(topic_id, "")
        if (topic_id, number) in found or not topic or not options.is_selected(topic, number):
            continue
        of_nodes = ", ".join(map(str, row["replicas"]))
        expected = f"on one of the nodes {of_nodes}"
        report(partition_missing(path, names.partition_directory(topic, number), "metadata", expected=expected))
        yield MissingPartition(topic, topic_id, number, f"no disk has a replica, which are on the nodes {of_nodes}")


def _task(
    place: TopicIdPartition,
    replicas: Sequence[_ReplicaOnDisk],
    backup: BackupPlace,
    *,
    cluster: Cluster | None,
    previous: PreviousPartition | None,
    options: BackupOptions,
    how: ObjectFormat,
) -> BackupTask:
    topic_id, number = place
    topic = replicas[0].replica.topic
    sources = tuple(
        SourceReplica(
            describe_files([each.replica.paths], each.disk.checkpoints),
            -1 if each.disk.node_id is None else each.disk.node_id,
            each.disk.path,
        )
        for each in replicas
    )
    return BackupTask(
        UploadPlace(backup.location, topic, topic_id, number), sources, previous=previous,
        is_compacted=is_compacted(topic, cluster),
        is_alone=topic == names.CLUSTER_METADATA, config=options.config, how=how,
        max_batch_bytes=options.max_batch_bytes, dry_run=options.dry_run,
    )  # fmt: skip
