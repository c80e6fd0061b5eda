"""Commits partitions that were written under temporary names: all of them become visible, or none.

Who writes (:class:`brokerless.log.commit.partition_writer.PartitionOutput`) may be another process than who commits:
between the two goes a :class:`StagedPartition`. One new partition is committed by one
renaming; for more than that a journal (``log/checkpoint/commit_journal.py``) is there meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import ExitStack, suppress
from pathlib import Path

from brokerless.errors import BrokerlessError, UsageError
from brokerless.log import names
from brokerless.log.checkpoint.commit_journal import (
    GrowingPartition,
    Journal,
    committing,
    load_journal,
    record_query,
    remove_journal,
    write_journal,
)
from brokerless.log.checkpoint.offset_checkpoints import write_checkpoints
from brokerless.log.commit.remote_append import grow_remote, undo_remote
from brokerless.log.commit.staged_append import append_staged, check_after_end
from brokerless.log.commit.types import Place, StagedPartition
from brokerless.log.config import DEFAULTS, LogConfig
from brokerless.log.directory import resolve
from brokerless.log.recovery.log_loader import load_log
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.directory_lock import NO_BROKER, DirectoryLock, clean_mark_removed
from brokerless.log.storage.own_files import is_own_directory, refuse_links
from brokerless.log.storage.write_errors import unwritable
from brokerless.log.tail import look


def commit(log_directory: str | Path | Destination, partitions: Sequence[StagedPartition]) -> None:
    """Gives new partitions their names, all of them or none: from then on they are as after a broker's clean stop, and
    one that starts on the log directory has nothing to recover.

    Raises :class:`UsageError` if such a partition exists by then, if one was changed meanwhile, or if a
    broker runs on the directory; UnwritableError where the disk fails. Then none of them is there, but all that was
    written still is: see :func:`discard`.
    """
    directory = Destination.of(log_directory)
    with ExitStack() as stack, unwritable(directory):
        lock = stack.enter_context(directory.hold())
        if _needs_journal(directory, partitions) or directory.exists(names.COMMIT_JOURNAL):
            stack.enter_context(committing(directory))
            settle_locked(directory, lock)
        commit_locked(directory, lock, partitions)


def commit_locked(
    directory: Path | Destination,
    lock: DirectoryLock,
    new: Sequence[StagedPartition],
    growing: Mapping[Place, Sequence[StagedPartition]] | None = None,
    config: LogConfig = DEFAULTS,
    query: tuple[str, int] | None = None,
) -> None:
    """The same for who holds the log directory and its commits (unless it is one new partition and nothing else).

    ``growing``: what is appended to existing partitions, in this order, with ``config``. ``query``: of
    which streaming query this is which batch, recorded with the rest. Raises OSError as well.
    """
    at = Destination.of(directory)
    growing = growing or {}
    for each in new:
        _check_new(at, each)
    for each in (each_staged for staged in growing.values() for each_staged in staged):
        _check_files(at, each)
    # Before a partition is there, nobody minds these lines; without them, a broker would follow all of it. Nor does
    # anybody mind the mark: after a kill it is not known that these were the first, and a broker takes it away itself.
    write_checkpoints(at, {(each.topic, each.partition): each.checkpoints for each in new})
    if new and not at.exists(names.CLEAN_SHUTDOWN) and not _partitions(at):  # there may be thousands to list
        at.write(names.CLEAN_SHUTDOWN, NO_BROKER)
    names_of_new = tuple((each.directory, each.name) for each in new)
    if not growing and query is None and not _needs_journal(at, new):
        for name, target in names_of_new:
            at.move(name, target)
            at.sync()
        return
    with ExitStack() as stack:
        journal = Journal.begun(query)
        if growing:
            for (topic, partition), staged in growing.items():
                check_continued(at, topic, partition)
                (there,) = resolve(at.location / names.partition_directory(topic, partition)).partitions
                if there.segments and staged[0].has_offsets:  # refused before anything is changed
                    check_after_end(look(there).end_offset, staged[0])
            if at.is_remote:
                journal = grow_remote(at, journal, growing, config)
            else:
                was_clean = stack.enter_context(clean_mark_removed(at.local, lock))
                journal = _grow_all(at.local, journal, growing, config=config, was_clean=was_clean)
        journal = journal.decide(names_of_new)
        write_journal(at, journal)
        _complete(at, journal)
    discard(at, (each_staged for staged in growing.values() for each_staged in staged))


def settle(log_directory: Path | Destination) -> Set[str]:
    """Completes or undoes what a stop cut short, if anything; gives the names of new partitions that it completed.
    Raises :class:`UsageError` where a broker ran on it, and UnwritableError."""
    at = Destination.of(log_directory)
    if at.exists(names.COMMIT_JOURNAL):
        with unwritable(at), at.hold() as lock, committing(at):
            return settle_locked(at, lock)
    return frozenset()


def settle_locked(directory: Path | Destination, lock: DirectoryLock) -> Set[str]:
    """The same for who holds the log directory and its commits. Raises OSError as well."""
    at = Destination.of(directory)
    if not at.exists(names.COMMIT_JOURNAL):
        return frozenset()
    journal = load_journal(at.location / names.COMMIT_JOURNAL)
    if journal.is_decided:
        _complete(at, journal)
    elif at.is_remote:
        undo_remote(at, journal)
    else:
        with clean_mark_removed(at.local, lock) as was_clean:
            _undo(at.local, journal, was_clean)
    return {name for _, name in journal.new} if journal.is_decided else frozenset()


def refuse_existing(directory: Destination, names_of_new: Iterable[str], completed: Set[str] = frozenset()) -> None:
    """Raises :class:`UsageError` if there is a partition already that is to be written. ``completed``: what
    :func:`settle` gave."""
    for name in names_of_new:
        if directory.exists(name):
            text = "this partition exists already; write to another directory"
            if name in completed:
                text = (
                    "this partition is there: a run that was killed had written everything, and its commit was "
                    "completed now. If it was the same command, nothing is left to do"
                )
            raise UsageError(f"{directory.join(name)}: {text}")


def discard(log_directory: str | Path | Destination, partitions: Iterable[StagedPartition]) -> None:
    """Takes away what was written of partitions that will not be committed, as far as it is still there."""
    remove_unfinished(Destination.of(log_directory), [each.directory for each in partitions])


def remove_unfinished(log_directory: Destination, directories: Iterable[str]) -> None:
    """Removes directories of partitions that have no name yet; not those that a commit is about to name which was
    decided, and that something kept from its end."""
    kept: set[str] = set()
    try:
        if log_directory.exists(names.COMMIT_JOURNAL):
            journal = load_journal(log_directory.location / names.COMMIT_JOURNAL)
            kept = {name for name, _ in journal.new}
    except BrokerlessError:
        return
    for name in directories:
        if name not in kept:
            log_directory.remove_directory(name)


def _grow_all(
    directory: Path,
    journal: Journal,
    growing: Mapping[Place, Sequence[StagedPartition]],
    config: LogConfig,
    was_clean: bool,
) -> Journal:
    try:
        for (topic, partition), staged in growing.items():
            with load_log(directory, topic, partition, config, was_clean=was_clean) as log:
                epoch = log.leader_epochs[-1][0] if log.leader_epochs else -1
                log.roll()
                journal = journal.grow(
                    GrowingPartition(
                        topic, partition, log.segments[-1], end_offset=log.log_end_offset, leader_epoch=epoch
                    )
                )
                write_journal(directory, journal)
                for each_staged in staged:
                    append_staged(log, Destination.of(directory), each_staged, epoch)
    except BaseException:
        with suppress(Exception):  # then the next writer does it
            _undo(directory, journal, was_clean=False)
        raise
    return journal


def _undo(directory: Path, journal: Journal, was_clean: bool) -> None:
    for each in journal.growing:
        with load_log(directory, each.topic, each.partition, DEFAULTS, was_clean=was_clean) as log:
            if log.leader_epochs and log.leader_epochs[-1][0] > each.leader_epoch >= 0:
                name = names.partition_directory(each.topic, each.partition)
                raise UsageError(
                    f"{directory / name}: a broker ran on this log directory after a stop had cut a commit short, and "
                    f"serves what had been appended from offset {each.end_offset} on; to keep it, remove "
                    f"{directory / names.COMMIT_JOURNAL}"
                )
            log.truncate_to(each.end_offset)
    if (directory / names.COMMIT_JOURNAL).exists():
        remove_journal(Destination.of(directory))


def _complete(directory: Destination, journal: Journal) -> None:
    """Does what is left of a commit that was decided."""
    gone = [target for name, target in journal.new if not directory.move(name, target)]
    directory.sync()
    if journal.query is not None:
        record_query(directory, journal.query)
    remove_journal(directory)
    if gone:
        text = f"a stop cut a commit short, and what {', '.join(gone)} should become was deleted since, by a broker"
        raise UsageError(f"{directory}: {text} that was started on it? The commit's other partitions are there")


def _needs_journal(directory: Destination, new: Sequence[StagedPartition]) -> bool:
    """Whether new partitions take more than one step: each is one where a directory can be renamed."""
    return len(new) > (0 if directory.is_remote else 1)


def _partitions(directory: Destination) -> set[str]:
    """Names of the partitions in a log directory that a broker would load."""
    found = (
        (each.name, names.parse_partition_directory(each.name)) for each in directory.entries() if each.is_directory
    )
    return {name for name, parsed in found if parsed is not None and parsed.state in ("live", "future")}


def _check_new(directory: Destination, partition: StagedPartition) -> None:
    if directory.exists(partition.name):
        text = "this partition exists already; write to another directory"
        raise UsageError(f"{directory.join(partition.name)}: {text}")
    _check_files(directory, partition)


def check_continued(directory: Destination, topic: str, partition: int) -> None:
    """Raises :class:`UsageError` for a partition that is there, but cannot be continued."""
    name = names.partition_directory(topic, partition)
    if not directory.exists(name):
        return
    if topic == names.CLUSTER_METADATA:
        text = "this is KRaft's own log, and a broker does not start with other records in it"
        raise UsageError(f"{directory.join(name)}: {text}")


def _check_files(directory: Destination, partition: StagedPartition) -> None:
    path = directory.join(partition.directory)
    if not directory.is_remote and is_own_directory(directory.local / partition.directory):
        refuse_links(directory.local / partition.directory)
    if directory.files(partition.directory) != partition.files:
        text = "this is not as it was written: did a broker start on the log directory meanwhile? Write it again"
        raise UsageError(f"{path}: {text}")
