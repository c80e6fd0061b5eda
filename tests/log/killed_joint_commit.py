"""A commit of three log directories, in a process that is killed before each of the calls that change the disk, and
again before each of those that recover it: ``python -m tests.log.killed_joint_commit DIRECTORY [EVERY]``, where of the
second ones it tries each EVERY-th. Prints what went wrong, a line for each, and at last how often it was killed, and
what there was to see then. It is a process of its own because it forks."""

from __future__ import annotations

import itertools
import logging
import os
import shutil
import sys
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.log.killed_commit import killed

from brokerless.errors import UsageError
from brokerless.log import names
from brokerless.log.checkpoint.commit_journal import Renaming, committing
from brokerless.log.commit.commit import aside_of, recover_commit
from brokerless.log.commit.joint_commit import commit_together, recover_together
from brokerless.log.commit.partition_writer import unfinished_name
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.directory_lock import DirectoryLock

ASIDE = "old-0." + "0" * 32
NEW = {name: unfinished_name(name[:-2], 0) for name in ("old-0", "empty-0", "new-0")}
DISCARDED = unfinished_name("empty", 0)
PART = [
    Renaming(NEW["old-0"], "old-0", ASIDE, None, (9, None, 9, 9)),
    Renaming(NEW["empty-0"], "empty-0", None, DISCARDED, (9, None, 9, None)),
    Renaming(NEW["new-0"], "new-0", None, None, (9, 3, 9, None)),
]
CHECKPOINT = "0\n1\nold 0 4\n"


def prepare(root: Path) -> None:
    for name in ("one", "two", "three"):
        for partition, content in {"old-0": "old", "empty-0": "empty"}.items():
            (root / name / partition).mkdir(parents=True)
            (root / name / partition / "file").write_text(content)
        for staged in NEW.values():
            (root / name / staged).mkdir()
            (root / name / staged / "file").write_text("new")
        (root / name / names.RECOVERY_POINT_CHECKPOINT).write_text(CHECKPOINT)


def directories(root: Path) -> list[Path]:
    return [root / name for name in ("one", "two", "three")]


@contextmanager
def held(paths: Sequence[Path]) -> Generator[Mapping[Path, DirectoryLock]]:
    with ExitStack() as stack:
        locks = {path: stack.enter_context(Destination.of(path).hold()) for path in paths}
        for path in paths:
            stack.enter_context(committing(path))
        yield locks


def commit(root: Path) -> None:
    with held(directories(root)):
        commit_together(dict.fromkeys(directories(root), PART))


def recover_all(root: Path) -> bool:
    with held(directories(root)) as locks:
        return recover_together(locks)


def contents(path: Path) -> dict[str, str]:
    """Files of partitions that have their names, of what is aside, and the checkpoints."""
    files = [each for directory in (path, aside_of(path)) for each in directory.rglob("*") if each.is_file()]
    named = [each for each in files if not each.parent.name.endswith("-delete") and not is_ours(each.name)]
    return {str(each.relative_to(path.parent)): each.read_text() for each in named}


def is_ours(name: str) -> bool:
    return name in (names.LOCK, names.COMMIT_LOCK) or name.endswith(".tmp")


def before(name: str) -> dict[str, str]:
    own = {"old-0/file": "old", "empty-0/file": "empty", names.RECOVERY_POINT_CHECKPOINT: CHECKPOINT}
    return {f"{name}/{file}": text for file, text in own.items()}


def after(name: str) -> dict[str, str]:
    own = {f"{partition}/file": "new" for partition in NEW} | {
        names.RECOVERY_POINT_CHECKPOINT: "0\n3\nempty 0 9\nnew 0 9\nold 0 9\n",
        names.HIGH_WATERMARK_CHECKPOINT: "0\n3\nempty 0 9\nnew 0 9\nold 0 9\n",
        names.LOG_START_OFFSET_CHECKPOINT: "0\n1\nnew 0 3\n",
        names.CLEANER_CHECKPOINT: "0\n1\nold 0 9\n",
    }
    return {f"{name}/{file}": text for file, text in own.items()} | {f"{name}.replaced/{ASIDE}/file": "old"}


def is_refused(path: Path) -> bool:
    """Whether another writer is told to let the restore be repeated first."""
    try:
        recover_commit(path)
    except UsageError as error:
        return "a restore was cut short" in str(error)
    return False


def check(root: Path, when: str) -> str:
    """What there is once it is recovered: all that was there before, or all that is new."""
    for path in directories(root):
        if (path / names.COMMIT_JOURNAL).exists() and not is_refused(path):
            print(f"{when}: another writer recovers {path.name}")
    is_completed = recover_all(root)
    found = [contents(path) for path in directories(root)]
    names_of = [path.name for path in directories(root)]
    seen = next((each.__name__ for each in (before, after) if found == [*map(each, names_of)]), "")
    if not seen or (is_completed and seen != "after"):
        print(f"{when}, {'completed' if is_completed else 'undone'}: {found}")
    if recover_all(root):
        print(f"{when}: it was completed twice")
    return seen


def run(root: Path, every: int) -> None:
    """Journals name their directories, so that all happens at one place."""
    at, kept = root / "at", root / "kept"
    prepare(root / "template")
    seen: Counter[str] = Counter()
    for number in itertools.count():
        shutil.copytree(root / "template", at)
        if not killed(lambda: commit(at), number):
            print(f"{check(at, 'not killed')} {dict(seen)}")
            break
        at.rename(kept)
        is_over = False
        for again in itertools.count(number % every, every):
            if is_over:
                break
            shutil.copytree(kept, at)
            is_over = not killed(lambda: recover_all(at), again)
            seen[check(at, f"killed at {number}, and while that was recovered at {again}")] += 1
            shutil.rmtree(at)
        shutil.rmtree(kept)


if __name__ == "__main__":
    os.fsync = lambda _: None  # a kill loses nothing that was written
    logging.disable()
    run(Path(sys.argv[1]), int([*sys.argv, "1"][2]))
