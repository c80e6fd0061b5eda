"""Runs a plan: each partition is read and written beside, wherever its task runs, and a commit names it.

A job that keeps a manifest commits each partition when it is written, or writes the manifest before it commits, so that
a later run goes on. Any other commits all at the end, and records that until it has ended, so that the same command may
be repeated after a kill. ``meta.properties`` comes last, into directories whose partitions are all there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from brokerless.findings import Finding
from brokerless.jobs.rewrite.plan import PartitionTask, Plan, RewriteTaskT, Target
from brokerless.jobs.run.job import in_order, longest_first, run
from brokerless.jobs.run.types import HERE, ResultT, RunOptions
from brokerless.log.commit.commit import commit
from brokerless.log.commit.job_commit import outputs_of_job
from brokerless.log.commit.node_files import complete, complete_directories
from brokerless.log.commit.run_record import commit_run, end_run
from brokerless.log.commit.types import StagedPartition
from brokerless.log.storage.destination import Destination
from brokerless.progress import Done, Report, ignore
from brokerless.text import short_html, short_repr


class Reported(Protocol):
    """A task's result, which the driver gets, whatever else is in it."""

    @property
    def findings(self) -> Sequence[Finding]:
        """What is to be reported before anything is committed."""
        ...


ReportedT = TypeVar("ReportedT", bound=Reported)


@dataclass(frozen=True, slots=True)
class TaskResult(Generic[ResultT]):
    """A task's result, which the driver gets."""

    result: ResultT
    findings: tuple[Finding, ...]
    """Findings to report before anything is committed."""
    staged: StagedPartition | None
    """What was written, if anything was."""


def result_of(_: object, value: TaskResult[ResultT]) -> tuple[ResultT, StagedPartition | None]:
    """Return the result of a task that made it, and what is to be committed."""
    return value.result, value.staged


@dataclass(frozen=True, slots=True, repr=False)
class PartitionResult(Generic[RewriteTaskT]):
    """The result of a task for its partition."""

    task: RewriteTaskT

    __repr__ = short_repr
    _repr_html_ = short_html

    @property
    def topic(self) -> str:
        return self.task.topic

    @property
    def partition(self) -> int:
        return self.task.partition


def places(task: PartitionTask, *, is_written: bool) -> dict[str, Any]:
    """Return the first fields of a result's object in JSON: the partition, and where it was read and written."""
    return {
        "topic": task.topic,
        "partition": task.partition,
        "source": task.source.path,
        "target": task.directory.join(task.name) if is_written else None,
    }


@dataclass(frozen=True, slots=True)
class Rewrite(Generic[RewriteTaskT, ReportedT, ResultT]):
    """A command's part in a rewrite: what it does with each task of its plan."""

    command: str
    work: Callable[[RewriteTaskT, Done], ReportedT]
    """Reads a partition, and stages what is written."""
    take: Callable[[RewriteTaskT, ReportedT], tuple[ResultT, StagedPartition | None]]
    """Returns the result of a task and what is to be committed, if anything."""
    has_manifest: bool = False
    """Whether a later run goes on by a manifest, so that the commit is not recorded."""
    commits_each: bool = False
    """Whether each partition is committed as soon as it is written."""
    before_commit: Callable[[Sequence[ResultT]], object] = ignore
    """Called with all results."""
    job_of: Callable[[Destination], str | None] = ignore
    """Returns the name by which a later run is known for the same job, so that it removes what this one left."""
    is_lossy: bool = False
    """Whether a partition of which nothing was written counts as written."""
    makes_logs: bool = True
    """Whether log directories are written, and not tables, of which ``take`` takes care."""
    of_one_node: bool = True
    """Whether it is reported where sources have the files of several nodes, so that none are written."""


def rewrite(
    job: Rewrite[RewriteTaskT, ReportedT, ResultT],
    plan: Plan[RewriteTaskT],
    report: Report,
    running: RunOptions = HERE,
) -> Generator[ResultT]:
    """Runs the tasks of a plan, and commits what they write; results come in the order of the tasks.

    ``report`` is called with every finding, before what it is in is committed; what it raises ends the job.
    """
    staged: dict[str, list[StagedPartition]] = {str(each.directory): [] for each in plan.targets}
    written: set[str] = set()

    def take(index: int, value: ReportedT) -> ResultT:
        task = plan.tasks[index]
        for finding in value.findings:
            report(finding)
        result, partition = job.take(task, value)
        if partition is not None and job.commits_each:
            commit(task.directory, [partition])
        elif partition is not None:
            staged[str(task.directory)].append(partition)
        if partition is not None or job.is_lossy:
            written.update(task.read_paths)
        return result

    with ExitStack() as stack:
        owners: dict[str, str] = {}
        for task in plan.tasks:
            if job.makes_logs and not plan.dry_run and str(task.directory) not in owners:
                output = outputs_of_job(task.directory, job.job_of(task.directory))
                owners[str(task.directory)] = stack.enter_context(output)
        owned = [replace(task, owner=owners.get(str(task.to), "")) for task in plan.tasks]
        values = run(job.work, owned, running, name=f"brokerless {job.command}", order=longest_first(owned))
        results: list[ResultT] = []
        with closing(values):
            for result in in_order((at, take(at, value)) for at, value in values):
                if job.commits_each:
                    yield result
                else:
                    results.append(result)
        if plan.dry_run:
            yield from results
            return
        if plan.tasks:
            job.before_commit(results)
        for target in plan.targets:
            if staged[str(target.directory)]:
                _commit(target, staged[str(target.directory)], is_recorded=not job.has_manifest)
        for target in plan.targets:
            if not target.directory.is_missing:
                whole = complete_directories(target.sources, written, target.directory)
                complete(whole, target.directory, running.say if job.of_one_node else ignore)
        yield from results
        if not job.has_manifest:
            for target in plan.targets:
                end_run(target.directory)


def _commit(target: Target, partitions: Sequence[StagedPartition], *, is_recorded: bool) -> None:
    if is_recorded:
        commit_run(target.directory, partitions, target.run)
    else:
        commit(target.directory, partitions)
