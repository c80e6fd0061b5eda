"""How two sides of a workload are run: in turn, on the same cores, warmed up, and the median counts."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parents[1]
WARM_UP_SECONDS = 5.0
WARM_UP_SECONDS_OF_SPARK = 40.0
"""Spark runs more code of its own: its first ten queries still compile for up to a second of a core each."""
WARM_UP_PASSES = 3
STOPS_WITHIN = 60.0


class BenchmarkError(Exception):
    """A side failed, or the two sides did not do the same work; the message says what happened."""


@dataclass(frozen=True)
class Pass:
    """One time through the work: what was read (records, batches), and in how many seconds."""

    amount: int
    seconds: float
    cpu: float
    """Seconds of the process on a core, all its threads together."""
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
    floor: Side | None = None
    """What the work takes at least, as a third side in the same run."""


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
        for side, facts in zip(("ours", "theirs"), self.facts, strict=True):
            if facts:
                line[f"{side}Facts"] = {name: rounded(each) for name, each in facts.items()}
        return line


def rounded(figure: float) -> float:
    return float(f"{figure:.4g}")


def measure(workload: Workload, runs: int | None = None, clock: Clock = "wall") -> Result:
    """Runs both sides in turn, ``runs`` times each. Raises :class:`BenchmarkError`."""
    clock = clock if workload.cores == 1 else "wall"
    floor_side = contextlib.nullcontext() if workload.floor is None else workload.floor()
    with pinned(workload.cores), workload.ours() as ours, workload.theirs() as theirs, floor_side as floor:
        first, other = (warm_up(side, workload) for side in (ours, theirs))
        if first.amount != other.amount:
            raise BenchmarkError(f"{workload.name}: ours read {first.amount}, theirs {other.amount}")
        if floor is not None and (least := warm_up(floor, workload)).amount != first.amount:
            raise BenchmarkError(f"{workload.name}: ours read {first.amount}, the floor {least.amount}")
        result = Result(workload, clock, [], [], (first.size, other.size), (first.facts, other.facts))
        for _ in range(runs or workload.runs):
            result.ours.append(figure(ours, workload, clock))
            result.theirs.append(figure(theirs, workload, clock))
            if floor is not None:
                result.floor.append(figure(floor, workload, clock))
        return result


def warm_up(side: Callable[[], Pass], workload: Workload) -> Pass:
    start = time.monotonic()
    passes = [side()]
    while workload.warm_up and (len(passes) < WARM_UP_PASSES or time.monotonic() - start < workload.warm_up):
        passes.append(side())
    return passes[0]


def figure(side: Callable[[], Pass], workload: Workload, clock: Clock) -> float:
    if workload.settle:
        side()
    passes = [side()]
    while sum(each.seconds for each in passes) < workload.seconds:
        passes.append(side())
    seconds = sum(each.seconds if clock == "wall" else each.cpu for each in passes)
    return seconds / len(passes) if workload.unit == "s" else sum(each.amount for each in passes) / seconds


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


@contextlib.contextmanager
def warm_process(command: Sequence[str]) -> Iterator[Callable[[], Pass]]:
    """A process that stays: for each line that it gets it runs one pass, and answers with what a :class:`Pass` has."""
    with tempfile.TemporaryFile("w+", errors="replace") as complaints:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, text=True, bufsize=1, cwd=ROOT
        )
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


def python(function: str, *arguments: str) -> list[str]:
    """The command line of a warm process that calls ``function`` (``module:name``), which returns the amount,
    or the amount and the bytes that were made."""
    return [sys.executable, "-m", "benchmarks.worker", function, *arguments]
