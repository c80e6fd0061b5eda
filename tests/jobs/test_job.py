"""How a job runs in this process: values, order, errors, and what happens when nobody wants them any more."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import pytest

from brokerless.errors import DamageError, Finding, RefusedError, UsageError
from brokerless.jobs import job, on_spark
from brokerless.jobs.job import in_order, run
from brokerless.rows import RowError


@dataclass(frozen=True)
class Task:
    number: int

    @property
    def size(self) -> int:
        return 10 * self.number


@pytest.fixture(params=[1, 4], ids=["one-processor", "four-processors"])
def processors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(job, "processors", lambda: request.param)
    return request.param


def square(task: Task, done: Callable[[int], object]) -> int:
    done(task.size)
    return task.number**2


def test_each_task_gives_its_value_once(processors: int) -> None:
    tasks = [Task(number) for number in range(50)]

    assert sorted(run(square, tasks)) == [(number, number**2) for number in range(50)]


def test_there_may_be_nothing_to_do(processors: int) -> None:
    assert list(run(square, [])) == []


def test_the_bytes_that_tasks_have_read_add_up(processors: int) -> None:
    read: list[int] = []

    list(run(square, [Task(number) for number in range(20)], done=read.append))

    assert sum(read) == sum(10 * number for number in range(20))


def test_values_come_as_they_are_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "processors", lambda: 2)
    others_are_done = threading.Event()

    def work(task: Task, done: Callable[[int], object]) -> int:
        if task.number == 0:
            assert others_are_done.wait(60)
        return task.number

    values: list[int] = []
    for index, value in run(work, [Task(number) for number in range(6)]):
        assert index == value
        values.append(value)
        if len(values) == 5:
            others_are_done.set()

    assert values == [1, 2, 3, 4, 5, 0]


def test_values_can_be_had_in_the_order_of_the_tasks() -> None:
    assert list(in_order([(2, "c"), (0, "a"), (1, "b"), (3, "d")])) == ["a", "b", "c", "d"]


def test_several_tasks_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "processors", lambda: 3)
    together = threading.Barrier(3, timeout=60)

    def work(task: Task, done: Callable[[int], object]) -> int:
        return together.wait()

    assert sorted(value for _, value in run(work, [Task(number) for number in range(3)])) == [0, 1, 2]


def test_what_a_task_raises_ends_the_job(processors: int) -> None:
    def work(task: Task, done: Callable[[int], object]) -> int:
        if task.number == 3:
            raise UsageError("three is not wanted")
        return task.number

    with pytest.raises(UsageError, match="three is not wanted"):
        list(run(work, [Task(number) for number in range(1000)]))


def test_a_job_that_is_given_up_stops_at_once_and_waits_for_its_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "processors", lambda: 2)
    begun: list[int] = []
    ended: list[int] = []
    reading = threading.Event()

    def work(task: Task, done: Callable[[int], object]) -> int:
        begun.append(task.number)
        try:
            while task.number:
                reading.set()
                done(1)  # would go on without end
        finally:
            ended.append(task.number)
        return task.number

    with closing(run(work, [Task(number) for number in range(1000)])) as results:
        assert next(results) == (0, 0)
        assert reading.wait(60)

    assert sorted(begun) == sorted(ended)
    assert len(begun) < 10


def test_early_values_do_not_add_up_while_nobody_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "processors", lambda: 2)
    begun: list[int] = []

    def work(task: Task, done: Callable[[int], object]) -> int:
        begun.append(task.number)
        return task.number

    with closing(run(work, [Task(number) for number in range(1000)])) as results:
        next(results)
        assert len(begun) <= 5


@pytest.mark.parametrize(
    "error",
    [
        RefusedError("OffsetsOutOfOrderException", "offset 5 comes after 7"),
        DamageError(Finding("error", "zero-tail", "a.log", 1, None, "nothing but zeros")),
        RowError(7, "offset", "is null"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_can_be_sent_from_an_executor(error: Exception) -> None:
    arrived = pickle.loads(pickle.dumps(error))

    assert (type(arrived), str(arrived), vars(arrived)) == (type(error), str(error), vars(error))


class Choosing:
    """Where a job of so many tasks of so many bytes runs, if nothing is said."""

    def __init__(self, tasks: int, size: int) -> None:
        self.said: list[str] = []
        self.tasks = [type("Task", (), {"size": size // tasks})() for _ in range(tasks)]
        self.where = job._choose(self.tasks, self.said.append)


def test_small_inputs_are_read_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "processors", lambda: 8)

    small = Choosing(8, job.MANY_BYTES - 8)

    assert (small.where, small.said) == ("none", [])


def test_large_inputs_are_read_on_spark_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "processors", lambda: 8)
    monkeypatch.setattr(on_spark, "what_is_missing", lambda: None)

    large = Choosing(8, job.MANY_BYTES)

    assert large.where == "local[*,4]"
    assert "--spark none" in large.said[0]


@pytest.mark.parametrize(("tasks", "processors_there"), [(1, 8), (8, 1)], ids=["one-task", "one-processor"])
def test_nothing_is_gained_from_spark_where_one_thing_happens_at_a_time(
    tasks: int, processors_there: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "processors", lambda: processors_there)

    assert Choosing(tasks, 8 * job.MANY_BYTES).where == "none"


def test_without_java_large_inputs_are_read_in_this_process_and_why_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "processors", lambda: 8)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", os.devnull)

    large = Choosing(8, job.MANY_BYTES)

    assert large.where == "none"
    assert "no Java" in large.said[0]
