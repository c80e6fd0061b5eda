"""Exports new records of partitions as Parquet files, each exactly once.

The plan fixes which offsets are read: from where the last run ended to where the log ends now. A task writes files of
its own under names that no reader sees; the commit names them, then records in the topic's manifest how far they go
(:mod:`brokerless.table_formats.export_state`). A damaged batch is left out, and passed when an intact one follows.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial

from brokerless.errors import UnreadableError, UnwritableError
from brokerless.jobs.export.commit import ExportCommit, ExportedPartition, ExportTaskResult
from brokerless.jobs.export.plan import ExportPlan, plan
from brokerless.jobs.export.reading import ExportReader, NotReadableError
from brokerless.jobs.export.refusals import reason_of
from brokerless.jobs.export.targets import DirectoryTarget, TableTarget
from brokerless.jobs.export.tasks import Export, ExportTask
from brokerless.jobs.run import job
from brokerless.jobs.run.types import HERE, RunOptions
from brokerless.log.storage import file_tree
from brokerless.progress import Done, Report
from brokerless.table_formats import export_directory, export_state
from brokerless.table_formats.parquet_files import ParquetFile, ParquetFiles
from brokerless.table_formats.rows import RowMaker
from brokerless.tables.last_record import last_record
from brokerless.typed.records import Failures

__all__ = ["Export", "ExportPlan", "ExportTask", "ExportTaskResult", "ExportedPartition", "export", "plan", "run"]


def export(
    plan: ExportPlan,
    report: Report,
    running: RunOptions = HERE,
) -> Iterator[ExportedPartition]:
    """Does what was planned, and gives each partition when it is done. ``report`` is called with every finding, before
    what it is in is committed, and when a partition is done with one for each cause that left values undecoded; what it
    raises ends the export.

    Raises, where the plan has no ``refuse``, :class:`UsageError` if another export was here meanwhile and
    :class:`UnwritableError` where the target fails.
    """
    for finding in plan.findings:
        report(finding)
    left_over = _left_over(plan)
    if not (plan.tasks or left_over):
        return
    start = partial(job.run, run, running=running, name="brokerless export")
    target = DirectoryTarget(plan) if plan.tables is None else TableTarget(plan.tables)
    if plan.export.dry_run:
        yield from _commit_each(ExportCommit(plan, report, target), start(plan.tasks))
        return
    with export_directory.only_export(plan.directory.path) if plan.directory.path else nullcontext():
        for topic in left_over:
            with plan.refusals.refusing(topic):
                file_tree.remove_unfinished(export_state.topic_directory(plan.directory, topic))
        if plan.tables is not None:
            plan = replace(plan, tasks=tuple(plan.tables.prepared(plan.tasks)))
        manifests = target.begin(plan)
        plan = replace(plan, tasks=tuple(task for task in plan.tasks if task.topic in manifests))
        commit = ExportCommit(plan, report, target, manifests)
        try:
            yield from _commit_each(commit, start(plan.tasks))
        finally:
            commit.end()


def _left_over(plan: ExportPlan) -> list[str]:
    """The topics with nothing new for which a run was killed after it had committed all of them."""
    if plan.export.dry_run or plan.tables is not None:
        return []
    changed = {task.topic for task in plan.tasks}
    topics = [topic for topic, state in plan.manifests.items() if state is not None and topic not in changed]
    return [each for each in topics if file_tree.has_unfinished(export_state.topic_directory(plan.directory, each))]


def _commit_each(commit: ExportCommit, results: Generator[tuple[int, ExportTaskResult]]) -> Iterator[ExportedPartition]:
    with closing(results):
        for index, result in results:
            yield from commit.take(index, result)


def run(task: ExportTask, done: Done) -> ExportTaskResult:
    """Reads a task's records and writes its files, which nobody sees yet."""
    records = ExportReader(
        task.source,
        task.start,
        task.end,
        committed=task.export.isolation == "read_committed",
        max_batch_bytes=task.export.max_batch_bytes,
        is_last=task.is_last or task.mark is not None,
        is_live=task.is_live,
        done=done,
        whole=task.whole,
    )
    output, failures = ParquetFiles(task.layout), Failures()
    table = task.layout.table
    rows = None if table is None else RowMaker(task.topic, table.schema)
    try:
        for batch in records:
            decoded = batch if task.topic_type is None else failures.decode(task.topic_type, batch)
            output.add(decoded if rows is None else rows(decoded))
        written = output.finish()
    except (NotReadableError, UnreadableError) as error:
        output.abandon()
        if isinstance(error, UnreadableError):  # in the middle of a file; what of it came is not known
            records.findings.append(error.finding(task.source.path))
        return ExportTaskResult((), task.start, tuple(records.findings), ((task.start, None),), is_complete=False)
    except (UnwritableError, OSError) as error:
        output.abandon()
        return ExportTaskResult((), task.start, (), (), is_complete=False, refusal=reason_of(error))
    except BaseException:
        output.abandon()
        raise
    next_offset, left_out = records.next_offset, tuple(records.left_out)
    if task.mark is not None:
        return replace(_filled(task, records, written), failures=failures)
    if not task.is_last:  # another segment follows
        left_out = tuple((first, task.end - 1 if last is None else last) for first, last in left_out)
        next_offset = task.end
    findings = (*records.findings, *task.findings)
    missing = (*task.missing, *records.missing)
    last = last_record(task.source, next_offset, task.export.max_batch_bytes)
    return ExportTaskResult(written, next_offset, findings, left_out, missing=missing, failures=failures, last=last)


def _filled(task: ExportTask, records: ExportReader, written: tuple[ParquetFile, ...]) -> ExportTaskResult:
    """Return the result for offsets that earlier runs lacked. What is wrong after them was for those runs, as is what
    is damaged still."""
    within = [each for each in records.left_out if each[0] < task.end]
    left_out = tuple((first, None if last is None else min(last, task.end - 1)) for first, last in within)
    is_through = records.is_decided and all(last is not None for _, last in left_out)
    next_offset = task.end if is_through else min(records.next_offset, task.end)
    findings = tuple(records.findings) if left_out and written else ()
    return ExportTaskResult(written, next_offset, findings, left_out)
