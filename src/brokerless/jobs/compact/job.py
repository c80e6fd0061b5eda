"""Compacts partitions into a new log directory, as Kafka's cleaner does.

A plan checks beforehand all that can be wrong; a task for each partition reads it and writes it beside, wherever it
runs (:mod:`brokerless.jobs.run.job`); a commit on the driver names all of them. Topics that are not compacted are
copied unchanged, as is KRaft's own log. A partition with damage is not written.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding, Kind
from brokerless.jobs.compact.partition import CleanedPartition, PartitionCleaner
from brokerless.jobs.compact.rules import Tombstones
from brokerless.jobs.compact.settings import CompactOptions, CompactSettings, is_compacted
from brokerless.jobs.compact.totals import CompactTotals, FrequentKey
from brokerless.jobs.rewrite.plan import (
    PartitionTask,
    Plan,
    Source,
    Target,
    by_target,
    named_topics,
    plan_target,
    target_partitions,
)
from brokerless.jobs.rewrite.run import PartitionResult, Rewrite, TaskResult, places, result_of, rewrite
from brokerless.jobs.run.types import HERE, RunOptions
from brokerless.log import names
from brokerless.log.checkpoint.leader_epochs import load_epochs
from brokerless.log.checkpoint.offset_checkpoints import recorded_offset
from brokerless.log.commit.partition_copy import Copying, copy_partition
from brokerless.log.commit.partition_writer import PartitionWriter
from brokerless.log.config import UNBOUNDED
from brokerless.log.directory import PartitionPath
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.location import Location
from brokerless.progress import Done, Report, ignore


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactTask(PartitionTask):
    """One partition to compact."""

    settings: CompactSettings
    checkpoint: int | None = None
    """The offset up to which it was cleaned before; None where none is recorded."""
    is_copied: bool = False
    """Whether it is copied, as its topic is not compacted."""

    @property
    def size(self) -> int:
        """Bytes to read: each twice, for keys and for records."""
        return self.source.size * (1 if self.is_copied else 2)


@dataclass(frozen=True, slots=True, repr=False)
class CompactResult(PartitionResult[CompactTask]):
    """The result of compacting one partition. Offsets are those of the log."""

    totals: CompactTotals = field(default_factory=CompactTotals)
    removed: dict[str, int] = field(default_factory=dict[str, int])
    """How much was removed, by the names of :data:`REMOVED`."""
    tombstones: Tombstones = field(default_factory=Tombstones)
    frequent_keys: tuple[FrequentKey, ...] = ()
    start_offset: int = 0
    end_offset: int = 0
    first_dirty_offset: int = 0
    clean_offset: int = 0
    """The offset before which the log is clean now."""
    open_transaction: tuple[int, int] | None = None
    """The producer ID and first offset of the open transaction that holds compaction back; None without one."""
    damages: tuple[Finding, ...] = ()
    """The damage that kept the partition from being written."""

    def as_dict(self) -> dict[str, Any]:
        """Return the object that ``compact --json`` writes."""
        task, totals, tombstones = self.task, self.totals, self.tombstones
        is_written = not self.damages and not task.settings.dry_run
        return {
            **places(task, is_written=is_written),
            "isCopied": task.is_copied,
            "startOffset": self.start_offset,
            "endOffset": self.end_offset,
            "firstDirtyOffset": self.first_dirty_offset,
            "cleanOffset": self.clean_offset,
            "batchesIn": totals.batches_in,
            "batchesOut": totals.batches_out,
            "recordsIn": totals.records_in,
            "recordsOut": totals.records_out,
            "sourceSizeInBytes": totals.bytes_in,
            "sizeInBytes": totals.bytes_out,
            "segmentsIn": totals.segments_in,
            "segmentsOut": totals.segments_out,
            "keys": totals.keys,
            "passes": totals.passes,
            "removed": self.removed,
            "tombstones": {
                "count": tombstones.count,
                "oldestTimestamp": tombstones.oldest_ms,
                "newestTimestamp": tombstones.newest_ms,
                "horizonsSet": tombstones.horizons_set,
                "horizonsBefore": tombstones.horizons_before,
            },
            "openTransaction": None
            if self.open_transaction is None
            else dict(zip(("producerId", "firstOffset"), self.open_transaction, strict=True)),
            "damages": len(self.damages),
        }


def plan(
    sources: Sequence[Source],
    to: str | os.PathLike[str] | Location | None,
    options: CompactOptions,
    named: Collection[str] = (),
    report: Report = ignore,
) -> Plan[CompactTask]:
    """Return a task for each of the partitions that were chosen of each source.

    Without ``to``, this is a dry run, whatever the options are; in a dry run, partitions that would be copied have no
    task. ``named``: topics that are compacted whatever their ``cleanup.policy``, in addition to those whose directories
    are sources. ``report`` is called for each topic that is copied because no metadata in the sources has its settings.

    Raises :class:`UsageError` if one of them cannot be written: it is there already, it comes twice, its name is not
    known, ``to`` is in what is read, or ``named`` has KRaft's own log.
    """
    options = options if to is not None else replace(options, dry_run=True)
    named = named_topics(sources, named)
    if names.CLUSTER_METADATA in named:
        text = "is KRaft's own log, which Kafka does not compact, but replaces by snapshots"
        raise UsageError(f"{names.CLUSTER_METADATA} {text}; leave it out")
    places: dict[str, tuple[Destination, str]] = {}
    targets: list[Target] = []
    for each in () if to is None else by_target(sources, Location.of(to)):
        new = target_partitions(each.partitions, "compact")
        target, topic_ids = plan_target("compact", each, new, dry_run=options.dry_run)
        targets.append(target)
        places |= {one.paths[0]: (each.directory, topic_id) for one, topic_id in zip(new, topic_ids, strict=True)}
    paths = [each.directory.path for each in sources]
    tasks: list[CompactTask] = []
    for each in (one for source in sources for one in source.partitions):
        checkpoint = _checkpoint(each)
        policy = each.topic in named or is_compacted(each, checkpoint, paths)
        if policy is None:
            text = "the topic's settings are not known, so that it is copied unchanged; to compact it, name it, or "
            text += "give the broker's log directory with __cluster_metadata as well"
            report(Kind.SETTINGS_UNKNOWN.at(each.path, text))
        directory, topic_id = places.get(each.path, (None, ""))
        task = CompactTask(
            topic=each.topic or "", partition=each.partition or 0, to=directory, topic_id=topic_id, source=each,
            settings=options.settings_of(each, paths), checkpoint=checkpoint, is_copied=not policy,
        )  # fmt: skip
        if not (task.is_copied and options.dry_run):
            tasks.append(task)
    return Plan(tuple(tasks), tuple(targets), options.dry_run)


def _checkpoint(source: PartitionPath) -> int | None:
    with suppress(UnreadableError):
        return recorded_offset(source.location, source.topic, source.partition, names.CLEANER_CHECKPOINT)
    return None


def compact(
    plan: Plan[CompactTask],
    report: Report,
    running: RunOptions = HERE,
) -> Generator[CompactResult]:
    """Runs a plan, and commits partitions without damage, all at the end; the results come in the order of the tasks.

    ``report`` is called with every finding, before anything is committed; what it raises ends the job.
    """
    return rewrite(Rewrite("compact", run_task, result_of), plan, report, running)


def run_task(task: CompactTask, done: Done) -> TaskResult[CompactResult]:
    """Reads a partition and writes it, under a name that readers pass over."""
    findings: list[Finding] = []
    source = task.source
    settings = replace(task.settings, keep_active=True) if task.is_copied else task.settings
    cleaner = PartitionCleaner(source, settings, task.checkpoint, findings.append)
    if task.is_copied:
        return _copy_task(task, cleaner, findings, done)
    with ExitStack() as stack:
        producers = cleaner.first_producers
        output = None
        if not settings.dry_run:
            place = task.place(UNBOUNDED)
            output = stack.enter_context(PartitionWriter(place, start_offset=producers.end_offset, producers=producers))
        cleaned = cleaner.clean(output, producers, done)
        result = _result(task, cleaned)
        if output is None or cleaned.damages:
            return TaskResult(result, tuple(findings), None)
        producers.expire(settings.now_ms)
        epochs = load_epochs(source.leader_epoch_checkpoint)
        output.set_limits(result.start_offset, result.end_offset, epochs, cleaned_until=result.clean_offset)
        return TaskResult(result, tuple(findings), output.finish())


def _result(task: CompactTask, cleaned: CleanedPartition) -> CompactResult:
    end, cleanable = cleaned.history.end_offset, cleaned.cleanable
    frequent = sorted(cleaned.frequent, key=lambda each: (-each.records, each.last_offset))[: task.settings.top_keys]
    start = min(task.source.start_offset or 0, end)
    return CompactResult(
        task,
        cleaned.totals,
        dict(cleaned.rules.removed),
        tombstones=cleaned.rules.tombstones,
        frequent_keys=tuple(frequent),
        start_offset=start,
        end_offset=end,
        first_dirty_offset=cleanable.first_dirty,
        clean_offset=max(cleanable.first_uncleanable, cleanable.first_dirty),
        open_transaction=cleaned.history.open_transaction,
        damages=tuple(cleaned.damages),
    )


def _copy_task(
    task: CompactTask, cleaner: PartitionCleaner, findings: list[Finding], done: Done
) -> TaskResult[CompactResult]:
    """Reads a partition, and copies its files if they are intact."""
    source = task.source
    cleaned = cleaner.copy(done)
    result = _result(task, cleaned)
    if cleaned.damages or task.settings.dry_run:
        return TaskResult(result, tuple(findings), None)
    copying = Copying(cleaned_until=task.checkpoint, owner=task.owner)
    staged = copy_partition(source, task.directory, task.topic_id, end_offset=result.end_offset, copying=copying)
    return TaskResult(result, tuple(findings), staged)
