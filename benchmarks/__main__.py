"""``python -m benchmarks``: a table for people on standard error, a JSON line for each workload on standard output."""

from __future__ import annotations

import argparse
import compileall
import datetime
import json
import os
import statistics
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from tests.kafka.jars import KafkaUnavailableError

from benchmarks import (
    asking,
    backing_up,
    backup_tools,
    ceilings,
    commands,
    compacting,
    comparing,
    decoding,
    erasing,
    finding,
    jobs,
    loading,
    page,
    reading,
    serving,
    spark,
    tiered,
    writing,
)
from benchmarks.data import RECORDS, events
from benchmarks.machine import describe_machine
from benchmarks.measure import ROOT, BenchmarkError, Clock, Result, Workload, measure

FAMILIES = (
    reading,
    finding,
    writing,
    loading,
    commands,
    comparing,
    spark,
    ceilings,
    jobs,
    compacting,
    erasing,
    decoding,
    asking,
    backing_up,
    backup_tools,
    serving,
    tiered,
)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 120)
    everything = [workload for family in FAMILIES for workload in family.workloads(options.records)]
    chosen = [workload for workload in everything if is_chosen(workload, options.only)]
    if not chosen:
        console.print(f"no workload's name starts with {options.only}; there are {', '.join(names(everything))}")
        return 2
    for workload in chosen:
        if workload.missing:
            console.print(f"{workload.name} is left out: {workload.missing} not installed", markup=False)
    chosen = [workload for workload in chosen if not workload.missing]
    try:
        with console.status(f"{options.records:,} records, written by Kafka's builder unless they are there"):
            events(options.records)
            compileall.compile_dir(ROOT / "src", quiet=2)  # as installing does, also where Python writes no bytecode
        results = list(run(chosen, options.runs, options.clock, console))
    except KafkaUnavailableError as error:
        console.print(str(error), style="red", markup=False)
        return 1
    if results:
        machine = describe_machine()
        console.print(table(results, options.records, machine))
        if options.write:
            measured = f"{datetime.date.today().isoformat()}, {os.cpu_count()} cores"
            written = page.write_results(page.PAGE.read_text(), results, names(everything), measured, machine)
            page.PAGE.write_text(written)
    return 0 if len(results) == len(chosen) else 1


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed beside others'.")
    parser.add_argument("--only", default="", metavar="PREFIX", help="workloads whose names start so")
    parser.add_argument("--records", type=int, default=RECORDS, help="in each file (default: %(default)s)")
    parser.add_argument("--runs", type=int, help="of each side; the median counts (default: by workload, mostly 5)")
    parser.add_argument(
        "--clock",
        choices=("wall", "cpu"),
        default="wall",
        help="cpu: seconds on a core, which say more while other work runs; only where one core is used",
    )
    parser.add_argument("--write", action="store_true", help="put these figures into the table of docs/benchmarks.md")
    options = parser.parse_args(arguments)
    if options.write and options.records != RECORDS:
        parser.error(f"--write: the table has figures of {RECORDS:,} records; leave out --records")
    if options.records < 1 or (options.runs is not None and options.runs < 1):
        parser.error("--records and --runs are at least 1")
    return options


def is_chosen(workload: Workload, prefix: str) -> bool:
    return workload.name.startswith(prefix) and (bool(prefix) or not workload.asked)


def names(workloads: Sequence[Workload]) -> list[str]:
    return [workload.name for workload in workloads]


def run(workloads: Sequence[Workload], runs: int | None, clock: Clock, console: Console) -> list[Result]:
    """Each workload's line as soon as it is measured; one that fails is said so, and the others go on."""
    results: list[Result] = []
    for workload in workloads:
        try:
            with console.status(f"{workload.name}, beside {workload.anchor}"):
                result = measure(workload, runs, clock)
        except BenchmarkError as error:
            console.print(f"{workload.name}: {error}", style="red", markup=False)
            continue
        print(json.dumps(result.line()), flush=True)
        results.append(result)
    return results


def table(results: Sequence[Result], records: int, machine: str) -> Table:
    cores = os.cpu_count()
    title = f"{records:,} records; medians, (lowest to highest); {cores} cores; above 1, ours is faster"
    shown = Table(title=title, caption=machine)
    for column in ("workload", "unit", "ours", "theirs", "ratio", "by cpu", "of floor", "size", "anchor"):
        is_text = column in ("workload", "unit", "anchor")
        shown.add_column(column, justify="left" if is_text else "right", no_wrap=column == "workload")
    for result in results:
        workload = result.workload
        sides = [spread(figures, workload.unit) for figures in (result.ours, result.theirs)]
        size = "" if result.size_ratio is None else f"{result.size_ratio:.3f}"
        share = "" if result.floor_share is None else f"{result.floor_share:.2f}"
        ratios = (f"{result.ratio:.2f}", f"{result.cpu_ratio:.2f}")
        shown.add_row(workload.name, workload.unit, *sides, *ratios, share, size, workload.anchor)
    return shown


def spread(figures: Sequence[float], unit: str) -> str:
    """Thousands for rates, so that one glance compares them; seconds as they are."""
    median, lowest, highest = statistics.median(figures), min(figures), max(figures)
    if unit == "s":
        return f"{median:.2f} ({lowest:.2f} to {highest:.2f})"
    return f"{median / 1000:,.0f} k ({lowest / 1000:,.0f} to {highest / 1000:,.0f})"


if __name__ == "__main__":
    sys.exit(main())
