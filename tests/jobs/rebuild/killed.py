"""``rebuild`` and its ``--undo`` killed (SIGKILL) at random moments: ``python -m tests.jobs.rebuild.killed 50 [SEED]``.

After each kill the old disk is unchanged, or is after an undo; the same command then completes, and what it writes is
what a run writes that nobody killed. Prints what went wrong, a line for each, and how far the runs had come. Run in a
process of its own, as its attempts are forks of it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import brokerless
from brokerless.cli import main
from brokerless.log.storage import guarded_files

DEMO = Path(__file__).parents[3] / "demo" / "data"
MODES = ("copy", "link", "in-place", "undo")
LOCKS = (".lock", ".brokerless-lock")
JOURNAL, NAMED = "rebuild-journal.json", ".brokerless-rebuild/named.json"
ENDED = "after the end"
TABLES = ("topics", "partitions", "configs", "features", "groups", "offsets")


@dataclass(frozen=True)
class Place:
    """The disk, where it is rebuilt to, and the nodes: its broker, and three controllers that are new."""

    root: Path

    @property
    def disk(self) -> Path:
        return self.root / "disk"

    @property
    def to(self) -> Path:
        return self.root / "to"

    def make(self) -> None:
        shutil.copytree(DEMO, self.disk)
        (self.disk / "orders-0" / "partition.metadata").unlink()  # it is added again
        (self.disk / "orders-1" / "partition.metadata").write_bytes(b"")  # it is replaced
        controllers = [
            {"id": number, "roles": ["controller"], "listeners": {"CONTROLLER": f"127.0.0.1:{20_000 + number}"}}
            for number in (100, 101, 102)
        ]
        nodes = [{"id": 1, "roles": ["broker"], "listeners": {"PLAINTEXT": "127.0.0.1:20001"}}, *controllers]
        (self.root / "nodes.json").write_text(json.dumps({"nodes": nodes}))

    def run(self, mode: str) -> int:
        how = ["--undo"] if mode == "undo" else ["--data", mode, "--quorum", "dynamic", "--apply"]
        line = ["rebuild", str(self.disk), "--to", str(self.to), "--map", str(self.root / "nodes.json"), *how]
        with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())), contextlib.redirect_stderr(io.StringIO()):
            return main(line)

    def contents(self) -> dict[str, bytes]:
        """What is on the disk, but for locks."""
        return {
            str(path.relative_to(self.disk)): path.read_bytes()
            for path in sorted(self.disk.rglob("*"))
            if path.is_file() and path.name not in LOCKS
        }

    def result(self, mode: str) -> list[object]:
        """What was rebuilt, without the ids and times that each run makes anew."""
        node = self.disk if mode == "in-place" else self.to / "node-1"
        found = brokerless.cluster(node)
        rows = [{**row, "disks": len(row.get("disks", ()))} for name in TABLES for row in found.rows[name]]
        logs = sorted((each.parent.name, each.name, each.read_bytes()) for each in node.glob("*-*/*.log"))
        new = sorted(path.name for path in self.to.iterdir() if path.name.startswith("node-"))
        files = [sorted(str(each.relative_to(self.to)) for each in self.to.glob("node-10*/*"))]
        return [rows, logs, new, files, [str(each.kind) for each in found.findings]]


@dataclass(frozen=True)
class Moment:
    """So many seconds after the start, or after one of some files is there, or is gone."""

    seconds: float
    after: str | None = None

    def wait(self, to: Path) -> None:
        give_up = time.monotonic() + 5
        while self.after is not None and not os.path.lexists(to / self.after) and time.monotonic() < give_up:
            time.sleep(0.0001)
        time.sleep(self.seconds)


def attempt(place: Place, mode: str, moment: Moment) -> bool:
    """Runs it in a fork, and kills that at a moment; whether it was killed before its end."""
    pid = os.fork()
    if not pid:
        os._exit(place.run(mode))
    moment.wait(place.to)
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def wrong_after(place: Place, mode: str, before: dict[str, bytes], whole: Sequence[object]) -> list[str]:
    """What is not as it should be of what a kill left, and of the runs after it."""
    wrong: list[str] = []
    has_journal = (place.to / JOURNAL).exists()
    if has_journal:
        if mode != "undo" and place.run(mode) != 2:
            wrong.append("it is not refused, though an earlier run changed the disk")
        if (code := place.run("undo")) != 0:
            wrong.append(f"undo exits with {code}")
    if place.contents() != before:
        changed = {name for name, data in place.contents().items() if before.get(name) != data}
        wrong.append(f"the disk is another: {sorted(changed | (before.keys() - place.contents().keys()))}")
    mode = "in-place" if mode == "undo" else mode
    if stage_of(place) == ENDED:  # it was killed when all was done
        return wrong if place.result(mode) == whole else [*wrong, "a run that ended wrote something else"]
    if (code := place.run(mode)) > 1:  # it warns of partitions without an ID that can be read
        return [*wrong, f"the same command exits with {code}"]
    if place.result(mode) != whole:
        wrong.append("the next run wrote something else")
    left = {each.name for each in place.to.iterdir() if not each.name.startswith("node-")}
    if left - {JOURNAL, "rebuild-saved"}:
        wrong.append(f"left behind: {sorted(left)}")
    if mode != "in-place":
        return wrong if place.contents() == before else [*wrong, "the old disk changed"]
    if place.run("undo") != 0 or place.contents() != before or list(place.to.iterdir()):
        wrong.append("the undo at the end does not put everything back")
    return wrong


def stage_of(place: Place) -> str:
    if (place.to / JOURNAL).exists():
        return "in place, after the journal"
    if (place.to / NAMED).exists():
        return "while names are given"
    return ENDED if list(place.to.glob("node-*")) else "before that"


def run(kills: int, seed: int, root: Path) -> Counter[str]:
    chance, seen = random.Random(seed), Counter[str]()
    whole: dict[str, list[object]] = {}
    seconds: dict[str, float] = {}
    (root / "whole").mkdir()
    for mode in MODES:
        place = Place(root / "whole" / ("in-place" if mode == "undo" else mode))
        if mode != "undo":
            place.root.mkdir()
            place.make()
        start = time.monotonic()
        place.run(mode)
        seconds[mode] = time.monotonic() - start
        whole[mode] = whole["in-place"] if mode == "undo" else place.result(mode)
    for number in range(kills):
        mode, place = MODES[number % 4], Place(root / f"attempt-{number}")
        place.root.mkdir()
        place.make()
        before = place.contents()
        if mode == "undo":
            place.run("in-place")
        after = {"copy": NAMED, "link": NAMED, "in-place": chance.choice([NAMED, JOURNAL]), "undo": None}[mode]
        late = number % 3 > 0 and after is not None
        moment = Moment(chance.uniform(0, 0.004), after) if late else Moment(chance.uniform(0, seconds[mode]))
        killed = attempt(place, mode, moment)
        seen[f"{mode}: {stage_of(place)}, {'killed' if killed else 'ended'}"] += 1
        if killed or mode in ("in-place", "undo"):
            for each in wrong_after(place, mode, before, whole[mode]):
                print(f"kill {number}, {mode}, {moment}: {each}", flush=True)
        shutil.rmtree(place.root)
    return seen


if __name__ == "__main__":
    os.fsync = guarded_files.sync_file_system = lambda _: None  # a kill loses nothing that was written
    given = [int(each) for each in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps(run(given[0], given[1] if len(given) > 1 else 0, Path(directory)), indent=1))
