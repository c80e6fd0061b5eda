"""Compacts partitions into a new log directory, as Kafka's cleaner does.

A plan checks beforehand all that can be wrong; a task for each partition reads it and writes it beside, wherever it
runs (:mod:`brokerless.jobs.run.job`); a commit on the driver names all of them. Topics that are not compacted are
copied unchanged, as is KRaft's own log. A partition with damage is not written.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding, Kind
from brokerless.jobs.compact.partition import CleanedPartition, PartitionCleaner
from brokerless.jobs.compact.rules import Tombstones
from brokerless.jobs.compact.settings import CompactOptions, CompactSettings, is_compacted
from brokerless.jobs.compact.totals import CompactTotals, FrequentKey
from brokerless.jobs.named_partitions import by_name, target_directories, topic_id_of_partition
from brokerless.jobs.run.job import run_longest_first
from brokerless.jobs.run.types import NONE, Done, Say, Spark, ignore
from brokerless.log import names
from brokerless.log.checkpoint.leader_epochs import load_epochs
from brokerless.log.checkpoint.offset_checkpoints import recorded_offset
from brokerless.log.checkpoint.topic_ids import choose_topic_ids
from brokerless.log.commit.job_commit import outputs_of_job
from brokerless.log.commit.node_files import complete, complete_directories
from brokerless.log.commit.partition_copy import copy_partition
from brokerless.log.commit.partition_writer import PartitionOutput, output_directory
from brokerless.log.commit.run_record import commit_run, end_run, refuse_written, run_of
from brokerless.log.commit.types import StagedPartition
from brokerless.log.config import UNBOUNDED
from brokerless.log.directory import LogDirectory, PartitionPath, resolve
from brokerless.log.segment import Report
from brokerless.log.segment import ignore as ignore_finding
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.location import Location
from brokerless.text import short_html, short_repr


@dataclass(frozen=True, slots=True)
class CompactTask:
    """One partition to compact into ``directory``; None to write nothing. ``checkpoint``: the offset up
    to which it was cleaned. ``is_copied``: its topic is not compacted."""

    source: PartitionPath
    topic: str
    partition: int
    directory: Destination | None
    topic_id: str
    settings: CompactSettings
    checkpoint: int | None = None
    is_copied: bool = False
    owner: str = ""
    directories: tuple[LogDirectory, ...] = ()

    @property
    def name(self) -> str:
        return names.partition_directory(self.topic, self.partition)

    @property
    def size(self) -> int:
        """Bytes to read: each twice, for keys and for records."""
        return self.source.size * (1 if self.is_copied else 2)


@dataclass(frozen=True, slots=True)
class CompactResult:
    """What became of one partition. Offsets are those of the log; what is before ``clean_offset`` is clean now.
    ``removed``: counts by the names of :data:`REMOVED`. ``open_transaction``: the producer ID and first offset of the
    open transaction that holds compaction back, None without one. ``damages`` kept it from being written."""

    task: CompactTask
    totals: CompactTotals = field(default_factory=CompactTotals)
    removed: dict[str, int] = field(default_factory=dict[str, int])
    tombstones: Tombstones = field(default_factory=Tombstones)
    frequent_keys: tuple[FrequentKey, ...] = ()
    start_offset: int = 0
    end_offset: int = 0
    first_dirty_offset: int = 0
    clean_offset: int = 0
    open_transaction: tuple[int, int] | None = None
    damages: tuple[Finding, ...] = ()

    __repr__ = short_repr
    _repr_html_ = short_html

    def as_dict(self) -> dict[str, Any]:
        """As ``compact --json`` writes it."""
        task, totals, tombstones = self.task, self.totals, self.tombstones
        is_written = not self.damages and task.directory is not None
        return {
            "topic": task.topic,
            "partition": task.partition,
            "source": task.source.path,
            "target": task.directory.join(task.name) if is_written and task.directory is not None else None,
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


@dataclass(frozen=True, slots=True)
class CompactTaskResult:
    """What a task hands to the driver: the result, all findings, and what was written, unless there is damage."""

    result: CompactResult
    findings: tuple[Finding, ...]
    staged: StagedPartition | None


def plan(
    partitions: Sequence[PartitionPath],
    sources: Sequence[str | Location],
    directory: str | os.PathLike[str] | Location | None,
    options: CompactOptions,
    named: Collection[str] = (),
    report: Report | None = None,
) -> list[CompactTask]:
    """A task for each partition; they are in ``sources``, the paths that were given. ``directory``: None to write
    nothing, and then partitions that would be copied have no task; of several log directories, each is written to one
    of its own name in it. ``named``: topics that are compacted whatever their
    ``cleanup.policy``, beside those whose directories are ``sources``. ``report`` is called for topics of which no
    metadata in ``sources`` has the settings, so that they are copied.

    Raises :class:`UsageError` if one of them cannot be written: it is there already, it comes twice, its name is not
    known, ``directory`` is in what is read, or ``named`` has KRaft's own log.
    """
    given = [Location.of(each) for each in sources]
    paths = [each.path for each in given]
    named = {*named, *(each.topic or "" for each in partitions if each.path in paths)}
    if names.CLUSTER_METADATA in named:
        text = "is KRaft's own log, which Kafka does not compact, but replaces by snapshots"
        raise UsageError(f"{names.CLUSTER_METADATA} {text}; leave it out")
    places: dict[str, _Place] = {}
    if directory is not None and not options.dry_run:
        places = _places(partitions, given, Location.of(directory))
    tasks: list[CompactTask] = []
    for each in partitions:
        checkpoint = _checkpoint(each)
        policy = each.topic in named or is_compacted(each, checkpoint, paths)
        if policy is None:
            text = "the topic's settings are not known, so that it is copied unchanged; to compact it, name it, or "
            text += "give the broker's log directory with __cluster_metadata as well"
            (report or ignore_finding)(Finding("warning", Kind.SETTINGS_UNKNOWN, each.path, None, None, text))
        is_copied = not policy
        settings = options.settings_of(each, paths)
        to, topic_id, directories = places.get(each.path, _NOWHERE)
        tasks.append(
            CompactTask(
                each, each.topic or "", each.partition or 0, to, topic_id, settings, checkpoint, is_copied,
                directories=directories,
            )
        )  # fmt: skip
    return [each for each in tasks if each.directory is not None or not each.is_copied]


class _Place(NamedTuple):
    """Where a partition is written, with which topic ID, and which log directories that one gets node files of."""

    directory: Destination | None
    topic_id: str
    sources: tuple[LogDirectory, ...]


_NOWHERE = _Place(None, "", ())


def _places(partitions: Sequence[PartitionPath], sources: Sequence[Location], directory: Location) -> dict[str, _Place]:
    """By the partitions' paths; of several log directories, each is written to one of its own name."""
    places: dict[str, _Place] = {}
    logs = [resolve(each, names.INCLUDE) for each in sources]
    targets = target_directories(logs, directory.path)
    for target in dict.fromkeys(targets):
        of_target = [log for log, each in zip(logs, targets, strict=True) if each == target]
        paths = {each.path for log in of_target for each in log.partitions}
        chosen = [each for each in partitions if each.path in paths]
        to = output_directory(directory.at(target), [each.path for each in sources])
        new = list(by_name(chosen, "compact them one by one"))
        refuse_written(to, new, run_of("compact", (each.path for each in chosen)))
        ids = [(each.topic or "", topic_id_of_partition(each), each.path) for each in chosen]
        node = complete_directories(of_target, {each.path for each in chosen}, to)
        topic_ids = choose_topic_ids(to, ids)
        places |= {each.path: _Place(to, own, node) for each, own in zip(chosen, topic_ids, strict=True)}
    return places


def _checkpoint(source: PartitionPath) -> int | None:
    with suppress(UnreadableError):
        return recorded_offset(source.location, source.topic, source.partition, names.CLEANER_CHECKPOINT)
    return None


def compact(
    tasks: Sequence[CompactTask],
    report: Report,
    done: Done = ignore,
    *,
    spark: Spark = NONE,
    say: Say = ignore,
    processes: int | None = None,
) -> Generator[CompactResult]:
    """Runs tasks, and commits those without damage, all at the end; the results come in the order of the tasks.

    ``report`` is called with every finding, before anything is committed; what it raises ends the job. ``done`` is
    called with the bytes that were read. ``spark``, ``say``, ``processes``: as :func:`brokerless.jobs.run.job.run`.
    """
    if not tasks:
        return
    first_of = {str(each.directory): each for each in reversed(tasks) if each.directory is not None}
    staged: dict[str, list[StagedPartition]] = {each: [] for each in first_of}

    def take(index: int, value: CompactTaskResult) -> CompactResult:
        for finding in value.findings:
            report(finding)
        if value.staged is not None:
            staged[str(tasks[index].directory)].append(value.staged)
        return value.result

    with ExitStack() as stack:
        owners = {
            name: stack.enter_context(outputs_of_job(each.directory, None))
            for name, each in first_of.items()
            if each.directory is not None
        }
        owned = [replace(task, owner=owners.get(str(task.directory), "")) for task in tasks]
        results = run_longest_first(
            run_task, owned, take, spark=spark, done=done, say=say, name="brokerless compact", processes=processes
        )
        with closing(results):
            taken = list(results)
        for name, each in first_of.items():
            if each.directory is not None and staged[name]:
                sources = (one.source.path for one in tasks if str(one.directory) == name)
                commit_run(each.directory, staged[name], run_of("compact", sources))
        for each in first_of.values():
            if each.directory is not None and not any(one.damages for one in taken):
                complete(each.directories, each.directory, say)
    yield from taken
    for each in first_of.values():
        if each.directory is not None:
            end_run(each.directory)


def run_task(task: CompactTask, done: Done) -> CompactTaskResult:
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
        if task.directory is not None:
            output = stack.enter_context(
                PartitionOutput(
                    task.directory, task.topic, task.partition, UNBOUNDED, start_offset=producers.end_offset,
                    topic_id=task.topic_id, owner=task.owner, producers=producers,
                )
            )  # fmt: skip
        cleaned = cleaner.clean(output, producers, done)
        result = _result(task, cleaned)
        if output is None or cleaned.damages:
            return CompactTaskResult(result, tuple(findings), None)
        producers.expire(settings.now_ms)
        epochs = load_epochs(source.leader_epoch_checkpoint)
        output.set_limits(result.start_offset, result.end_offset, epochs, cleaned_until=result.clean_offset)
        return CompactTaskResult(result, tuple(findings), output.finish())


def _result(task: CompactTask, cleaned: CleanedPartition) -> CompactResult:
    end, cleanable = cleaned.history.end_offset, cleaned.cleanable
    frequent = sorted(cleaned.frequent, key=lambda each: (-each.records, each.last_offset))[: task.settings.top_keys]
    start = min(task.source.start_offset or 0, end)
    return CompactResult(
        task, cleaned.totals, dict(cleaned.rules.removed), cleaned.rules.tombstones, tuple(frequent), start, end,
        cleanable.first_dirty, max(cleanable.first_uncleanable, cleanable.first_dirty),
        cleaned.history.open_transaction, tuple(cleaned.damages),
    )  # fmt: skip


def _copy_task(task: CompactTask, cleaner: PartitionCleaner, findings: list[Finding], done: Done) -> CompactTaskResult:
    """Reads a partition, and copies its files if they are intact."""
    source = task.source
    cleaned = cleaner.copy(done)
    result = _result(task, cleaned)
    if cleaned.damages or task.directory is None:
        return CompactTaskResult(result, tuple(findings), None)
    staged = copy_partition(
        source, task.directory, task.topic_id, result.end_offset,
        cleaned_until=task.checkpoint, owner=task.owner)  # fmt: skip
    return CompactTaskResult(result, tuple(findings), staged)
