"""Exports to tables, killed (`kill -9`) at random moments and run again, while the log grows and its schema does:
``python -m tests.jobs.export.killed_tables [KILLS [SEED [FORMAT]]]``. Prints what went wrong, and counts.

It is a process of its own because it forks; what each library starts, it starts in the children.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.jobs.tables import FORMATS, delta, exported, iceberg, log_of, table

from brokerless.table_formats.catalog import TableFormat
from brokerless.typed.topic_type import Decoding

PARTITIONS = 2
BATCHES = 12
"""New batches of each partition before each run."""


def value(offset: int, fields: int) -> bytes:
    return json.dumps({"offset": offset} | {f"field{number}": "x" * 50 for number in range(fields)}).encode()


def child(work: Any) -> int:
    """Forks, works, and returns the process."""
    pid = os.fork()
    if not pid:
        code = 99
        try:
            work()
            code = 0
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", flush=True)
        finally:
            os._exit(code)
    return pid


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Log:
    """A log that grows."""

    def __init__(self, root: Path) -> None:
        self.paths = [str(root / f"orders-{number}") for number in range(PARTITIONS)]
        self.end = 0

    def grow(self, fields: int) -> None:
        for path in self.paths:
            values = [value(offset, fields) for offset in range(self.end, self.end + BATCHES)]
            log_of(Path(path), values, first=self.end)
        self.end += BATCHES


def check(log: Log, to: Path, form: TableFormat) -> None:
    """Every record is in the table once, as it was written, and no file is left that no commit lists."""
    rows = table(to, "orders", form)
    found = [(row["kafka"]["partition"], row["kafka"]["offset"]) for row in rows]
    expected = [(partition, offset) for partition in range(PARTITIONS) for offset in range(log.end)]
    if found != expected:
        counts = Counter(found)
        twice = [each for each in counts if counts[each] > 1]
        print(f"{form}: twice {twice[:5]}, lost {[each for each in expected if each not in counts][:5]}", flush=True)
    wrong = [row["kafka"]["offset"] for row in rows if row["value"]["offset"] != row["kafka"]["offset"]]
    wrong += [row["kafka"]["offset"] for row in rows if row["valueRaw"] is not None]
    if wrong:
        print(f"{form}: other values at {wrong[:5]}", flush=True)
    root = to / "orders" if form == "delta" else to / "kafka" / "orders" / "data"
    if form == "delta":
        listed = {path.removeprefix("file://") for path in delta(to, "orders").file_uris()}
    else:
        files = iceberg(to, "orders").scan().plan_files()
        listed = {each.file.file_path.removeprefix("file://") for each in files}
    there = {str(path) for path in root.rglob("*.parquet") if "_delta_log" not in path.parts}
    if there != listed:
        print(f"{form}: {len(there - listed)} files that no commit lists, {len(listed - there)} gone", flush=True)


def run(form: TableFormat, root: Path, kills: int, seen: Counter[str]) -> None:
    log, to = Log(root / form), root / f"{form}-tables"
    settings: dict[str, Any] = {"decoding": Decoding(), "file_bytes": 20_000}

    def work() -> None:
        exported(log.paths, to, form, [], **settings)

    log.grow(1)
    ended(child(work))  # the first run takes longer, as it compiles
    log.grow(1)
    begin = time.monotonic()
    assert not ended(child(work))
    duration = time.monotonic() - begin
    done = 0
    while done < kills:
        log.grow(1 + done // 8)
        for _ in range(random.choice((1, 1, 2, 3))):
            pid = child(work)
            time.sleep(random.uniform(0, duration * 1.1))
            os.kill(pid, signal.SIGKILL)
            code = ended(pid)
            done += code == -signal.SIGKILL
            seen[f"{form}-{'killed' if code == -signal.SIGKILL else 'ended before'}"] += 1
        if ended(child(work)):
            print(f"{form}: the run after {done} kills failed", flush=True)
        if ended(child(lambda: check(log, to, form))):
            print(f"{form}: the table could not be read after {done} kills", flush=True)
    seen[f"{form}-records"] = log.end * PARTITIONS


def main(kills: int, seed: int, forms: Sequence[TableFormat]) -> None:
    random.seed(seed)
    seen: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        warm = Log(root / "warm")
        warm.grow(1)
        exported(warm.paths, root / "warm-out", "parquet", [])  # pyright: ignore  # loads kernels that forks have then
        for form in forms:
            run(form, root, kills, seen)
    print(json.dumps(seen | {"seed": seed}))


if __name__ == "__main__":
    own = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
    chosen = [each for each in FORMATS if len(sys.argv) < 4 or each == sys.argv[3]]
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50, own, chosen)
