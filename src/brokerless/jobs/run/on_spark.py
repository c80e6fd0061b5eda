"""Runs the tasks of a job on Spark: one Spark job, with one Spark task for each of ours.

Values come back while the others still run, through an accumulator: Spark adds what a task has put into it when the
task has succeeded, once, however often it was tried (``DAGScheduler.handleTaskCompletion``, 4.1: of a result stage,
only the first success of a task counts). Spark moves no bytes of logs; executors read and write files themselves, so
they need the same paths, and a Python in which brokerless can be imported (``PYSPARK_PYTHON``; the one that runs here
by default, which is right on one machine, and where an environment has the same path everywhere).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import tempfile
import textwrap
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, chdir, contextmanager, suppress
from importlib.util import find_spec
from threading import Thread, current_thread, main_thread
from typing import IO, TYPE_CHECKING, Any
from uuid import uuid4

from brokerless.errors import BrokerlessError, JobError, UsageError, install_command
from brokerless.jobs.run.spark_worker import keep_what_is_loaded
from brokerless.jobs.run.types import RunOptions, TaskT, ValueT, Work
from brokerless.progress import Say, ignore

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

_TRIES = 4
"""How often a task is tried whose worker is lost, as on a cluster (``spark.task.maxFailures``)."""
LOCAL = f"local[*,{_TRIES}]"
"""All processors of this machine."""
_LOOK_UP = 0.1
_PATIENCE = 45.0
"""Seconds without any executor, after which this is reported."""
_STOPPING = 30.0
"""Seconds that are waited for tasks which were cancelled; Spark kills what has not ended by itself after two."""


def what_is_missing() -> str | None:
    """Return why Spark cannot be started here, if it cannot."""
    if find_spec("pyspark") is None:
        return f"PySpark is not installed ({install_command('spark')})"
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        return "there is no Java (Spark needs 17 or newer)"
    return None


@contextmanager
def session(spark: SparkContext | SparkSession | str, name: str) -> Generator[SparkContext]:
    """The context of a session that is there, or of one that is started for a master, and stopped at the end."""
    if not isinstance(spark, str):
        yield _context_of(spark)
        return
    missing = what_is_missing()
    if missing is not None:
        raise UsageError(f"--spark {spark}: {missing}")
    with _keeping_signals():
        context = _start(spark, name)
        try:
            yield context
        finally:
            context.stop()


def _context_of(spark: SparkContext | SparkSession) -> SparkContext:
    from pyspark import SparkContext

    if isinstance(spark, SparkContext):
        return spark
    try:
        return spark.sparkContext
    except Exception as error:
        text = "a session of Spark Connect cannot run jobs; give a classic session, or a master"
        raise UsageError(text) from error


@contextmanager
def _keeping_signals() -> Generator[None]:
    """PySpark takes Ctrl-C for itself, and does not give it back."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def with_tries(master: str) -> str:
    """On one machine Spark tries a task once, if the master does not say how often; then as often as on a cluster."""
    return re.sub(r"^local(?:\[(\*|\d+)\])?$", lambda found: f"local[{found[1] or 1},{_TRIES}]", master)


@contextmanager
def _interrupted_later() -> Generator[None]:
    """Holds back the first Ctrl-C: in the midst of its start, Spark's JVM would not learn that nobody waits for it."""
    if current_thread() is not main_thread():
        yield
        return
    came = list[int]()
    before = signal.getsignal(signal.SIGINT)

    def record_signal(number: int, _: object) -> None:
        if came:
            raise KeyboardInterrupt
        came.append(number)

    signal.signal(signal.SIGINT, record_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


def _start(master: str, name: str) -> SparkContext:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark import SparkConf, SparkContext

    running = SparkContext._active_spark_context  # pyright: ignore[reportPrivateUsage]
    if running is not None:
        raise UsageError(f"--spark {master}: a Spark session runs in this process already; give that one")
    conf = SparkConf().setMaster(with_tries(master)).setAppName(name)
    conf.set("spark.ui.showConsoleProgress", "false")
    if master.startswith("local"):
        conf.setIfMissing("spark.ui.enabled", "false")
        conf.setIfMissing("spark.driver.host", "127.0.0.1").setIfMissing("spark.driver.bindAddress", "127.0.0.1")
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        try:
            return _context(conf, log)
        except Exception as error:
            log.seek(0)
            lines = [line for line in log.read().splitlines() if "Exception" in line or "Error" in line]
            reason = lines[-1].strip() if lines else str(error).strip().partition("\n")[0]
            raise UsageError(f"--spark {master}: Spark did not start: {reason}") from error


def _context(conf: SparkConf, log: IO[str]) -> SparkContext:
    """Return a new Spark application. What Spark itself prints goes to ``log``, as it is not for the terminal."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    gateway: Any = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    if gateway is None:
        with _interrupted_later():
            gateway = launch_gateway(conf, {"stderr": log})
    context = SparkContext(gateway=gateway, conf=conf)
    context.setLogLevel("ERROR")
    return context


class _Failed:
    """What a task raised on purpose: it would raise it again, so Spark is not to try."""

    def __init__(self, error: BrokerlessError) -> None:
        self.error = error


def run_on(
    context: SparkContext,
    work: Work[TaskT, ValueT],
    tasks: Sequence[TaskT],
    running: RunOptions,
    name: str,
) -> Generator[tuple[int, ValueT]]:
    """Run tasks as :func:`jobs.job.run` does, on a context that exists. ``done`` of ``running`` is called when a task
    is finished."""
    if not tasks:
        return
    from pyspark.accumulators import AccumulatorParam

    class Inbox(AccumulatorParam[Any]):
        """On an executor a task's own results, on the driver those that came and were not taken."""

        def zero(self, value: Any) -> Any:
            return deque()

        def addInPlace(self, value1: Any, value2: Any) -> Any:  # noqa: N802 - Spark's name
            value1.extend(value2)
            return value1

    inbox: Any = context.accumulator(deque(), Inbox())
    group = f"brokerless-{uuid4().hex}"
    raised: list[BaseException] = []

    here = os.getcwd()  # noqa: PTH109 - a Path that is sent has to be made again

    def task(numbered: tuple[int, TaskT]) -> None:
        index, own = numbered
        with _within(here):
            try:
                inbox.add([(index, work(own, ignore))])
            except BrokerlessError as error:
                inbox.add([(index, _Failed(error))])
        keep_what_is_loaded()

    def drive() -> None:
        try:
            context.setJobGroup(group, name, interruptOnCancel=True)
            context.parallelize(list(enumerate(tasks)), len(tasks)).foreach(task)
        except BaseException as error:
            raised.append(error)

    driver = Thread(target=drive, name="brokerless-spark", daemon=True)
    driver.start()
    open_tasks = set(range(len(tasks)))
    reporter = _ProgressReporter(context, group, running.say)
    try:
        while True:
            is_over = not driver.is_alive()
            for index, value in _taken(inbox.value):
                if index not in open_tasks:
                    continue
                open_tasks.remove(index)
                if isinstance(value, _Failed):
                    raise value.error
                running.done(tasks[index].size)
                yield index, value
            if is_over:
                break
            reporter.look()
            driver.join(_LOOK_UP)
        if open_tasks or raised:
            raise JobError(f"Spark gave up: {_reason(raised)}") from (raised[0] if raised else None)
    finally:
        if driver.is_alive():
            context.cancelJobGroup(group)
            driver.join(_STOPPING)


@contextmanager
def _within(directory: str) -> Generator[None]:
    """Paths are relative to the driver's directory, on executors as well, which have one of their own."""
    with ExitStack() as stack:
        with suppress(OSError):  # then there are no such paths, as whoever opens one says
            stack.enter_context(chdir(directory))
        yield


def _taken(values: deque[Any]) -> Iterator[Any]:
    while values:
        yield values.popleft()


class _ProgressReporter:
    """Says it once if no executor comes, as Spark would wait for one without end."""

    def __init__(self, context: SparkContext, group: str, say: Say) -> None:
        self._context, self._group, self._say = context, group, say
        self._until: float | None = time.monotonic() + _PATIENCE

    def look(self) -> None:
        if self._until is None or time.monotonic() < self._until:
            return
        self._until = None
        tracker = self._context.statusTracker()
        jobs = [tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(self._group)]
        stages = [tracker.getStageInfo(each) for job in jobs if job is not None for each in job.stageIds]
        if not any(stage is not None and stage.numActiveTasks + stage.numCompletedTasks for stage in stages):
            why = "they may still be starting, or the cluster has no free cores and memory"
            self._say(f"{self._context.master}: no executor has taken a task in {_PATIENCE:.0f} s; {why}")


def _reason(raised: list[BaseException]) -> str:
    """Return what Spark says in a hundred lines, in one: what Python raised on a worker, or why there was no worker."""
    text = str(raised[0]) if raised else "results are missing"
    python = text.partition("Traceback (most recent call last):")[2]
    found = re.search(r"^\S.*$", python.lstrip("\n"), re.MULTILINE)
    reason = _cause(text) if found is None else found[0].rpartition("SparkException: ")[2]
    if "PythonWorkerFactory" in text or reason.startswith("ModuleNotFoundError"):
        reason += (
            f"; executors run PYSPARK_PYTHON ({os.environ.get('PYSPARK_PYTHON', 'python3')}), which has to be a Python "
            "with brokerless in it"
        )
    return reason


def _cause(text: str) -> str:
    """The innermost cause of what the JVM threw: what is said before its stack, as one line of bounded length."""
    said = text.partition("\n\tat ")[0]
    said = re.split(r"(?:^|\s)(?:[a-z]\w*\.)+\w*(?:Exception|Error): ", said)[-1]
    said = said.rpartition("most recent failure: ")[2]
    return textwrap.shorten(said, 300, placeholder=" ...") or "no reason was given"
