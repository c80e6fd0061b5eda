"""Rebuilds a cluster from its disks: plans it, and with ``apply`` writes it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from brokerless.clusters.disk import load_disk, refuse_other_paths
from brokerless.errors import UsageError
from brokerless.jobs.rebuild.from_bucket.plan import BucketOptions
from brokerless.jobs.rebuild.from_snapshot.copied_objects import check_target, copy_objects
from brokerless.jobs.rebuild.from_snapshot.disks import is_snapshot, load_snapshot
from brokerless.jobs.rebuild.from_snapshot.restored_logs import RestoredLogs
from brokerless.jobs.rebuild.in_place import change_in_place, refuse_journal
from brokerless.jobs.rebuild.node_directories import refuse_existing, write_new_directories
from brokerless.jobs.rebuild.nodes import refuse_running
from brokerless.jobs.rebuild.plan import Rebuild, RebuildOptions, plan_rebuild
from brokerless.jobs.rebuild.unfinished import remove_new, remove_unfinished, unfinished_directories
from brokerless.log.directory import LogDirectory
from brokerless.log.live_segments import check_permitted
from brokerless.log.storage.atomic import sync_directory
from brokerless.log.storage.directory_lock import only_job
from brokerless.log.storage.guarded_files import make_directory
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import is_local_within, is_remote
from brokerless.log.storage.write_errors import unwritable
from brokerless.log.tiered.detection import snapshot_path
from brokerless.progress import Done, ignore


def rebuild(directories: Sequence[LogDirectory], options: RebuildOptions, done: Done = ignore) -> Rebuild:
    """Plans the rebuilding of the cluster that some log directories were of, and with ``apply`` writes it into the
    directory of the request: a directory ``node-N`` for each node. ``done`` is called with bytes as they are written.
    What a killed run left is removed, and written again; what it changed in place is to be undone first.

    Raises :class:`UsageError` for what is no local log directory, a disk on which a broker runs, disks of several
    clusters, and what cannot be expressed; UnreadableError, UnwritableError.
    """
    root, limit = Path(os.fspath(options.request.to)), options.request.max_batch_bytes
    _check_paths(directories, options)
    if options.bucket is not None and options.bucket.is_snapshot:
        options = replace(options, bucket=replace(options.bucket, location=directories[0].location))
    if options.bucket is not None:
        _refuse_within(options, options.bucket.location.path)
    for each in directories:
        check_permitted(each.partitions)
    of_snapshot = partial(load_snapshot, is_chosen=options.is_chosen, point=options.point)
    load = of_snapshot if any(map(is_snapshot, directories)) else load_disk
    disks = [load(each, limit) for each in directories]
    refuse_running(disks)
    refuse_journal(root)
    planned = plan_rebuild(disks, options)
    refuse_existing(planned, unfinished_directories(root))
    if not options.request.apply:
        return planned
    with unwritable(root):
        make_directory(root)
        busy = f"{root}: another rebuild writes here; wait for it, or write to another directory"
        with only_job(root, busy):
            remove_new(root, unfinished_directories(root))
            remove_unfinished(root)
            _copy_stored(planned, options)
            restored = RestoredLogs(planned.cluster, limit)
            new = write_new_directories(planned, root, done, restored)
            if options.is_in_place:
                change_in_place(planned, root, new)
            remove_unfinished(root)
            sync_directory(root)
    findings, lost = (*planned.findings, *restored.findings), (*planned.lost, *restored.lost)
    return replace(planned, is_applied=True, findings=tuple(dict.fromkeys(findings)), lost=tuple(dict.fromkeys(lost)))


def _refuse_within(options: RebuildOptions, path: str) -> None:
    """Raise :class:`UsageError` where the new directories would be within what is read."""
    to = os.fspath(options.request.to)
    if not is_remote(path) and is_local_within(to, path):
        raise UsageError(f"{to} is in {path}, which is read; write to another directory")


def _copy_stored(planned: Rebuild, options: RebuildOptions) -> None:
    """Copies what stays in the bucket, if that was requested, before any directory that names it."""
    target = None if options.bucket is None else options.bucket.copy_to
    state = next((each.disk.snapshot for each in planned.directories if each.disk is not None), None)
    if target is not None and state is not None and planned.from_bucket is not None:
        copy_objects(state, target, {each.partition.topic_id for each in planned.from_bucket.stand_ins})


def _check_paths(directories: Sequence[LogDirectory], options: RebuildOptions) -> None:
    request = options.request
    snapshots = [each for each in directories if is_snapshot(each)]
    if snapshots and len(directories) > 1:
        raise UsageError("a snapshot has all disks of a cluster; give it alone")
    if snapshots and request.data != "copy":
        raise UsageError(f"--data {request.data} is for disks; the logs of a snapshot are written")
    if options.point is not None and (not snapshots or options.bucket is not None):
        text = "is for a snapshot of a backup of which the logs are written, and not for --in-bucket"
        raise UsageError(f"{options.point.option} {text}")
    if request.spread and not snapshots:
        raise UsageError("--spread is for a snapshot of a backup; disks say which node they are of")
    if (request.key_pairs or request.storage_options) and not snapshots and options.bucket is None:
        raise UsageError("--key-pair and storage_options are for a snapshot of a backup, and for --from-bucket")
    if is_remote(os.fspath(request.to)) or any(is_remote(each.path) for each in directories if each not in snapshots):
        raise UsageError("a cluster is rebuilt on this machine; copy what is in an object store first")
    if options.bucket is not None and options.bucket.is_snapshot:
        _check_stored(snapshots, options.bucket)
    for each in directories:
        place = each.path
        if each in snapshots:
            place = _place_of(each)
        else:
            refuse_other_paths(each)
        _refuse_within(options, place)


def _place_of(snapshot: LogDirectory) -> str:
    return (snapshot_path(snapshot.location) or "").rpartition("@")[0]


def _check_stored(snapshots: Sequence[LogDirectory], bucket: BucketOptions) -> None:
    if not snapshots:
        raise UsageError("--in-bucket is for a snapshot of a backup; of the bucket of brokers, give --from-bucket")
    if bucket.copy_to is not None:
        check_target(Location(_place_of(snapshots[0])), bucket.copy_to)
    elif bucket.can_delete:
        text = (
            "brokers delete from their bucket what retention ends, and what they delete here is gone from all snapshots"
        )
        raise UsageError(
            f"--in-bucket: {text}; give --copy-to URL, or --read-only-credentials where the store refuses them"
        )
