"""Erases records of whole partitions into new log directories, and keeps every other record at its offset.

A plan checks beforehand all that can be wrong; a task for each partition reads it and writes it beside, wherever it
runs (:mod:`brokerless.jobs.run.job`); the manifest is written before a commit on the driver gives partitions their
names. Topic IDs, leader epochs, log start and end offsets and the segments' base offsets stay. A partition with damage
is not committed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from brokerless.errors import RefusedError, refused_batch
from brokerless.findings import Finding
from brokerless.format import layouts
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.jobs.erase.blanking import Blanking
from brokerless.jobs.erase.digests import OutputHashes
from brokerless.jobs.erase.eraser import Eraser, ErasureTotals, TouchedBatch
from brokerless.jobs.erase.selection import Matcher, Selection
from brokerless.jobs.manifest import ManifestFile, describe_directory, describe_file
from brokerless.jobs.named_partitions import by_name
from brokerless.jobs.rewrite.copy import copy_unchanged
from brokerless.jobs.rewrite.plan import (
    PartitionTask,
    Plan,
    Source,
    Target,
    by_target,
    plan_target,
    rewritten_topics,
    target_partitions,
)
from brokerless.jobs.rewrite.reading import RewriteReader
from brokerless.jobs.rewrite.run import PartitionResult, Rewrite, places, rewrite
from brokerless.jobs.run.types import HERE, RunOptions
from brokerless.log import names
from brokerless.log.checkpoint.leader_epochs import load_epochs
from brokerless.log.commit.commit import recover_commit
from brokerless.log.commit.partition_copy import files_of
from brokerless.log.commit.partition_writer import PartitionWriter
from brokerless.log.commit.types import StagedPartition
from brokerless.log.config import UNBOUNDED
from brokerless.log.directory import LogDirectory
from brokerless.log.producer.loading import load_first_state
from brokerless.log.producer.snapshot import load_producer_snapshot
from brokerless.log.ranges import from_log_start
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import full_path
from brokerless.log.write.follower_append import whole_batches
from brokerless.progress import Done, Report, ignore
from brokerless.typed.blanking.schemas import RecordedSchemas


@dataclass(frozen=True, slots=True)
class Erasure:
    """The request of an erasure, which is the same for all partitions."""

    selection: Selection
    blanking: Blanking | None = None
    """What becomes null of selected records; None removes them."""
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    """How many bytes one batch may inflate to."""
    dry_run: bool = False
    """Whether everything is done but writing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseTask(PartitionTask):
    """One partition to erase from; what is left of it is written."""

    erasure: Erasure
    is_hashed: bool = False
    """Whether its files are hashed, for a manifest."""
    is_copied: bool = False
    """Whether its files are copied unchanged, as those of Kafka's own topics that were not named."""


@dataclass(frozen=True, slots=True)
class EraseTaskResult:
    """A task's result, which the driver gets: counts, findings, and what was written, unless there is damage."""

    totals: ErasureTotals
    start_offset: int
    end_offset: int
    untouched: str
    damages: tuple[Finding, ...]
    findings: tuple[Finding, ...]
    staged: StagedPartition | None = None
    before: tuple[ManifestFile, ...] = ()
    after: tuple[ManifestFile, ...] = ()
    schemas: RecordedSchemas = field(default_factory=RecordedSchemas)


@dataclass(frozen=True, slots=True, repr=False)
class ErasedPartition(PartitionResult[EraseTask]):
    """The result of an erasure in one partition. Offsets are those of the log."""

    totals: ErasureTotals
    start_offset: int
    """The first offset that a reader gets."""
    end_offset: int
    """The offset after the last one."""
    untouched: str
    """The SHA-256 of all batches that stayed, with a manifest."""
    damages: tuple[Finding, ...]
    """The damage that kept the partition from being written."""
    before: tuple[ManifestFile, ...] = ()
    after: tuple[ManifestFile, ...] = ()
    schemas: RecordedSchemas = field(default_factory=RecordedSchemas)
    """The schemas by which fields were blanked."""

    def as_dict(self) -> dict[str, Any]:
        """Return the object that ``erase --json`` writes."""
        task, totals = self.task, self.totals
        is_written = not self.damages and not task.erasure.dry_run
        return {
            **places(task, is_written=is_written),
            "startOffset": self.start_offset,
            "endOffset": self.end_offset,
            "selected": totals.selected,
            "unchanged": totals.unchanged,
            "touchedBatches": len(totals.touched),
            "batchesIn": totals.batches_in,
            "batchesOut": totals.batches_out,
            "recordsIn": totals.records_in,
            "recordsOut": totals.records_out,
            "sourceSizeInBytes": totals.bytes_in,
            "sizeInBytes": totals.bytes_out,
            "isCopied": task.is_copied,
            "damages": len(self.damages),
            **({"fields": [each.as_dict() for each in totals.fields]} if totals.fields else {}),
        }


def recover_targets(sources: Sequence[LogDirectory], to: Location) -> None:
    """Completes or undoes the commit of a run that was killed, before what is there is compared with its manifest.
    Raises as :func:`plan`."""
    for each in by_target([Source.all_of(each) for each in sources], to):
        recover_commit(each.directory)


def plan(
    sources: Sequence[Source],
    to: Location,
    erasure: Erasure,
    named: Collection[str] = (),
    finished: Collection[str] = (),
    *,
    is_hashed: bool = False,
) -> Plan[EraseTask]:
    """Return a task for each of the partitions that were chosen of each source. ``named``: which of Kafka's own topics
    are erased as well, beside those whose directories are sources; others of them are copied unchanged. ``finished``:
    paths of partitions that an earlier run wrote, of which nothing is left to do. ``is_hashed``: for a manifest.

    Raises :class:`UsageError` if one of them cannot be written: it is there already, it comes twice, its name is not
    known, ``to`` is in what is read, ``named`` has KRaft's own log, or DuckDB does not take the condition.
    """
    named = rewritten_topics(sources, named)
    Matcher(erasure.selection, "", 0)
    tasks: list[EraseTask] = []
    targets: list[Target] = []
    for each in by_target([one.as_it_lies() for one in sources], to):
        partitions = {
            name: one
            for name, one in by_name(each.partitions, "erase them one by one").items()
            if full_path(each.directory.join(name)) not in finished
        }
        new = target_partitions(list(partitions.values()), "erase")
        target, topic_ids = plan_target("erase", each, new, dry_run=erasure.dry_run)
        targets.append(target)
        tasks += [
            EraseTask(
                topic=one.topic, partition=one.partition, to=each.directory, topic_id=topic_id,
                source=partitions[one.name], erasure=erasure, is_hashed=is_hashed and not erasure.dry_run,
                is_copied=names.is_internal(one.topic) and one.topic not in named,
            )
            for one, topic_id in zip(new, topic_ids, strict=True)
        ]  # fmt: skip
    return Plan(tuple(tasks), tuple(targets), erasure.dry_run)


def erase(
    plan: Plan[EraseTask],
    report: Report,
    running: RunOptions = HERE,
    *,
    write_manifest: Callable[[Sequence[ErasedPartition]], object] = ignore,
) -> list[ErasedPartition]:
    """Runs a plan, and commits partitions without damage at the end, all of one log directory together; the results are
    in the order of the tasks. ``write_manifest`` is called with them before the commit. ``report`` is called with
    every finding; what it raises ends the job."""

    def take(task: EraseTask, value: EraseTaskResult) -> tuple[ErasedPartition, StagedPartition | None]:
        result = ErasedPartition(
            task,
            value.totals,
            value.start_offset,
            end_offset=value.end_offset,
            untouched=value.untouched,
            damages=value.damages,
            before=value.before,
            after=value.after,
            schemas=value.schemas,
        )
        return result, value.staged

    job = Rewrite(
        "erase", run_task, take, has_manifest=True, before_commit=write_manifest,
        job_of=lambda directory: f"erase {full_path(str(directory))}",
    )  # fmt: skip
    return list(rewrite(job, plan, report, running))


def run_task(task: EraseTask, done: Done) -> EraseTaskResult:
    """Reads a partition and writes what is left of it, under a name that readers pass over."""
    if task.is_copied:
        return _copy(task, done)
    findings: list[Finding] = []
    erasure, selection = task.erasure, task.erasure.selection
    with ExitStack() as stack:
        output = None if erasure.dry_run else stack.enter_context(_begin(task))
        reading = RewriteReader(
            task.source, "read_uncommitted", findings.append, is_hashed=task.is_hashed, keeps_segments=True,
        )  # fmt: skip
        hashes = None
        if task.is_hashed:
            bases = [each.base_offset for each in task.source.segments]
            hashes = stack.enter_context(OutputHashes(bases, lambda: reading.hash_before))
        eraser = Eraser(
            Matcher(selection, task.topic, task.partition), erasure.blanking, erasure.max_batch_bytes,
            topic=task.topic, hashes=hashes,
            needs=(selection.needs_keys, selection.needs_values, selection.needs_headers),
        )  # fmt: skip
        try:
            for converted in reading.converted(eraser, done):
                if output is not None and len(converted.buffer):
                    output.append(converted.buffer, converted.batches or whole_batches(converted.buffer, computed=True))
                del converted  # freed before the next one is read
        except RefusedError as error:
            reading.report_finding(refused_batch(reading.path, error))
        start = min(task.source.start_offset or 0, reading.end_offset)
        staged, before, after = None, (), ()
        if output is not None and not reading.damages:
            epochs = load_epochs(task.source.leader_epoch_checkpoint)
            cleaned = max(reading.compacted_until or 0, eraser.legacy_until) or reading.compacted_until
            if eraser.read_until > output.log_end_offset:  # an empty batch, so that consumers come to the end
                output.set_limits(start, eraser.read_until, epochs, magic=layouts.MAGIC_V2, cleaned_until=cleaned)
            output.set_limits(start, reading.end_offset, epochs, magic=layouts.MAGIC_V1, cleaned_until=cleaned)
            _keep_transactional_state(task, output)
            staged = output.finish()
            if task.is_hashed:
                before = _described(task, tuple(reading.manifest_files()))
                known = _copied(task, before, eraser.totals.touched)
                known |= {} if hashes is None else hashes.written.files()
                after = describe_directory(task.directory, staged.directory, task.name, known)
        return EraseTaskResult(
            eraser.totals, start, reading.end_offset, untouched="" if hashes is None else hashes.untouched.hexdigest(),
            damages=tuple(reading.damages), findings=tuple(findings), staged=staged, before=before, after=after,
            schemas=RecordedSchemas() if eraser.blanker is None else eraser.blanker.recorded(),
        )  # fmt: skip


def _copy(task: EraseTask, done: Done) -> EraseTaskResult:
    copied = copy_unchanged(task, done, dry_run=task.erasure.dry_run, is_hashed=task.is_hashed)
    totals = ErasureTotals(
        copied.totals.batches_in, copied.totals.records_in, copied.totals.bytes_in,
        batches_out=copied.totals.batches_out, records_out=copied.totals.records_out, bytes_out=copied.totals.bytes_out,
    )  # fmt: skip
    return EraseTaskResult(
        totals,
        copied.start_offset,
        copied.end_offset,
        untouched="",
        damages=copied.damages,
        findings=copied.findings,
        staged=copied.staged,
        before=copied.inputs,
        after=copied.outputs,
    )


def _described(task: EraseTask, known: tuple[ManifestFile, ...]) -> tuple[ManifestFile, ...]:
    """All of Kafka's files of a source; those that were read are not read again."""
    paths = {each.path: each for each in known}
    entries = sorted(files_of(task.source), key=lambda each: each.name)
    return tuple(paths.get(full_path(each.path)) or describe_file(each) for each in entries)


def _copied(
    task: EraseTask, before: Sequence[ManifestFile], touched: Sequence[TouchedBatch]
) -> dict[str, ManifestFile]:
    """Logs of segments in which no batch was touched, by name: as long as they are as large as before, their bytes are
    those that were hashed when they were read."""
    bases = [each.base_offset for each in task.source.segments]
    rebuilt = {bases[bisect_right(bases, at) - 1] for each in touched for at in (each.base_offset, each.last_offset)}
    files = {each.path.rpartition("/")[2]: each for each in before}
    logs = [names.segment_file(base, "log") for base in bases if base not in rebuilt]
    return {name: files[name] for name in logs if name in files}


def _begin(task: EraseTask) -> PartitionWriter:
    segments = from_log_start(task.source).segments(task.source.segments)
    return PartitionWriter(
        task.place(UNBOUNDED),
        start_offset=segments[0].base_offset if segments else 0,
        base_offsets=[each.base_offset for each in task.source.segments[1:]],
        producers=load_first_state(task.source),
    )


def _keep_transactional_state(task: EraseTask, output: PartitionWriter) -> None:
    """No batch of a producer goes, so what the source recorded of producers and aborted transactions holds, also where
    compaction took what it was made of. A snapshot whose checksum is wrong stays as it was rebuilt."""
    made = {*(each.base_offset for each in task.source.segments), output.log_end_offset}
    for entry in task.source.producer_snapshots:
        file = names.parse_segment_file(entry.name)
        is_known = file is not None and file.offset in made
        if is_known and not load_producer_snapshot(entry.location).findings:
            output.copy_at_end(entry)
    for segment in from_log_start(task.source).segments(task.source.segments):
        index = segment.transaction_index
        if index is not None and (index.size or 0) % layouts.TRANSACTION_INDEX_ENTRY.itemsize == 0:
            output.copy_at_end(index)
