"""Salvages the intact batches of damaged partitions, as new partitions or tables, and lists what is lost.

Every batch that is whole, has the right checksum and decodes is taken, wherever it is in the files of a partition;
offsets never change, and what is missing stays a hole. Nothing is written to what is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import UsageError
from brokerless.findings import Finding, Kind
from brokerless.format.codecs.decompression import DEFAULT_MAX_BATCH_BYTES
from brokerless.jobs.directory_state import load_directory_state
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
from brokerless.jobs.recovered.writing import NewPartition, PartitionContents, write_unfinished
from brokerless.jobs.run.job import run_longest_first
from brokerless.jobs.run.types import NONE, Done, Say, Spark, ignore
from brokerless.jobs.salvage.tables import Table, Tables, check_tables, tables_of_job, write_table
from brokerless.log import names
from brokerless.log.checkpoint.topic_ids import choose_topic_ids, new_topic_id
from brokerless.log.commit.commit import refuse_existing
from brokerless.log.commit.job_commit import outputs_of_job
from brokerless.log.commit.node_files import complete, complete_directories
from brokerless.log.commit.partition_writer import output_directory
from brokerless.log.commit.run_record import commit_run, end_run, refuse_written, run_of
from brokerless.log.commit.types import StagedPartition
from brokerless.log.config import UNBOUNDED, LogConfig
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.segment import Report
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.location import Location
from brokerless.table_formats.parquet_files import ParquetFile
from brokerless.text import short_html, short_repr


@dataclass(frozen=True, slots=True)
class Salvage:
    """How all partitions are salvaged. ``config``: None for segments that begin where those of the source do, and are
    split only where they would be larger than a segment can be. ``max_batch_bytes``: bytes that one batch may inflate
    to. ``dry_run``: everything is done but writing. ``partial``: of v2 batches whose checksum is right, but which break
    off inside, the records before. ``parquet``: tables are written, as an export writes them, and no log."""

    config: LogConfig | None = None
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    dry_run: bool = False
    partial: bool = False
    parquet: bool = False

    @property
    def log_config(self) -> LogConfig:
        return UNBOUNDED if self.config is None else self.config


@dataclass(frozen=True, slots=True)
class SalvageTask:
    """One partition to save into ``directory``."""

    source: PartitionFiles
    topic: str
    partition: int
    directory: Destination
    topic_id: str | None
    salvage: Salvage
    owner: str = ""
    """In the names of directories that this job has not finished."""
    directories: tuple[LogDirectory, ...] = ()
    """The log directories of which all is saved by these tasks."""

    @property
    def name(self) -> str:
        return names.partition_directory(self.topic, self.partition)

    @property
    def paths(self) -> tuple[PartitionPath, ...]:
        """Its directories, the live one first."""
        return self.source.paths

    @property
    def size(self) -> int:
        """Bytes to read."""
        return self.source.size


@dataclass(frozen=True, slots=True)
class SalvageResult:
    """What was saved of one partition, and what was not. The log has ``start_offset <= offset < end_offset``.
    ``repeated`` and ``overlapping``: intact batches that were left out as others have their offsets, the same batches
    or different ones; ``misplaced``: those whose offset cannot be right. ``damaged``: bytes in no intact batch."""

    task: SalvageTask
    start_offset: int
    end_offset: int
    batches: int
    records: int
    bytes: int
    losses: tuple[Loss, ...]
    damaged: int
    repeated: int
    overlapping: int
    misplaced: int
    partial: int = 0
    """Batches of which only some records were saved."""
    files: tuple[str, ...] = ()
    """The Parquet files, if these were asked for, within the target directory."""
    base_offsets: tuple[int, ...] = ()
    """Of the segments that were written."""

    __repr__ = short_repr
    _repr_html_ = short_html

    @property
    def has_other_segments(self) -> bool:
        """Whether what was written is divided into segments in another way than the live segments were; where offsets
        are lost between two, the second one begins earlier."""
        return bool(self.base_offsets) and len(self.base_offsets) != len(self.live_base_offsets)

    @property
    def live_base_offsets(self) -> tuple[int, ...]:
        """Of the live segments that were read."""
        return tuple(each.base_offset for each in self.task.paths[0].segments)


@dataclass(frozen=True, slots=True)
class SalvageTaskResult:
    """What a task hands to the driver: what is to be reported, and what was written, if anything was."""

    result: SalvageResult
    findings: tuple[Finding, ...]
    unfinished: StagedPartition | tuple[ParquetFile, ...] | None


def plan(
    logs: Sequence[LogDirectory],
    directory: str | os.PathLike[str] | Location,
    salvage: Salvage,
    chosen: Callable[[PartitionPath], bool] = lambda _: True,
    include: Collection[str] = (),
) -> list[SalvageTask]:
    """A task for each partition. ``include``: with ``delete``, log files that wait for their deletion are read as well.

    Raises :class:`UsageError` if one of them cannot be written: it is there already, it is in two of the paths, its
    name is not known, or ``directory`` is in what is read.
    """
    to = output_directory(Location.of(directory), [log.path for log in logs])
    tasks: list[SalvageTask] = []
    own: list[tuple[str, str | None, str]] = []
    for log in logs:
        state = load_directory_state(log)
        for paths in _by_partition(log, chosen):
            first = paths[0]
            topic, partition = first.topic or "", first.partition or 0
            other = next((each for each in tasks if (each.topic, each.partition) == (topic, partition)), None)
            if other is not None:
                raise UsageError(f"{other.name} is both in {other.paths[0].path} and in {first.path}; save one by one")
            known = topic_ids_of(paths, "give the directories of one of them")
            own.append((topic, known[topic][0] if topic in known else None, first.path))
            source = describe_files(paths, state, include)
            task = SalvageTask(source, topic, partition, to, None, salvage)
            tasks.append(task)
    if not salvage.parquet:
        if salvage.dry_run:
            refuse_existing(to, [task.name for task in tasks])
        else:
            refuse_written(to, [task.name for task in tasks], _run_of(tasks))
    else:
        topic_ids = {topic: topic_id for topic, topic_id, _ in own if topic_id is not None}
        for topic, partitions in _partitions(tasks).items():
            check_tables(to, topic, partitions, topic_ids.get(topic))
        return [replace(task, topic_id=topic_ids.get(task.topic)) for task in tasks]
    directories = complete_directories(logs, {each.path for task in tasks for each in task.paths}, to)
    topic_ids = choose_topic_ids(to, own)
    return [replace(task, topic_id=each, directories=directories) for task, each in zip(tasks, topic_ids, strict=True)]


def salvage(
    tasks: Sequence[SalvageTask],
    report: Report,
    done: Done = ignore,
    *,
    spark: Spark = NONE,
    say: Say = ignore,
    processes: int | None = None,
) -> Iterator[SalvageResult]:
    """Runs tasks, and commits all partitions when they are written; the results come in the order of the tasks.

    ``report`` is called with what was left out though it is intact, ``done`` with the bytes that were read (and again
    with those that were written). ``spark``, ``say``, ``processes``: as :func:`brokerless.jobs.run.job.run` takes them.
    """
    if not tasks:
        return
    with ExitStack() as stack:
        how, owner, tables = tasks[0].salvage, "", None
        if how.parquet and not how.dry_run:
            tables = stack.enter_context(_tables(tasks))
        elif not how.dry_run:
            owner = stack.enter_context(outputs_of_job(tasks[0].directory))
        owned = [replace(task, owner=owner) for task in tasks]
        name = "brokerless salvage"

        def take(index: int, value: SalvageTaskResult) -> SalvageTaskResult:
            elsewhere = (finding for paths in tasks[index].paths for finding in paths.findings)
            for finding in (*value.findings, *(each for each in elsewhere if each.kind == Kind.REMOTE_OFFSETS)):
                report(finding)
            if isinstance(value.unfinished, StagedPartition):
                return replace(value, result=replace(value.result, base_offsets=value.unfinished.base_offsets))
            if tables is None or value.unfinished is None:
                return value
            files = tables.commit(_table(value.result.task), value.unfinished, value.result.end_offset)
            return replace(value, result=replace(value.result, files=files), unfinished=None)

        taken = run_longest_first(
            run_task, owned, take, spark=spark, done=done, say=say, name=name, processes=processes
        )
        with closing(taken):
            values = list(taken)
        unfinished = [each.unfinished for each in values if isinstance(each.unfinished, StagedPartition)]
        if unfinished:
            commit_run(tasks[0].directory, unfinished, _run_of(tasks))
        if not how.dry_run:
            complete(tasks[0].directories, tasks[0].directory, say)
        yield from (value.result for value in values)
        if not how.dry_run and not how.parquet:
            end_run(tasks[0].directory)


def _run_of(tasks: Sequence[SalvageTask]) -> str:
    return run_of("salvage", (each.path for task in tasks for each in task.paths))


def run_task(task: SalvageTask, done: Done) -> SalvageTaskResult:
    """Saves one partition, under a name that readers pass over."""

    def save(source: PartitionFiles, files: OpenFiles) -> SalvageTaskResult:
        return _save(replace(task, source=source), files, done)

    return with_open_files(task.source, lambda source: source.files, list_files_again, save)


def _save(task: SalvageTask, files: OpenFiles, done: Done) -> SalvageTaskResult:
    how = task.salvage
    collector = FindingCollector()
    found = find_log(task.source, files, how.max_batch_bytes, how.partial, collector, done)
    saved, regions = found.saved, found.regions
    unfinished = None
    if not how.dry_run and not task.source.is_unreadable:
        base_offsets = _base_offsets(task, saved, found.losses(saved, regions))
        contents = PartitionContents(
            saved, files, found.begin, found.start, found.end, base_offsets, task.source.cleaned_until
        )
        shrunk: set[tuple[str, int | None]] = set()

        def report(finding: Finding) -> None:
            if finding.kind == Kind.FILE_SHRUNK:
                shrunk.add((finding.file, finding.position))
            collector(finding)

        taken, unfinished = _write(task, contents, report, done)
        regions = found.with_unsaved(saved, taken, shrunk)
        saved = saved[taken]
    result = SalvageResult(
        task,
        found.start,
        found.end,
        len(saved),
        int(saved["records"].sum()),
        int(saved["size"].sum()),
        summed(found.losses(saved, regions)),
        sum(region.size for region, _ in regions if not region.is_empty),
        len(found.choice.repeated),
        len(found.choice.overlapping),
        len(found.choice.misplaced),
        int((saved["partial"] & ~saved["complete"]).sum()),
    )
    return SalvageTaskResult(result, collector.findings(task.paths[0].path), unfinished)


def _write(
    task: SalvageTask, contents: PartitionContents, report: Report, done: Done
) -> tuple[NDArray[np.bool_], StagedPartition | tuple[ParquetFile, ...]]:
    how = task.salvage
    if how.parquet:
        return write_table(_table(task), contents, how.log_config, report, done, how.max_batch_bytes)
    topic_id = task.topic_id or new_topic_id(task.topic)
    place = NewPartition(task.directory, task.topic, task.partition, how.log_config, topic_id, task.owner)
    epochs = recorded_epochs(task.source, contents.end)
    beside = quorum_files(task.paths[0])
    return write_unfinished(place, contents, epochs, report, done, how.max_batch_bytes, beside)


def _base_offsets(task: SalvageTask, saved: NDArray[np.void], losses: Iterable[Loss]) -> list[int]:
    """Where segments begin: where the source's do that something was saved of, or that are empty. One that follows what
    is lost begins where that does, as a log with offsets missing between two segments is damaged."""
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


def _table(task: SalvageTask) -> Table:
    return Table(task.directory, task.topic, task.partition)


@contextmanager
def _tables(tasks: Sequence[SalvageTask]) -> Generator[Tables]:
    topic_ids = {task.topic: task.topic_id for task in tasks if task.topic_id is not None}
    with tables_of_job(tasks[0].directory) as tables:
        for topic, partitions in _partitions(tasks).items():
            tables.begin(topic, partitions, topic_ids.get(topic))
        yield tables


def _partitions(tasks: Sequence[SalvageTask]) -> dict[str, list[int]]:
    """The partitions of each topic."""
    found: dict[str, list[int]] = {}
    for task in tasks:
        found.setdefault(task.topic, []).append(task.partition)
    return found


def _by_partition(log: LogDirectory, chosen: Callable[[PartitionPath], bool]) -> list[list[PartitionPath]]:
    """The directories of each partition, the live one first."""
    found: dict[tuple[str, int], list[PartitionPath]] = {}
    for each in log.partitions:
        if each.topic is None or each.partition is None:
            text = "the name does not say which partition this is; give its directory, as orders-0, or carve it"
            raise UsageError(f"{each.path}: {text}")
        if chosen(each):
            found.setdefault((each.topic, each.partition), []).append(each)
    return [sorted(paths, key=lambda each: each.state != "live") for paths in found.values()]
