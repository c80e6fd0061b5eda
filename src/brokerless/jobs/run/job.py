"""Runs a job: a plan on the driver, a pure task for each part, a commit on the driver.

The plan is a list of picklable tasks, each with its ``size`` in bytes. :func:`run` does them, on this machine or on
Spark, and gives their values as they are finished; what is to be done about a value (write a line, give a partition its
name) is done by whoever takes it, on the driver::

    with closing(run(work, tasks, RunOptions(done, options.spark))) as results:
        for index, value in results:
            commit(tasks[index], value)

``work(task, done)`` is a function of a module, and takes and gives plain values: what is wrong with a log is in its
value (:class:`Finding`), and only what stops the whole job is raised. It calls ``done`` with the bytes that it has
read since the last call, every few MiB; on this machine, that is also where a job that was given up stops it. It
writes under names of its own, for a lost executor's task is run again, and takes away what it wrote if anything is
raised.

Leaving the loop in any way (an error, Ctrl-C) cancels what is left and waits until it has stopped.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace

from brokerless.errors import UnreadableError, UsageError
from brokerless.jobs.run.types import HERE, NONE, ResultT, RunOptions, RunPlace, Sized, TaskT, ValueT, Work
from brokerless.ordered_threads import processors
from brokerless.progress import Say, limited

MANY_BYTES = 32 << 30
"""From here on, tasks are done on Spark if nothing else is said: its start no longer counts, and a process that is lost
after ten minutes does not end the job."""
SOME_BYTES = 256 << 20
"""What the other processors could read while one reads the largest task, from which on there is a process for each of
them: to start one costs a second (Python, Numba, kernels)."""


def run(
    work: Work[TaskT, ValueT],
    tasks: Sequence[TaskT],
    running: RunOptions = HERE,
    *,
    name: str = "brokerless",
    order: Sequence[int] | None = None,
) -> Generator[tuple[int, ValueT]]:
    """Do all tasks, and yield ``(index, value)`` of each as it is finished; those that are listed first begin first, or
    those that are first in ``order`` (indexes). ``name``: the job's, for Spark's own pages.

    Raises what ``work`` raises, :class:`UsageError` for a master that is none, and :class:`JobError` where a process
    was killed, or Spark gives a task up.
    """
    if not tasks:
        return
    if order is not None:
        with closing(run(work, [tasks[at] for at in order], running, name=name)) as begun:
            yield from ((order[at], value) for at, value in begun)
        return
    with started(running, tasks, name) as place:
        if isinstance(place, str):
            yield from _run_here(work, tasks, running)
            return
        from brokerless.jobs.run.on_spark import run_on

        with closing(run_on(place, work, tasks, running, name=name)) as results:
            yield from results


@contextmanager
def started(running: RunOptions, tasks: Sequence[Sized], name: str = "brokerless") -> Generator[RunPlace]:
    """Decide and start what tasks are run on (``spark``): for a job that calls :func:`run` more than once."""
    chosen = choose(tasks, running.say) if running.spark is None else running.spark
    if chosen == NONE:
        yield NONE
        return
    from brokerless.jobs.run.on_spark import session

    with session(chosen, name) as context:
        yield context


def with_rate(running: RunOptions, rate: int | None) -> RunOptions:
    """Return how tasks are run where at most so many bytes a second are read: in this process alone, where these are
    counted. Raises :class:`UsageError` where Spark was requested as well."""
    if rate is None:
        return running
    if running.spark not in (NONE, None):
        raise UsageError("--rate is of one process, and Spark has several; leave out one of them")
    return replace(running, done=limited(running.done, rate), spark=NONE, processes=1)


def longest_first(tasks: Sequence[Sized]) -> list[int]:
    """Return the indexes of tasks in the order in which they should begin: the longest is not to begin last."""
    return sorted(range(len(tasks)), key=lambda index: -tasks[index].size)


def in_order(results: Iterable[tuple[int, ValueT]]) -> Iterator[ValueT]:
    """Values in the order of their tasks; those that come early wait."""
    early: dict[int, ValueT] = {}
    following = 0
    for index, value in results:
        early[index] = value
        while following in early:
            yield early.pop(following)
            following += 1


def values_or_raise(results: Generator[ResultT | UnreadableError]) -> Generator[ResultT]:
    """Yield values of which each may be an error. Raises the first one, and ends what was begun."""
    with closing(results):
        for each in results:
            if isinstance(each, UnreadableError):
                raise each
            yield each


def choose(tasks: Sequence[Sized], say: Say) -> str:
    """Return what ``spark`` is if nothing is said: Spark where it pays and is there."""
    total = sum(task.size for task in tasks)
    if total < MANY_BYTES or len(tasks) < 2 or processors() < 2:
        return NONE
    from brokerless.jobs.run.on_spark import LOCAL, what_is_missing

    missing = what_is_missing()
    gib = f"{total / (1 << 30):,.0f} GiB to read"
    if missing is not None:
        say(f"{gib}: without Spark, as {missing}")
        return NONE
    say(f"{gib}: on Spark, {LOCAL} (--spark none: without; --spark MASTER: elsewhere)")
    return LOCAL


def _run_here(work: Work[TaskT, ValueT], tasks: Sequence[TaskT], running: RunOptions) -> Generator[tuple[int, ValueT]]:
    """One task after the other, unless so much could be read at the same time that it pays to start processes."""
    meanwhile = sum(task.size for task in tasks) - max((task.size for task in tasks), default=0)
    number = min(processors() if running.processes is None else running.processes, len(tasks))
    if meanwhile < SOME_BYTES or number < 2:
        for index, task in enumerate(tasks):
            yield index, work(task, running.done)
        return
    from brokerless.jobs.run.processes import run_in_processes

    yield from run_in_processes(work, tasks, number, running.done)
