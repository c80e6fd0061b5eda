"""Runs the tasks of a job in processes of this machine, one for each processor.

Threads would not do: a codec called for each batch of 16 KiB holds Python's lock too often, and two of them read lz4
hardly faster than one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any

from brokerless.errors import JobError
from brokerless.jobs.run.types import TaskT, ValueT, Work
from brokerless.progress import Done

_LOOK_UP = 0.25
"""Seconds between two polls of the bytes read."""


class _GivenUpError(Exception):
    """Ends a task whose value nobody waits for."""


@dataclass
class _Shared:
    """Memory that all processes of a job share: bytes read by each task, and whether the job was given up."""

    read: Any
    given_up: Any


_shared: _Shared | None = None


def run_in_processes(
    work: Work[TaskT, ValueT], tasks: Sequence[TaskT], number: int, done: Done
) -> Generator[tuple[int, ValueT]]:
    """Run tasks as :func:`jobs.job.run` does, in so many processes. Raises :class:`JobError` if one of them is
    killed."""
    context = get_context("spawn")
    shared = _Shared(context.RawArray("q", len(tasks)), context.RawValue("b", 0))
    reported = 0
    following = 0
    running: dict[Future[ValueT], int] = {}
    with ProcessPoolExecutor(number, context, _begin, (shared,)) as pool:
        try:
            while following < len(tasks) or running:
                # No more than what keeps them busy: values must not add up while an early one is awaited.
                while following < len(tasks) and len(running) < number + 1:
                    with interrupts_blocked():
                        running[pool.submit(_do, work, following, tasks[following])] = following
                    following += 1
                finished, _ = wait(running, _LOOK_UP, FIRST_COMPLETED)
                read = sum(shared.read)
                done(read - reported)
                reported = read
                for future in sorted(finished, key=lambda each: running[each]):
                    yield running.pop(future), future.result()
        except BrokenProcessPool as error:
            text = "a process that did a part of the work was killed; is there memory enough?"
            raise JobError(text) from error
        finally:
            shared.given_up.value = 1
            pool.shutdown(cancel_futures=True)


@contextmanager
def interrupts_blocked() -> Generator[None]:
    """Processes that are started here do not take Ctrl-C, which this one decides about."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(shared: _Shared) -> None:
    global _shared
    _shared = shared
    Thread(target=end_with_parent, daemon=True).start()


def end_with_parent() -> None:
    """A pool's processes would wait for ever for a parent that was killed."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _do(work: Callable[[Any, Done], Any], index: int, task: Any) -> Any:
    shared = _shared
    assert shared is not None

    def done(size: int) -> None:
        shared.read[index] += size
        if shared.given_up.value:
            raise _GivenUpError

    return work(task, done)
