"""Commits export tasks in the order of offsets, and follows how far the export is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from brokerless.errors import BrokerlessError, UnwritableError
from brokerless.findings import Finding
from brokerless.jobs.export.plan import ExportPlan
from brokerless.jobs.export.tasks import ExportTask
from brokerless.offset_spans import Span, union, without
from brokerless.progress import Report
from brokerless.table_formats import parquet_files
from brokerless.table_formats.export_state import ExportState, LeftOutOffsets
from brokerless.table_formats.parquet_files import ParquetFile
from brokerless.tables.last_record import LastRecord
from brokerless.text import short_html, short_repr
from brokerless.typed.records import Failures

_ADVICE = (
    ". The table's column keeps its type, so later records with such values have null there as well; exported to a new "
    "directory or namespace, all records together decide the type"
)


@dataclass(frozen=True, slots=True)
class ExportTaskResult:
    """The result of a task: the files that it made, and what could not be exported."""

    files: tuple[ParquetFile, ...]
    next_offset: int
    findings: tuple[Finding, ...]
    left_out: tuple[LeftOutOffsets, ...]
    is_complete: bool = True
    """False where something could not be read that may be readable another time; nothing was kept then."""
    missing: tuple[Span, ...] = ()
    """Offsets that the log does not have."""
    failures: Failures = field(default_factory=Failures)
    """What the columns of the task's values do not have."""
    refusal: str | None = None
    """Why nothing could be written; None if something could."""
    last: LastRecord | None = None
    """The last record below ``next_offset``."""


@dataclass(frozen=True, slots=True)
class ExportedPartition:
    """A partition's export in one run: the offsets from ``start_offset`` to before ``next_offset``."""

    topic: str
    partition: int
    source: str
    start_offset: int
    next_offset: int
    """The offset where the next run goes on."""
    end_offset: int
    """The offset where the log ended."""
    files: tuple[ParquetFile, ...] = ()
    """The files that are new."""
    findings: tuple[Finding, ...] = ()
    left_out: tuple[LeftOutOffsets, ...] = ()
    """Offsets that are damaged. Where a last one is None, nothing could be read from there on, and the next run tries
    again."""
    missing: tuple[Span, ...] = ()
    """Spans that the log does not have, the first offset and the one after the last; later runs take them if they are
    there then."""
    filled: tuple[Span, ...] = ()
    """Spans that were missing or damaged in earlier runs, and are exported now."""
    table: str | None = None
    """The name or path of the table that they are in; None if they are in none."""

    __repr__ = short_repr
    _repr_html_ = short_html

    @property
    def records(self) -> int:
        return sum(each.records for each in self.files)

    @property
    def has_more(self) -> bool:
        """Whether there is more than before: of a transaction that stays open, nothing is."""
        return bool(self.files or self.filled) or self.next_offset > self.start_offset

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(each.size for each in self.files)


class FilesTarget(Protocol):
    """The target that finished files are published in, with the state that records them. ``begin`` takes away what an
    interrupted run left, and records what this one is about to write."""

    def begin(self, plan: ExportPlan) -> dict[str, ExportState]: ...
    def publish(self, task: ExportTask, files: Sequence[ParquetFile], state: ExportState) -> None: ...
    def finish(self, partition: ExportedPartition) -> Iterable[ExportedPartition]: ...
    def end(self) -> None: ...


class ExportCommit:
    """Commits tasks in the order of each partition's offsets, whatever order they end in."""

    def __init__(
        self, plan: ExportPlan, report: Report, target: FilesTarget, manifests: dict[str, ExportState] | None = None
    ) -> None:
        """Make what commits the results of a plan. ``manifests`` is what the target's ``begin`` returned; None in a dry
        run."""
        self._plan, self._report, self._target = plan, report, target
        self._manifests = manifests or {}
        self._early: dict[int, ExportTaskResult] = {}
        self._committed: set[int] = set()
        self._stopped: set[tuple[str, int]] = set()
        self._so_far: dict[tuple[str, int], ExportedPartition] = {}
        self._failures: dict[tuple[str, int], Failures] = {}

    def end(self) -> None:
        """Takes away what was finished and is not committed, as the export was given up."""
        if self._plan.export.dry_run:
            return
        for index, result in self._early.items():
            for each in result.files:
                parquet_files.discard_file(each, self._plan.tasks[index].layout)
        self._target.end()

    def take(self, index: int, result: ExportTaskResult) -> Iterator[ExportedPartition]:
        """A task's result; what it completes is given."""
        self._early[index] = result
        tasks = self._plan.tasks
        while index in self._early:
            is_first = index == 0 or _name(tasks[index - 1]) != _name(tasks[index])
            if not is_first and index - 1 not in self._committed:
                return  # one before it is not done yet
            self._commit(tasks[index], self._early.pop(index))
            self._committed.add(index)
            if tasks[index].is_last:
                done = self._so_far.pop(_name(tasks[index]))
                undecoded = (
                    () if tasks[index].topic in self._plan.refusals.topics else tuple(self._undecoded(tasks[index]))
                )
                for finding in undecoded:
                    self._report(finding)
                done = replace(done, findings=done.findings + undecoded)
                yield from [done] if self._plan.export.dry_run else self._target.finish(done)
                return
            index += 1

    def _commit(self, task: ExportTask, result: ExportTaskResult) -> None:
        name = _name(task)
        so_far = self._so_far.get(name)
        if so_far is None:
            begin = task.start if task.mark is None else task.mark
            tables = self._plan.tables
            table = None if tables is None else tables.store.describe(task.topic)
            so_far = ExportedPartition(*name, task.source.path, begin, begin, begin, table=table)
        refusals = self._plan.refusals
        if result.refusal is not None and task.topic not in refusals.topics:
            refusals.add(task.topic, UnwritableError(result.refusal), result.refusal)
        if task.topic in refusals.topics:
            for each in result.files:
                with suppress(BrokerlessError):  # the target cannot be written to
                    parquet_files.discard_file(each, task.layout)
            self._so_far[name] = so_far
            return
        if name in self._stopped:
            for each in result.files:
                parquet_files.discard_file(each, task.layout)
            self._so_far[name] = replace(so_far, end_offset=task.end)
            return
        for finding in result.findings:
            self._report(finding)
        self._failures.setdefault(name, Failures()).add(result.failures)
        if not self._plan.export.dry_run:
            self._so_far[name] = so_far
            with refusals.refusing(task.topic):
                self._publish(task, result)
            if task.topic in refusals.topics:
                return
        is_fill = task.mark is not None
        if not result.is_complete and not is_fill:
            self._stopped.add(name)
        filled = tuple(without(_passed(task, result), _spans(result.left_out))) if is_fill else ()
        self._so_far[name] = replace(
            so_far,
            next_offset=so_far.next_offset if is_fill else max(so_far.next_offset, result.next_offset),
            end_offset=so_far.end_offset if is_fill else task.end,
            missing=so_far.missing + result.missing,
            filled=so_far.filled + filled,
            files=so_far.files + result.files,
            findings=so_far.findings + result.findings,
            left_out=so_far.left_out + result.left_out,
        )

    def _undecoded(self, task: ExportTask) -> Iterator[Finding]:
        """One finding for each cause, however many tasks met it."""
        failures = self._failures.pop(_name(task), Failures())
        yield from failures.findings(task.source.path, "" if self._plan.tables is None else _ADVICE)

    def _publish(self, task: ExportTask, result: ExportTaskResult) -> None:
        own = self._manifests[task.topic]
        exported = own.partitions[task.partition]
        left_out = exported.left_out
        if task.mark is not None:
            left_out = tuple((first, after - 1) for first, after in without(_spans(left_out), _passed(task, result)))
        left_out += tuple(each for each in result.left_out if each[1] is not None)
        count = None if exported.files is None else exported.files + len(result.files)
        exported = replace(exported, left_out=left_out, files=count)
        if task.mark is None:
            next_offset = max(exported.next_offset, result.next_offset)
            until = None if task.is_last and result.is_complete else exported.until
            passed = ((first, min(after, next_offset)) for first, after in result.missing)
            missing = tuple(union((*exported.missing, *passed)))
            last = result.last or exported.last
            exported = replace(exported, next_offset=next_offset, until=until, missing=missing, last=last)
        else:
            missing = tuple(without(union(exported.missing), _passed(task, result)))
            filling = tuple(without(union(exported.filling), [(task.start, task.end)]))
            exported = replace(exported, missing=missing, filling=filling)
        own = own.with_partition(task.partition, exported)
        self._manifests[task.topic] = own
        self._target.publish(task, result.files, own)


def _passed(task: ExportTask, result: ExportTaskResult) -> list[Span]:
    """The offsets that a task was for, as far as it came."""
    return union([(task.start, min(result.next_offset, task.end))])


def _spans(left_out: Iterable[LeftOutOffsets]) -> list[Span]:
    return union([(first, last + 1) for first, last in left_out if last is not None])


def _name(task: ExportTask) -> tuple[str, int]:
    return task.topic, task.partition
