"""Converts partitions to another message format, codec or batch size, in a new log directory.

A plan checks beforehand all that can be wrong; a task for each partition reads it and writes it beside, wherever it
runs (:mod:`brokerless.jobs.run.job`); a commit on the driver gives it its name. Topic IDs, leader epochs, log start and
end offsets stay. A partition with damage is not committed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from typing import Any

from brokerless.errors import DamageError, RefusedError, UnreadableError, UsageError
from brokerless.findings import Finding, Kind
from brokerless.format import layouts
from brokerless.format.codecs.decompression import DEFAULT_MAX_BATCH_BYTES
from brokerless.format.convert import LOST, ConversionTarget, ConversionTotals, Converter
from brokerless.jobs.convert.reading import ConvertReader, files_that_are_read, is_damage
from brokerless.jobs.manifest import Manifest, ManifestFile, ManifestTask, describe_directory, describe_file
from brokerless.jobs.named_partitions import by_name, rewritten_topics, topic_id_of_partition
from brokerless.jobs.run.job import run_longest_first
from brokerless.jobs.run.types import NONE, Done, Say, Spark, ignore
from brokerless.kafka_names import Isolation
from brokerless.log import names
from brokerless.log.checkpoint.leader_epochs import Epochs, load_epochs
from brokerless.log.checkpoint.topic_ids import choose_topic_ids
from brokerless.log.commit.commit import commit, refuse_existing
from brokerless.log.commit.job_commit import outputs_of_job
from brokerless.log.commit.node_files import complete, complete_directories
from brokerless.log.commit.partition_copy import copy_partition, files_of
from brokerless.log.commit.partition_writer import PartitionOutput, output_directory
from brokerless.log.commit.run_record import commit_run, end_run, refuse_written, run_of
from brokerless.log.commit.types import StagedPartition
from brokerless.log.config import UNBOUNDED, LogConfig
from brokerless.log.directory import LogDirectory, PartitionPath, resolve
from brokerless.log.ranges import from_log_start
from brokerless.log.segment import Report
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.location import DirectoryEntry, Location
from brokerless.log.storage.paths import full_path
from brokerless.log.write.follower_append import check_sizes, whole_batches
from brokerless.text import short_html, short_repr

LEFT_OUT = LOST | {
    "aborted": "records of aborted transactions",
    "undecided": "records from the first open transaction on",
}
"""What may not be there any more, by the names under which it is counted."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """How all partitions are converted. ``config``: None for segments that begin where those of the source do, and are
    split only where they would be larger than a segment can be. ``isolation``: read_committed leaves out what is
    aborted or not yet decided. ``max_batch_bytes``: bytes that one batch may inflate to. ``dry_run``: everything is
    done but writing."""

    target: ConversionTarget = field(default_factory=ConversionTarget)
    config: LogConfig | None = None
    isolation: Isolation = "read_uncommitted"
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    dry_run: bool = False

    @property
    def log_config(self) -> LogConfig:
        return UNBOUNDED if self.config is None else self.config


@dataclass(frozen=True, slots=True)
class ConvertTask:
    """One partition to convert into ``directory``."""

    source: PartitionPath
    topic: str
    partition: int
    directory: Destination
    topic_id: str
    conversion: Conversion
    owner: str = ""
    """In the names of directories that this job has not finished."""
    manifest_files: bool = False
    """Whether files are hashed, for a manifest."""
    is_copied: bool = False
    """Whether its files are copied unchanged: of Kafka's own topics that were not selected by name."""
    directories: tuple[LogDirectory, ...] = ()
    """The log directories of which all is converted by these tasks."""

    @property
    def name(self) -> str:
        return names.partition_directory(self.topic, self.partition)

    @property
    def size(self) -> int:
        """Bytes to read."""
        return self.source.size

    @property
    def base_offsets(self) -> tuple[int, ...]:
        """Of the source's segments."""
        return tuple(segment.base_offset for segment in self.source.segments)


@dataclass(frozen=True, slots=True)
class ConvertResult:
    """What became of one partition. ``totals.lost`` is by the names of :data:`LEFT_OUT`. Offsets are those of the log:
    the first that a reader gets, and the one after the last. ``damages`` kept it from being written. ``base_offsets``:
    of the segments that were written."""

    task: ConvertTask
    totals: ConversionTotals
    start_offset: int
    end_offset: int
    damages: tuple[Finding, ...]
    base_offsets: tuple[int, ...] = ()

    __repr__ = short_repr
    _repr_html_ = short_html

    @property
    def has_other_segments(self) -> bool:
        """Whether what was written is divided into segments in another way."""
        return bool(self.base_offsets) and self.base_offsets != self.task.base_offsets

    def as_dict(self) -> dict[str, Any]:
        """As ``convert --json`` writes it."""
        task, totals = self.task, self.totals
        is_written = not self.damages and not task.conversion.dry_run
        return {
            "topic": task.topic,
            "partition": task.partition,
            "source": task.source.path,
            "target": task.directory.join(task.name) if is_written else None,
            "startOffset": self.start_offset,
            "endOffset": self.end_offset,
            "batchesIn": totals.batches_in,
            "batchesOut": totals.batches_out,
            "recordsIn": totals.records_in,
            "recordsOut": totals.records_out,
            "segmentsIn": len(task.base_offsets),
            "segmentsOut": len(self.base_offsets) if is_written else None,
            "sourceSizeInBytes": totals.bytes_in,
            "sizeInBytes": totals.bytes_out,
            "lost": dict(totals.lost),
            "isCopied": task.is_copied,
            "damages": len(self.damages),
        }


@dataclass(frozen=True, slots=True)
class ConvertTaskResult:
    """What a task hands to the driver: the counts of :class:`ConvertResult`, all findings, and what was written, unless
    there is damage."""

    totals: ConversionTotals
    start_offset: int
    end_offset: int
    damages: tuple[Finding, ...]
    findings: tuple[Finding, ...]
    unfinished: StagedPartition | None
    inputs: tuple[ManifestFile, ...]
    outputs: tuple[ManifestFile, ...]


@dataclass(frozen=True, slots=True)
class ConvertSettings:
    """What a manifest's job is: the same for all of its runs."""

    to: str
    conversion: Conversion


def plan(
    partitions: Sequence[PartitionPath],
    sources: Sequence[str | Location],
    directory: str | os.PathLike[str] | Location,
    conversion: Conversion,
    named: Collection[str] = (),
) -> list[ConvertTask]:
    """A task for each partition; they are in ``sources``, the paths that were given. ``named``: which of
    Kafka's own topics are converted as well, beside those whose directories are ``sources``; others of them are copied
    unchanged.

    Raises :class:`UsageError` if one of them cannot be written: it is there already, it comes twice, its name is not
    known, ``directory`` is in what is read, or ``named`` has KRaft's own log, on which no broker starts then.
    """
    given = [Location.of(each) for each in sources]
    paths = [each.path for each in given]
    named = rewritten_topics(partitions, paths, named)
    to = output_directory(Location.of(directory), paths)
    new = list(by_name(partitions, "convert them one by one"))
    if conversion.dry_run:
        refuse_existing(to, new)
    else:
        refuse_written(to, new, run_of("convert", (each.path for each in partitions)))
    own = [(each.topic or "", topic_id_of_partition(each), each.path) for each in partitions]
    logs = [resolve(each) for each in given]
    directories = complete_directories(logs, {each.path for each in partitions}, to)
    return [
        ConvertTask(
            each, each.topic or "", each.partition or 0, to, topic_id, conversion,
            is_copied=names.is_internal(each.topic) and each.topic not in named, directories=directories,
        )
        for each, topic_id in zip(partitions, choose_topic_ids(to, own), strict=True)
    ]  # fmt: skip


def inputs_of(source: PartitionPath, *, is_copied: bool = False) -> list[DirectoryEntry]:
    """The files of a partition that are read."""
    return files_of(source) if is_copied else files_that_are_read(source)


def convert(
    tasks: Sequence[ConvertTask],
    report: Report,
    done: Done = ignore,
    *,
    spark: Spark = NONE,
    say: Say = ignore,
    manifest: Manifest | None = None,
    processes: int | None = None,
) -> Iterator[ConvertResult]:
    """Runs tasks, and commits those without damage; the results come in the order of the tasks. With a manifest each is
    committed as it is finished, and a later run goes on; without one all are at the end, as nobody could.

    ``report`` is called with every finding, before what it is in is committed; what it raises ends the job. ``done`` is
    called with the bytes that were read. ``manifest``: where what was read and written is recorded. ``spark``, ``say``,
    ``processes``: as :func:`brokerless.jobs.run.job.run` takes them.
    """
    if not tasks:
        return
    dry_run = tasks[0].conversion.dry_run

    waiting: list[StagedPartition] = []

    def take(index: int, value: ConvertTaskResult) -> ConvertResult:
        for finding in value.findings:
            report(finding)
        task = tasks[index]
        base_offsets = () if value.unfinished is None else value.unfinished.base_offsets
        result = ConvertResult(task, value.totals, value.start_offset, value.end_offset, value.damages, base_offsets)
        if value.unfinished is not None and manifest is not None:
            manifest.add(ManifestTask(task.name, value.inputs, value.outputs, result.as_dict()))
            commit(task.directory, [value.unfinished])
        elif value.unfinished is not None:
            waiting.append(value.unfinished)
        return result

    with ExitStack() as stack:
        job = None if manifest is None else full_path(manifest.path)
        owner = "" if dry_run else stack.enter_context(outputs_of_job(tasks[0].directory, job))
        manifest_files = manifest is not None and not dry_run
        owned = [replace(task, owner=owner, manifest_files=manifest_files) for task in tasks]
        name = "brokerless convert"
        results = run_longest_first(
            run_task, owned, take, spark=spark, done=done, say=say, name=name, processes=processes
        )
        with closing(results):
            if manifest is not None:
                is_whole = True
                for result in results:
                    is_whole = is_whole and not result.damages
                    yield result
                if is_whole and not dry_run:
                    complete(tasks[0].directories, tasks[0].directory, say)
                return
            taken = list(results)
        if waiting:
            commit_run(tasks[0].directory, waiting, run_of("convert", (each.source.path for each in tasks)))
        if not dry_run and not any(result.damages for result in taken):
            complete(tasks[0].directories, tasks[0].directory, say)
        yield from taken
        if not dry_run:
            end_run(tasks[0].directory)


def run_task(task: ConvertTask, done: Done) -> ConvertTaskResult:
    """Reads a partition and writes it, under a name that readers pass over."""
    if task.is_copied:
        return _copy_task(task, done)
    findings: list[Finding] = []
    with ExitStack() as stack:
        output = None if task.conversion.dry_run else stack.enter_context(_begin(task))
        how = task.conversion
        reading = ConvertReader(
            task.source,
            how.isolation,
            findings.append,
            is_hashed=task.manifest_files,
            keeps_segments=how.config is None,
        )
        converter = Converter(task.conversion.target, task.conversion.max_batch_bytes)
        try:
            for buffer in reading.buffers(converter, done):
                if output is not None and len(buffer):
                    output.append(buffer)
                elif len(buffer):
                    check_sizes(whole_batches(buffer, computed=True), task.conversion.log_config)
                del buffer  # a huge one is not to stay beside the next
        except (RefusedError, UsageError) as error:
            reading.report_finding(
                Finding("error", Kind.BATCH_REFUSED, reading.path, None, None, f"cannot be written: {error}")
            )
        start = min(task.source.start_offset or 0, reading.end_offset)
        unfinished, outputs = None, ()
        if output is not None and not reading.damages:
            magic = task.conversion.target.magic
            limits = start, reading.end_offset, _epochs(task)
            magic = layouts.MAGIC_V2 if magic is None else magic
            output.set_limits(*limits, magic, reading.compacted_until)
            unfinished = output.finish()
            if task.manifest_files:
                outputs = describe_directory(task.directory, unfinished.directory, task.name)
        inputs = tuple(reading.manifest_files())
        damages = tuple(reading.damages)
        return ConvertTaskResult(
            converter.totals, start, reading.end_offset, damages, tuple(findings), unfinished, inputs, outputs
        )


def _copy_task(task: ConvertTask, done: Done) -> ConvertTaskResult:
    """Reads a partition, and copies its files if they are intact."""
    findings: list[Finding] = []
    source = task.source
    reading, totals = ConvertReader(source, "read_uncommitted", findings.append), ConversionTotals()
    reading.look(totals, done)
    start, end, damages = min(source.start_offset or 0, reading.end_offset), reading.end_offset, reading.damages
    if damages or task.conversion.dry_run:
        return ConvertTaskResult(totals, start, end, tuple(damages), tuple(findings), None, (), ())
    unfinished = copy_partition(
        source, task.directory, task.topic_id, end,
        cleaned_until=reading.compacted_until, owner=task.owner)  # fmt: skip
    inputs = tuple(_described_now(source)) if task.manifest_files else ()
    outputs = describe_directory(task.directory, unfinished.directory, task.name) if task.manifest_files else ()
    return ConvertTaskResult(totals, start, end, (), tuple(findings), unfinished, inputs, outputs)


def _described_now(source: PartitionPath) -> Iterator[ManifestFile]:
    for each in files_of(source):
        try:
            yield describe_file(each)
        except UnreadableError as error:  # a broker deleted it, so that a later run copies the partition again
            if not isinstance(error.__cause__, FileNotFoundError):
                raise


def _begin(task: ConvertTask) -> PartitionOutput:
    return PartitionOutput(
        task.directory,
        task.topic,
        task.partition,
        task.conversion.log_config,
        start_offset=_first_offset(task.source),
        topic_id=task.topic_id,
        owner=task.owner,
        base_offsets=() if task.conversion.config is not None else task.base_offsets[1:],
    )


def raise_damage(finding: Finding) -> None:
    """A report that raises :class:`DamageError` for what keeps a partition from being written."""
    if is_damage(finding):
        raise DamageError(finding)


def _first_offset(source: PartitionPath) -> int:
    """Where the new log's first segment begins: with a segment of the source, as the batch that has the log start
    offset is kept whole."""
    segments = from_log_start(source).segments(source.segments)
    return segments[0].base_offset if segments else 0


def _epochs(task: ConvertTask) -> Epochs:
    """Leader epochs as the source records them; the older formats have none."""
    magic = task.conversion.target.magic
    if magic is not None and magic < layouts.MAGIC_V2:
        return ()
    return load_epochs(task.source.leader_epoch_checkpoint)
