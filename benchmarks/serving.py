"""Kafka's consumer, reading from ``serve`` and from a broker on the same files."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from tests.kafka.jars import NEWEST

from benchmarks import broker, data
from benchmarks.commands import BROKERLESS
from benchmarks.jvm import command
from benchmarks.measure import ROOT, BenchmarkError, Pass, Workload, warm_process


def workloads(records: int) -> Iterator[Workload]:
    for codec in ("none", "lz4"):
        yield Workload(
            f"serve-{codec}",
            "records/s",
            ours=from_serve(codec, records),
            anchor=f"a broker {NEWEST}",
            theirs=from_broker(codec, records),
            cores=2,
        )


def from_serve(codec: str, records: int) -> Callable[[], contextlib.AbstractContextManager[Callable[[], Pass]]]:
    @contextlib.contextmanager
    def ready() -> Iterator[Callable[[], Pass]]:
        words = [*BROKERLESS, "serve", str(data.events(records)), "--listen", "127.0.0.1:0"]
        with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                line = next((line for line in process.stdout if "bootstrap.servers=" in line), "")
                if not line:
                    raise BenchmarkError("serve has ended")
                with consuming(line.strip().partition("=")[2], codec, process.pid) as run:
                    yield run
            finally:
                process.terminate()

    return ready


def from_broker(codec: str, records: int) -> Callable[[], contextlib.AbstractContextManager[Callable[[], Pass]]]:
    @contextlib.contextmanager
    def ready() -> Iterator[Callable[[], Pass]]:
        with broker.serving(records) as running:
            assert running.process is not None
            with consuming(running.bootstrap, codec, running.process.pid) as run:
                yield run

    return ready


@contextlib.contextmanager
def consuming(bootstrap: str, codec: str, pid: int) -> Iterator[Callable[[], Pass]]:
    """Kafka's consumer, and the memory that the server's process has taken."""
    with warm_process(command("ConsumeRecords", bootstrap, f"events-{codec}", heap="512m")) as consume:

        def run() -> Pass:
            return replace(consume(), facts={"peakOfServerInMiB": peak(pid)})

        yield run


def peak(pid: int) -> float:
    """The most memory (MiB) that a process has taken."""
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0
