"""Values come as soon as they are made, in the order of their task; and no process is left behind."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest

from brokerless.errors import JobError, UsageError
from brokerless.jobs.run.streams import stream


@dataclass(frozen=True)
class Task:
    name: str
    values: int
    size: int = 1


def count(task: Task, done: Callable[[int], object]) -> Iterator[str]:
    for number in range(task.values):
        done(10)
        yield f"{task.name}{number}"


def count_slowly(task: Task, done: Callable[[int], object]) -> Iterator[str]:
    yield "begun"
    time.sleep(600 if task.name == "slow" else 0)
    yield "ended"


def fail(task: Task, done: Callable[[int], object]) -> Iterator[str]:
    yield "before"
    raise UsageError(f"{task.name} cannot be done")


def die(task: Task, done: Callable[[int], object]) -> Iterator[str]:
    yield "before"
    os._exit(9)


def same(value: str) -> str:
    return value


def packed(value: str) -> str:
    return value.upper()


@pytest.mark.parametrize("processes", [None, 1, 3])
def test_values_of_a_task_come_in_their_order(processes: int | None) -> None:
    tasks = [Task("a", 3), Task("b", 0), Task("c", 50), Task("d", 1)]
    read: list[int] = []
    got = list(stream(count, tasks, pack=same, done=read.append, processes=processes))
    for index, task in enumerate(tasks):
        assert [value for at, value in got if at == index] == [f"{task.name}{n}" for n in range(task.values)]
    assert sum(read) == 540


def test_only_what_another_process_sends_is_packed() -> None:
    tasks = [Task("a", 1), Task("b", 1)]
    assert sorted(value for _, value in stream(count, tasks, pack=packed, processes=1)) == ["a0", "b0"]
    assert sorted(value for _, value in stream(count, tasks, pack=packed, processes=2)) == ["A0", "B0"]


def test_a_value_does_not_wait_for_others_and_leaving_ends_all() -> None:
    began = time.monotonic()
    with closing(stream(count_slowly, [Task("slow", 0), Task("quick", 0)], pack=same, processes=2)) as values:
        got = {next(values) for _ in range(3)}
    assert got == {(0, "begun"), (1, "begun"), (1, "ended")}
    assert time.monotonic() - began < 60
    assert not multiprocessing.active_children()


def test_what_a_task_raises_is_raised() -> None:
    values = stream(fail, [Task("a", 1), Task("b", 1)], pack=same, processes=2)
    with pytest.raises(UsageError, match="cannot be done"):
        list(values)
    assert not multiprocessing.active_children()


def test_a_process_that_is_killed_is_reported() -> None:
    with pytest.raises(JobError, match="killed"):
        list(stream(die, [Task("a", 1), Task("b", 1)], pack=same, processes=2))
