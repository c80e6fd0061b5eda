"""Records which new partitions a run commits, until the run has ended: so that the same command may be repeated after a
kill that comes between the two.

The repeat removes what nobody has changed since, and writes it again, with the same report and exit code. Only
partitions that the record names, of a run of the same command on the same sources, are removed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Literal

from brokerless.errors import BrokerlessError, UsageError
from brokerless.log import names
from brokerless.log.commit.commit import commit, recover_commit, refuse_existing
from brokerless.log.commit.partition_writer import unfinished_name
from brokerless.log.commit.types import StagedPartition
from brokerless.log.own_file import OwnFile
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.directory_lock import is_only_holder
from brokerless.log.storage.paths import full_path
from brokerless.log.storage.write_errors import unwritable
from brokerless.values import Int64, Value, WrongJsonError

RecordedFiles = tuple[tuple[str, Int64], ...]


class _RecordedPartition(Value, frozen=True):
    """A new partition's directory, and names and sizes of its files."""

    name: str
    files: RecordedFiles

    def __post_init__(self) -> None:
        parsed = names.parse_partition_directory(self.name)
        if parsed is None or parsed.state != "live":
            raise WrongJsonError("name is no partition's")


class _RunRecord(Value, frozen=True):
    version: Literal[1]
    run: str
    partitions: tuple[_RecordedPartition, ...]


_RECORD = OwnFile(_RunRecord, "a record of a run of brokerless", "remove it", 256 << 20)


def run_of(command: str, sources: Iterable[str]) -> str:
    """Return by what a run is known for the same: its command and the paths that it reads."""
    paths = sorted({full_path(each) for each in sources})
    return hashlib.sha256(json.dumps([command, paths]).encode()).hexdigest()


def commit_run(directory: Destination, partitions: Sequence[StagedPartition], run: str) -> None:
    """Commits new partitions as :func:`commit`, and records them for a repeat of ``run`` until :func:`end_run`."""
    record_run(directory, partitions, run)
    with forgotten_on_error(directory, run):
        commit(directory, partitions)


@contextmanager
def forgotten_on_error(directory: Destination, run: str) -> Generator[None]:
    """Forgets what :func:`record_run` recorded of ``run`` where an error is raised, if nothing is committed, nor will
    be: else an error leaves what a kill leaves."""
    try:
        yield
    except Exception as error:
        with suppress(OSError, BrokerlessError):
            recorded = _load(directory, run)
            begun = directory.exists(names.COMMIT_JOURNAL) or any(map(directory.exists, recorded))
            if recorded and (isinstance(error, UsageError) or not begun):
                directory.remove(names.RUN_RECORD)
        raise


def record_run(directory: Destination, partitions: Sequence[StagedPartition], run: str) -> None:
    """Records the partitions that ``run`` is about to commit, until :func:`end_run`. Raises UnwritableError."""
    record = _RunRecord(1, run, tuple(_RecordedPartition(each.name, each.files) for each in partitions))
    with unwritable(directory):
        directory.write(names.RUN_RECORD, _RECORD.dump(record, directory.join(names.RUN_RECORD)))


def end_run(directory: Destination) -> None:
    """Forgets what :func:`commit_run` recorded, as the run has ended. Raises UnwritableError."""
    if directory.exists(names.RUN_RECORD):
        with unwritable(directory):
            directory.remove(names.RUN_RECORD)


def refuse_written(directory: Destination, names_of_new: Sequence[str], run: str) -> None:
    """Recover an interrupted commit, remove what a killed run of the same command has committed, and raise
    :class:`UsageError` if one of the partitions is there even so; UnreadableError for a record that is not ours."""
    completed = recover_commit(directory)
    recorded = _load(directory, run)
    there = {name: files for name, files in recorded.items() if directory.exists(name)}
    for name, files in there.items():
        if directory.files(name) != files:
            text = "an earlier run was killed after it had written this partition, and it was changed since"
            raise UsageError(f"{directory.join(name)}: {text}; move it away, or write to another directory")
    if recorded:
        with unwritable(directory), directory.hold() as lock:
            if not directory.is_remote and not is_only_holder(lock):
                raise UsageError(f"{directory}: another process writes here; wait for it, and run this again")
            for name in there:
                _remove(directory, name)
            directory.sync()
            end_run(directory)
    refuse_existing(directory, names_of_new, completed)


def _remove(directory: Destination, name: str) -> None:
    """Removes a partition that would be half there if a kill came meanwhile, under a name that readers pass over."""
    parsed = names.parse_partition_directory(name)
    assert parsed is not None
    unfinished = unfinished_name(parsed.topic, parsed.partition, names.OF_COMMAND)
    directory.move(name, unfinished)
    directory.remove_directory(unfinished)


def _load(directory: Destination, run: str) -> Mapping[str, RecordedFiles]:
    """The partitions of a recorded run, and their files; none where there is no record, or one of another run."""
    record = _RECORD.find(directory.location / names.RUN_RECORD)
    return {} if record is None or record.run != run else {each.name: each.files for each in record.partitions}
