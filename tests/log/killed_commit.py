"""A commit of many partitions, new ones and such that grow, in a process that is killed before each of the calls that
change the disk: ``python -m tests.log.killed_commit DIRECTORY [EVERY]``. After each EVERY-th kill, what recovers it is
killed before each of its calls as well. Prints what went wrong, a line for each, and at last how often it was killed
and what there was to see then.

It is a process of its own because it forks: a new interpreter for each kill would take most of the time.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.log.whole_batches import batch, batches

import brokerless
from brokerless.log import names
from brokerless.log.checkpoint.commit_journal import committing, last_batch
from brokerless.log.commit.commit import commit_locked, recover_commit
from brokerless.log.commit.log_opener import open_log
from brokerless.log.commit.partition_writer import NewPartition, PartitionWriter
from brokerless.log.commit.types import StagedPartition
from brokerless.log.config import LogConfig
from brokerless.log.storage.directory_lock import lock_directory

CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100)
QUERY = ("a-query", 7)
BEFORE = {"old-0": list(range(10)), "old-1": list(range(5))}
AFTER = {
    "new-0": list(range(8)),
    "new-1": [100, 101, 102],
    "old-0": list(range(17)),
    "old-1": [*range(5), 50, 51],
}
CHANGES = ("fsync", "rename", "replace", "unlink", "mkdir", "rmdir")


def write(directory: Path, partition: str, first: int, count: int, *, has_offsets: bool = True) -> StagedPartition:
    topic, _, number = partition.partition("-")
    with PartitionWriter(
        NewPartition(directory, topic, int(number), CONFIG, may_exist=True), start_offset=first, has_offsets=has_offsets
    ) as output:
        output.append(batches(*(batch(first + offset) for offset in range(count))))
        return output.finish()


Pieces = tuple[list[StagedPartition], dict[tuple[str, int], list[StagedPartition]]]


def prepare(directory: Path) -> Pieces:
    """What is there before, and what is to be committed."""
    for name, offsets in BEFORE.items():
        topic, _, number = name.partition("-")
        with open_log(directory, topic, int(number), CONFIG) as log:
            log.append(batches(*(batch(offset, epoch=3) for offset in offsets)))
    new = [write(directory, "new-0", 0, 8, has_offsets=False), write(directory, "new-1", 100, 3)]
    old = [write(directory, "old-0", 0, count, has_offsets=False) for count in (4, 3)]
    return new, {("old", 0): old, ("old", 1): [write(directory, "old-1", 50, 2)]}


def commit_all(directory: Path, pieces: Pieces) -> None:
    with lock_directory(directory, exclusive=False) as held, committing(directory):
        commit_locked(directory, held, *pieces, CONFIG, QUERY)


def visible(directory: Path) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for partition in brokerless.open(directory).partitions:
        offsets = [offset for each in partition.records(["offset"]) for offset in each["offset"].to_pylist()]
        found[partition.name] = offsets
    return found


def die_before(number: int) -> None:
    """This process is killed before its ``number``-th call that changes the disk."""
    calls = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal calls
            if calls == number:
                os.kill(os.getpid(), signal.SIGKILL)
            calls += 1
            return function(*arguments, **named)

        return call

    for name in CHANGES:
        setattr(os, name, counted(getattr(os, name)))


def was_killed(kill_at: int | None, work: Callable[[], object]) -> bool:
    """Do work in a process that is killed before its ``kill_at``-th change of the disk, None for never. Return whether
    it was, and not over before that."""
    child = os.fork()
    if not child:
        code = 99
        try:
            if kill_at is not None:
                die_before(kill_at)
            work()
            code = 0
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0, kill_at
    return os.WIFSIGNALED(status)


def killed(work: Callable[[], None], number: int) -> bool:
    """Whether work in another process was killed, and not over before that."""
    child = os.fork()
    if not child:
        try:
            die_before(number)
            work()
            os._exit(0)
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status) and os.waitstatus_to_exitcode(status):
        print("the commit failed by itself")
    return os.WIFSIGNALED(status)


def check(directory: Path, pieces: Pieces, when: str, at_least: dict[str, list[int]]) -> str:
    """What readers see, and what they and everybody sees after the next writer came."""
    found = visible(directory)
    if found not in (at_least, AFTER):
        print(f"{when}: {found}")
    opened = open_log(directory, "old", 1, CONFIG)
    opened.close()
    recovered = visible(directory)
    if recovered not in (BEFORE, AFTER) or (found == AFTER and recovered != AFTER):
        print(f"{when}, and opened by the next writer: {recovered}")
    if (directory / names.COMMIT_JOURNAL).exists():
        print(f"{when}: the journal is there still")
    if last_batch(directory, QUERY[0]) != (7 if recovered == AFTER else None):
        print(f"{when}: the query's last batch is {last_batch(directory, QUERY[0])}, and there is {recovered}")
    for finding in brokerless.open(directory).verify():
        if finding.severity != "info":
            print(f"{when}: {finding}")
    if recovered == BEFORE:
        commit_all(directory, pieces)
        if visible(directory) != AFTER:
            print(f"{when}, undone and committed again: {visible(directory)}")
    return "after" if recovered == AFTER else "before"


def run(root: Path, every: int) -> None:
    (root / "template").mkdir()
    pieces = prepare(root / "template")
    if visible(root / "template") != BEFORE:
        print("what is not committed is visible")
    seen: Counter[str] = Counter()
    number, is_over = 0, False
    while not is_over:
        directory = root / str(number)
        shutil.copytree(root / "template", directory)
        is_over = not killed(lambda: commit_all(directory, pieces), number)  # noqa: B023 - called at once
        if not is_over and number % every == 3 % every:
            again, is_recovered = 0, False
            while not is_recovered:
                copy = root / f"{number}-{again}"
                shutil.copytree(directory, copy)
                before = visible(copy)
                is_recovered = not killed(lambda: recover_commit(copy), again)  # noqa: B023
                check(copy, pieces, f"killed at {number}, and while that was recovered at {again}", before)
                shutil.rmtree(copy)
                seen["recovered"] += 1
                again += 1
        seen[check(directory, pieces, f"killed at {number}", BEFORE)] += 1
        shutil.rmtree(directory)
        number += 1
    print(" ".join(f"{what} {count}" for what, count in seen.items()))


if __name__ == "__main__":
    os.fsync = lambda _: None  # a kill loses nothing that was written
    logging.disable()  # whoever recovers says so
    run(Path(sys.argv[1]), int([*sys.argv, "40"][2]))
