"""How two sides of a workload are run: in turn, on the same cores, warmed up, and the median counts."""

from __future__ import annotations

import contextlib
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Literal

ROOT = Path(__file__).parents[1]
WARM_UP_SECONDS = 5.0
WARM_UP_SECONDS_OF_SPARK = 40.0
"""Spark runs more code of its own: its first ten queries still compile for up to a second of a core each."""
WARM_UP_PASSES = 3
STOPS_WITHIN = 60.0
_TICKS = os.sysconf("SC_CLK_TCK")


class BenchmarkError(Exception):
    """A side failed, or the two sides did not do the same work; the message says what happened."""


@dataclass(frozen=True)
class Pass:
    """One time through the work: what was read (records, batches), and in how many seconds."""

    amount: int
    seconds: float
    cpu: float
    """Seconds of the process and of all that it started, on a core, all threads together."""
    size: int = 0
    """Bytes that were made, where a side makes any."""
    facts: dict[str, float] = field(default_factory=dict[str, float])
    """What else is to be told, by name."""


Clock = Literal["wall", "cpu"]
"""``cpu`` says more on a busy machine. A workload on several cores has no other clock than ``wall``."""

Side = Callable[[], AbstractContextManager[Callable[[], Pass]]]
"""Makes one side ready (starts its process), and gives what runs one pass."""


@dataclass(frozen=True)
class Workload:
    name: str
    unit: Literal["records/s", "batches/s", "s"]
    ours: Side
    anchor: str
    """Who is on the other side, with a version."""
    theirs: Side
    runs: int = 5
    cores: int = 1
    seconds: float = 0.5
    """A run repeats the pass until this time is over, so that a short one is measured well."""
    settle: bool = False
    """Whether a pass goes by unmeasured before each run: what was warm may cool down in the other side's turn."""
    warm_up: float = WARM_UP_SECONDS
    """Seconds that a side gets at least to compile what is hot; with 0, one run goes by, for the file cache."""
    asked: bool = False
    """Whether it is only run if it is asked for: what takes long."""
    missing: str = ""
    """Programs that are not installed here, without which it is left out."""
    floor: Side | None = None
    """What the work takes at least, as a third side in the same run."""
    added: Side | None = None
    """What ours has to do besides what theirs does, alone, as a third side in the same run."""


@dataclass(frozen=True)
class Result:
    workload: Workload
    clock: Clock
    ours: list[float]
    """One figure for each run, in the workload's unit."""
    theirs: list[float]
    sizes: tuple[int, int] = (0, 0)
    """Bytes that one pass of ours and of theirs makes."""
    facts: tuple[dict[str, float], dict[str, float]] = ({}, {})
    """Of a pass of each."""
    floor: list[float] = field(default_factory=list[float])
    """One figure for each run of the floor, if the workload has one."""
    cpu: dict[str, float] = field(default_factory=dict[str, float])
    """Processor time of one pass of each side, by the side's name."""

    @property
    def cpu_ratio(self) -> float:
        """The ratio by processor time of all threads and processes; above 1, ours needs less."""
        return self.cpu["theirs"] / self.cpu["ours"] if self.cpu.get("ours") else math.nan

    @property
    def best_ratio(self) -> float | None:
        """What that would be if ours took as much as theirs and ``added`` together: on cores that are always busy,
        hardly more is possible. None where ``added`` was not measured."""
        if "added" not in self.cpu:
            return None
        return self.cpu["theirs"] / (self.cpu["theirs"] + self.cpu["added"])

    @property
    def floor_share(self) -> float | None:
        """How near ours is to the floor, at most 1; None where there is none."""
        return statistics.median(self.ours) / statistics.median(self.floor) if self.floor else None

    @property
    def size_ratio(self) -> float | None:
        """Below 1, what ours makes is smaller; None where nothing is made."""
        ours, theirs = self.sizes
        return ours / theirs if ours and theirs else None

    @property
    def ratio(self) -> float:
        """Above 1, ours is faster."""
        ours, theirs = statistics.median(self.ours), statistics.median(self.theirs)
        return theirs / ours if self.workload.unit == "s" else ours / theirs

    def line(self) -> dict[str, object]:
        """What goes to standard output."""
        line: dict[str, object] = {
            "name": self.workload.name,
            "ours": rounded(statistics.median(self.ours)),
            "anchor": self.workload.anchor,
            "theirs": rounded(statistics.median(self.theirs)),
            "unit": self.workload.unit,
            "ratio": rounded(self.ratio),
            "clock": self.clock,
            "oursRuns": [rounded(each) for each in self.ours],
            "theirsRuns": [rounded(each) for each in self.theirs],
        }
        if self.size_ratio is not None:
            line |= {"oursBytes": self.sizes[0], "theirsBytes": self.sizes[1], "sizeRatio": rounded(self.size_ratio)}
        if self.floor_share is not None:
            line |= {"floor": rounded(statistics.median(self.floor)), "floorShare": rounded(self.floor_share)}
        line |= {f"{name}Cpu": rounded(seconds) for name, seconds in self.cpu.items() if name != "floor"}
        if not math.isnan(self.cpu_ratio):
            line["cpuRatio"] = rounded(self.cpu_ratio)
        if self.best_ratio is not None:
            line["bestRatio"] = rounded(self.best_ratio)
        for side, facts in zip(("ours", "theirs"), self.facts, strict=True):
            if facts:
                line[f"{side}Facts"] = {name: rounded(each) for name, each in facts.items()}
        return line


def rounded(figure: float) -> float:
    return float(f"{figure:.4g}")


def measure(workload: Workload, runs: int | None = None, clock: Clock = "wall") -> Result:
    """Runs all sides in turn, ``runs`` times each. Raises :class:`BenchmarkError`."""
    clock = clock if workload.cores == 1 else "wall"
    with contextlib.ExitStack() as stack:
        stack.enter_context(pinned(workload.cores))
        given = {"ours": workload.ours, "theirs": workload.theirs, "floor": workload.floor, "added": workload.added}
        sides = {name: stack.enter_context(side()) for name, side in given.items() if side is not None}
        least = min(workload.warm_up, WARM_UP_SECONDS)  # what is added is no Spark
        first = {name: warm_up(side, least if name == "added" else workload.warm_up) for name, side in sides.items()}
        for name, each in first.items():
            if each.amount != first["ours"].amount:
                raise BenchmarkError(f"{workload.name}: ours read {first['ours'].amount}, {name} {each.amount}")
        passes: dict[str, list[Pass]] = {name: [] for name in sides}
        for _ in range(runs or workload.runs):
            for name, side in sides.items():
                passes[name].append(average(side, workload))
    figures = {name: [figure(each, workload, clock) for each in done] for name, done in passes.items()}
    ours, theirs = first["ours"], first["theirs"]
    return Result(
        workload,
        clock,
        figures["ours"],
        figures["theirs"],
        (ours.size, theirs.size),
        (ours.facts, theirs.facts),
        figures.get("floor", []),
        {name: statistics.median(each.cpu for each in done) for name, done in passes.items()},
    )


def warm_up(side: Callable[[], Pass], seconds: float) -> Pass:
    start = time.monotonic()
    passes = [side()]
    while seconds and (len(passes) < WARM_UP_PASSES or time.monotonic() - start < seconds):
        passes.append(side())
    return passes[0]


def average(side: Callable[[], Pass], workload: Workload) -> Pass:
    """One run: its passes as one."""
    if workload.settle:
        side()
    passes = [side()]
    while sum(each.seconds for each in passes) < workload.seconds:
        passes.append(side())
    seconds, cpu = statistics.fmean(each.seconds for each in passes), statistics.fmean(each.cpu for each in passes)
    return replace(passes[0], seconds=seconds, cpu=cpu)


def figure(run: Pass, workload: Workload, clock: Clock) -> float:
    seconds = run.seconds if clock == "wall" else run.cpu
    return seconds if workload.unit == "s" else run.amount / seconds


@contextlib.contextmanager
def pinned(cores: int) -> Iterator[None]:
    """Processes that are started in the block run on the last ``cores`` cores only, where the system can do that."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    all_of_them = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(all_of_them)[-cores:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_of_them)


def start(command: Sequence[str], complaints: IO[str]) -> subprocess.Popen[str]:
    """A process that reads lines and answers them."""
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, text=True, bufsize=1, cwd=ROOT
    )


@contextlib.contextmanager
def warm_process(command: Sequence[str]) -> Iterator[Callable[[], Pass]]:
    """A process that stays: for each line that it gets it runs one pass, and answers with what a :class:`Pass` has."""
    with tempfile.TemporaryFile("w+", errors="replace") as complaints:
        process = start(command, complaints)
        assert process.stdin is not None
        assert process.stdout is not None

        def run() -> Pass:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write("\n")
            answer = process.stdout.readline().split()
            if len(answer) != 4:
                complaints.seek(0)
                raise BenchmarkError(f"no answer from {' '.join(command[-3:])}: {complaints.read()[-3000:]}")
            return Pass(int(answer[0]), float(answer[1]), float(answer[2]), int(answer[3]))

        try:
            yield run
        finally:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            try:
                process.wait(STOPS_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def cold_process(command: Sequence[str], amount: int = 1) -> Iterator[Callable[[], Pass]]:
    """A process for each pass, from its start to its end, whose output nobody reads.

    It may keep Python's byte code, as installed packages do, also where the environment forbids that.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def run() -> Pass:
        start, cpu_start = time.perf_counter(), cpu_of_children()
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=ROOT, env=environment, check=False
        )
        seconds, cpu = time.perf_counter() - start, cpu_of_children() - cpu_start
        if done.returncode != 0:
            text = done.stderr[-2000:].decode(errors="replace")
            raise BenchmarkError(f"{' '.join(command)} exited with {done.returncode}: {text}")
        return Pass(amount, seconds, cpu)

    yield run


def cpu_of_children() -> float:
    """Seconds of the processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def cpu_of_all() -> float:
    """Seconds of this process, of the processes that it and they have started (Spark's JVM and Python workers), and of
    those among them that have ended, if they were waited for. Spark does not wait for its Python workers, but ends them
    only after an idle minute, so not within a pass."""
    seconds: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            process, fields = int(path.parent.name), path.read_text().rpartition(")")[2].split()
            seconds[process] = sum(map(int, fields[11:15])) / _TICKS  # its own, and of children that it waited for
            children.setdefault(int(fields[1]), []).append(process)
    total, left = time.process_time() + cpu_of_children(), list(children.get(os.getpid(), ()))
    while left:
        process = left.pop()
        total += seconds[process]
        left += children.get(process, ())
    return total


def python(function: str, *arguments: str) -> list[str]:
    """The command line of a warm process that calls ``function`` (``module:name``), which returns the amount,
    or the amount and the bytes that were made."""
    return [sys.executable, "-m", "benchmarks.worker", function, *arguments]
