"""Salvages the intact batches of damaged partitions, as new partitions or tables, and lists what is lost.

Every batch that is whole, has the right checksum and decodes is taken, wherever it is in the files of a partition;
offsets never change, and what is missing stays a gap. Nothing is written to what is read.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from brokerless.clusters.directory_state import load_directory_state
from brokerless.errors import UsageError
from brokerless.findings import Finding, Kind
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.jobs.named_partitions import topic_ids_of
from brokerless.jobs.recovered.damaged_regions import FindingCollector
from brokerless.jobs.recovered.losses import Loss, summed
from brokerless.jobs.recovered.open_files import OpenFiles, with_open_files
from brokerless.jobs.recovered.quorum import quorum_files
from brokerless.jobs.recovered.reading import (
    PartitionFiles,
    describe_files,
    find_log,
    list_files_again,
    recorded_epochs,
)
from brokerless.jobs.recovered.writing import PartitionContents, write_unfinished
from brokerless.jobs.rewrite.oversized import report_oversized
from brokerless.jobs.rewrite.plan import (
    Plan,
    RewriteTask,
    Source,
    Target,
    TargetPartition,
    by_target,
    plan_target,
)
from brokerless.jobs.rewrite.run import PartitionResult, Rewrite, rewrite
from brokerless.jobs.run.types import HERE, RunOptions
from brokerless.jobs.salvage.tables import (
    SalvagedTable,
    SalvagedTables,
    check_tables,
    tables_of_job,
    wants_tables,
    write_table,
)
from brokerless.log.checkpoint.topic_ids import new_topic_id
from brokerless.log.commit.types import StagedPartition
from brokerless.log.config import UNBOUNDED, LogConfig, with_segment_bytes
from brokerless.log.directory import PartitionPath
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.location import Location
from brokerless.progress import Done, Report
from brokerless.requests.writing import SalvageRequest
from brokerless.table_formats.parquet_files import ParquetFile
from brokerless.tables.read_options import bound


@dataclass(frozen=True, slots=True)
class Salvage:
    """The settings of a salvage, which are the same for all partitions."""

    config: LogConfig | None = None
    """The settings of the new segments. With None they begin where those of the source do, and are split only where
    they would be larger than a segment can be."""
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    """How many bytes one batch may inflate to."""
    dry_run: bool = False
    """Whether everything is done but writing."""
    partial: bool = False
    """Whether the first records are saved of v2 batches whose checksum is right, but which break off inside."""
    parquet: bool = False
    """Whether tables are written, as an export writes them, and no log."""

    @property
    def log_config(self) -> LogConfig:
        return UNBOUNDED if self.config is None else self.config


def settings_of(request: SalvageRequest) -> Salvage:
    """Return how it was requested. Raises :class:`UsageError` for what excludes each other."""
    is_parquet = wants_tables(request)
    config = with_segment_bytes(request.segment_bytes)
    return Salvage(config, bound(request.max_batch_bytes), request.dry_run, partial=request.partial, parquet=is_parquet)


@dataclass(frozen=True, slots=True, kw_only=True)
class SalvageTask(RewriteTask):
    """One partition to save. Its ``topic_id`` is ``""`` for tables of a topic that has none."""

    source: PartitionFiles
    salvage: Salvage

    @property
    def paths(self) -> tuple[PartitionPath, ...]:
        """Its directories, the live one first."""
        return self.source.paths

    @property
    def read_paths(self) -> tuple[str, ...]:
        return tuple(each.path for each in self.paths)

    @property
    def size(self) -> int:
        """Bytes to read."""
        return self.source.size


@dataclass(frozen=True, slots=True, repr=False)
class SalvageResult(PartitionResult[SalvageTask]):
    """The result of salvaging one partition: what was saved, and what was not. The log has
    ``start_offset <= offset < end_offset``."""

    start_offset: int
    end_offset: int
    batches: int
    records: int
    bytes: int
    losses: tuple[Loss, ...]
    damaged: int
    """How many bytes are in no intact batch."""
    repeated: int
    """How many intact batches were left out, as the same batches were saved from elsewhere."""
    overlapping: int
    """How many intact batches were left out, as different batches have their offsets."""
    misplaced: int
    """How many intact batches were left out, as their offsets cannot be right."""
    partial: int = 0
    """Batches of which only some records were saved."""
    files: tuple[str, ...] = ()
    """The Parquet files, if these were requested, within the target directory."""
    base_offsets: tuple[int, ...] = ()
    """Of the segments that were written."""

    @property
    def has_other_segments(self) -> bool:
        """Whether what was written is divided into segments in another way than the live segments were; where offsets
        are lost between two, the second one begins earlier."""
        return bool(self.base_offsets) and len(self.base_offsets) != len(self.live_base_offsets)

    @property
    def live_base_offsets(self) -> tuple[int, ...]:
        """The base offsets of the live segments that were read."""
        return tuple(each.base_offset for each in self.task.paths[0].segments)


@dataclass(frozen=True, slots=True)
class SalvageTaskResult:
    """A task's result, which the driver gets."""

    result: SalvageResult
    findings: tuple[Finding, ...]
    """Findings to report before anything is committed."""
    staged: StagedPartition | tuple[ParquetFile, ...] | None
    """What was written, if anything was."""


def plan(
    sources: Sequence[Source], to: str | os.PathLike[str] | Location, salvage: Salvage, include: Collection[str] = ()
) -> Plan[SalvageTask]:
    """Return a task for each of the partitions that were chosen of each source. ``include``: with ``delete``, log files
    that wait for their deletion are read as well.

    Raises :class:`UsageError` if one of them cannot be written: it is there already, it is in two of the paths, its
    name is not known, or ``to`` is in what is read.
    """
    tasks: list[SalvageTask] = []
    targets: list[Target] = []
    for each in by_target([one.as_it_lies() for one in sources], Location.of(to)):
        found: dict[str, TargetPartition] = {}
        files: list[PartitionFiles] = []
        for log, chosen in each.sources:
            state = load_directory_state(log)
            for paths in _by_partition(chosen):
                one = _target_partition(paths)
                if one.name in found:
                    both = f"{one.name} is both in {found[one.name].paths[0]} and in {one.paths[0]}"
                    raise UsageError(f"{both}; save one by one")
                found[one.name] = one
                files.append(describe_files(paths, state, include))
        new = list(found.values())
        if salvage.parquet:
            topic_ids = _check_tables(each.directory, new)
        else:
            target, topic_ids = plan_target("salvage", each, new, dry_run=salvage.dry_run)
            targets.append(target)
        tasks += [
            SalvageTask(
                topic=one.topic, partition=one.partition, to=each.directory, topic_id=topic_id, source=source,
                salvage=salvage,
            )
            for one, source, topic_id in zip(new, files, topic_ids, strict=True)
        ]  # fmt: skip
    return Plan(tuple(tasks), tuple(targets), salvage.dry_run)


def _target_partition(paths: Sequence[PartitionPath]) -> TargetPartition:
    """Return what becomes of a partition's directories. Raises :class:`UsageError` if they are of two topics."""
    topic = paths[0].topic or ""
    topic_id, _ = topic_ids_of(paths, "give the directories of one of them").get(topic, (None, ""))
    return TargetPartition(topic, paths[0].partition or 0, topic_id, tuple(each.path for each in paths))


def _check_tables(to: Destination, new: Sequence[TargetPartition]) -> list[str]:
    """The topic ID of each partition of tables, ``""`` where none is known. Raises as :func:`check_tables`."""
    topic_ids = {each.topic: each.topic_id for each in new if each.topic_id is not None}
    for topic, partitions in _partitions(new).items():
        check_tables(to, topic, partitions, topic_ids.get(topic))
    return [topic_ids.get(each.topic, "") for each in new]


def salvage(
    plan: Plan[SalvageTask],
    report: Report,
    running: RunOptions = HERE,
) -> Iterator[SalvageResult]:
    """Runs a plan, and commits all partitions when they are written; the results come in the order of the tasks.

    ``report`` is called with what was left out though it is intact; ``done`` of ``running`` with the bytes that were
    read, and again with those that were written.
    """
    tables: dict[str, SalvagedTables] = {}

    def take(task: SalvageTask, value: SalvageTaskResult) -> tuple[SalvageResult, StagedPartition | None]:
        if isinstance(value.staged, StagedPartition):
            return replace(value.result, base_offsets=value.staged.base_offsets), value.staged
        if value.staged is None:
            return value.result, None
        files = tables[str(task.directory)].commit(_table(task), value.staged, value.result.end_offset)
        return replace(value.result, files=files), None

    with ExitStack() as stack:
        is_parquet = any(task.salvage.parquet for task in plan.tasks)
        if is_parquet and not plan.dry_run:
            for name in dict.fromkeys(str(task.directory) for task in plan.tasks):
                of_target = [task for task in plan.tasks if str(task.directory) == name]
                tables[name] = stack.enter_context(_tables(of_target))
        job = Rewrite("salvage", run_task, take, makes_logs=not is_parquet, is_lossy=True)
        yield from rewrite(job, plan, report, running)


def run_task(task: SalvageTask, done: Done) -> SalvageTaskResult:
    """Saves one partition, under a name that readers pass over."""

    def save(source: PartitionFiles, files: OpenFiles) -> SalvageTaskResult:
        return _save(replace(task, source=source), files, done)

    return with_open_files(task.source, lambda source: source.files, list_files_again, save)


def _save(task: SalvageTask, files: OpenFiles, done: Done) -> SalvageTaskResult:
    how = task.salvage
    collector = FindingCollector()
    found = find_log(task.source, files, how.max_batch_bytes, partial=how.partial, report=collector, done=done)
    saved, regions = found.saved, found.regions
    staged = None
    if not how.dry_run and not task.source.is_unreadable:
        base_offsets = _base_offsets(task, saved, found.losses(saved, regions))
        contents = PartitionContents(
            saved,
            files,
            found.begin,
            start=found.start,
            end=found.end,
            base_offsets=base_offsets,
            cleaned_until=task.source.cleaned_until,
            indexed=[one for each in task.source.paths for one in each.segments],
        )
        shrunk: set[tuple[str, int | None]] = set()

        def report(finding: Finding) -> None:
            if finding.kind == Kind.FILE_SHRUNK:
                shrunk.add((finding.file, finding.position))
            collector(finding)

        taken, staged = _write(task, contents, report, done)
        regions = found.with_unsaved(saved, taken, shrunk)
        saved = saved[taken]
    if not how.parquet:
        report_oversized(saved["size"], saved["first"], how.log_config, task.paths[0].path, report=collector)
    result = SalvageResult(
        task,
        found.start,
        found.end,
        batches=len(saved),
        records=int(saved["records"].sum()),
        bytes=int(saved["size"].sum()),
        losses=summed(found.losses(saved, regions)),
        damaged=sum(region.size for region, _ in regions if not region.is_empty),
        repeated=len(found.choice.repeated),
        overlapping=len(found.choice.overlapping),
        misplaced=len(found.choice.misplaced),
        partial=len(np.unique(saved[saved["partial"] & ~saved["complete"]][["file", "position"]])),
    )
    return SalvageTaskResult(result, collector.findings(task.paths[0].path), staged)


def _write(
    task: SalvageTask, contents: PartitionContents, report: Report, done: Done
) -> tuple[NDArray[np.bool_], StagedPartition | tuple[ParquetFile, ...]]:
    how = task.salvage
    if how.parquet:
        return write_table(_table(task), contents, report=report, done=done, max_batch_bytes=how.max_batch_bytes)
    place = task.place(how.log_config, task.topic_id or new_topic_id(task.topic))
    epochs = recorded_epochs(task.source, contents.end)
    beside = quorum_files(task.paths[0])
    return write_unfinished(
        place, contents, epochs, report=report, done=done, max_batch_bytes=how.max_batch_bytes, beside=beside
    )


def _base_offsets(task: SalvageTask, saved: NDArray[np.void], losses: Iterable[Loss]) -> list[int]:
    """Return where segments begin: where the source's do that something was saved of, or that are empty. One that
    follows what is lost begins where that does, as a log with offsets missing between two segments is damaged."""
    if task.salvage.config is not None:
        return []
    saved_of = set(np.unique(saved["file"]).tolist())
    begins = {
        each.last_offset + 1: each.first_offset
        for each in losses
        if each.last_offset is not None and each.missing is None
    }
    files = task.source.files
    saved_files = [begins.get(each.base_offset, each.base_offset) for at, each in enumerate(files) if at in saved_of]
    return saved_files + [each.base_offset for each in files if not each.size]


def _table(task: SalvageTask) -> SalvagedTable:
    return SalvagedTable(task.directory, task.topic, task.partition)


@contextmanager
def _tables(tasks: Sequence[SalvageTask]) -> Generator[SalvagedTables]:
    topic_ids = {task.topic: task.topic_id for task in tasks if task.topic_id}
    with tables_of_job(tasks[0].directory) as tables:
        for topic, partitions in _partitions(tasks).items():
            tables.begin(topic, partitions, topic_ids.get(topic))
        yield tables


def _partitions(new: Sequence[TargetPartition] | Sequence[SalvageTask]) -> dict[str, list[int]]:
    """The partitions of each topic."""
    found: dict[str, list[int]] = {}
    for each in new:
        found.setdefault(each.topic, []).append(each.partition)
    return found


def _by_partition(partitions: Sequence[PartitionPath]) -> list[list[PartitionPath]]:
    """The directories of each partition, the live one first."""
    found: dict[tuple[str, int], list[PartitionPath]] = {}
    for each in partitions:
        if each.topic is None or each.partition is None:
            text = "the name does not say which partition this is; give its directory, as orders-0, or carve it"
            raise UsageError(f"{each.path}: {text}")
        found.setdefault((each.topic, each.partition), []).append(each)
    return [sorted(paths, key=lambda each: each.state != "live") for paths in found.values()]
