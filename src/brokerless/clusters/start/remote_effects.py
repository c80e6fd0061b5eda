"""Predicts what a start does to what a node's tiered partitions have in remote storage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from brokerless.clusters.remote_retention import Expired, expired_segments
from brokerless.clusters.start.remote_deletions import DeletedObjects, RemoteDeletion, leads, remote_deletions
from brokerless.clusters.start.remote_log_starts import LoadedLog, RemoteLogStart, remote_log_starts
from brokerless.clusters.start.results import Restart
from brokerless.internals.metadata.cluster import Cluster
from brokerless.internals.remote.storage import read_remote_storage
from brokerless.kafka_names import TopicPartition
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.settings.topic import is_true
from brokerless.log.storage.location import Location
from brokerless.log.tiered.detection import remote_of
from brokerless.log.tiered.options import Remote, with_tiered_options

_COPY_DISABLED = "remote.log.copy.disable"
"""Where it is true, no leader looks for the log start (4.4.0)."""
_NOBODY: Mapping[str, Sequence[int]] = {"replicas": (), "isr": ()}


@dataclass(frozen=True, slots=True)
class RemoteEffects:
    """The effects of a start on remote segments."""

    deletions: tuple[RemoteDeletion, ...] = ()
    """The remote segments that are deleted."""
    log_starts: tuple[RemoteLogStart, ...] = ()
    """The log starts that are moved, of other partitions."""
    expired: tuple[Expired, ...] = ()
    """Segments that go by the retention of their topic, which is no loss."""


def stored_objects(directories: Sequence[LogDirectory], bucket: Remote | None) -> DeletedObjects | None:
    """Return the objects in a bucket, or in several; None without one. Raises :class:`UnreadableError`."""
    if bucket is None or not directories:
        return None
    remote = remote_of(with_tiered_options(Location(directories[0].path), None, None, bucket))
    if remote is None:
        return None
    file_system, _ = remote.file_system()
    return file_system.objects()


def remote_effects(
    cluster: Cluster | None,
    node_id: int | None,
    served: Mapping[TopicPartition, PartitionPath],
    unserved: Collection[TopicPartition],
    *,
    restart_of: Callable[[PartitionPath], Restart | None],
    objects: DeletedObjects | None,
    now_ms: int,
) -> RemoteEffects:
    """Return what the start of a node does; nothing is known without ``cluster``. ``served``: partitions that are
    loaded and served; ``unserved``: led by nobody; ``restart_of``: the dry run of each; ``objects``: of the bucket, if
    that was given; ``now_ms``: when it starts."""
    if cluster is None:
        return RemoteEffects()
    readers = served.values()
    storage = read_remote_storage(cluster, readers)
    loaded: dict[TopicPartition, LoadedLog] = {}
    refused: set[TopicPartition] = set()
    for at, each in served.items():
        if at[0] not in storage.topics.values():
            continue
        if (restart := restart_of(each)) is None:
            refused.add(at)
        else:
            local_start = each.segments[0].base_offset if each.segments else 0
            loaded[at] = LoadedLog(each.log_start_offset, max(each.log_start_offset, local_start), restart.epochs)
    rows = cluster.rows_by_id()
    epochs = {at: each.epochs for at, each in loaded.items()}
    deletions = tuple(
        remote_deletions(storage, rows, node_id, epochs=epochs, unserved={*unserved, *refused}, objects=objects)
    )
    deleted = {(each.topic, each.partition) for each in deletions}
    # RLMCopyTask moves the log start (maybeUpdateLogStartOffsetOnBecomingLeader, 4.4.0). With this setting, it does not
    # run (KIP-950).
    looked_for = {
        at: each
        for at, each in loaded.items()
        if at not in deleted and not is_true(cluster.settings_of(at[0]).get(_COPY_DISABLED))
    }
    moved = remote_log_starts(storage, cluster.topics, rows, node_id=node_id, loaded=looked_for)
    return RemoteEffects(
        deletions,
        tuple(
            each
            if objects is None
            else replace(each, objects=sum(objects.get((cluster.id_of(each.topic) or "", each.partition), {}).values()))
            for each in moved
        ),
        tuple(
            expired
            for at in loaded
            # RemoteLogManager.RLMExpirationTask runs at leaders only (4.4.0).
            if at not in deleted and leads(rows.get((cluster.id_of(at[0]) or "", at[1]), _NOBODY), node_id)
            for expired in expired_segments(served[at], storage.of(*at), now_ms)
        ),
    )
