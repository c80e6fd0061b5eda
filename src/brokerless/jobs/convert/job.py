"""Converts partitions to another message format, codec or batch size, in a new log directory.

A plan checks beforehand all that can be wrong; a task for each partition reads it and writes it beside, wherever it
runs (:mod:`brokerless.jobs.run.job`); a commit on the driver gives it its name. Topic IDs, leader epochs, log start and
end offsets stay. A partition with damage is not committed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from brokerless.errors import RefusedError, UsageError, refused_batch
from brokerless.findings import Finding
from brokerless.format import layouts
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.format.convert import LOST, ConversionTarget, ConversionTotals, Converter
from brokerless.jobs.manifest import JobManifest, ManifestTask, describe_directory
from brokerless.jobs.named_partitions import by_name
from brokerless.jobs.rewrite.copy import Rewritten, copy_unchanged
from brokerless.jobs.rewrite.oversized import OversizedBatches
from brokerless.jobs.rewrite.plan import (
    OfTarget,
    PartitionTask,
    Plan,
    Source,
    Target,
    by_target,
    plan_target,
    rewritten_topics,
    target_partitions,
)
from brokerless.jobs.rewrite.reading import RewriteReader, files_that_are_read
from brokerless.jobs.rewrite.run import PartitionResult, Rewrite, places, rewrite
from brokerless.jobs.run.types import HERE, RunOptions
from brokerless.kafka_names import Isolation
from brokerless.log import names
from brokerless.log.checkpoint.leader_epochs import Epochs, load_epochs
from brokerless.log.commit.partition_copy import files_of
from brokerless.log.commit.partition_writer import PartitionWriter
from brokerless.log.commit.types import StagedPartition
from brokerless.log.config import UNBOUNDED, LogConfig, with_segment_bytes
from brokerless.log.directory import PartitionPath
from brokerless.log.producer.recorded_aborts import RecordedAborts
from brokerless.log.producer.state import ProducerState
from brokerless.log.ranges import from_log_start
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import full_path
from brokerless.log.write.follower_append import whole_batches
from brokerless.progress import Done, Report
from brokerless.requests.writing import ConvertRequest
from brokerless.tables.read_options import bound

LEFT_OUT = LOST | {
    "aborted": "records of aborted transactions",
    "undecided": "records from the first open transaction on",
}
"""What may not be there any more, by the names under which it is counted."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """The settings of a conversion, which are the same for all partitions."""

    target: ConversionTarget = field(default_factory=ConversionTarget)
    config: LogConfig | None = None
    """The settings of the new segments. With None they begin where those of the source do, and are split only where
    they would be larger than a segment can be."""
    isolation: Isolation = "read_uncommitted"
    """With ``read_committed``, records that are aborted or not yet decided are left out."""
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    """How many bytes one batch may inflate to."""
    dry_run: bool = False
    """Whether everything is done but writing."""

    @property
    def log_config(self) -> LogConfig:
        return UNBOUNDED if self.config is None else self.config


def conversion_of(request: ConvertRequest) -> Conversion:
    """Return how it was requested."""
    target = ConversionTarget(request.message_format, request.codec, request.level, request.batch_size)
    config = with_segment_bytes(request.segment_bytes)
    return Conversion(
        target, config, request.isolation, max_batch_bytes=bound(request.max_batch_bytes), dry_run=request.dry_run
    )


def opened_manifest(request: ConvertRequest, conversion: Conversion) -> AbstractContextManager[JobManifest | None]:
    """Open the manifest by which a run goes on, if one was requested. Raises :class:`UsageError` for that of another
    job, UnreadableError, UnwritableError."""
    if request.manifest is None:
        return nullcontext()
    to = Location.of(request.to, request.storage_options).path
    settings = ConvertSettings(full_path(to), replace(conversion, dry_run=False))
    return JobManifest.open(os.fspath(request.manifest), "convert", settings, dry_run=request.dry_run)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertTask(PartitionTask):
    """One partition to convert."""

    conversion: Conversion
    in_manifest: str = ""
    """The partition's name in the manifest for which its files are hashed; empty without a manifest."""
    is_copied: bool = False
    """Whether its files are copied unchanged, as those of Kafka's own topics that were not selected by name."""


@dataclass(frozen=True, slots=True, repr=False)
class ConvertResult(PartitionResult[ConvertTask]):
    """The result of converting one partition. Offsets are those of the log."""

    totals: ConversionTotals
    """Counts, of which ``lost`` is by the names of :data:`LEFT_OUT`."""
    start_offset: int
    """The first offset that a reader gets."""
    end_offset: int
    """The offset after the last one."""
    damages: tuple[Finding, ...]
    """The damage that kept the partition from being written."""
    base_offsets: tuple[int, ...] = ()
    """The base offsets of the segments that were written."""

    @property
    def has_other_segments(self) -> bool:
        """Whether what was written is divided into segments in another way."""
        return bool(self.base_offsets) and self.base_offsets != self.task.base_offsets

    def as_dict(self) -> dict[str, Any]:
        """Return the object that ``convert --json`` writes."""
        task, totals = self.task, self.totals
        is_written = not self.damages and not task.conversion.dry_run
        return {
            **places(task, is_written=is_written),
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
class ConvertSettings:
    """The settings of a conversion that its manifest records as the job: the same for all of its runs."""

    to: str
    conversion: Conversion


def plan(
    sources: Sequence[Source],
    to: str | os.PathLike[str] | Location,
    conversion: Conversion,
    named: Collection[str] = (),
    manifest: JobManifest | None = None,
) -> Plan[ConvertTask]:
    """Return a task for each of the partitions that were chosen of each source. ``named``: which of Kafka's own topics
    are converted as well, beside those whose directories are sources; others of them are copied unchanged.
    ``manifest``: of partitions that it says are done, nothing is left to do.

    Raises :class:`UsageError` if one of them cannot be written: it is there already, it comes twice, its name is not
    known, ``to`` is in what is read, or ``named`` has KRaft's own log, on which no broker starts then.
    """
    named = rewritten_topics(sources, named)
    tasks: list[ConvertTask] = []
    targets: list[Target] = []
    finished: list[str] = []
    for each in by_target(sources, Location.of(to)):
        partitions = by_name(each.partitions, "convert them one by one")
        if manifest is not None:
            done = [name for name, one in partitions.items() if _is_finished(one, manifest, each, name)]
            finished += [each.prefix + name for name in done]
            partitions = {name: one for name, one in partitions.items() if name not in done}
        new = target_partitions(list(partitions.values()), "convert")
        target, topic_ids = plan_target("convert", each, new, dry_run=conversion.dry_run)
        targets.append(target)
        tasks += [
            ConvertTask(
                topic=one.topic, partition=one.partition, to=each.directory, topic_id=topic_id,
                source=partitions[one.name], conversion=conversion,
                in_manifest="" if manifest is None else each.prefix + one.name,
                is_copied=names.is_internal(one.topic) and one.topic not in named,
            )
            for one, topic_id in zip(new, topic_ids, strict=True)
        ]  # fmt: skip
    return Plan(tuple(tasks), tuple(targets), conversion.dry_run, tuple(finished))


def _is_finished(source: PartitionPath, manifest: JobManifest, target: OfTarget, name: str) -> bool:
    """Return whether an earlier run has written a partition. Raises :class:`UsageError` if that was changed since."""
    key = target.prefix + name
    if manifest.is_done(key, files_that_are_read(source)) or manifest.is_done(key, files_of(source)):
        return True
    if manifest.knows(key) and target.directory.exists(name):
        text = f"{source.path} is not as {manifest.path} says any more, or what was made of it is not"
        raise UsageError(f"{text}; remove {target.directory.join(name)} to convert it again")
    return False


def convert(
    plan: Plan[ConvertTask],
    report: Report,
    running: RunOptions = HERE,
    *,
    manifest: JobManifest | None = None,
) -> Generator[ConvertResult]:
    """Runs a plan, and commits partitions without damage; the results come in the order of the tasks. With a manifest,
    each partition is committed when it is finished, and a later run continues; without one, all are committed together
    at the end, as no later run could continue.

    ``report`` is called with every finding, before what it is in is committed; what it raises ends the job.
    ``manifest``: where what was read and written is recorded.
    """

    def take(task: ConvertTask, value: Rewritten) -> tuple[ConvertResult, StagedPartition | None]:
        base_offsets = () if value.staged is None else value.staged.base_offsets
        result = ConvertResult(
            task,
            value.totals,
            value.start_offset,
            end_offset=value.end_offset,
            damages=value.damages,
            base_offsets=base_offsets,
        )
        if value.staged is not None and manifest is not None:
            manifest.add(ManifestTask(task.in_manifest, value.inputs, value.outputs, result.as_dict()))
        return result, value.staged

    has_manifest = manifest is not None
    key = None if manifest is None else full_path(manifest.path)
    job = Rewrite("convert", run_task, take, has_manifest=has_manifest, commits_each=has_manifest, job_of=lambda _: key)
    return rewrite(job, plan, report, running)


def run_task(task: ConvertTask, done: Done) -> Rewritten:
    """Reads a partition and writes it, under a name that readers pass over."""
    if task.is_copied:
        return copy_unchanged(task, done, dry_run=task.conversion.dry_run, is_hashed=bool(task.in_manifest))
    findings: list[Finding] = []
    with ExitStack() as stack:
        output = None if task.conversion.dry_run else stack.enter_context(_begin(task))
        how = task.conversion
        reading = RewriteReader(
            task.source,
            how.isolation,
            findings.append,
            is_hashed=bool(task.in_manifest),
            keeps_segments=how.config is None,
        )
        converter = Converter(task.conversion.target, task.conversion.max_batch_bytes)
        oversized = OversizedBatches(how.log_config)
        try:
            for buffer in reading.buffers(converter, done):
                if how.config is not None:
                    oversized.add(whole_batches(buffer, computed=True))
                if output is not None and len(buffer):
                    output.append(buffer)
                del buffer  # freed before the next one is read
        except (RefusedError, UsageError) as error:
            reading.report_finding(refused_batch(reading.path, error))
        oversized.report(task.source.path, findings.append)
        start = min(task.source.start_offset or 0, reading.end_offset)
        staged, outputs = None, ()
        if output is not None and not reading.damages:
            magic = task.conversion.target.magic
            limits = start, reading.end_offset, _epochs(task)
            magic = layouts.MAGIC_V2 if magic is None else magic
            output.set_limits(*limits, magic, reading.compacted_until)
            staged = output.finish()
            if task.in_manifest:
                outputs = describe_directory(task.directory, staged.directory, task.name)
        inputs = tuple(reading.manifest_files())
        damages = tuple(reading.damages)
        return Rewritten(
            converter.totals,
            start,
            reading.end_offset,
            damages=damages,
            findings=tuple(findings),
            staged=staged,
            inputs=inputs,
            outputs=outputs,
        )


def _begin(task: ConvertTask) -> PartitionWriter:
    start_offset = _first_offset(task.source)
    return PartitionWriter(
        task.place(task.conversion.log_config),
        start_offset=start_offset,
        producers=ProducerState(start_offset, recorded=RecordedAborts(task.source.segments)),
        base_offsets=() if task.conversion.config is not None else task.base_offsets[1:],
    )


def _first_offset(source: PartitionPath) -> int:
    """Return where the new log's first segment begins: with a segment of the source, as the batch that has the log
    start offset is kept whole."""
    segments = from_log_start(source).segments(source.segments)
    return segments[0].base_offset if segments else 0


def _epochs(task: ConvertTask) -> Epochs:
    """Leader epochs as the source records them; the older formats have none."""
    magic = task.conversion.target.magic
    if magic is not None and magic < layouts.MAGIC_V2:
        return ()
    return load_epochs(task.source.leader_epoch_checkpoint)
