"""Backups of simulated brokers by any number of seeds: ``python -m tests.jobs.backup.simulated.seeds FIRST COUNT``.

Prints what went wrong, a line for each, and at last what there was to see: how many transactions were closed, how many
were left open.
"""

from __future__ import annotations

import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path

from tests.jobs.backup.simulated.oracle import check


def main(first: int, count: int, runs: int = 2) -> None:
    wrong, seen = 0, Counter[str]()
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory() as root:
            try:
                found = list(check(Path(root), seed, runs, seen))
            except Exception:
                found = [f"seed {seed}: {traceback.format_exc(limit=-4)}"]
            wrong += bool(found)
            for each in found[:3]:
                print(each, flush=True)
    print(f"{count} seeds, {wrong} wrong;", ", ".join(f"{number} {what}" for what, number in seen.items()))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
