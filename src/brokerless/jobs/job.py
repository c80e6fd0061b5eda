"""How a job runs: a plan on the driver, a pure task for each piece, a commit on the driver.

The plan is a list of picklable tasks, each with its ``size`` in bytes. :func:`run` does them, in this process or on
Spark, and gives their values as they are finished; what is to be done about a value (write a line, give a partition its
name) is done by whoever takes it, on the driver::

    with closing(run(work, tasks, spark=options.spark, done=done)) as results:
        for index, value in results:
            commit(tasks[index], value)

``work(task, done)`` is a function of a module, and takes and gives plain values: what is wrong with a log is in its
value (:class:`Finding`), and only what stops the whole job is raised. It calls ``done`` with the bytes that it has
read since the last call, every few MiB: in this process, that is also where a job that was given up stops it. It
writes under names of its own, for a lost executor's task is run again, and takes away what it wrote if anything is
raised.

Leaving the loop in any way (an error, Ctrl-C) cancels what is left and waits until it has stopped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from threading import Event, Lock
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Done = Callable[[int], object]


class Sized(Protocol):
    @property
    def size(self) -> int:
        """Bytes to read."""
        ...


TaskT = TypeVar("TaskT", bound=Sized)
ValueT = TypeVar("ValueT")
Work = Callable[[TaskT, Done], ValueT]

NONE = "none"
"""For ``spark``: never, the tasks are done in this process."""
MANY_BYTES = 32 << 30
"""From here on, tasks are done on Spark if nothing else is said."""
_LOOK_UP = 0.25
"""Seconds. With several threads, Python may miss a signal that comes just before it begins to wait, and wait on."""


class _GivenUp(BaseException):
    """Ends a task whose value nobody waits for."""


def ignore(_: object) -> None:
    """A ``done`` that nobody wants."""


def run(
    work: Work[TaskT, ValueT],
    tasks: Sequence[TaskT],
    *,
    spark: SparkSession | str | None = NONE,
    done: Done = ignore,
    say: Callable[[str], object] = ignore,
    name: str = "brokerless",
) -> Generator[tuple[int, ValueT]]:
    """Does all tasks and gives ``(index, value)`` of each as it is finished; those that are listed first begin first.

    ``spark``: a master (``local[4]``, ``spark://host:7077``) for which a session is started and stopped, a session,
    ``"none"`` for this process (as many threads as it has processors), or None: on Spark if there is so much to read
    that it pays, and Spark is there. ``done`` is called with bytes, from one thread at a time; ``say`` with what people
    should know, such as that Spark was chosen. ``name``: the job's, for Spark's own pages.

    Raises what ``work`` raises, :class:`UsageError` for a master that is none, and :class:`JobError` where Spark gives
    a task up.
    """
    spark = _choose(tasks, say) if spark is None else spark
    if spark == NONE:
        yield from _run_here(work, tasks, done)
        return
    from brokerless.jobs.on_spark import run_on, session

    with session(spark, name) as context, closing(run_on(context, work, tasks, done, say, name)) as results:
        yield from results


def in_order(results: Iterable[tuple[int, ValueT]]) -> Iterator[ValueT]:
    """Values in the order of their tasks; those that come early wait."""
    early: dict[int, ValueT] = {}
    following = 0
    for index, value in results:
        early[index] = value
        while following in early:
            yield early.pop(following)
            following += 1


def processors() -> int:
    """How many of them this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _choose(tasks: Sequence[Sized], say: Callable[[str], object]) -> str:
    """Spark where it pays and is there; otherwise this process."""
    total = sum(task.size for task in tasks)
    if total < MANY_BYTES or len(tasks) < 2 or processors() < 2:
        return NONE
    from brokerless.jobs.on_spark import LOCAL, what_is_missing

    missing = what_is_missing()
    gib = f"{total / (1 << 30):,.0f} GiB to read"
    if missing is not None:
        say(f"{gib}: this process does it alone, as {missing}")
        return NONE
    say(f"{gib}: on Spark, {LOCAL} (--spark none: in this process; --spark MASTER: elsewhere)")
    return LOCAL


def _run_here(work: Work[TaskT, ValueT], tasks: Sequence[TaskT], done: Done) -> Generator[tuple[int, ValueT]]:
    threads = min(processors(), len(tasks))
    if threads < 2:
        for index, task in enumerate(tasks):
            yield index, work(task, done)
        return
    given_up, guard = Event(), Lock()

    def tell(size: int) -> None:
        if given_up.is_set():
            raise _GivenUp
        with guard:
            done(size)

    waiting = iter(enumerate(tasks))
    running: dict[Future[ValueT], int] = {}
    with ThreadPoolExecutor(threads, "brokerless-task") as pool:
        try:
            while True:
                # No more than what keeps the threads busy: values must not add up while an early one is awaited.
                while len(running) < threads + 1 and (following := next(waiting, None)) is not None:
                    running[pool.submit(work, following[1], tell)] = following[0]
                if not running:
                    return
                finished, _ = wait(running, _LOOK_UP, FIRST_COMPLETED)
                for future in sorted(finished, key=lambda each: running[each]):
                    yield running.pop(future), future.result()
        finally:
            given_up.set()
            pool.shutdown(cancel_futures=True)
