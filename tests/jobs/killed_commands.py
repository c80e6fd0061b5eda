"""Commands that are killed before each of their changes to the disk, and run again: ``killed_commands.py DIRECTORY``.
Prints what went wrong, a line for each, and what there was to see.

It is a process of its own because it forks; with two processes for the tasks of those that have them.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from tests.log.killed_commit import die_before

from brokerless.cli import main
from brokerless.jobs.salvage.tables import RUN
from brokerless.log import names

JOURNAL = names.COMMIT_JOURNAL
RECORDED = ("load", "convert", "compact", "salvage", "merge", "carve")
"""Commands that are repeated until they have ended: what a killed run has committed is written again."""
EVERY = {
    "load": 9,
    "convert": 9,
    "compact": 9,
    "salvage": 5,
    "merge": 9,
    "carve": 9,
    "tables": 8,
    "carved-tables": 8,
    "export": 4,
    "export-by-date": 7,
}
"""Each so many changes there is a kill: what ends in the same way need not be tried in all commands at all of them."""


def commands(root: Path) -> dict[str, list[Any]]:
    source = root / "source"
    logs = sorted(source.glob("*/*.log"))
    return {
        "load": [
            "load",
            root / "rows.jsonl",
            "--to",
            "TO",
            "--partitions",
            "2",
            "--topic",
            "rows",
            "--topic-id",
            TOPIC,
        ],
        "convert": ["convert", source, "--to", "TO", "--codec", "zstd"],
        "compact": ["compact", source, "-t", "*", "--to", "TO", "--now", "2026-11-24"],
        "salvage": ["salvage", source, "--to", "TO"],
        "merge": ["merge", source, root / "copy", "--to", "TO"],
        "carve": ["carve", *logs, "--to", "TO"],
        "tables": ["salvage", source, "--as", "parquet", "--to", "TO"],
        "export": ["export", source, "--to", "TO"],
        "export-by-date": ["export", source, "--to", "TO", "--by-date"],
        "carved-tables": ["carve", *logs, "--as", "parquet", "--to", "TO"],
    }


TOPIC = "AAAAAAAAAAAAAAAAAAAAAQ"
DAY = 86_400_000


def run(arguments: list[Any], to: Path, kill_at: int | None = None) -> tuple[int, str]:
    """The exit code, and what was said; -9 for one that was killed."""
    said, say = os.pipe()
    child = os.fork()
    if not child:
        code = 99
        try:
            text = io.StringIO()
            sys.stdout = io.TextIOWrapper(io.BytesIO())
            with contextlib.redirect_stderr(text):
                if kill_at is not None:
                    die_before(kill_at)
                code = main([str(to) if each == "TO" else str(each) for each in arguments])
            os.write(say, text.getvalue().encode()[:60_000])
        finally:
            os._exit(code)
    os.close(say)
    with os.fdopen(said, "rb") as file:
        text = file.read().decode()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text


def contents(directory: Path) -> dict[str, Any]:
    """All that is there, byte for byte; of what is random or a time only that it is there."""
    found: dict[str, Any] = {}
    for path in sorted(directory.rglob("*")):
        name = str(path.relative_to(directory))
        if path.is_dir():
            found[name] = None
        elif path.name == names.PARTITION_METADATA and path.parent.name.startswith("carved"):
            found[name] = "an ID that is random"
        elif path.suffix == ".parquet":
            found[name] = pq.read_table(path).to_pylist()
        elif path.name != names.COMMIT_LOCK:
            found[name] = path.read_bytes()
    return found


def visible(to: Path, expected: dict[str, Any]) -> list[str]:
    """What readers of tables see after a kill and should not: all else but whole files of the result."""
    seen = {path: str(path.relative_to(to)) for path in to.rglob("*.parquet")}
    names_seen = {path: name for path, name in seen.items() if "/_" not in name}
    return [name for path, name in names_seen.items() if pq.read_table(path).to_pylist() != expected.get(name)]


def load_here(arguments: list[Any], to: Path) -> None:
    """Runs a command in this process, so that all that fork from it have what it loads, which takes a second."""
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())), contextlib.redirect_stderr(io.StringIO()):
        main([str(to) if each == "TO" else str(each) for each in arguments])
    shutil.rmtree(to)


def try_all(name: str, arguments: list[Any], root: Path, seen: Counter[str]) -> None:
    load_here(arguments, root / "loaded")
    whole = root / "whole"
    code, text = run(arguments, whole)
    if code > 1:
        print(f"{name} failed by itself: {text}")
    expected = contents(whole)
    is_all_or_nothing = "parquet" not in arguments and "export" not in arguments
    if is_all_or_nothing and names.CLEAN_SHUTDOWN not in expected:
        print(f"{name}: there is no clean-shutdown file")
    partitions = {each for each in expected if "/" not in each and names.parse_partition_directory(each)}
    for number in itertools.count(0, EVERY[name]):
        to = root / f"{name}-{number}"
        killed, _ = run(arguments, to, number)
        if killed != -9:
            break
        if "export" in arguments and (wrong := visible(to, expected)):
            print(f"{name}, killed at {number}: readers see {wrong}")
        left = {path.name for path in to.iterdir()} if to.exists() else set[str]()
        if is_all_or_nothing and JOURNAL not in left and left & partitions not in (set(), partitions):
            print(f"{name}, killed at {number}: there is {sorted(left & partitions)}")
        again, text = run(arguments, to)
        is_over = left - {names.COMMIT_LOCK} == {each for each in expected if "/" not in each}
        is_there = "exists already" in text and (is_over if name in RECORDED else bool(left & partitions))
        are_tables_there = not is_all_or_nothing and "is in it already" in text and RUN not in left
        if again == 2 and (is_there or are_tables_there):
            seen[f"{name}-done"] += 1
        elif again == 2 and "nothing is left to do" in text and JOURNAL in left:
            seen[f"{name}-completed"] += 1
        elif again != code:
            print(f"{name}, killed at {number}, ended with {again}: {text}")
        else:
            seen[f"{name}-again"] += 1
        if contents(to) != expected:
            found = contents(to)
            differ = [each for each in {**expected, **found} if expected.get(each, 0) != found.get(each, 0)]
            print(f"{name}, killed at {number} and run again ({again}): {differ}")
        shutil.rmtree(to)
    shutil.rmtree(whole)


def run_all(root: Path) -> None:
    os.fsync = lambda _: None  # a kill loses nothing that was written
    rows: Any = ({"key": f"k{n}", "value": "v" * 50, "timestamp": n // 70 * DAY + n} for n in range(200))
    (root / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for topic, partitions in (("a", 2), ("b", 1)):
        load = ["load", root / "rows.jsonl", "--to", "TO", "--topic", topic, "--partitions", partitions]
        for each in ("source", "copy"):
            code, text = run([*load, "--topic-id", TOPIC[:-2] + topic.upper() + TOPIC[-1]], root / each)
            assert not code, text
    seen: Counter[str] = Counter()
    before = contents(root / "source")
    for name in sys.argv[2:] or EVERY:
        try_all(name, commands(root)[name], root, seen)
        if contents(root / "source") != before:
            print(f"{name} changed what it reads")
    print(json.dumps(seen))


if __name__ == "__main__":
    run_all(Path(sys.argv[1]))
