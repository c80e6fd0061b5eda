"""A pipeline on a cluster whose workers and drivers are killed while data comes in; then all is compared.

``python -m tests.spark.pipeline_kills DIRECTORY [ROUNDS [MEGABYTES [FORMAT [SEED]]]]``: in each round so many megabytes
of damaged log are added, a run begins, and after a random time its driver or one of the two workers is killed. After
the last round, the pipeline runs to its end. Prints a line for each round, and what is wrong at the end.

What has to be in the tables is known by how the logs were made, and not by how they are read.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tests.jobs.pipeline.works import own_table, table_offsets
from tests.log.whole_batches import batch
from tests.spark.cluster import ROOT, Cluster, cluster

TOPICS, PARTITIONS = ("orders", "click.stream-2", "_odd"), 2
RECORDS = 100
"""Of a batch."""


@dataclass
class Partition:
    """``readable``: the first offsets of batches that a consumer gets; ``lost``: of those that it does not."""

    directory: Path
    end: int = 0
    readable: list[int] = field(default_factory=list[int])
    lost: list[int] = field(default_factory=list[int])


class Logs:
    """Logs that grow by whole segments, some batches of which are damaged."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self.root, self._chance = root, chance
        self._template = batch(0, RECORDS, value=chance.randbytes(1000))
        names = [(topic, number) for topic in TOPICS for number in range(PARTITIONS)]
        self.partitions = {name: Partition(root / f"{name[0]}-{name[1]}") for name in names}
        for each in self.partitions.values():
            each.directory.mkdir(parents=True)
            (each.directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id(each.directory)}\n")

    def grow(self, size: int) -> None:
        """Adds about so many bytes, a segment to each partition."""
        count = max(3, size // len(self.partitions) // len(self._template))
        for each in self.partitions.values():
            data = np.tile(self._template, (count, 1))
            firsts = each.end + np.arange(count) * RECORDS
            data[:, :8] = firsts.astype(">i8").view(np.uint8).reshape(count, 8)
            path = each.directory / f"{each.end:020d}.log"
            self._damage(data, firsts, each)
            path.with_suffix(".tmp").write_bytes(data.tobytes())
            path.with_suffix(".tmp").rename(path)
            each.end += count * RECORDS

    def _damage(self, data: NDArray[np.uint8], firsts: NDArray[np.int64], own: Partition) -> None:
        """Some batches get another checksum, and from time to time one has no size, so that no reader gets further in
        its segment; never the last two, as nothing shows where a log ends that ends in damage."""
        count = len(data)
        wrong = {self._chance.randrange(count - 2) for _ in range(max(1, count // 300))} if count > 2 else set[int]()
        broken = self._chance.randrange(count // 2, count - 2) if count > 8 and self._chance.random() < 0.2 else count
        for row in wrong:
            data[row, 200] ^= 1 << self._chance.randrange(8)
        if broken < count:
            data[broken, 8:12] = 0
        for row, first in enumerate(firsts.tolist()):
            (own.lost if row in wrong or row >= broken else own.readable).append(first)


def topic_id(directory: Path) -> str:
    return {"o": "AAAAAAAAAAAAAAAAAAAAAQ", "c": "AAAAAAAAAAAAAAAAAAAAAg", "_": "AAAAAAAAAAAAAAAAAAAAAw"}[
        directory.name[0]
    ]


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


def differences(logs: Logs, to: Path, form: str) -> list[str]:
    """What of the logs is not in the tables once, and what is damaged and not listed."""
    wrong: list[str] = []
    rows = own_table(to, "damaged", form)
    for (topic, number), own in logs.partitions.items():
        found = table_offsets(to, topic, number, form)
        expected = (np.array(own.readable, np.int64)[:, None] + np.arange(RECORDS)).ravel()
        if not np.array_equal(np.sort(found), np.sort(expected)):
            extra, lacking = np.setdiff1d(found, expected), np.setdiff1d(expected, found)
            twice = len(found) - len(np.unique(found))
            wrong.append(f"{topic}-{number}: {len(lacking)} lacking, {len(extra)} too many, {twice} twice")
        spans = [
            (row["firstOffset"], row["lastOffset"])
            for row in rows
            if (row["topic"], row["partition"]) == (topic, number)
        ]
        listed = np.zeros(own.end, np.bool_)
        for first, last in spans:
            if first is not None:
                listed[first : own.end if last is None else last + 1] = True
        unlisted = [first for first in own.lost if not listed[first : first + RECORDS].all()]
        if unlisted:
            wrong.append(
                f"{topic}-{number}: damaged and not listed: batches from {unlisted[:5]} on, {len(unlisted)} in all"
            )
        if len(spans) != len(set(spans)):
            wrong.append(f"{topic}-{number}: ranges are listed twice")
    return wrong


def run(started: Cluster, root: Path, rounds: int, size: int, form: str, seed: int, longest: float) -> list[str]:
    """Rounds with a kill each, the last run, and one over nothing new; what is wrong in the end."""
    chance = random.Random(seed)
    logs = Logs(root / "logs", chance)
    killer = Killer(started, logs, root / "to", form, chance)
    for number in range(rounds):
        logs.grow(size)
        what = "driver" if number % 2 == 0 else "worker"
        print(number, killer.run_and_kill(what, chance.uniform(1.5, longest)), flush=True)
    logs.grow(size)
    seconds, out = killer.finish()
    total = sum(path.stat().st_size for path in (root / "logs").glob("*/*.log"))
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
