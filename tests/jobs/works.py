"""What the jobs in the tests do: functions of a module, as other processes import them."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from brokerless.errors import UsageError
from brokerless.jobs.run import job
from brokerless.jobs.run.job import run
from brokerless.jobs.run.types import RunOptions


@dataclass(frozen=True)
class Task:
    number: int

    @property
    def size(self) -> int:
        return 10 * self.number


def square(task: Task, done: Callable[[int], object]) -> int:
    done(task.size)
    return task.number**2


def objects_that_stay(task: Task, done: Callable[[int], object]) -> int:
    return gc.get_freeze_count()


def process_of(task: Task, done: Callable[[int], object]) -> int:
    return os.getpid()


@dataclass(frozen=True)
class Waiting:
    """A task that waits for a file."""

    path: Path
    makes: Path | None = None
    size: int = 1


def wait_for(task: Waiting, done: Callable[[int], object]) -> int:
    while not task.path.exists():
        time.sleep(0.01)
    if task.makes is not None:
        task.makes.touch()
    return os.getpid()


def refuse_three(task: Task, done: Callable[[int], object]) -> int:
    if task.number == 3:
        raise UsageError("three is not wanted")
    return task.number


def kill_itself(task: Task, done: Callable[[int], object]) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


@dataclass(frozen=True)
class Endless:
    """A task that goes on until it is given up, and notes that it has begun and ended."""

    path: Path
    size: int = 1


def go_on(task: Endless, done: Callable[[int], object]) -> None:
    (task.path / f"{os.getpid()}-begun").touch()
    try:
        while True:
            done(1)
            time.sleep(0.01)
    finally:
        (task.path / f"{os.getpid()}-ended").touch()


def read_until_given_up(directory: Path) -> None:
    """What is run beside the tests, to be interrupted."""
    job.SOME_BYTES = 0
    with closing(run(go_on, [Endless(directory)] * 100, RunOptions(processes=2))) as results:
        next(results)
