"""Jobs on Spark: beside the same tasks in one process, for each core; and 10 GB beside 1 GB."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import data
from benchmarks.commands import BROKERLESS
from benchmarks.measure import ROOT, WARM_UP_SECONDS_OF_SPARK, BenchmarkError, Pass, Workload, python, warm_process
from brokerless.jobs.run.types import RunOptions

GIGABYTE = 10**9
CODEC = "lz4"
_LOOK_UP = 0.2
_TICKS = os.sysconf("SC_CLK_TCK")


def workloads(records: int) -> Iterator[Workload]:
    for name in ("verify", "convert"):
        yield beside_one_process(name, records)
    yield Workload(
        "convert-10g",
        "s",
        ours=lambda: converting(10 * GIGABYTE, records),
        anchor="1 GB of the same, for each GB",
        theirs=lambda: converting(GIGABYTE, records),
        runs=1,
        cores=2,
        seconds=0,
        warm_up=0,
        asked=True,
    )


def beside_one_process(name: str, records: int) -> Workload:
    """Both on one core: what Spark's own work costs, and nothing else."""

    def side(spark: str) -> Callable[[], contextlib.AbstractContextManager[Callable[[], Pass]]]:
        @contextlib.contextmanager
        def ready() -> Iterator[Callable[[], Pass]]:
            with tempfile.TemporaryDirectory(dir=data.CACHE) as scratch:
                source = linked(Path(scratch) / "from", GIGABYTE, records)
                with warm_process(python(f"{__name__}:{name}", str(source), spark, str(records))) as run:
                    yield run

        return ready

    anchor = "the same tasks in one process"
    ours, theirs = side("local[1]"), side("none")
    return Workload(f"job-{name}", "records/s", ours, anchor, theirs, runs=3, warm_up=WARM_UP_SECONDS_OF_SPARK)


def linked(directory: Path, size: int, records: int) -> Path:
    """A log directory of about so many bytes: partitions that are all the same file."""
    segment = data.segment(CODEC, records)
    for number in range(max(2, round(size / segment.stat().st_size))):
        partition = directory / f"events-{number}"
        partition.mkdir(parents=True)
        os.link(segment, partition / segment.name)
    return directory


def verify(source: str, spark: str, records: str) -> int:
    import brokerless
    from brokerless.jobs.verify.job import verify

    partitions = brokerless.open(source).paths
    findings = list(verify(partitions, running=RunOptions(spark=place(spark), processes=1)))
    if findings:
        raise BenchmarkError(str(findings[0]))
    return len(partitions) * int(records)


def convert(source: str, spark: str, records: str) -> int:
    """Without writing, as disks have no part in it."""
    import brokerless
    from brokerless.format.convert import ConversionTarget
    from brokerless.jobs.convert.job import Conversion, convert, plan
    from brokerless.jobs.rewrite.plan import Source

    directory = brokerless.open(source).directory
    conversion = Conversion(ConversionTarget(codec="snappy"), dry_run=True)
    tasks = plan([Source.all_of(directory)], f"{source}/../to", conversion)
    converted = sum(
        each.totals.records_out for each in convert(tasks, print, RunOptions(spark=place(spark), processes=1))
    )
    if converted != len(directory.partitions) * int(records):
        raise BenchmarkError(f"{converted} records were converted")
    return converted


def place(spark: str) -> object:
    if spark == "none":
        return spark
    from benchmarks import spark as own

    own.TASKS = int(spark.removeprefix("local[").removesuffix("]"))
    return own.session()


@contextlib.contextmanager
def converting(size: int, records: int) -> Iterator[Callable[[], Pass]]:
    """The whole command, on ``local[2]``: seconds for each GB that is read."""
    with tempfile.TemporaryDirectory(dir=data.CACHE) as scratch:
        source = linked(Path(scratch) / "from", size, records)
        read = sum(path.stat().st_size for path in source.rglob("*.log"))
        to = Path(scratch) / "to"

        def run() -> Pass:
            shutil.rmtree(to, ignore_errors=True)
            os.sync()
            command = [*BROKERLESS, "convert", str(source), "--to", str(to), "--codec", "zstd", "--spark", "local[2]"]
            start = time.perf_counter()
            with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
                cpu, peak = watched(process)
                seconds = time.perf_counter() - start
                assert process.stdout is not None
                said = process.stdout.read().decode(errors="replace")
            if process.returncode:
                raise BenchmarkError(f"{' '.join(command)} exited with {process.returncode}: {said[-2000:]}")
            gigabytes = read / GIGABYTE
            facts = {"gigabytes": gigabytes, "cpuSecondsPerGigabyte": cpu / gigabytes, "peakOfWorkerInMiB": peak / 1024}
            made = sum(path.stat().st_size for path in to.rglob("*.log"))
            return Pass(1, seconds / gigabytes, cpu / gigabytes, made, facts)

        yield run


def watched(process: subprocess.Popen[bytes]) -> tuple[float, int]:
    """CPU seconds of a process and all that it started, until it ends, and the most memory (KiB) that one of Spark's
    Python workers had, with the parts of files that it had mapped."""
    cpu: dict[int, float] = {}
    peak = 0
    while process.poll() is None:
        for pid in descendants(process.pid):
            with contextlib.suppress(OSError, ValueError, IndexError):
                line = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                cpu[pid] = (int(line[11]) + int(line[12])) / _TICKS
                if b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    status = Path(f"/proc/{pid}/status").read_text()
                    peak = max(peak, int(status.partition("VmHWM:")[2].split()[0]))
        time.sleep(_LOOK_UP)
    return sum(cpu.values()), peak


def descendants(pid: int) -> list[int]:
    found = [pid]
    for each in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{each}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found
