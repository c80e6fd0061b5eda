"""Runs a backup: segments first, then files, then the list of segments, then the JSON that makes the snapshot.

What is left where a run ends before that is named by no snapshot. Names are random and nothing is replaced, so that
runs do not disturb one another, and readers see a snapshot whole or not at all.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from brokerless import clock
from brokerless.errors import UsageError
from brokerless.findings import Finding
from brokerless.jobs.backup.closing import cut_open, undecided
from brokerless.jobs.backup.files import store_files
from brokerless.jobs.backup.keys import keys_of_run
from brokerless.jobs.backup.partition import BackupTask, BackupTaskResult, run_task
from brokerless.jobs.backup.plan import BackupPlan, by_expiry
from brokerless.jobs.backup.second_look import SecondLook, look_again, metadata_task
from brokerless.jobs.backup.sets.joining import JoinedSet, join_parts
from brokerless.jobs.backup.sets.leaders import topic_leaders
from brokerless.jobs.run.job import in_order, longest_first, run
from brokerless.jobs.run.types import HERE, NONE, RunOptions
from brokerless.kafka_names import TopicPartition
from brokerless.log import names
from brokerless.log.backups.names import SnapshotName
from brokerless.log.backups.place import BackupPlace
from brokerless.log.backups.snapshot import (
    CONFIG_FILE,
    KEYS_FILE,
    VERSION,
    BackupConfig,
    SegmentsFile,
    Snapshot,
    SnapshotCut,
    SnapshotDisk,
    SnapshotFile,
    SnapshotSegment,
    dump_segments,
    dump_snapshot,
)
from brokerless.log.storage.location import Location
from brokerless.log.storage.object_store import create_object
from brokerless.log.tiered.detection import backup_at
from brokerless.log.tiered.listing.stored_objects import check_sizes, sizes_in
from brokerless.log.tiered.object_names import segment_directory
from brokerless.log.tiered.writing.encryption import DataKey
from brokerless.progress import Done
from brokerless.text import short_html, short_repr

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_LONG_MS = 24 * 3_600_000
"""A run that takes longer than this looks whether all is there that it names."""


@dataclass(frozen=True, slots=True)
class BackupResult:
    """One run of a backup."""

    place: str
    """Where the backup is."""
    snapshot: Snapshot
    """What was written, or with ``dry_run`` would have been."""
    findings: tuple[Finding, ...]
    """What is unexpected in the files that were read."""
    dry_run: bool
    joined: JoinedSet | None = None
    """What all parts of a set are together, as far as they are there; for the run of one host in a set."""

    __repr__ = short_repr
    _repr_html_ = short_html

    @property
    def is_complete(self) -> bool:
        """Whether the backup has all of the cluster, and nothing in it is lost, damaged or different."""
        is_whole = self.joined is None or bool(self.joined.awaited) or self.joined.snapshot.is_complete
        return is_whole and self.snapshot.is_complete and not any(each.severity != "info" for each in self.findings)


def backup(
    plan: BackupPlan,
    running: RunOptions = HERE,
) -> BackupResult:
    """Run a plan. Raises :class:`UnwritableError`; then there is no new snapshot; and UsageError for Spark where
    brokers run: what they have open is read where it is."""
    try:
        if plan.cut is not None and running.spark not in (NONE, None):
            raise UsageError("--spark is for disks of stopped brokers and snapshots of volumes; these brokers run")
        return _backup(plan, running if plan.cut is None else replace(running, spark=NONE))
    finally:
        if plan.cut is not None:
            plan.cut.pinned.close()


def _backup(plan: BackupPlan, running: RunOptions) -> BackupResult:
    place, dry_run, run_id, began = plan.place, plan.options.dry_run, os.urandom(4).hex(), clock.now()
    if not dry_run:
        _begin(place, plan.how.data_key, run_id)
    look = _run(plan, running)
    results = look.results
    files: list[SnapshotFile] = []
    cut = None if plan.cut is None else _cut_of(plan, results)
    findings = [*plan.findings, *look.findings, *(finding for each in results for finding in each.findings)]
    findings += () if cut is None else (cut_open(plan.disks[0].path, each) for each in cut.open)
    stored_at = 0 if look.metadata_end is None else look.metadata_end.disk
    for number, directory in enumerate(plan.directories, 1):
        stored = store_files(plan, number, directory, look.metadata if number == stored_at else None)
        files += stored.files
        findings += stored.findings
    segments = dump_segments(segment for each in results for segment in each.segments)
    rows = sum(len(each.segments) for each in results)
    snapshot = _snapshot(
        plan, run_id, look, files,
        findings=findings, segments=SegmentsFile(hashlib.sha256(segments).hexdigest(), rows), cut=cut,
    )  # fmt: skip
    if not dry_run:
        if clock.now() - began > _LONG_MS:
            refuse_pruned(place, [segment for each in results for segment in each.segments])
        commit(_place_of(plan), snapshot, segments, plan.options.sign_key)
    joined = None
    if plan.options.set_name is not None and not dry_run:
        joined = join_parts(place, plan.options.set_name)
        if joined is not None and not joined.awaited:
            write_joined(place, joined, plan.options.sign_key)
            findings += joined.findings
    return BackupResult(place.location.path, snapshot, tuple(findings), dry_run, joined=joined)


def _place_of(plan: BackupPlan) -> BackupPlace:
    """Return where the files of a run's snapshot are."""
    if plan.options.set_name is None or plan.nodes is None:
        return plan.place
    return plan.place.part(plan.options.set_name, plan.nodes)


def write_joined(place: BackupPlace, joined: JoinedSet, sign_key: Ed25519PrivateKey | None = None) -> None:
    """Write what parts of a set are together as a snapshot, unless another host has done so. Raises
    :class:`UnwritableError`."""
    name = SnapshotName(joined.snapshot.created, joined.snapshot.id)
    if name not in place.names():
        commit(place, joined.snapshot, joined.segments, sign_key, is_shared=True)


def join_set(location: Location, set_name: str) -> JoinedSet:
    """Write a snapshot of the parts of a set that are there. Raises :class:`UsageError` where there are none,
    UnreadableError where there is no backup, and UnwritableError."""
    place, chosen = backup_at(location)
    joined = join_parts(place, set_name) if chosen is None and set_name in place.sets() else None
    if joined is None:
        raise UsageError(f"{location}: there is no part of a set {set_name}, which backup --set writes")
    write_joined(place, joined)
    return joined


def _cut_of(plan: BackupPlan, results: Sequence[BackupTaskResult]) -> SnapshotCut:
    """Return what a snapshot says of the cut; open are also those transactions whose markers were found and are not in
    what was stored, as a leader lost them; and those that a log has open since before the cut, where their coordinator
    knows of none."""
    assert plan.cut is not None
    assert plan.closed is not None
    lost: dict[int, set[TopicPartition]] = {}
    listed = {each.producer_id for each in plan.closed.open}
    for each in (one for one in results if one.partition is not None):
        assert each.partition is not None
        place = each.partition.topic, each.partition.partition
        known = [one for one in plan.closed.markers.get(place, ()) if one.offset >= each.partition.start_offset]
        counts = Counter(one.producer_id for one in known)
        for producer_id in counts.keys() | each.markers.keys() if each.markers or known else ():
            if each.markers.get(producer_id, 0) != counts[producer_id]:
                lost.setdefault(producer_id, set()).add(place)
        for one in each.partition.open_transactions:
            ongoing = plan.closed.ongoing.get(one.producer_id)
            is_old = one.first_offset < plan.closed.cut_at.get(place, each.partition.end_offset)
            if is_old and ongoing is not None and place not in ongoing.places and one.producer_id not in listed:
                lost.setdefault(one.producer_id, set()).add(place)
    found = (undecided(None, producer_id, places) for producer_id, places in sorted(lost.items()))
    return SnapshotCut(plan.cut.began, plan.cut.ended, plan.closed.transactions, open=(*plan.closed.open, *found))


def _begin(place: BackupPlace, data_key: DataKey | None, run_id: str) -> None:
    """Makes the place a backup, which also tries whether it can be written to, and writes the data key of the run."""
    if place.config() is None:
        config = BackupConfig(1, os.urandom(4).hex(), clock.now(), data_key is not None)
        create_object(place.config_file, CONFIG_FILE.dump(config, place.config_file.path))
    if data_key is not None:
        file = place.keys_file(run_id)
        create_object(file, KEYS_FILE.dump(keys_of_run(run_id, data_key), file.path))


def refuse_pruned(place: BackupPlace, segments: Sequence[SnapshotSegment]) -> None:
    """Raise :class:`UsageError` where prune has removed what a long run goes on from, or has written."""
    ids = {(each.topic, *each.place): segment_directory(place.location, each.topic, *each.place) for each in segments}
    sizes = {place: sizes_in(directory) for place, directory in ids.items()}
    for each in segments:
        own = each.topic, *each.place
        for finding in check_sizes(ids[own], each, sizes[own]):
            raise UsageError(f"{finding}; prune ran meanwhile: run again, and give prune a longer --grace")


def _run(plan: BackupPlan, running: RunOptions) -> SecondLook:
    """Copies what does not stay first: what retention deletes next, then logs that are pinned, at last the metadata."""
    if plan.cut is None:
        found = _results(plan.tasks, longest_first(plan.tasks), run_task, running)
        return SecondLook(tuple(found), plan.metadata_replica, plan.metadata, (), cluster=plan.cluster)
    pinned, last = plan.cut.pinned, [each for each in plan.tasks if each.place.topic == names.CLUSTER_METADATA]
    others = [each for each in plan.tasks if each not in last]
    inside = [any(pinned.find_any(path) for files in each.files for path in files.paths) for each in others]
    first = [each for each, is_pinned in zip(others, inside, strict=True) if not is_pinned]
    second = [each for each, is_pinned in zip(others, inside, strict=True) if is_pinned]
    alone = replace(running, processes=1)
    results = [
        *_results(first, by_expiry(first, plan.cluster), run_task, running),
        *_results(second, None, partial(run_task, pinned=pinned), alone),
    ]
    look = look_again(plan, [*first, *second], results, running.done)
    tasks = [metadata_task(plan, each, look) for each in last]
    stored = _results(tasks, None, run_task, alone)
    return replace(look, results=tuple(sorted((*look.results, *stored), key=_name_of)))


def _name_of(result: BackupTaskResult) -> tuple[str, TopicPartition]:
    found = result.partition or result.missing
    return "" if found is None else found.topic, result.place


def _results(
    tasks: Sequence[BackupTask],
    order: Sequence[int] | None,
    work: Callable[[BackupTask, Done], BackupTaskResult],
    running: RunOptions,
) -> list[BackupTaskResult]:
    """Return the results of tasks, which are begun in an order."""
    with closing(run(work, tasks, running, name="brokerless backup", order=order)) as values:
        return list(in_order(values))


def _snapshot(
    plan: BackupPlan,
    run_id: str,
    look: SecondLook,
    files: Sequence[SnapshotFile],
    findings: Sequence[Finding],
    segments: SegmentsFile,
    cut: SnapshotCut | None,
) -> Snapshot:
    results = look.results
    # A clock that goes back does not make the newest snapshot an old one.
    created = max(clock.now(), 0 if plan.parent is None else plan.parent.created + 1)
    disks = (
        SnapshotDisk(each.path, -1 if each.node_id is None else each.node_id, each.directory_id, each.was_clean)
        for each in plan.disks
    )
    return Snapshot(
        VERSION, run_id, plan.options.name, None if plan.parent is None else plan.parent.id,
        tool=tool_name(), created=created, ended=max(created, clock.now()),
        cluster_id=plan.cluster_id, metadata=look.metadata_end, disks=tuple(disks),
        partitions=tuple(each.partition for each in results if each.partition is not None),
        missing=(*plan.missing, *(each.missing for each in results if each.missing is not None)),
        files=tuple(files), findings=tuple(each.as_dict() for each in findings), segments=segments,
        is_selection=plan.is_selection, key_pairs=tuple(each.key_id for each in plan.options.public_keys), cut=cut,
        set_name=plan.options.set_name,
        leaders=() if plan.nodes is None or look.cluster is None else topic_leaders(look.cluster),
    )  # fmt: skip


def tool_name() -> str:
    """Return what wrote a snapshot; without a version where this is no installed package, as in one file."""
    with suppress(PackageNotFoundError):
        return f"brokerless {version('brokerless')}"
    return "brokerless"


def commit(
    place: BackupPlace,
    snapshot: Snapshot,
    segments: bytes,
    sign_key: Ed25519PrivateKey | None = None,
    *,
    is_shared: bool = False,
) -> None:
    """Write the files of a snapshot, the JSON last, which makes it. ``is_shared``: others may write the same ones.
    Raises :class:`UsageError` where one is there otherwise, and :class:`UnwritableError`."""
    name, data = SnapshotName(snapshot.created, snapshot.id).stem, dump_snapshot(snapshot)
    signature = () if sign_key is None else ((".sig", sign_key.sign(data)),)
    for suffix, content in ((".parquet", segments), *signature, (".json", data)):
        file = place.snapshot_directory / f"{name}{suffix}"
        if not create_object(file, content) and not is_shared:
            raise UsageError(f"{file}: this is there already, and a snapshot is never replaced; try again")
