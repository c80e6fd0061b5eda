"""Pipelines that are killed (`kill -9`), while their logs grow, and run again:
``python -m tests.jobs.pipeline.killed [KILLS [SEED [FORMAT...]]]``. Without KILLS, they are killed once at each of
:data:`MOMENTS`, else at so many random moments. Prints what went wrong, and counts.

It is a process of its own because it forks; what each library starts, it starts in the children.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.jobs.export.killed_tables import child, ended
from tests.jobs.pipeline.growing_logs import Logs, differences
from tests.jobs.pipeline.works import pipeline

STEPS = {
    "iceberg": {
        "commit": "brokerless.table_formats.iceberg.tables:IcebergTables.commit",
        "merge": "brokerless.jobs.pipeline.maintenance:data_file",
    },
    "delta": {
        "commit": "brokerless.table_formats.delta.tables:DeltaTables.commit",
        "merge": "brokerless.jobs.pipeline.tables:maintain_delta",
    },
}
MOMENTS = {
    "verified, not exported": ("brokerless.jobs.pipeline.job:_RunningPipeline._export", "before"),
    "written, not committed": ("commit", "before"),
    "committed, not recorded": ("commit", "after"),
    "files merged": ("merge", "after"),
    "maintained, not ended": ("brokerless.jobs.pipeline.tables:add_run", "before"),
}
"""What is called then, and whether the kill comes before it or after."""
PREPARED = 3
"""Runs before a kill: with the next one, there are files to merge."""


def die_at(moment: str, form: str) -> None:
    """Makes this process end at a moment, as a kill would end it."""
    where, when = MOMENTS[moment]
    module, _, path = STEPS[form].get(where, where).partition(":")
    *above, name = path.split(".")
    owner: Any = importlib.import_module(module)
    for each in above:
        owner = getattr(owner, each)
    real = getattr(owner, name)

    def call(*arguments: Any, **options: Any) -> None:
        if when == "after":
            real(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, call)


def in_child(work: Callable[[], object], kill_after: float | None = None) -> int:
    """What a fork ends with that does this; it is killed after so many seconds."""
    pid = child(work)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(pid, signal.SIGKILL)
    return ended(pid)


class Killed:
    """A pipeline of logs that grow."""

    def __init__(self, root: Path, form: str, chance: random.Random) -> None:
        self.logs, self._to, self._form = Logs(root / f"{form}-logs", chance), root / f"{form}-tables", form

    def run(self, moment: str | None = None) -> None:
        if moment is not None and moment in MOMENTS:
            die_at(moment, self._form)
        pipeline(self.logs.root, self._to, form=self._form, file_bytes=1 << 20)

    def complete(self, about: str) -> None:
        """Runs to the end, and compares all."""
        if in_child(self._complete):
            print(f"{self._form}, {about}: not as it should be", flush=True)

    def _complete(self) -> None:
        self.run()
        wrong = differences(self.logs, self._to, self._form)
        assert not wrong, wrong
        assert not pipeline(self.logs.root, self._to, form=self._form).is_new


def at_moments(root: Path, form: str, chance: random.Random, seen: Counter[str]) -> None:
    for number, moment in enumerate(MOMENTS):
        killed = Killed(root / str(number), form, chance)
        for _ in range(PREPARED if moment == "files merged" else 0):
            killed.logs.grow(1)
            assert not in_child(killed.run)
            killed.logs.back_up()
        killed.logs.grow(1)
        code = in_child(partial(killed.run, moment))
        if code != -signal.SIGKILL:
            print(f"{form}, {moment}: ended with {code} before", flush=True)
        seen[f"{form}-killed"] += 1
        killed.logs.grow(1)
        killed.logs.back_up()
        killed.complete(moment)


def at_random(root: Path, form: str, chance: random.Random, kills: int, seen: Counter[str]) -> None:
    killed = Killed(root, form, chance)
    killed.logs.grow(1)
    in_child(killed.run)  # the first run takes longer
    killed.logs.grow(1)
    began = time.monotonic()
    assert not in_child(killed.run)
    seconds = time.monotonic() - began
    while seen[f"{form}-killed"] < kills:
        killed.logs.grow(1)
        if chance.random() < 0.5:
            killed.logs.back_up()
        for _ in range(chance.choice((1, 1, 2, 3))):
            code = in_child(killed.run, chance.uniform(0, seconds * 1.1))
            seen[f"{form}-{'killed' if code == -signal.SIGKILL else 'ended before'}"] += 1
        killed.complete(f"after {seen[f'{form}-killed']} kills")


def main(kills: int, seed: int, *forms: str) -> None:
    chance, seen = random.Random(seed), Counter[str]()
    for name in ("pyiceberg.catalog.sql", "pyiceberg.io.pyarrow", "deltalake"):
        importlib.import_module(name)  # once for all forks
    with tempfile.TemporaryDirectory() as directory:
        warm = Killed(Path(directory) / "warm", "parquet", chance)
        warm.logs.grow(1)
        warm.run()  # loads kernels that forks have then
        for form in forms or STEPS:
            if kills:
                at_random(Path(directory), form, chance, kills, seen)
            else:
                at_moments(Path(directory) / form, form, chance, seen)
    print(json.dumps(seen))


if __name__ == "__main__":
    os.fsync = lambda _: None  # a kill loses nothing that was written
    given = sys.argv[1:]
    main(int(given[0]) if given else 0, int(given[1]) if len(given) > 1 else 1, *given[2:])
