"""The table of results in docs/benchmarks.md: a row for each workload, of the last run that was written there."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence

from benchmarks.measure import ROOT, Result

PAGE = ROOT / "docs" / "benchmarks.md"
HEADER = "| workload | ours | theirs | ratio | size | floor | anchor | measured |\n|---|---|---|---|---|---|---|---|\n"


def write_results(page: str, results: Sequence[Result], order: Sequence[str], measured: str, machine: str) -> str:
    """Return the page with the rows of these workloads replaced, or added; ``order`` has the names of all.

    ``measured`` says when they were measured; ``machine``, on which machine, is below the table.
    """
    at = page.index(HEADER) + len(HEADER)
    end = page.find("\n\n", at - 1) + 1
    rows = {_workload(row): row for row in page[at:end].splitlines()}
    rows |= {result.workload.name: _row(result, measured) for result in results}
    last = len(order)
    names = sorted(rows, key=lambda name: order.index(name) if name in order else last)
    last = f"\nThe rows of {measured.partition(',')[0]}: {machine}.\n"
    rest = re.sub(r"\A(\nThe rows of .*\n)?", last if results else r"\1", page[end:], count=1)
    return page[:at] + "".join(f"{rows[name]}\n" for name in names) + rest


def _workload(row: str) -> str:
    return row.split("|")[1].strip().strip("`")


def _row(result: Result, measured: str) -> str:
    size = "" if result.size_ratio is None else f"{result.size_ratio:.3f}"
    share = "" if result.floor_share is None else f"{result.floor_share:.2f}"
    ours, theirs = (_figure(statistics.median(runs), result.workload.unit) for runs in (result.ours, result.theirs))
    when = f"{measured}, {len(result.ours)} runs" + (", cpu" if result.clock == "cpu" else "")
    cells = (
        f"`{result.workload.name}`",
        ours,
        theirs,
        f"{result.ratio:.2f}",
        size,
        share,
        result.workload.anchor,
        when,
    )
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def _figure(figure: float, unit: str) -> str:
    return f"{figure:.2f} s" if unit == "s" else f"{figure / 1e6:.2f} M/s"
