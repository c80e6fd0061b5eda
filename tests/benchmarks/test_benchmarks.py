"""The benchmarks run, both sides read the same, and their lines are as documented; no figure is judged."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Literal, NoReturn

import benchmarks.__main__ as program
import pytest
from benchmarks.measure import BenchmarkError, Pass, Result, Side, Workload

from benchmarks import backup_tools, data, loading, machine, measure, page, worker
from tests.kafka import jars
from tests.require import require

pytestmark = pytest.mark.xdist_group("benchmarks")  # with one data set for all
RECORDS = 1000


def side(*passes: Pass) -> Side:
    """One that gives these passes, one after the other, and the last one for ever."""

    @contextlib.contextmanager
    def ready() -> Iterator[Callable[[], Pass]]:
        left = list(passes)
        yield lambda: left.pop(0) if len(left) > 1 else left[0]

    return ready


def workload(ours: Side, theirs: Side, unit: Literal["records/s", "s"] = "records/s", cores: int = 1) -> Workload:
    return Workload("read", unit, ours, "them 1.0", theirs, cores=cores, seconds=0, warm_up=0)


class Copy:
    """A warm process of Python as a copy of this one, which has loaded what a new one loads for a second."""

    def __init__(self, arguments: Sequence[str], complaints: IO[str]) -> None:
        (questions, to_it), (from_it, answers) = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._run(arguments, (questions, answers, complaints.fileno()), (to_it, from_it))
        os.close(questions)
        os.close(answers)
        self.stdin, self.stdout = os.fdopen(to_it, "w", buffering=1), os.fdopen(from_it)

    @staticmethod
    def _run(arguments: Sequence[str], own: tuple[int, int, int], others: tuple[int, int]) -> NoReturn:
        try:
            for each in others:
                os.close(each)
            for number, descriptor in enumerate(own):
                os.dup2(descriptor, number)
            sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
            worker.main(*arguments)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(0)

    def wait(self, within: float) -> None:
        self.stdout.close()
        os.waitpid(self.pid, 0)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def start(command: Sequence[str], complaints: IO[str]) -> Any:
    if list(command[:3]) == measure.python("")[:3]:
        return Copy(command[3:], complaints)
    return START(command, complaints)


START = measure.start


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A small data set, the same for all tests, no time to warm up, and a little for each run."""
    try:
        jars.jars()
    except jars.KafkaUnavailableError as error:
        require(False, str(error))

    def measure_shortly(workload: Workload, runs: int | None, clock: measure.Clock) -> Result:
        return measure.measure(replace(workload, seconds=0.02), runs, clock)

    monkeypatch.setattr(data, "CACHE", tmp_path_factory.getbasetemp() / "benchmarks")
    monkeypatch.setattr(measure, "warm_up", lambda side, _: side())  # type: ignore[reportUnknownLambdaType]
    monkeypatch.setattr(program, "measure", measure_shortly)
    monkeypatch.setattr(measure, "start", start)
    monkeypatch.setattr(machine, "_COPIED", 1 << 20)  # the rate of a copy of 1 GiB takes four seconds


@pytest.mark.parametrize(
    "prefix", ["deep-read-lz4", "build-lz4", "headers", "deep-read-aiokafka-none", "dump-json-all-cores-none"]
)
def test_a_workload_gives_its_line(prefix: str, small: None, capfd: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--only", prefix, "--records", str(RECORDS), "--runs", "1"]) == 0
    output = capfd.readouterr()
    line = json.loads(output.out)
    assert line["name"] == prefix
    assert line["ratio"] == pytest.approx(line["ours"] / line["theirs"], rel=0.01)
    assert {"anchor", "unit", "clock", "oursRuns", "theirsRuns"} < line.keys()
    assert prefix in output.err


def test_a_run_writes_its_figures_into_the_page(small: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(program, "RECORDS", RECORDS)
    monkeypatch.setattr(page, "PAGE", tmp_path / "page.md")
    page.PAGE.write_text(f"{page.HEADER}\n\nThe end\n")
    assert program.main(["--only", "headers", "--records", str(RECORDS), "--runs", "1", "--write"]) == 0
    assert "\n| `headers` | " in page.PAGE.read_text()


def test_what_is_loaded_is_the_data_set(small: None, tmp_path: Path) -> None:
    for load in (loading.load_arrow, loading.load_parquet):
        assert load(str(data.tables(RECORDS)), str(tmp_path / "log")) == RECORDS
    assert len(list((tmp_path / "log").glob(f"{loading.TOPIC}-*/*.log"))) == 2


def test_the_contract_has_these_names() -> None:
    names = {each.name for family in program.FAMILIES for each in family.workloads(RECORDS)}
    reads = {f"deep-read-{codec}" for codec in ("none", "lz4", "snappy", "zstd", "gzip")}
    builds = {f"build-{codec}" for codec in ("none", "lz4", "snappy", "zstd", "gzip")}
    assert names >= reads | builds | {
        "headers",
        "dump-json",
        "spark-rows-none",
        "spark-rows-lz4",
        "spark-counts",
        "cold-ls",
    }


def test_an_unknown_name_is_a_wrong_command_line(capfd: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--only", "no-such"]) == 2
    assert "deep-read-none" in capfd.readouterr().err


def test_a_workload_without_its_programs_is_left_out_with_a_sentence(
    small: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(backup_tools.backup_tools, "missing", lambda tool: f"{tool.name} of a test")
    assert program.main(["--only", "backup-beside-rsync", "--records", str(RECORDS)]) == 0
    said = capfd.readouterr()
    assert said.out == ""
    assert "backup-beside-rsync is left out: rsync of a test not installed" in said.err


def test_the_median_of_the_runs_counts() -> None:
    first = Pass(10, 1.0, 1.0)
    ours = side(first, Pass(10, 1.0, 1.0), Pass(10, 2.0, 1.0), Pass(10, 100.0, 1.0))
    result = measure.measure(workload(ours, side(first)), runs=3)
    assert (result.line()["ours"], result.line()["theirs"], result.ratio) == (5.0, 10.0, 0.5)


def test_a_pass_may_go_by_before_each_run() -> None:
    ours = side(Pass(10, 1, 1), Pass(10, 100, 1), Pass(10, 2, 1))
    settling = replace(workload(ours, side(Pass(10, 1, 1))), settle=True)
    assert measure.measure(settling, 1).ours == [5.0]


def test_sizes_are_compared_where_both_sides_made_something() -> None:
    ours, theirs = side(Pass(10, 1, 1, 90)), side(Pass(10, 1, 1, 100))
    line = measure.measure(workload(ours, theirs), 1).line()
    assert (line["oursBytes"], line["theirsBytes"], line["sizeRatio"]) == (90, 100, 0.9)
    assert "sizeRatio" not in measure.measure(workload(ours, side(Pass(10, 1, 1))), 1).line()


def test_above_one_is_faster_in_seconds_too() -> None:
    result = Result(workload(side(), side(), "s"), "wall", [0.5], [2.0])
    assert result.ratio == 4.0


def test_the_clock_may_be_that_of_the_core_but_not_on_several() -> None:
    one = side(Pass(10, 4.0, 1.0))
    assert measure.measure(workload(one, one), 1, "cpu").ours == [10.0]
    assert measure.measure(workload(one, one, cores=2), 1, "cpu").ours == [2.5]


def test_processor_time_says_how_near_to_their_rate_ours_can_come() -> None:
    ours, theirs, added = (side(Pass(10, 1, cpu)) for cpu in (5.0, 3.0, 1.0))
    beside = replace(workload(ours, theirs, cores=2), added=added)
    line = measure.measure(beside, 1).line()
    assert [line[f"{name}Cpu"] for name in ("ours", "theirs", "added")] == [5.0, 3.0, 1.0]
    assert (line["cpuRatio"], line["bestRatio"]) == (0.6, 0.75)
    assert "bestRatio" not in measure.measure(workload(ours, theirs, cores=2), 1).line()


MEASURES = """
import subprocess, sys
from benchmarks import measure

before = measure.cpu_of_all()
with subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
    process.stdout.readline()
    print(measure.cpu_of_all() - before)
    process.stdin.write(b"\\n")
print(measure.cpu_of_all() - before)
"""


def test_processor_time_is_that_of_all_that_a_process_started() -> None:
    """Of a process of its own: this one has those that other tests started, and Spark's end when they are idle."""
    busy = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    starts = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {busy!r}], check=True)"
    printed = subprocess.run([sys.executable, "-c", MEASURES, starts], capture_output=True, check=True).stdout
    while_it_runs, ended = map(float, printed.split())
    assert ended > 0.25  # of which the system tells hundredths
    if sys.platform == "linux":
        assert while_it_runs > 0.25
        assert ended - while_it_runs < 0.25  # it is not counted twice


def test_sides_that_read_differently_are_not_compared() -> None:
    with pytest.raises(BenchmarkError, match="ours read 10, theirs 9"):
        measure.measure(workload(side(Pass(10, 1, 1)), side(Pass(9, 1, 1))), 1)
    beside = replace(workload(side(Pass(10, 1, 1)), side(Pass(10, 1, 1))), added=side(Pass(9, 1, 1)))
    with pytest.raises(BenchmarkError, match="ours read 10, added 9"):
        measure.measure(beside, 1)


def test_a_process_that_fails_says_why() -> None:
    with (
        measure.warm_process(measure.python("benchmarks.reading:read_records", "no-such-path")) as run,
        pytest.raises(BenchmarkError, match="no-such-path"),
    ):
        run()
