"""Commits partitions that were written under temporary names: all of them become visible, or none.

Who writes (:class:`brokerless.log.commit.partition_writer.PartitionWriter`) may be another process than who commits:
between the two goes a :class:`StagedPartition`. One new partition is committed by one
renaming; for more than that a journal (``log/checkpoint/commit_journal.py``) is there meanwhile.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import ExitStack, suppress
from pathlib import Path

from brokerless.errors import BrokerlessError, UsageError
from brokerless.kafka_names import TopicPartition
from brokerless.log import names
from brokerless.log.checkpoint.commit_journal import (
    Journal,
    Renaming,
    committing,
    load_journal,
    record_query,
    remove_journal,
    write_journal,
)
from brokerless.log.checkpoint.offset_checkpoints import PartitionOffsets, write_checkpoints
from brokerless.log.commit.remote_append import grow_remote, undo_remote
from brokerless.log.commit.staged_append import append_staged, begin_growing, check_after_end
from brokerless.log.commit.types import StagedPartition
from brokerless.log.config import DEFAULTS, LogConfig
from brokerless.log.directory import resolve
from brokerless.log.recovery.log_loader import load_log
from brokerless.log.storage.atomic import sync_directory
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.directory_lock import NO_BROKER, DirectoryLock, clean_mark_removed
from brokerless.log.storage.guarded_files import is_own_directory, make_directory, refuse_links
from brokerless.log.storage.write_errors import unwritable
from brokerless.log.tail import look

_log = logging.getLogger(__name__)
_ASIDE = ".replaced"
"""What the directory beside a log directory ends with, that replaced partitions are moved to."""


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
            recover_commit_locked(directory, lock)
        commit_locked(directory, lock, partitions)


def commit_locked(
    directory: Path | Destination,
    lock: DirectoryLock,
    new: Sequence[StagedPartition],
    growing: Mapping[TopicPartition, Sequence[StagedPartition]] | None = None,
    config: LogConfig = DEFAULTS,
    query: tuple[str, int] | None = None,
) -> None:
    """Commit for a caller who has locked the log directory and its commits (unless it is one new partition and nothing
    else).

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
    write_checkpoints(at, {each.place: each.checkpoints for each in new})
    if new and not at.exists(names.CLEAN_SHUTDOWN) and not _partitions(at):  # there may be thousands to list
        at.write(names.CLEAN_SHUTDOWN, NO_BROKER)
    if not growing and query is None and not _needs_journal(at, new):
        for each in new:
            at.move(each.directory, each.name)
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
        journal = journal.decide(Renaming(each.directory, each.name) for each in new)
        write_journal(at, journal)
        complete(at, journal)
    discard(at, (each_staged for staged in growing.values() for each_staged in staged))


def recover_commit(log_directory: Path | Destination) -> Set[str]:
    """Completes or undoes what a stop cut short, if anything; gives the names of new partitions that it completed.
    Raises :class:`UsageError` where a broker ran on it, and UnwritableError."""
    at = Destination.of(log_directory)
    if at.exists(names.COMMIT_JOURNAL):
        with unwritable(at), at.hold() as lock, committing(at):
            return recover_commit_locked(at, lock)
    return frozenset()


def recover_commit_locked(directory: Path | Destination, lock: DirectoryLock) -> Set[str]:
    """Recover a commit for a caller who has locked the log directory and its commits. Raises OSError as well."""
    at = Destination.of(directory)
    if not at.exists(names.COMMIT_JOURNAL):
        return frozenset()
    journal = load_journal(at.location / names.COMMIT_JOURNAL)
    if journal.together:
        text = f"a restore was cut short that changes {' and '.join(journal.together)}: run it again with --apply, to"
        raise UsageError(f"{at}: {text} have it completed or undone; then this")
    if journal.is_decided:
        complete(at, journal)
        new = ", ".join(each.name for each in journal.new)
        _log.warning("%s: a commit that a stop had cut short was completed%s", at, f": {new}" if new else "")
    else:
        removed = undo_remote(at, journal) if at.is_remote else _undo_local(at.local, journal, lock)
        _log.warning(
            "%s: a commit that a stop had cut short was undone%s", at, "".join(f"; {each}" for each in removed)
        )
    return {each.name for each in journal.new} if journal.is_decided else frozenset()


def refuse_existing(directory: Destination, names_of_new: Iterable[str], completed: Set[str] = frozenset()) -> None:
    """Raises :class:`UsageError` if there is a partition already that is to be written. ``completed``: what
    :func:`recover_commit` gave."""
    for name in names_of_new:
        if directory.exists(name):
            text = "this partition exists already; write to another directory"
            if name in completed:
                text = (
                    "this partition is there: a run that was cut short had written everything, and its commit was "
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
            kept = {each.staged for each in journal.new}
    except BrokerlessError:
        return
    for name in directories:
        if name not in kept:
            log_directory.remove_directory(name)


def _grow_all(
    directory: Path,
    journal: Journal,
    growing: Mapping[TopicPartition, Sequence[StagedPartition]],
    config: LogConfig,
    was_clean: bool,
) -> Journal:
    try:
        for (topic, partition), staged in growing.items():
            with load_log(directory, topic, partition, config, was_clean=was_clean) as log:
                begun = begin_growing(log, (topic, partition))
                journal = journal.grow(begun)
                write_journal(directory, journal)
                for each_staged in staged:
                    append_staged(log, Destination.of(directory), each_staged, begun.leader_epoch)
    except BaseException:
        with suppress(Exception):  # then the next writer does it
            _undo(directory, journal, was_clean=False)
        raise
    return journal


def _undo(directory: Path, journal: Journal, was_clean: bool) -> Sequence[str]:
    """Returns what it removed, in words."""
    removed: list[str] = []
    for each in journal.growing:
        with load_log(directory, each.topic, each.partition, DEFAULTS, was_clean=was_clean) as log:
            if log.leader_epochs and log.leader_epochs[-1][0] > each.leader_epoch >= 0:
                raise UsageError(
                    f"{directory / each.name}: a broker ran on this log directory after a stop had cut a commit short, "
                    f"and serves what had been appended from offset {each.end_offset} on; to keep it, remove "
                    f"{directory / names.COMMIT_JOURNAL}"
                )
            end = log.log_end_offset
            if log.truncate_to(each.end_offset):
                removed.append(f"offsets {each.end_offset} to {end - 1} of {each.name} were removed")
    if (directory / names.COMMIT_JOURNAL).exists():
        remove_journal(Destination.of(directory))
    return removed


def _undo_local(directory: Path, journal: Journal, lock: DirectoryLock) -> Sequence[str]:
    """Raises :class:`UsageError` where somebody has stopped cleanly since, or never ran this commit: it takes the mark
    of a clean stop away before it appends."""
    growing = [each for each in journal.growing if is_own_directory(directory / each.name)]
    if growing and (lock.was_clean if lock.exclusive else os.path.lexists(directory / names.CLEAN_SHUTDOWN)):
        first = growing[0]
        raise UsageError(
            f"{directory / names.COMMIT_JOURNAL}: this is of a commit that was cut short and is to be undone, which "
            f"removes what {first.name} has from offset {first.end_offset} on; but whoever wrote here last has stopped "
            f"cleanly. To keep these records, remove this file; to remove them, remove {names.CLEAN_SHUTDOWN}"
        )
    with clean_mark_removed(directory, lock) as was_clean:
        return _undo(directory, journal, was_clean)


def complete(directory: Destination, journal: Journal) -> None:
    """Does what is left of a commit that was decided. Raises :class:`UsageError` where something is gone."""
    gone = [each.name for each in journal.new if not _rename(directory, each)]
    directory.sync()
    recorded = {_place(each.name): PartitionOffsets(*each.offsets) for each in journal.new if each.offsets is not None}
    if recorded:
        write_checkpoints(directory, recorded)
    for each in journal.new:
        if each.discarded is not None:
            directory.remove_directory(each.discarded)
    if journal.query is not None:
        record_query(directory, journal.query)
    remove_journal(directory)
    if gone:
        text = f"a stop cut a commit short, and what {', '.join(gone)} should become was deleted since, by a broker"
        raise UsageError(f"{directory}: {text} that was started on it? The commit's other partitions are there")


def aside_of(log_directory: Path) -> Path:
    """Return where replaced partitions of a log directory are moved to: beside it, as a broker ends its start at names
    in it that are no partitions'."""
    return log_directory.with_name(log_directory.name + _ASIDE)


def _rename(directory: Destination, new: Renaming) -> bool:
    """Gives a partition its name; False where it is gone. Once more does nothing: the directory has its name then."""
    if not directory.is_remote and is_own_directory(directory.local / new.staged):
        path = directory.local / new.name
        if new.aside is not None and is_own_directory(path):
            aside = aside_of(directory.local)
            make_directory(aside)
            path.rename(aside / new.aside)
            sync_directory(aside)
        elif new.discarded is not None and is_own_directory(path):
            path.rename(directory.local / new.discarded)
        elif os.path.lexists(path):
            raise UsageError(f"{path}: this partition came meanwhile; move it away, and run this again")
    return directory.move(new.staged, new.name)


def _needs_journal(directory: Destination, new: Sequence[StagedPartition]) -> bool:
    """Return whether new partitions take more than one step: each is one where a directory can be renamed."""
    return len(new) > (0 if directory.is_remote else 1)


def _partitions(directory: Destination) -> set[str]:
    """Names of the partitions in a log directory that a broker would load."""
    found = (
        (each.name, names.parse_partition_directory(each.name)) for each in directory.entries() if each.is_directory
    )
    return {name for name, parsed in found if parsed is not None and parsed.state in ("live", "future")}


def _place(name: str) -> TopicPartition:
    parsed = names.parse_partition_directory(name)
    assert parsed is not None
    return parsed.topic, parsed.partition


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
