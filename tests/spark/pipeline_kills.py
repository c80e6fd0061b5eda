"""A pipeline on a cluster whose workers and drivers are killed while data comes in; then all is compared.

``python -m tests.spark.pipeline_kills DIRECTORY [ROUNDS [MEGABYTES [FORMAT [SEED]]]]``: in each round so many megabytes
of damaged log are added, a run begins, and after a random time its driver or one of the two workers is killed. After
the last round, the pipeline runs to its end. Prints a line for each round, and what is wrong at the end.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from tests.jobs.pipeline.growing_logs import Logs, differences
from tests.spark.cluster import ROOT, Cluster, cluster


class Killer:
    """Runs pipelines on a cluster, and kills what runs."""

    def __init__(self, started: Cluster, logs: Logs, to: Path, form: str, chance: random.Random) -> None:
        self._cluster, self._logs, self._to, self._form, self._chance = started, logs, to, form, chance
        self._workers = ["worker-0", "worker-1"]
        self._number = 2
        self.kills: Counter[str] = Counter()

    def command(self) -> list[str]:
        own = [sys.executable, "-m", "brokerless", "pipeline", str(self._logs.root), "--to", str(self._to)]
        return [*own, "--as", self._form, "--no-report", "--spark", self._cluster.master]

    def start(self) -> subprocess.Popen[str]:
        environment = {**self._cluster.environment, "PYTHONPATH": str(ROOT)}
        return subprocess.Popen(
            self.command(), cwd=ROOT, env=environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run_and_kill(self, what: str, after: float) -> str:
        """One run, in which after so many seconds its driver is killed, or a worker, after which it goes on."""
        with self.start() as driver:
            until = time.monotonic() + after
            while time.monotonic() < until and driver.poll() is None:
                time.sleep(0.05)
            was_running = driver.poll() is None
            if what == "driver":
                driver.kill()
            else:
                self._kill_worker()
            self.kills[what if was_running else "too late"] += 1
            out, err = driver.communicate(timeout=600)
        self._replace_worker()
        if what != "driver" and driver.returncode not in (0, 1):
            raise AssertionError(f"the run did not survive a worker: {err[-3000:]}")
        return f"{what} after {after:.1f} s, {'running' if was_running else 'over'}: {driver.returncode} {out[-120:]!r}"

    def _kill_worker(self) -> None:
        name = self._workers.pop(self._chance.randrange(len(self._workers)))
        self._cluster.kill_worker(name)

    def _replace_worker(self) -> None:
        while len(self._workers) < 2 and self._cluster.workers() > 1:
            time.sleep(0.1)  # the master still believes in the one that was killed
        while len(self._workers) < 2:
            self._workers.append(f"worker-{self._number}")
            self._cluster.add_worker(self._workers[-1])
            self._number += 1

    def finish(self) -> tuple[float, str]:
        """A run to its end: how long it took, and what it printed."""
        began = time.monotonic()
        with self.start() as driver:
            out, err = driver.communicate(timeout=1200)
        assert driver.returncode in (0, 1), err[-3000:]
        return time.monotonic() - began, out


def run(started: Cluster, root: Path, rounds: int, size: int, form: str, seed: int, longest: float) -> list[str]:
    """Rounds with a kill each, the last run, and one over nothing new; what is wrong in the end."""
    chance = random.Random(seed)
    logs = Logs(root / "logs", chance)
    killer = Killer(started, logs, root / "to", form, chance)
    for number in range(rounds):
        logs.grow(size)
        if number % 3 == 2:
            logs.back_up()
        what = "driver" if number % 2 == 0 else "worker"
        print(number, killer.run_and_kill(what, chance.uniform(1.5, longest)), flush=True)
    logs.grow(size)
    seconds, out = killer.finish()
    total = sum(path.stat().st_size for path in (root / "logs").glob("*/*/*.log"))
    print(f"{total:,} bytes, kills {dict(killer.kills)}; the last run took {seconds:.1f} s: {out[-200:]!r}", flush=True)
    seconds, out = killer.finish()
    print(f"a run over nothing new took {seconds:.1f} s: {out!r}", flush=True)
    wrong = differences(logs, root / "to", form)
    if not out.startswith("nothing new"):
        wrong.append(f"the run after the last one still found something: {out}")
    return wrong


def main(directory: str, rounds: str = "20", megabytes: str = "100", form: str = "iceberg", seed: str = "1") -> int:
    from tests.spark.java import java_options

    root = Path(directory).resolve()
    root.mkdir(parents=True)
    (root / "cluster").mkdir()
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    with cluster(root / "cluster", java_options()) as started:
        wrong = run(started, root, int(rounds), int(megabytes) << 20, form, int(seed), 20.0)
    print("\n".join(wrong) or "every record is there once, and all damage is listed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
