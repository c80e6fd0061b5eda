"""Runs a job: a plan on the driver, a pure task for each part, a commit on the driver.

The plan is a list of picklable tasks, each with its ``size`` in bytes. :func:`run` does them, on this machine or on
Spark, and gives their values as they are finished; what is to be done about a value (write a line, give a partition its
name) is done by whoever takes it, on the driver::

    with closing(run(work, tasks, spark=options.spark, done=done)) as results:
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

from brokerless.errors import UsageError
from brokerless.jobs.run.types import NONE, RunPlace, Sized, TaskT, ValueT, Work
from brokerless.ordered_threads import processors
from brokerless.progress import Done, Say, ignore
from brokerless.requests.option_types import Spark

MANY_BYTES = 32 << 30
"""From here on, tasks are done on Spark if nothing else is said: its start no longer counts, and a process that is lost
after ten minutes does not end the job."""
SOME_BYTES = 256 << 20
"""What the other processors could read while one reads the largest task, from which on there is a process for each of
them: to start one costs a second (Python, Numba, kernels)."""


def run(
    work: Work[TaskT, ValueT],
    tasks: Sequence[TaskT],
    *,
    spark: Spark = NONE,
    done: Done = ignore,
    say: Say = ignore,
    name: str = "brokerless",
    processes: int | None = None,
) -> Generator[tuple[int, ValueT]]:
    """Does all tasks and gives ``(index, value)`` of each as it is finished; those that are listed first begin first.

    ``spark``: a master (``local[4]``, ``spark://host:7077``) for which a session is started and stopped, a session,
    ``"none"`` for this machine without Spark (in this process, or with one for each processor where there is much to
    read), or None: on Spark from :data:`MANY_BYTES` on, if it is there. ``done`` is called with bytes; ``say`` with
    what people should know, such as that Spark was chosen. ``name``: the job's, for Spark's own pages. ``processes``:
    at most so many on this machine (None: one for each processor); with 1, no other is started, which only a program
    whose main module can be imported may do.

    Raises what ``work`` raises, :class:`UsageError` for a master that is none, and :class:`JobError` where a process
    was killed, or Spark gives a task up.
    """
    if not tasks:
        return
    with started(spark, tasks, say, name) as place:
        if isinstance(place, str):
            yield from _run_here(work, tasks, done, processors() if processes is None else processes)
            return
        from brokerless.jobs.run.on_spark import run_on

        with closing(run_on(place, work, tasks, done=done, say=say, name=name)) as results:
            yield from results


@contextmanager
def started(spark: Spark, tasks: Sequence[Sized], say: Say = ignore, name: str = "brokerless") -> Generator[RunPlace]:
    """Decide and start what :func:`run` takes for ``spark``: for a job that calls it more than once."""
    chosen = choose(tasks, say) if spark is None else spark
    if chosen == NONE:
        yield NONE
        return
    from brokerless.jobs.run.on_spark import session

    with session(chosen, name) as context:
        yield context


def place_of(spark: Spark, rate: int | None) -> Spark:
    """Return what :func:`run` takes for ``spark``, where at most so many bytes a second are read: that is counted in
    this process alone. Raises :class:`UsageError` where Spark was requested as well."""
    if rate is None:
        return spark
    if spark not in (NONE, None):
        raise UsageError("--rate is of one process, and Spark has several; leave out one of them")
    return NONE


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


def choose(tasks: Sequence[Sized], say: Say) -> str:
    """Return what ``spark`` of :func:`run` is if nothing is said: Spark where it pays and is there."""
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


def _run_here(
    work: Work[TaskT, ValueT], tasks: Sequence[TaskT], done: Done, number: int
) -> Generator[tuple[int, ValueT]]:
    """One task after the other, unless so much could be read at the same time that it pays to start processes."""
    meanwhile = sum(task.size for task in tasks) - max((task.size for task in tasks), default=0)
    number = min(number, len(tasks))
    if meanwhile < SOME_BYTES or number < 2:
        for index, task in enumerate(tasks):
            yield index, work(task, done)
        return
    from brokerless.jobs.run.processes import run_in_processes

    yield from run_in_processes(work, tasks, number, done)
