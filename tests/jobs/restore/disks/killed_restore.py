"""A restore into a broker's log directory that is killed before each of its changes, and run again:
``python -m tests.jobs.restore.disks.killed_restore DIRECTORY [EVERY]``. Prints what went wrong, a line for each, and
how often the next run completed or began again. It is a process of its own because it forks."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import shutil
import sys
from collections import Counter
from pathlib import Path

from tests.golden import broker_data
from tests.log.killed_commit import killed

from brokerless.cli import main
from brokerless.log import names

TOPICS = ("txn", "segments", "epochs")


def run(root: Path, target: Path) -> tuple[int, str]:
    options = [part for topic in TOPICS for part in ("-t", topic)]
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())), contextlib.redirect_stderr(io.StringIO()) as error:
        code = main(["restore", str(root / "source"), *options, "--to", str(target), "--replace", "--apply"])
    return code, error.getvalue()


def contents(target: Path) -> dict[str, bytes]:
    """What a broker would see, but for the lock files."""
    return {
        str(path.relative_to(target)): path.read_bytes()
        for path in sorted(target.rglob("*"))
        if path.is_file() and path.name not in (".lock", ".brokerless-lock")
    }


def prepare(root: Path, name: str) -> Path:
    """A broker's directory whose partitions of these topics have other records."""
    target = root / name / "data"
    shutil.copytree(broker_data("clean"), target)
    for topic in TOPICS:
        for path in target.glob(f"{topic}-[0-9]"):
            for log in path.glob("*.log"):
                log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    return target


def try_all(root: Path, every: int) -> None:
    os.fsync = lambda _: None  # a kill loses nothing that was written
    shutil.copytree(broker_data("clean"), root / "source")
    whole = prepare(root, "whole")
    code, text = run(root, whole)
    if code > 1:  # retention would delete old records, as is said
        print(f"it failed by itself: {text}")
    expected, before = contents(whole), contents(prepare(root, "before"))
    seen: Counter[str] = Counter()
    for number in itertools.count(0, every):
        target = prepare(root, f"killed-{number}")
        if not killed(lambda target=target: run(root, target), number):
            break
        left = {name: data for name, data in contents(target).items() if "-delete/" not in name}
        is_begun = any(left.get(name) != data for name, data in before.items() if name.endswith(".log"))
        if is_begun and names.COMMIT_JOURNAL not in left and left != expected:
            print(f"killed at {number}: changed without a journal")
        code, text = run(root, target)
        seen["completed" if "completed" in text else "begun again"] += 1
        found = contents(target)
        if code > 1 or found != expected:
            differing = [name for name in {**found, **expected} if found.get(name) != expected.get(name)]
            print(f"killed at {number} and run again ({code}): {differing[:5]} {text}")
        aside = sorted(path.name.rpartition(".")[0] for path in target.with_name("data.replaced").iterdir())
        if not {f"{topic}-0" for topic in TOPICS} <= set(aside):
            print(f"killed at {number}: aside there is {aside}")
        shutil.rmtree(root / f"killed-{number}")
    print(dict(seen))


if __name__ == "__main__":
    try_all(Path(sys.argv[1]), int([*sys.argv, "1"][2]))
