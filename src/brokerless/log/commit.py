"""Partitions that are written and synced under other names, and how they get theirs.

Who writes (:class:`brokerless.log.bulk.PartitionOutput`) may be another process than who commits: between the two goes
an :class:`Unfinished`, plain values of a few hundred bytes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from brokerless.errors import UsageError
from brokerless.log import names
from brokerless.log.atomic import rename, write_file
from brokerless.log.lock import NO_BROKER, has_partitions, lock_directory
from brokerless.log.offset_checkpoints import Checkpoints, write_checkpoints
from brokerless.log.writer import unwritable


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A partition that lacks nothing but its name: everything of it is synced, and nobody writes to it any more.

    ``directory`` is its name for now within the log directory. ``files``: names and sizes (bytes) of what is in it.
    ``size``: bytes of its logs.
    """

    directory: str
    topic: str
    partition: int
    log_start_offset: int
    log_end_offset: int
    checkpoints: Checkpoints
    files: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:
        """What its directory will be called."""
        return names.partition_directory(self.topic, self.partition)

    @property
    def size(self) -> int:
        return sum(size for name, size in self.files if name.endswith(".log"))


def commit(log_directory: str | Path, partitions: Sequence[Unfinished]) -> None:
    """Gives new partitions their names: from then on they are as after a broker's clean stop, and one that starts on
    the log directory has nothing to recover.

    Raises :class:`UsageError` if there is such a partition by now, if one is not as it was left any more, or if a
    broker runs on the directory; UnwritableError where the disk fails. Then none of them is there, but all that was
    written still is: see :func:`discard`.
    """
    directory = Path(log_directory)
    with unwritable(directory), lock_directory(directory, exclusive=False):
        for each in partitions:
            check_new(directory, each)
        # Before a partition is there, nobody minds these lines; without them, a broker would follow all of it.
        lines = {(each.topic, each.partition): each.checkpoints for each in partitions}
        write_checkpoints(directory, lines)
        is_first = not has_partitions(directory)
        for each in partitions:
            rename(directory / each.directory, directory / each.name)
        mark = directory / names.CLEAN_SHUTDOWN
        if partitions and is_first and not mark.exists():
            write_file(mark, NO_BROKER)


def discard(log_directory: str | Path, partitions: Iterable[Unfinished]) -> None:
    """Takes away what was written of partitions that will not be committed."""
    for each in partitions:
        shutil.rmtree(Path(log_directory) / each.directory, ignore_errors=True)


def check_new(directory: Path, partition: Unfinished) -> None:
    """Raises :class:`UsageError` unless a partition can get its name and is as it was left."""
    target = directory / partition.name
    if target.exists():
        raise UsageError(f"{target}: this partition exists already; it is not written to")
    path = directory / partition.directory
    found = files_of(path) if path.is_dir() else ()
    if found != partition.files:
        text = "this is not as it was written: did a broker start on the log directory meanwhile? Write it again"
        raise UsageError(f"{path}: {text}")


def files_of(path: Path) -> tuple[tuple[str, int], ...]:
    """Names and sizes (bytes) of the files in a partition's directory."""
    return tuple(sorted((each.name, each.stat().st_size) for each in path.iterdir()))
