"""Convert: partitions in another message format, codec or batch size, as new partitions of a log directory.

A plan looks at all that can be wrong beforehand; a task for each partition reads it and writes it beside, wherever it
runs (:mod:`brokerless.jobs.job`); a commit on the driver gives it its name. Topic IDs, leader epochs, log start and end
offsets stay. A partition with damage is not committed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import DamageError, Finding, RefusedError, UsageError
from brokerless.format import layouts
from brokerless.format.batches import Batches
from brokerless.format.compression import DEFAULT_LIMIT
from brokerless.format.convert import LOST, Converter, Target, Totals
from brokerless.jobs.job import NONE, Done, Say, Spark, ignore, run_longest_first
from brokerless.jobs.manifest import FileNote, Hashing, Manifest, TaskNote, note_directory, note_file
from brokerless.log import names
from brokerless.log.appending import check_sizes, whole_batches
from brokerless.log.assemble import outputs_of_job
from brokerless.log.bulk import PartitionOutput, output_directory
from brokerless.log.checkpoints import load_leader_epochs, log_start_offset
from brokerless.log.commit import Unfinished, commit, refuse_existing, settle
from brokerless.log.config import LogConfig
from brokerless.log.destination import Destination
from brokerless.log.directory import PartitionPath
from brokerless.log.epochs import Epochs, epochs_of
from brokerless.log.live_segments import OpenSegment, open_segments
from brokerless.log.partition import damage_finding, transactions_of
from brokerless.log.segment import Report, check_checksums, scan
from brokerless.log.storage import Entry, StorageOptions, full_path
from brokerless.log.topic_ids import choose_topic_ids, topic_id_of
from brokerless.log.transactions import Transactions

LEFT_OUT = LOST | {
    "aborted": "records of aborted transactions",
    "undecided": "records from the first open transaction on",
}
"""What may not be there any more, by the names under which it is counted."""

Isolation = Literal["read_uncommitted", "read_committed"]


@dataclass(frozen=True, slots=True)
class Conversion:
    """How all partitions are converted. ``isolation``: read_committed leaves out what is aborted or not yet decided.
    ``limit``: bytes that one batch may inflate to. ``dry_run``: everything is done but writing."""

    target: Target = field(default_factory=Target)
    config: LogConfig = field(default_factory=LogConfig)
    isolation: Isolation = "read_uncommitted"
    limit: int = DEFAULT_LIMIT
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """One partition to convert into ``directory``."""

    source: PartitionPath
    topic: str
    partition: int
    directory: Destination
    topic_id: str
    conversion: Conversion
    storage_options: StorageOptions | None = None
    owner: str = ""
    """In the names of directories that this job has not finished."""
    notes: bool = False
    """Whether files are hashed, for a manifest."""

    @property
    def name(self) -> str:
        return names.partition_directory(self.topic, self.partition)

    @property
    def size(self) -> int:
        """Bytes to read."""
        return self.source.size


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one partition. ``totals.lost`` is by the names of :data:`LEFT_OUT`. Offsets are those of the log:
    the first that a reader gets, and the one behind the last. ``damages`` kept it from being written."""

    task: Task
    totals: Totals
    start_offset: int
    end_offset: int
    damages: tuple[Finding, ...]

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
            "bytesIn": totals.bytes_in,
            "bytesOut": totals.bytes_out,
            "lost": dict(totals.lost),
            "damages": len(self.damages),
        }


@dataclass(frozen=True, slots=True)
class Value:
    """What a task hands to the driver: :class:`Result`, all findings, and what was written, unless there is damage."""

    totals: Totals
    start_offset: int
    end_offset: int
    damages: tuple[Finding, ...]
    findings: tuple[Finding, ...]
    unfinished: Unfinished | None
    inputs: tuple[FileNote, ...]
    outputs: tuple[FileNote, ...]


@dataclass(frozen=True, slots=True)
class Settings:
    """What a manifest's job is: the same for all of its runs."""

    to: str
    conversion: Conversion


def plan(
    partitions: Sequence[PartitionPath],
    sources: Sequence[str],
    directory: str | os.PathLike[str],
    conversion: Conversion,
    storage_options: StorageOptions | None = None,
    target_storage_options: StorageOptions | None = None,
) -> list[Task]:
    """A task for each partition; they are in ``sources``, the paths that were given. ``target_storage_options``: those
    of ``directory``, where it is a URL.

    Raises :class:`UsageError` if one of them cannot be written: it is there already, it comes twice, its name is not
    known, or ``directory`` is in what is read.
    """
    to = output_directory(directory, sources, target_storage_options)
    completed = frozenset() if conversion.dry_run else settle(to)
    found: dict[str, PartitionPath] = {}
    for each in partitions:
        if each.topic is None or each.partition is None:
            raise UsageError(f"{each.path}: which partition this is cannot be told; give its directory, as orders-0")
        name = names.partition_directory(each.topic, each.partition)
        if name in found:
            raise UsageError(f"{name} is both in {found[name].path} and in {each.path}; convert them one by one")
        found[name] = each
    refuse_existing(to, found, completed)
    own = [(each.topic or "", topic_id_of(each, storage_options), each.path) for each in partitions]
    return [
        Task(each, each.topic or "", each.partition or 0, to, topic_id, conversion, storage_options)
        for each, topic_id in zip(partitions, choose_topic_ids(to, own), strict=True)
    ]


def inputs_of(source: PartitionPath) -> list[Entry]:
    """The files of a partition that are read."""
    return [segment.log for segment in source.segments] + _companions(source)


def _companions(source: PartitionPath) -> list[Entry]:
    return [each for each in (source.leader_epoch_checkpoint, source.partition_metadata) if each is not None]


def convert(
    tasks: Sequence[Task],
    report: Report,
    done: Done = ignore,
    *,
    spark: Spark = NONE,
    say: Say = ignore,
    manifest: Manifest | None = None,
    processes: int | None = None,
) -> Iterator[Result]:
    """Runs tasks, and commits those without damage; the results come in the order of the tasks. With a manifest each is
    committed as it is finished, and a later run goes on; without one all are at the end, as nobody could.

    ``report`` is called with every finding, before what it is in is committed; what it raises ends the job. ``done`` is
    called with the bytes that were read. ``manifest``: where what was read and written is noted. ``spark``, ``say``,
    ``processes``: as :func:`brokerless.jobs.job.run` takes them.
    """
    if not tasks:
        return
    dry_run = tasks[0].conversion.dry_run

    waiting: list[Unfinished] = []

    def take(index: int, value: Value) -> Result:
        for finding in value.findings:
            report(finding)
        task = tasks[index]
        result = Result(task, value.totals, value.start_offset, value.end_offset, value.damages)
        if value.unfinished is not None and manifest is not None:
            manifest.add(TaskNote(task.name, value.inputs, value.outputs, result.as_dict()))
            commit(task.directory, [value.unfinished])
        elif value.unfinished is not None:
            waiting.append(value.unfinished)
        return result

    with ExitStack() as stack:
        job = None if manifest is None else full_path(manifest.path)
        owner = "" if dry_run else stack.enter_context(outputs_of_job(tasks[0].directory, job))
        notes = manifest is not None and not dry_run
        owned = [replace(task, owner=owner, notes=notes) for task in tasks]
        name = "brokerless convert"
        results = run_longest_first(
            run_task, owned, take, spark=spark, done=done, say=say, name=name, processes=processes
        )
        with closing(results):
            if manifest is not None:
                yield from results
                return
            taken = list(results)
        if waiting:
            commit(tasks[0].directory, waiting)
        yield from taken


def run_task(task: Task, done: Done) -> Value:
    """Reads a partition and writes it, under a name that readers pass over."""
    findings: list[Finding] = []
    with ExitStack() as stack:
        output = None if task.conversion.dry_run else stack.enter_context(_begin(task))
        reading = _Reading(task, findings.append)
        converter = Converter(task.conversion.target, task.conversion.limit)
        try:
            for buffer in reading.buffers(converter, done):
                if output is not None and len(buffer):
                    output.append(buffer)
                elif len(buffer):
                    check_sizes(whole_batches(buffer, computed=True), task.conversion.config)
                del buffer  # a huge one is not to stay beside the next
        except (RefusedError, UsageError) as error:
            reading.tell(Finding("error", "batch-refused", reading.path, None, None, f"cannot be written: {error}"))
        start = min(log_start_offset(task.source, task.storage_options), reading.end_offset)
        unfinished, outputs = None, ()
        if output is not None and not reading.damages:
            magic = task.conversion.target.magic
            limits = start, reading.end_offset, _epochs(task)
            output.set_limits(*limits, layouts.MAGIC_V2 if magic is None else magic)
            unfinished = output.finish()
            if task.notes:
                outputs = note_directory(task.directory, unfinished.directory, task.name)
        inputs = tuple(reading.notes())
        damages = tuple(reading.damages)
        return Value(converter.totals, start, reading.end_offset, damages, tuple(findings), unfinished, inputs, outputs)


def _begin(task: Task) -> PartitionOutput:
    return PartitionOutput(
        task.directory,
        task.topic,
        task.partition,
        task.conversion.config,
        start_offset=_first_offset(task.source),
        topic_id=task.topic_id,
        owner=task.owner,
    )


class _Reading:
    """A partition that is read: where its log ends, and its damage."""

    def __init__(self, task: Task, report: Report) -> None:
        self.damages: list[Finding] = []
        self.end_offset = max((each.base_offset for each in task.source.segments), default=0)
        self.path = task.source.path
        self._task, self._report = task, report
        self._notes: dict[str, FileNote] = {}
        self._transactions: Transactions | None = None
        if task.conversion.isolation == "read_committed":
            self._transactions = transactions_of(task.source, task.storage_options)

    def tell(self, finding: Finding) -> None:
        if _is_damage(finding):
            self.damages.append(finding)
        self._report(finding)

    def notes(self) -> Iterator[FileNote]:
        """Of all files that were read, if they are to be hashed and are not damaged."""
        if not self._task.notes or self.damages:
            return
        yield from self._notes.values()
        for entry in _companions(self._task.source):
            yield note_file(entry, self._task.storage_options)

    def buffers(self, converter: Converter, done: Done) -> Iterator[NDArray[np.uint8]]:
        source, options = self._task.source, self._task.storage_options
        for each in open_segments(source, self.tell, storage_options=options):
            hashing = Hashing(each.file) if self._task.notes else None
            yield from self._of_file(each, converter, hashing, done)
            if self.damages:
                return
            if hashing is not None:
                self._notes[each.file.path] = hashing.finish(each.segment.log)
        for piece in converter.flush():
            yield piece.buffer

    def _of_file(
        self, opened: OpenSegment, converter: Converter, hashing: Hashing | None, done: Done
    ) -> Iterator[NDArray[np.uint8]]:
        file = opened.file
        for chunk in scan(file, self.tell, opened.start):
            if hashing is not None:
                hashing.add(chunk)
            check_checksums(chunk, file.path, self.tell)
            if self.damages:
                return
            self.end_offset = max(self.end_offset, int(chunk.batches.last_offset.max()) + 1)
            chosen = self._chosen(chunk.batches, converter.totals)
            for piece in converter.convert(chunk.buffer, chosen, chunk.base):
                for damage in piece.damages:
                    self.tell(damage_finding(file.path, damage))
                if self.damages:
                    return
                yield piece.buffer
                del piece
            done(int(chunk.batches.sizes.sum()))

    def _chosen(self, batches: Batches, totals: Totals) -> Batches:
        """Without what read_committed leaves out, which is added to what went in."""
        if self._transactions is None:
            return batches
        aborted = self._transactions.aborted(batches)
        stable = self._transactions.decided_until
        undecided = np.zeros(len(batches), np.bool_) if stable is None else batches.last_offset >= stable
        if not (aborted | undecided).any():
            return batches
        for name, rows in (("aborted", aborted & ~undecided), ("undecided", undecided)):
            left_out = batches.take(rows)
            records = int(np.where(left_out.is_legacy, 1, left_out.count).sum())
            totals.batches_in += len(left_out)
            totals.records_in += records
            totals.bytes_in += int(left_out.sizes.sum())
            if records:
                totals.lost[name] += records
        return batches.take(~(aborted | undecided))


def raise_damage(finding: Finding) -> None:
    """A report that raises :class:`DamageError` for what keeps a partition from being written."""
    if _is_damage(finding):
        raise DamageError(finding)


def _is_damage(finding: Finding) -> bool:
    return finding.severity == "error" or finding.kind == "truncated-batch"


def _first_offset(source: PartitionPath) -> int:
    return source.segments[0].base_offset if source.segments else 0


def _epochs(task: Task) -> Epochs:
    """Leader epochs as the source notes them; the older formats have none."""
    checkpoint = task.source.leader_epoch_checkpoint
    magic = task.conversion.target.magic
    if checkpoint is None or (magic is not None and magic < layouts.MAGIC_V2):
        return ()
    return epochs_of(load_leader_epochs(checkpoint.path, task.storage_options))
