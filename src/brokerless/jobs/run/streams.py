"""Runs tasks that yield their values one by one, in parallel processes, and yields each value at once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any

from brokerless.errors import JobError
from brokerless.jobs.run.job import SOME_BYTES
from brokerless.jobs.run.types import Sized, TaskT, ValueT
from brokerless.ordered_threads import processors
from brokerless.progress import Done, ignore

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Stream = Callable[[TaskT, Done], Iterator[ValueT]]
"""A function of a module, whose tasks can be pickled; it calls ``done`` with the bytes that it has read."""
_REPORT_S = 0.25


def stream(
    work: Stream[TaskT, ValueT],
    tasks: Sequence[TaskT],
    *,
    pack: Callable[[ValueT], ValueT],
    done: Done = ignore,
    processes: int | None = None,
) -> Generator[tuple[int, ValueT]]:
    """Does all tasks and yields ``(index, value)``, the values of each task in its order and as soon as they are there;
    in one process, task after task.

    ``pack``: a function of a module that makes a value one that can be sent from another process. ``processes``: at
    most so many; None is one for each processor, if there is enough to read. Raises what ``work`` raises, and
    :class:`JobError` where a process was killed. Leaving the loop ends all processes.
    """
    number = processes_for(tasks, processes)
    if number < 2:
        for index, task in enumerate(tasks):
            for value in work(task, done):
                yield index, value
                del value  # freed before the next one is read
        return
    yield from _side_by_side(work, pack, tasks, number=number, done=done)


def processes_for(tasks: Sequence[Sized], processes: int | None) -> int:
    """Return in how many processes :func:`stream` does some tasks."""
    number = min(processors() if processes is None else processes, len(tasks))
    meanwhile = sum(task.size for task in tasks) - max((task.size for task in tasks), default=0)
    return 1 if processes is None and meanwhile < SOME_BYTES else number


def _side_by_side(
    work: Stream[TaskT, ValueT], pack: Callable[[ValueT], ValueT], tasks: Sequence[TaskT], number: int, done: Done
) -> Generator[tuple[int, ValueT]]:
    from multiprocessing import get_context
    from multiprocessing.connection import Connection, wait

    from brokerless.jobs.run.processes import interrupts_blocked

    context = get_context("spawn")
    doing: dict[Connection, int] = {}
    processes: list[Any] = []
    following = iter(range(len(tasks)))

    def begin_next(connection: Connection) -> None:
        """Gives a process its next task, or lets it end."""
        index = next(following, None)
        doing.pop(connection, None)
        connection.send(None if index is None else tasks[index])
        if index is not None:
            doing[connection] = index

    try:
        for _ in range(number):
            own, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, work, pack), daemon=True)
            with interrupts_blocked():
                process.start()
            theirs.close()
            processes.append(process)
            begin_next(own)
        while doing:
            for connection in wait(list(doing)):
                assert isinstance(connection, Connection)
                try:
                    kind, value = connection.recv()
                    if kind == "end":
                        begin_next(connection)
                except (EOFError, OSError) as error:
                    text = "a process that did a part of the work was killed; is there memory enough?"
                    raise JobError(text) from error
                if kind == "raised":
                    raise value
                if kind == "read":
                    done(value)
                elif kind == "value":
                    yield doing[connection], value
                del value
    finally:
        for process in processes:
            process.kill()  # they only read
        for process in processes:
            process.join()


def _serve(connection: Connection, work: Stream[Any, Any], pack: Callable[[Any], Any]) -> None:
    """A process: one task after the other, until there is none, or nobody who waits any more."""
    from brokerless.jobs.run.processes import end_with_parent

    Thread(target=end_with_parent, daemon=True).start()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while (task := connection.recv()) is not None:
            try:
                _do(connection, work, pack, task)
            except (BrokenPipeError, ConnectionResetError):
                raise
            except Exception as error:
                connection.send(("raised", error))


def _do(connection: Connection, work: Stream[Any, Any], pack: Callable[[Any], Any], task: Any) -> None:
    read, reported = 0, monotonic()

    def count(size: int) -> None:
        nonlocal read, reported
        read += size
        if monotonic() - reported > _REPORT_S:
            connection.send(("read", read))
            read, reported = 0, monotonic()

    for value in work(task, count):
        connection.send(("value", pack(value)))
        del value
    connection.send(("read", read))
    connection.send(("end", None))
