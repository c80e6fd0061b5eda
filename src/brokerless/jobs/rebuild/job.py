"""Rebuilds a cluster from its disks: plans it, and with ``apply`` writes it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from brokerless.clock import milliseconds
from brokerless.clusters.disk import load_disk
from brokerless.errors import UsageError
from brokerless.internals.metadata.versions import parse_level
from brokerless.jobs.rebuild.from_bucket.plan import BucketOptions
from brokerless.jobs.rebuild.from_snapshot.copied_objects import check_target, copy_objects
from brokerless.jobs.rebuild.from_snapshot.disks import is_snapshot, load_snapshot
from brokerless.jobs.rebuild.from_snapshot.point_in_time import PointInTime, load_vector
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
from brokerless.log.tiered.options import with_tiered_options
from brokerless.progress import Done, ignore
from brokerless.requests.recovery import RebuildRequest


def options_of(request: RebuildRequest) -> RebuildOptions:
    """Return what was requested. Raises :class:`UsageError` for what goes with a bucket alone."""
    bucket = None
    if request.from_bucket is not None:
        location = Location(os.fspath(request.from_bucket), request.storage_options)
        location = with_tiered_options(location, request.key_pairs, None, None)
        topics = (request.topics,) if isinstance(request.topics, str) else tuple(request.topics)
        bucket = BucketOptions(location, dict(request.log_starts or {}), request.abort_open_transactions, topics)
    elif request.log_starts or request.topics:
        raise UsageError("--topic and --log-start are for --from-bucket")
    elif request.abort_open_transactions and request.until is None and request.offsets is None:
        raise UsageError("--abort-open-transactions is for --from-bucket, --until and --offsets")
    if request.in_bucket:
        bucket = _stored_options(request, bucket)
    elif request.copy_to is not None or request.read_only_credentials:
        raise UsageError("--copy-to and --read-only-credentials are for --in-bucket")
    return RebuildOptions(
        data=request.data,
        mapping=None if request.mapping is None else os.fspath(request.mapping),
        level=None if request.metadata_version is None else parse_level(request.metadata_version),
        quorum=request.quorum,
        source=None if request.state is None else os.fspath(request.state),
        without_metadata=request.without_metadata,
        adopt=request.adopt,
        cluster_id=request.cluster_id,
        max_batch_bytes=request.max_batch_bytes,
        reset_to=request.reset_positions,
        bucket=bucket,
        spread=request.spread,
        point=_point_of(request),
        pause_retention=request.pause_retention,
        has_keys=bool(request.key_pairs or request.storage_options),
    )


def _point_of(request: RebuildRequest) -> PointInTime | None:
    if request.until is not None and request.offsets is not None:
        raise UsageError("give one of --until and --offsets: each says where logs end")
    if request.offsets is not None:
        path = os.fspath(request.offsets)
        return PointInTime(path=path, rows=load_vector(path), aborts_open=request.abort_open_transactions)
    until = milliseconds(request.until)
    return None if until is None else PointInTime(until, aborts_open=request.abort_open_transactions)


def _stored_options(request: RebuildRequest, bucket: BucketOptions | None) -> BucketOptions:
    if bucket is not None:
        raise UsageError("--in-bucket has the topics of a snapshot; --from-bucket is for the bucket of brokers")
    if request.copy_to is not None and request.read_only_credentials:
        text = "of a copy, brokers delete what retention ends; of the backup itself, they must not be able to"
        raise UsageError(f"give one of --copy-to and --read-only-credentials: {text}")
    copy_to = None if request.copy_to is None else Location.of(request.copy_to, request.storage_options)
    return BucketOptions(Location(""), is_snapshot=True, copy_to=copy_to, can_delete=not request.read_only_credentials)


def rebuild(
    directories: Sequence[LogDirectory],
    to: str,
    options: RebuildOptions,
    *,
    apply: bool = False,
    done: Done = ignore,
) -> Rebuild:
    """Plans the rebuilding of the cluster that some log directories were of, and with ``apply`` writes it into ``to``:
    a directory ``node-N`` for each node. ``done`` is called with bytes as they are written. What a killed run left is
    removed, and written again; what it changed in place is to be undone first.

    Raises :class:`UsageError` for what is no local log directory, a disk on which a broker runs, disks of several
    clusters, and what cannot be expressed; UnreadableError, UnwritableError.
    """
    _check_paths(directories, to, options)
    if options.bucket is not None and options.bucket.is_snapshot:
        options = replace(options, bucket=replace(options.bucket, location=directories[0].location))
    bucket = None if options.bucket is None else options.bucket.location.path
    if bucket is not None and not is_remote(bucket) and is_local_within(to, bucket):
        raise UsageError(f"{to} is in {bucket}, which is read; write to another directory")
    for each in directories:
        check_permitted(each.partitions)
    of_snapshot = partial(load_snapshot, is_chosen=options.is_chosen, point=options.point)
    load = of_snapshot if any(map(is_snapshot, directories)) else load_disk
    disks = [load(each, options.max_batch_bytes) for each in directories]
    refuse_running(disks)
    root = Path(to)
    refuse_journal(root)
    planned = plan_rebuild(disks, to, options)
    refuse_existing(planned, unfinished_directories(root))
    if not apply:
        return planned
    with unwritable(to):
        make_directory(root)
        busy = f"{to}: another rebuild writes here; wait for it, or write to another directory"
        with only_job(root, busy):
            remove_new(root, unfinished_directories(root))
            remove_unfinished(root)
            _copy_stored(planned, options)
            restored = RestoredLogs(planned.cluster, options.max_batch_bytes)
            new = write_new_directories(planned, root, done, restored)
            if options.data == "in-place":
                change_in_place(planned, root, new)
            remove_unfinished(root)
            sync_directory(root)
    findings, lost = (*planned.findings, *restored.findings), (*planned.lost, *restored.lost)
    return replace(planned, is_applied=True, findings=tuple(dict.fromkeys(findings)), lost=tuple(dict.fromkeys(lost)))


def _copy_stored(planned: Rebuild, options: RebuildOptions) -> None:
    """Copies what stays in the bucket, if that was requested, before any directory that names it."""
    target = None if options.bucket is None else options.bucket.copy_to
    state = next((each.disk.snapshot for each in planned.directories if each.disk is not None), None)
    if target is not None and state is not None and planned.from_bucket is not None:
        copy_objects(state, target, {each.partition.topic_id for each in planned.from_bucket.stand_ins})


def _check_paths(directories: Sequence[LogDirectory], to: str, options: RebuildOptions) -> None:
    snapshots = [each for each in directories if is_snapshot(each)]
    if snapshots and len(directories) > 1:
        raise UsageError("a snapshot has all disks of a cluster; give it alone")
    if snapshots and options.data != "copy":
        raise UsageError(f"--data {options.data} is for disks; the logs of a snapshot are written")
    if options.point is not None and (not snapshots or options.bucket is not None):
        text = "is for a snapshot of a backup of which the logs are written, and not for --in-bucket"
        raise UsageError(f"{options.point.option} {text}")
    if options.spread and not snapshots:
        raise UsageError("--spread is for a snapshot of a backup; disks say which node they are of")
    if options.has_keys and not snapshots and options.bucket is None:
        raise UsageError("--key-pair and storage_options are for a snapshot of a backup, and for --from-bucket")
    if is_remote(to) or any(is_remote(each.path) for each in directories if each not in snapshots):
        raise UsageError("a cluster is rebuilt on this machine; copy what is in an object store first")
    if options.bucket is not None and options.bucket.is_snapshot:
        _check_stored(snapshots, options.bucket)
    for each in directories:
        place = each.path
        if each in snapshots:
            place = _place_of(each)
        elif each.kind != "log-directory":
            raise UsageError(f"{each.path}: this is not a log directory; give the directories of log.dirs, one a disk")
        if not is_remote(place) and is_local_within(to, place):
            raise UsageError(f"{to} is in {place}, which is read; write to another directory")


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
