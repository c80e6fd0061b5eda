"""``erase`` killed (SIGKILL) at random moments, and run again: ``python -m tests.jobs.erase.killed 100 [SEED]``.

Prints what went wrong, a line for each, and how far the runs had come when they were killed. Run in a process of its
own, as its attempts are forks of it: in each sixth one, the tasks are in processes of their own, killed as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.golden import broker_data

import brokerless
from brokerless.cli import main
from brokerless.jobs.run import job
from brokerless.log import names

PLACES = ("txn-0", "segments-0", "codec-zstd-1", "codec-none-0", "codec-lz4-0", "compacted-lz4-0", "append-time-0")
COPIES = 1
WHERE = '"offset" % 7 < 3'


def make_source(root: Path) -> None:
    """A log directory of many partitions, so that a run takes a while."""
    source = root / "source"
    for place in PLACES:
        topic, _, _ = place.rpartition("-")
        for number in range(COPIES):
            shutil.copytree(broker_data("clean") / place, source / f"{topic}-{number}")
    shutil.copy(broker_data("clean") / names.META_PROPERTIES, source)
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", root / "key.pem"], check=True)


def hashes(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != names.COMMIT_LOCK
    }


def of_partitions(found: dict[str, str]) -> dict[str, dict[str, str]]:
    """The files of each partition that a reader sees."""
    parts: dict[str, dict[str, str]] = {}
    for name, value in found.items():
        directory, _, file = name.rpartition("/")
        if names.parse_partition_directory(directory) is not None and not directory.endswith("-delete"):
            parts.setdefault(directory, {})[file] = value
    return parts


def erase(root: Path, to: Path, *, several: bool = False) -> int:
    job.SOME_BYTES = 0 if several else 1 << 60
    options = ["--where", WHERE, "--manifest", f"{to}.json", "--sign-key", str(root / "key.pem")]
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())), contextlib.redirect_stderr(io.StringIO()):
        return main(["erase", str(root / "source"), "--to", str(to), *options])


def attempt(root: Path, to: Path, moment: Moment | None, *, several: bool = False) -> bool:
    """Runs it in a fork, and kills that at a moment; whether it was killed before its end."""
    pid = os.fork()
    if not pid:
        os.setsid()
        os._exit(erase(root, to, several=several))
    if moment is not None:
        moment.wait(to)
        (os.killpg if os.getpgid(pid) == pid else os.kill)(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


@dataclass(frozen=True)
class Moment:
    """So many seconds after the start, or, as the end is short, after the manifest is there."""

    seconds: float
    is_at_end: bool = False

    def wait(self, to: Path) -> None:
        give_up = time.monotonic() + 60
        while self.is_at_end and not os.path.lexists(f"{to}.json") and time.monotonic() < give_up:
            time.sleep(0.0002)
        time.sleep(self.seconds)


def wrong_after(root: Path, to: Path, whole: dict[str, str], source: dict[str, str]) -> list[str]:
    """What is not as it should be of what a kill left, and of the run after it."""
    wrong: list[str] = []
    seen, expected = of_partitions(hashes(to) if to.exists() else {}), of_partitions(whole)
    if any(files != expected[name] for name, files in seen.items()):
        wrong.append("a half partition is visible")
    has_journal = (to / names.COMMIT_JOURNAL).exists()
    if seen and seen.keys() != expected.keys() and not has_journal:
        wrong.append(f"{len(seen)} of {len(expected)} partitions are visible")
    manifest = Path(f"{to}.json")
    if manifest.exists():
        json.loads(manifest.read_bytes())
    if hashes(root / "source") != source:
        wrong.append("the source changed")
    if (code := erase(root, to)) != 0:
        wrong.append(f"the same command exits with {code}")
    if hashes(to) != whole:
        wrong.append("the second run left something else")
    proof = brokerless.prove(manifest, source=root / "source", public_key=root / "key.pem")
    if not proof.holds or proof.signature != "valid":
        wrong.append(f"the proof does not hold: {[str(each) for each in proof.findings][:3]}")
    return wrong


def stage_of(to: Path, whole: dict[str, str]) -> str:
    if not to.exists() or not any(to.iterdir()):
        return "nothing written"
    found = hashes(to)
    if found == whole:
        return "all there"
    if of_partitions(found):
        return "in the commit"
    return "manifest written" if Path(f"{to}.json").exists() else "in the tasks"


def run(kills: int, seed: int, root: Path) -> Counter[str]:
    chance, seen = random.Random(seed), Counter[str]()
    make_source(root)
    erase(root, root / "loaded")  # what forks have then
    start = time.monotonic()
    assert not attempt(root, root / "whole", None)
    seconds = time.monotonic() - start
    whole, source = hashes(root / "whole"), hashes(root / "source")
    for number in range(kills):
        to, several, is_at_end = root / f"to-{number}", number % 6 == 4, number % 2 == 1
        moment = Moment(chance.uniform(0, 0.02 if is_at_end else seconds + several), is_at_end)
        killed = attempt(root, to, moment, several=several)
        seen[f"{stage_of(to, whole)}, {'killed' if killed else 'ended'}"] += 1
        for each in wrong_after(root, to, whole, source):
            print(f"kill {number}, {moment}: {each}", flush=True)
        shutil.rmtree(to)
    return seen


if __name__ == "__main__":
    os.fsync = lambda _: None  # a kill loses nothing that was written
    given = [int(each) for each in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps(run(given[0], given[1] if len(given) > 1 else 0, Path(directory))))
