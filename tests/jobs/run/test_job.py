"""How a job runs on this machine: values, order, errors, and what happens when nobody wants them any more."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.jobs.works import Task, Waiting, kill_itself, process_of, refuse_three, square, wait_for

from brokerless.errors import DamageError, JobError, RefusedError, UsageError
from brokerless.findings import Finding
from brokerless.jobs.run import job, on_spark
from brokerless.jobs.run.job import in_order, run
from brokerless.jobs.run.types import RunOptions
from brokerless.tables.rows import RowError

ROOT = Path(__file__).parents[3]


@pytest.fixture(params=[1, 3], ids=["one-process", "three-processes"])
def processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """In how many processes a small job runs."""
    monkeypatch.setattr(job, "SOME_BYTES", 0)
    return request.param


def test_each_task_gives_its_value_once_and_bytes_add_up(processes: int) -> None:
    tasks = [Task(number) for number in range(50)]
    read: list[int] = []

    values = sorted(run(square, tasks, RunOptions(read.append, processes=processes)))

    assert values == [(number, number**2) for number in range(50)]
    assert sum(read) == sum(task.size for task in tasks)


def test_there_may_be_nothing_to_do(processes: int) -> None:
    assert list(run(square, [], RunOptions(processes=processes))) == []


def test_little_work_is_not_worth_a_process() -> None:
    assert {value for _, value in run(process_of, [Task(number) for number in range(9)])} == {os.getpid()}


def test_tasks_run_at_once_and_values_come_as_they_are_finished(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(job, "SOME_BYTES", 0)
    begin, last = tmp_path / "begin", tmp_path / "last"
    begin.touch()
    tasks = [Waiting(last), *[Waiting(begin)] * 5]

    values: dict[int, int] = {}
    for index, value in run(wait_for, tasks, RunOptions(processes=2)):
        values[index] = value
        if len(values) == 5:
            last.touch()

    assert list(values) == [1, 2, 3, 4, 5, 0]
    assert len(set(values.values())) == 2
    assert os.getpid() not in values.values()


def test_values_can_be_had_in_the_order_of_the_tasks() -> None:
    assert list(in_order([(2, "c"), (0, "a"), (1, "b"), (3, "d")])) == ["a", "b", "c", "d"]


def test_what_a_task_raises_ends_the_job(processes: int) -> None:
    with pytest.raises(UsageError, match="three is not wanted"):
        list(run(refuse_three, [Task(number) for number in range(1000)], RunOptions(processes=processes)))


def test_a_process_that_is_killed_ends_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "SOME_BYTES", 0)

    with pytest.raises(JobError, match="was killed"):
        list(run(kill_itself, [Task(1), Task(2)], RunOptions(processes=2)))


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "killed"])
def test_when_a_job_is_stopped_no_process_stays(stop: signal.Signals, tmp_path: Path) -> None:
    code = f"from pathlib import Path; from tests.jobs.works import *; read_until_given_up(Path({str(tmp_path)!r}))"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True, cwd=ROOT, text=True) as process:
        while len(list(tmp_path.glob("*-begun"))) < 2 and process.poll() is None:
            time.sleep(0.01)
        if stop == signal.SIGINT:
            os.killpg(process.pid, stop)  # as a terminal does, to all of them
        else:
            process.kill()
        _, told = process.communicate()  # which comes back when nobody has stderr open any more

    begun = {path.name.partition("-")[0] for path in tmp_path.glob("*-begun")}
    assert len(begun) == 2, told
    if stop == signal.SIGINT:
        assert begun == {path.name.partition("-")[0] for path in tmp_path.glob("*-ended")}
        assert told.count("Traceback") == 1, told


@pytest.mark.parametrize(
    "error",
    [
        RefusedError("OffsetsOutOfOrderException", "offset 5 comes after 7"),
        DamageError(Finding("error", "zero-tail", "a.log", position=1, message="nothing but zeros")),
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
        self.where = job.choose(self.tasks, self.said.append)


def test_small_inputs_are_read_without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_without_java_large_inputs_are_read_without_spark_and_why_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "processors", lambda: 8)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", os.devnull)

    large = Choosing(8, job.MANY_BYTES)

    assert large.where == "none"
    assert "no Java" in large.said[0]
