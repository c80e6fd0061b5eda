"""Whole processes from their start to their end: a segment as text, and the first answer of all."""

from __future__ import annotations

import functools
import importlib.metadata
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from tests.kafka.jars import HELPERS, NEWEST, dump_tool

from benchmarks.data import segment
from benchmarks.jvm import command
from benchmarks.measure import ROOT, Pass, Workload, cold_process
from brokerless.ordered_threads import processors

BROKERLESS = [sys.executable, "-m", "brokerless"]


def workloads(records: int) -> Iterator[Workload]:
    yield Workload(
        name="dump-json",
        unit="records/s",
        ours=lambda: dump("none", records),
        anchor=f"kafka-dump-log {NEWEST}",
        theirs=lambda: cold_process(
            command("Dump", dump_tool(), str(segment("none", records)), "--print-data-log", sources=HELPERS), records
        ),
        runs=3,
        warm_up=0,
    )
    for codec in ("none", "lz4", "zstd"):
        yield Workload(
            name=f"dump-json-all-cores-{codec}",
            unit="records/s",
            ours=functools.partial(dump, codec, records),
            anchor="the same with --jobs 1",
            theirs=functools.partial(dump, codec, records, "--jobs", "1"),
            cores=processors(),
            runs=3,
            warm_up=0,
        )
    yield Workload(
        name="cold-ls",
        unit="s",
        ours=lambda: cold_process([*BROKERLESS, "ls", str(ROOT / "demo" / "data")]),
        anchor=f"import pyspark.sql {importlib.metadata.version('pyspark')}",
        theirs=lambda: cold_process([sys.executable, "-c", "import pyspark.sql"]),
        runs=10,
        seconds=0,
        warm_up=0,
    )


def dump(codec: str, records: int, *options: str) -> AbstractContextManager[Callable[[], Pass]]:
    """A whole process that prints a data set as JSON, which is written first unless it is there."""
    return cold_process([*BROKERLESS, "cat", "--json", str(segment(codec, records)), *options], records)
