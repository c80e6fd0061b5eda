"""Writes the log directories of a rebuilt cluster: partitions, checkpoints, the metadata's snapshot, and last of all
``meta.properties``, without which no broker starts.

Everything goes into a directory of its own beside the targets, and gets its name when all of it is there. While names
are given, a record says which, so that after a kill the next run removes them and begins again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from brokerless.errors import UsageError
from brokerless.internals.groups.positions import ResetTo
from brokerless.internals.metadata.snapshot import snapshot_batches
from brokerless.jobs.rebuild.from_bucket.stand_ins import FromBucket, append_events, events_in, write_stand_ins
from brokerless.jobs.rebuild.from_snapshot.restored_logs import RestoredLogs
from brokerless.jobs.rebuild.group_positions import in_sync
from brokerless.jobs.rebuild.nodes import TargetDirectory
from brokerless.jobs.rebuild.plan import Rebuild
from brokerless.jobs.rebuild.replicas import HeldReplica
from brokerless.jobs.rebuild.unfinished import UNFINISHED, inodes, record_names
from brokerless.log import names
from brokerless.log.checkpoint.meta_properties import meta_properties
from brokerless.log.checkpoint.offset_checkpoints import recorded_offset
from brokerless.log.checkpoint.partition_metadata import partition_metadata
from brokerless.log.commit.commit import commit
from brokerless.log.commit.log_opener import open_log
from brokerless.log.commit.partition_copy import Copying, copy_partition
from brokerless.log.commit.types import StagedPartition
from brokerless.log.names import REMOTE_LOG_METADATA
from brokerless.log.storage.atomic import rename, replacing, sync_directory, write_file
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.directory_lock import NO_BROKER
from brokerless.log.storage.guarded_files import make_inner_directory, synced_together
from brokerless.log.write.records import append_records
from brokerless.progress import Done

METADATA = names.partition_directory(names.CLUSTER_METADATA, 0)


def refuse_existing(rebuild: Rebuild, unfinished: Collection[str]) -> None:
    """Raises :class:`UsageError` for a directory that is to be new, and has something in it. ``unfinished``: names of
    those that a killed run had begun, which will be removed."""
    for each in rebuild.directories:
        path = Path(each.path)
        if not each.is_new or path.name in unfinished:
            continue
        if path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir()))):
            raise UsageError(f"{path}: this exists already; write to another directory")


def write_new_directories(rebuild: Rebuild, to: Path, done: Done, restored: RestoredLogs) -> dict[str, int]:
    """Writes the new directories, in which nothing is yet, and returns their inode numbers by name. Until
    ``remove_unfinished`` they count as unfinished. ``restored``: has what is found in a snapshot meanwhile. Raises
    UnwritableError, UnreadableError, OSError."""
    scratch = to / UNFINISHED
    make_inner_directory(scratch)
    targets = {scratch / Path(each.path).name: each for each in rebuild.directories if each.is_new}
    new = [Path(each.path) for each in targets.values()]
    with synced_together(scratch):
        for path, target in targets.items():
            _write_logs(rebuild, target, path, done=done, restored=restored)
        for path, target in targets.items():
            _complete(rebuild, target, path)
    named = inodes(scratch / path.name for path in new)
    record_names(to, named)
    for path in new:
        if path.exists():
            path.rmdir()  # empty
        rename(scratch / path.name, path)
    return named


def _write_logs(rebuild: Rebuild, target: TargetDirectory, path: Path, done: Done, restored: RestoredLogs) -> None:
    make_inner_directory(path)
    staged: list[StagedPartition] = []
    for each in sorted(held_in(rebuild, target), key=lambda held: (held.replica.topic, held.replica.partition)):
        replica = each.replica
        if each.disk.is_snapshot:
            staged.append(restored.stage(each, path))
            done(replica.size)
            continue
        place = replica.paths.location, replica.topic, replica.partition
        cleaned = recorded_offset(*place, names.CLEANER_CHECKPOINT)
        remote = rebuild.remote_epochs.get((each.topic_id, replica.partition), ())
        copying = Copying(cleaned, link=rebuild.data == "link", remote_epochs=remote)
        end = replica.end_offset or 0
        staged.append(
            copy_partition(replica.paths, Destination.of(path), each.topic_id, end_offset=end, copying=copying)
        )
        done(replica.size)
    commit(path, staged)


def _complete(rebuild: Rebuild, target: TargetDirectory, path: Path) -> None:
    if rebuild.reset_to is not None:
        _reset_positions(rebuild, rebuild.reset_to, target, path)
    if rebuild.from_bucket is not None and target.is_first:
        write_stand_ins(rebuild.from_bucket, target.node_id, path, rebuild.now_ms)
    if rebuild.from_bucket is not None and rebuild.from_bucket.has_metadata:
        _append_events(rebuild, rebuild.from_bucket, target, path)
    write_file(path / names.CLEAN_SHUTDOWN, NO_BROKER)
    if target.is_first:
        write_metadata(rebuild, path)
    write_properties(rebuild, target, path)


def _reset_positions(rebuild: Rebuild, reset_to: ResetTo, target: TargetDirectory, path: Path) -> None:
    """All in-sync replicas get the same records, as if a leader had written them."""
    for topic, number in sorted({each.position.source for each in rebuild.positions}):
        there = in_sync(rebuild.cluster, rebuild.held, (rebuild.cluster.id_of(topic) or "", number))
        if any(target.is_of(each.disk) for each in there):
            own = [each for each in rebuild.positions if each.position.source == (topic, number)]
            with open_log(path, topic, number) as log:
                append_records(log, ((rebuild.now_ms, *each.record(reset_to, rebuild.now_ms)) for each in own))


def _append_events(rebuild: Rebuild, found: FromBucket, target: TargetDirectory, path: Path) -> None:
    """All in-sync replicas of the metadata get the same events; one that begins again is in the first directory."""
    for number, events in events_in(found).items():
        there = in_sync(rebuild.cluster, rebuild.held, (found.metadata_id, number))
        is_here = any(target.is_of(each.disk) for each in there)
        if is_here or (not there and target.is_first and target.node_id in found.metadata_nodes[number]):
            append_events(path, (REMOTE_LOG_METADATA, number), found.metadata_id, events=events, now_ms=rebuild.now_ms)


def held_in(rebuild: Rebuild, target: TargetDirectory) -> Iterator[HeldReplica]:
    """Yield the replicas that a directory has."""
    for replicas in rebuild.held.values():
        yield from (each for each in replicas if target.is_of(each.disk))


def write_metadata(rebuild: Rebuild, path: Path) -> None:
    """Writes ``__cluster_metadata-0`` into a log directory that has none: a snapshot and nothing else, from which KRaft
    begins its log (``KafkaMetadataLog.truncateToLatestSnapshot``, 3.9.1)."""
    directory = path / METADATA
    with suppress(FileExistsError):
        make_inner_directory(directory)
    name = names.segment_file(rebuild.offset, "kraft-snapshot", epoch=rebuild.epoch)
    with replacing(directory / name) as file:
        batches = snapshot_batches(
            rebuild.records(), epoch=rebuild.epoch, timestamp_ms=rebuild.timestamp_ms, voters=rebuild.voters
        )
        for batch in batches:
            file.write(batch)
    write_file(directory / names.PARTITION_METADATA, partition_metadata(names.CLUSTER_METADATA_ID))
    sync_directory(path)


def write_properties(rebuild: Rebuild, target: TargetDirectory, path: Path) -> None:
    """Writes ``meta.properties``: whose directory it is."""
    write_file(path / names.META_PROPERTIES, meta_properties(rebuild.cluster_id, target.node_id, target.directory_id))
