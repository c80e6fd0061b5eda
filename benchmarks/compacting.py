"""Compaction beside Kafka's own cleaner on one core, in warm processes; and two processes beside one."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.kafka.jars import NEWEST
from tests.once import made_once

from benchmarks import data
from benchmarks.jobs import linked
from benchmarks.jvm import command
from benchmarks.measure import BenchmarkError, Pass, Side, Workload, python, warm_process
from brokerless.jobs.run.types import RunOptions

CODECS = ("none", "lz4", "zstd")
_BYTES = 4 * 10**9
"""So much that the start of a process, a second, does not count."""


def workloads(records: int) -> Iterator[Workload]:
    """``compact``: each key has many records, nearly all go. ``compact-again``: what that left, where each key has one,
    so that nothing goes."""
    for codec in CODECS:
        for name, again in (("compact", False), ("compact-again", True)):
            ours, theirs = _ours(codec, records, again), _theirs(codec, records, again)
            yield Workload(f"{name}-{codec}", "records/s", ours, f"kafka's cleaner {NEWEST}", theirs)
    two, one = (_processes(processes, records) for processes in (2, 1))
    yield Workload("compact-cores", "records/s", two, "the same in one process", one, runs=3, cores=2)


def _ours(codec: str, records: int, again: bool) -> Side:
    @contextlib.contextmanager
    def ready() -> Iterator[Callable[[], Pass]]:
        source, count = _source(codec, records, again)
        with (
            tempfile.TemporaryDirectory(dir=data.CACHE) as scratch,
            warm_process(python(f"{__name__}:compact", str(source), str(count), scratch, "1")) as run,
        ):
            yield run

    return ready


def _theirs(codec: str, records: int, again: bool) -> Side:
    @contextlib.contextmanager
    def ready() -> Iterator[Callable[[], Pass]]:
        source, count = _source(codec, records, again)
        with (
            tempfile.TemporaryDirectory(dir=data.CACHE) as scratch,
            warm_process(command("CompactLog", str(source), str(count), scratch)) as run,
        ):
            yield run

    return ready


def _processes(processes: int, records: int) -> Side:
    """Partitions of 275 MB, as many as make it."""

    @contextlib.contextmanager
    def ready() -> Iterator[Callable[[], Pass]]:
        with tempfile.TemporaryDirectory(dir=data.CACHE) as scratch:
            source = linked(Path(scratch) / "from", _BYTES, records)
            count = records * len(list(source.iterdir()))
            with warm_process(python(f"{__name__}:compact", str(source), str(count), scratch, str(processes))) as run:
                yield run

    return ready


def _source(codec: str, records: int, again: bool) -> tuple[Path, int]:
    """A partition, and how many records it has."""
    first = data.segment(codec, records).parent
    if not again:
        return first, records
    import brokerless

    target = made_once(data.CACHE / f"compacted-{codec}-{first.parent.name}", lambda to: _run_once(first, to))
    (partition,) = brokerless.open(str(target)).partitions
    return target / first.name, sum(len(batch) for batch in partition.records(["offset"]))


def _run_once(source: Path, to: Path) -> None:
    run(source, to)


def compact(source: str, records: str, scratch: str, processes: str) -> tuple[int, int]:
    """All of the partitions from their start, into a new log directory: how many records were read, and the bytes of
    what is left."""
    to = Path(scratch) / "to"
    shutil.rmtree(to, ignore_errors=True)
    return int(records), run(Path(source), to, int(processes))


def run(source: Path, to: Path, processes: int = 1) -> int:
    import brokerless
    from brokerless.jobs.compact.job import compact, plan
    from brokerless.jobs.compact.settings import CompactOptions
    from brokerless.jobs.rewrite.plan import Source

    directory = brokerless.open(str(source)).directory
    named = {each.topic for each in directory.partitions if each.topic}
    tasks = plan([Source.all_of(directory)], to, CompactOptions(from_start=True), named)
    return sum(each.totals.bytes_out for each in compact(tasks, _refuse, RunOptions(processes=processes)))


def _refuse(finding: object) -> None:
    raise BenchmarkError(str(finding))
