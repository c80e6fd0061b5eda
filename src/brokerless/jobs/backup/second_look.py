"""Looks at the disks of running brokers again after a copy: what was deleted, made and moved meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from brokerless.clusters.metadata_replicas import MetadataReplica, best_of, load_replica
from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.internals.metadata.cluster import Cluster
from brokerless.internals.records import TRANSACTION_STATE
from brokerless.jobs.backup.cut import pin, where_now
from brokerless.jobs.backup.partition import BackupTask, BackupTaskResult, SourceReplica, run_task
from brokerless.jobs.backup.plan import BackupPlan
from brokerless.jobs.backup.sets.leaders import rows_led_by
from brokerless.jobs.recovered.reading import describe_files, up_to
from brokerless.log import names
from brokerless.log.backups.snapshot import MetadataEnd
from brokerless.log.checkpoint.partition_metadata import load_partition_metadata
from brokerless.log.live_segments import is_gone, list_again
from brokerless.progress import Done, ignore


@dataclass(frozen=True, slots=True)
class SecondLook:
    """The result of the second look at the disks, after all partitions were read."""

    results: tuple[BackupTaskResult, ...]
    """The results of the partitions that the cluster has now."""
    metadata: MetadataReplica | None
    """The replica of the metadata that is stored; None where no disk has it."""
    metadata_end: MetadataEnd | None
    """Where ``metadata`` ends; None where no disk has it."""
    findings: tuple[Finding, ...]
    cluster: Cluster | None
    """The cluster by its metadata; None where no disk has it."""


def look_again(
    plan: BackupPlan, tasks: Sequence[BackupTask], results: Sequence[BackupTaskResult], done: Done
) -> SecondLook:
    """Look for what changed while logs were copied. ``results``: of ``tasks``, in the same order. Partitions that could
    not be read are looked for on all disks, and those that were deleted are left out. Raises
    :class:`UnwritableError`."""
    found = [
        (_read_again(plan, task, result, done) or result) if _is_changed(plan, task, result) else result
        for task, result in zip(tasks, results, strict=True)
    ]
    replicas = list(_metadata_replicas(plan))
    best = best_of(each for each, _ in replicas)
    if best is None or plan.cluster is None:
        return SecondLook(tuple(found), plan.metadata_replica, plan.metadata, (), cluster=plan.cluster)
    number = next(number for each, number in replicas if each is best)
    rows = best.load_cluster(plan.options.max_batch_bytes)
    before, now = plan.cluster.rows_by_id().keys(), rows.rows_by_id().keys()
    own = rows_led_by(plan.cluster, plan.nodes).keys() | rows_led_by(rows, plan.nodes).keys()
    topics = {**plan.cluster.topics, **rows.topics}
    findings = [
        _meanwhile(plan.disks[number - 1].path, topics.get(topic_id, ""), partition, what)
        for changed, what in ((before - now, "deleted"), (now - before, "made"))
        for topic_id, partition in sorted(changed & own)
        if plan.options.is_selected(topics.get(topic_id, ""), partition)
    ]
    gone = before - now
    return SecondLook(
        tuple(each for each in found if each.place not in gone),
        best,
        MetadataEnd(best.end_offset, best.epoch, number),
        tuple(findings),
        cluster=rows,
    )


def _is_changed(plan: BackupPlan, task: BackupTask, result: BackupTaskResult) -> bool:
    """Return whether a partition could not be read as it was at the cut: a directory is gone, as it may be elsewhere
    now, or the log was cut back by another leader and went on in other files: it ends before it did, or lacks what
    was between two of its files."""
    limit = task.replicas[0].files.limit
    if result.partition is None or (limit is not None and result.partition.end_offset < limit):
        return True
    known = () if task.previous is None else task.previous.partition.lost
    if any(each not in known for each in result.partition.lost):
        return True
    return not _is_pinned(plan, task) and any(is_gone(path) for each in task.files for path in each.paths)


def _is_pinned(plan: BackupPlan, task: BackupTask) -> bool:
    return plan.cut is not None and any(plan.cut.pinned.find_any(path) for each in task.files for path in each.paths)


def metadata_task(plan: BackupPlan, task: BackupTask, look: SecondLook) -> BackupTask:
    """Return the task of the metadata, as it is at the second look."""
    if look.metadata is None or look.metadata_end is None:
        return task
    disk = plan.disks[look.metadata_end.disk - 1]
    files = up_to(describe_files([look.metadata.paths], disk.checkpoints), look.metadata_end.end_offset)
    source = SourceReplica(files, -1 if disk.node_id is None else disk.node_id, disk.path)
    return replace(task, replicas=(source,))


def _meanwhile(path: str, topic: str, partition: int, what: str) -> Finding:
    name = names.partition_directory(topic, partition)
    return Kind.PARTITION_CHANGED_MEANWHILE.at(path, f"{name} was {what} while the backup ran; the snapshot lacks it")


def _metadata_replicas(plan: BackupPlan) -> Iterator[tuple[MetadataReplica, int]]:
    """The replicas of the metadata as they are now, each with the number of its disk, from 1 on."""
    for number, disk in enumerate(plan.disks, 1):
        paths = None if disk.metadata is None else list_again(disk.metadata.paths, ignore)
        if paths is not None:
            with suppress(UnreadableError):
                yield load_replica(paths, plan.options.max_batch_bytes), number


def _read_again(plan: BackupPlan, task: BackupTask, result: BackupTaskResult, done: Done) -> BackupTaskResult | None:
    """Read a partition where it is now; None where no disk has it. Of a log that is pinned, all is read that is there:
    the cleaner may have been at work since. Markers count from where it ended when it was read before."""
    assert plan.cut is not None
    limit, is_pinned = task.replicas[0].files.limit, _is_pinned(plan, task)
    sources: list[SourceReplica] = []
    for paths in where_now(plan.cut, [path for each in task.files for path in each.paths]):
        if load_partition_metadata(paths.location / names.PARTITION_METADATA).topic_id not in (
            None,
            task.place.topic_id,
        ):
            continue
        pinned = pin(plan.cut, paths) if is_pinned else None
        disk = next(each for each in plan.disks if paths.path.startswith(each.path.rstrip("/") + "/"))
        files = describe_files([pinned or paths], disk.checkpoints)
        files = replace(files, cleaned_until=files.cleaned_until or 0) if task.is_compacted else files
        # Later decisions would be of transactions that are not read on.
        is_limited = pinned is None or task.place.topic == TRANSACTION_STATE
        limited = up_to(files, limit if is_limited or pinned is None else plan.cut.ends[pinned.path])
        sources.append(SourceReplica(limited, -1 if disk.node_id is None else disk.node_id, disk.path))
    if not sources:
        return None
    cut_at = task.cut_at
    if cut_at is not None and result.partition is not None:
        cut_at = min(cut_at, result.partition.end_offset)
    again = run_task(replace(task, replicas=tuple(sources), cut_at=cut_at), done, plan.cut.pinned)
    return again if again.missing is None else None
