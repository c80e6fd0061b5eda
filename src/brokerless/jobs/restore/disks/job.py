"""Restores topics into the log directories of stopped brokers, so that they start without recovery and truncation."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from brokerless import clock
from brokerless.errors import UsageError
from brokerless.findings import Finding, Kind
from brokerless.internals.metadata.cluster import cluster_of
from brokerless.internals.records import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from brokerless.internals.tables import state_rows
from brokerless.jobs.restore import source
from brokerless.jobs.restore.checks import check_topic, limits_of, refuse_errors
from brokerless.jobs.restore.disks.committed_topic_ids import ChangedTopicIds, changed_topic_ids, check_share_groups
from brokerless.jobs.restore.disks.staging import OWNER, Staged, stage
from brokerless.jobs.restore.disks.swap import check_aside, plan_swap
from brokerless.jobs.restore.disks.targets import PartitionTarget, load_target, place
from brokerless.jobs.restore.results import Limits, SourcePartition, TopicRestore
from brokerless.kafka_names import TopicPartition
from brokerless.log import names
from brokerless.log.checkpoint.commit_journal import committing
from brokerless.log.commit.commit import aside_of
from brokerless.log.commit.job_commit import remove_staged_of
from brokerless.log.commit.joint_commit import commit_together, recover_together
from brokerless.log.commit.partition_writer import output_directory
from brokerless.log.directory import PartitionPath
from brokerless.log.partition import transactions_of
from brokerless.log.producer.transactions import abort_command, open_transaction
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.directory_lock import DirectoryLock
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import is_local_within, is_remote
from brokerless.log.storage.write_errors import unwritable
from brokerless.progress import Done, ignore
from brokerless.requests.recovery import RestoreRequest
from brokerless.text import short_html, short_repr

_REPORTED = (Kind.RETENTION_DELETES, Kind.TARGET_COMPACTS, Kind.LATE_RECORDS, Kind.CONFIGS_UNKNOWN, Kind.CONFIG_DIFFERS)
"""What is to be known where records keep their batches and offsets."""


@dataclass(frozen=True, slots=True)
class RestoredDisk:
    """One partition that was restored into log directories. Its log has ``start_offset <= offset < end_offset``."""

    topic: str
    partition: int
    records: int
    start_offset: int
    end_offset: int
    lost: int
    """How many offsets the source does not have, as it is damaged."""
    directories: tuple[str, ...]
    aside: tuple[str, ...] = ()
    """Where replaced partitions are now."""


@dataclass(frozen=True, slots=True)
class DiskRestore:
    """A restore into log directories: its plan, and, once ``is_applied``, what it did."""

    topics: tuple[TopicRestore, ...]
    placements: tuple[PartitionTarget, ...]
    findings: tuple[Finding, ...]
    partitions: tuple[RestoredDisk, ...] = ()
    is_applied: bool = False

    __repr__ = short_repr
    _repr_html_ = short_html

    @property
    def is_whole(self) -> bool:
        """Whether the source had all offsets of what was restored."""
        return not any(each.lost for each in self.partitions)


@dataclass(frozen=True, slots=True)
class PlannedDisks:
    """A restore into log directories that was planned, and all that it is done with."""

    plan: DiskRestore
    reading: source.SourceReading
    readers: Mapping[TopicPartition, PartitionPath]
    topic_ids: ChangedTopicIds
    """Those that change in ``__consumer_offsets``."""

    @property
    def size(self) -> int:
        """Bytes that are read and written."""
        return 2 * sum(each.size for each in self.readers.values())

    def apply(self, done: Done) -> DiskRestore:
        """Writes all partitions beside the others, and gives them their names, all or none. After a kill, the same
        again completes it or begins again.

        Raises :class:`UsageError` where a finding is an error, or a broker runs on a directory; UnwritableError."""
        return _apply(replace(self, reading=replace(self.reading, done=done)))


def plan_disks(selected: source.SelectedPartitions, request: RestoreRequest) -> PlannedDisks:
    """Reads the source once, and what the cluster's metadata says of the topics; nothing is changed.

    Raises :class:`UsageError` for what is no stopped broker's log directory, UnreadableError."""
    reading = replace(source.SourceReading.of(request), isolation="read_uncommitted")
    readers = source.choose_partitions(selected.partitions, selected.named, internal=True)
    to = [os.fspath(each) for each in request.to]
    paths = [reader.path for of_topic in readers.values() for reader in of_topic]
    for each in to:
        output_directory(Location.of(each), paths)
        inner = next((path for path in paths if not is_remote(path) and is_local_within(path, each)), None)
        if inner is not None:
            raise UsageError(f"{inner} is within {each}, which is written to; restore from somewhere else")
    metadata = None if request.metadata is None else os.fspath(request.metadata)
    target = load_target([os.path.realpath(each) for each in to], metadata, reading.max_batch_bytes)
    cluster = cluster_of(selected.everything, reading.max_batch_bytes)
    topics: list[TopicRestore] = []
    placements: list[PartitionTarget] = []
    findings: list[Finding] = []
    for name, of_topic in readers.items():
        configs = source.topic_configs(cluster, name)
        count = source.partition_count(cluster, name, of_topic)
        found, refused = place(target, name, of_topic, configs, count)
        placements += found
        findings += refused
        effective = target.settings_of(name)
        limits = Limits() if names.is_internal(name) else limits_of(effective, clock.now())
        measured = tuple(source.measure(each, reading, limits) for each in of_topic)
        topics.append(TopicRestore(name, measured, count, configs=configs, target=effective, exists=bool(found)))
        if not names.is_internal(name):
            findings += (each for each in check_topic(topics[-1], target.metadata_path) if each.kind in _REPORTED)
            findings += chain.from_iterable(map(_check_open, of_topic, measured))
    for each in placements if not request.replace else ():
        for path, has_records in each.existing.items():
            if has_records:
                text = f"{each.name} has records here: give --replace to move it to {aside_of(path)}"
                findings.append(Kind.PARTITION_EXISTS.at(str(path / each.name), text))
    topic_ids: ChangedTopicIds = {}
    if CONSUMER_OFFSETS in readers:
        rows = state_rows(readers[CONSUMER_OFFSETS], ("offsets",), ignore, reading.max_batch_bytes)
        topic_ids = changed_topic_ids(rows["offsets"], cluster, target.cluster)
    if SHARE_GROUP_STATE in readers and cluster is not None:
        findings += check_share_groups(cluster, target.cluster, target.metadata_path)
    by_place = {reader.place: reader for each in readers.values() for reader in each}
    plan = DiskRestore(tuple(topics), tuple(placements), tuple(findings))
    return PlannedDisks(plan, reading, by_place, topic_ids)


def _check_open(partition: PartitionPath, measured: SourcePartition) -> Iterator[Finding]:
    """A transaction of which no coordinator of the target knows."""
    start = transactions_of(partition).open_at(measured.end_offset)
    if start is not None:
        text = "nobody on the target will end it, and consumers with read_committed stop there until you do: "
        text += abort_command(*measured.place, start)
        yield open_transaction(partition.path, start, text, of=names.partition_directory(*measured.place))


def _apply(planned: PlannedDisks) -> DiskRestore:
    plan = planned.plan
    refuse_errors(plan.findings)
    paths = sorted({disk.path for each in plan.placements for disk in each.replicas})
    replaced = {path for each in plan.placements for path, has_records in each.existing.items() if has_records}
    check_aside(sorted(replaced))
    ends = {each.place: each.end_offset for topic in plan.topics for each in topic.partitions}
    with ExitStack() as stack:
        stack.enter_context(unwritable(paths[0]))
        recover_together(_hold(stack, paths))
        staged: list[Staged] = []
        try:
            for each in plan.placements:
                at = each.topic, each.partition
                end = None if planned.reading.until is None else ends[at]
                ids = planned.topic_ids if each.topic == CONSUMER_OFFSETS else None
                staged.append(stage(each, planned.readers[at], end, planned.reading, topic_ids=ids))
            parts = plan_swap(staged, uuid.uuid4().hex)
        except BaseException:
            for each in staged:
                for path, name in each.directories.items():
                    shutil.rmtree(path / name, ignore_errors=True)
            raise
        commit_together(parts)
    aside = {
        path / each.name: str(aside_of(path) / each.aside)
        for path, part in parts.items()
        for each in part
        if each.aside is not None
    }
    return replace(plan, partitions=tuple(_result(each, aside) for each in staged), is_applied=True)


def recover_disks(to: Sequence[str]) -> bool:
    """Completes or undoes what a kill cut short in these log directories; says whether a restore was completed."""
    paths = [Path(os.path.realpath(each)) for each in to]
    paths = sorted(path for path in paths if path.is_dir())
    with ExitStack() as stack:
        if paths:
            stack.enter_context(unwritable(paths[0]))
        is_completed = recover_together(_hold(stack, paths))
        for path in paths:
            remove_staged_of(path, OWNER)
        return is_completed


def _hold(stack: ExitStack, paths: Sequence[Path]) -> dict[Path, DirectoryLock]:
    """Keeps brokers, and others of us that write, out of some log directories."""
    locks: dict[Path, DirectoryLock] = {}
    for path in paths:
        locks[path] = stack.enter_context(Destination.of(path).hold())
        stack.enter_context(committing(path))
    return locks


def _result(staged: Staged, aside: dict[Path, str]) -> RestoredDisk:
    at, partition = staged.placement, staged.partition
    directories = [disk.path / at.name for disk in at.replicas]
    lost = sum(each.offsets or 0 for each in staged.losses)
    return RestoredDisk(
        at.topic,
        at.partition,
        staged.records,
        start_offset=partition.log_start_offset,
        end_offset=partition.log_end_offset,
        lost=lost,
        directories=tuple(map(str, directories)),
        aside=tuple(aside[each] for each in directories if each in aside),
    )
