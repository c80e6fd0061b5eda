"""Commits the output of several tasks, to new and existing partitions."""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path

from brokerless.errors import UnreadableError, UsageError
from brokerless.log import names
from brokerless.log.checkpoint.commit_journal import committing, last_batch
from brokerless.log.checkpoint.partition_metadata import load_partition_metadata
from brokerless.log.checkpoint.topic_ids import check_topic_ids
from brokerless.log.commit.commit import (
    commit_locked,
    discard,
    recover_commit,
    recover_commit_locked,
    remove_unfinished,
)
from brokerless.log.commit.partition_writer import NewPartition, PartitionWriter
from brokerless.log.commit.staged_append import append_staged
from brokerless.log.commit.types import StagedPartition
from brokerless.log.config import DEFAULTS, LogConfig
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.directory_lock import is_only_holder
from brokerless.log.storage.write_errors import unwritable
from brokerless.progress import ignore

_OWNER = 16
"""Of the 32 hexadecimal digits in the names of directories that are not finished, those that say whose they are."""


def commit_staged(
    log_directory: str | Path | Destination,
    staged: Sequence[StagedPartition],
    config: LogConfig = DEFAULTS,
    query: tuple[str, int] | None = None,
    hint: str = "",
    *,
    only_new: bool = False,
    before_commit: Callable[[Sequence[StagedPartition]], object] = ignore,
) -> bool:
    """Commits all staged partitions at once. An existing partition is appended to. A new one gets its name if it was
    staged as one, and is assembled otherwise: by offset where records have offsets, else in this order.

    ``query``: of which streaming query this is which batch; False if that was committed before, and nothing is done.
    ``hint``: what to do about overlapping offsets. ``only_new``: existing partitions are refused.
    ``before_commit`` is called with the new partitions as they will be.

    Raises :class:`UsageError` where offsets overlap each other or those of the log, and for what
    :func:`brokerless.log.commit.commit.commit` raises it; UnwritableError. Then nothing of them is visible, and they
    are still staged.
    """
    directory = Destination.of(log_directory)
    made: list[StagedPartition] = []
    with ExitStack() as stack, unwritable(directory):
        lock = stack.enter_context(directory.hold())
        stack.enter_context(committing(directory))
        recover_commit_locked(directory, lock)
        if query is not None:
            last = last_batch(directory, query[0])
            if last is not None and last >= query[1]:
                return False
        new: list[StagedPartition] = []
        growing: dict[tuple[str, int], list[StagedPartition]] = {}
        try:
            for parts in _by_partition(staged, hint):
                if not only_new and directory.exists(parts[0].name):
                    growing[parts[0].place] = parts
                elif len(parts) == 1:
                    new.append(parts[0])
                else:
                    made.append(_put_together(directory, parts, config))
            check_topic_ids(directory, ((each.topic, each.directory) for each in (*new, *made)))
            before_commit([*new, *made])
            commit_locked(directory, lock, [*new, *made], growing=growing, config=config, query=query)
        except BaseException:
            discard(directory, made)
            raise
    discard(directory, staged)
    return True


def owner_of(job: str) -> str:
    """Return what all directories that a job has not finished have in their names (:func:`bulk.unfinished_name`)."""
    return hashlib.sha256(job.encode()).hexdigest()[:_OWNER]


def owner_of_command(job: str | None = None) -> str:
    """Return the same part of names for a run of a command, which holds the lock on the log directory until all is
    committed. ``job``: by which a later run is known for the same."""
    return names.OF_COMMAND + owner_of(job or uuid.uuid4().hex)[len(names.OF_COMMAND) :]


def id_of(job: str, topic: str) -> str:
    """Return an ID for a topic: the same for all tasks of a job, without asking each other
    (``org.apache.kafka.common.Uuid``: 16 bytes)."""
    made = uuid.UUID(bytes=hashlib.sha256(f"{job} {topic}".encode()).digest()[:16], version=4)
    text = base64.urlsafe_b64encode(made.bytes).decode().rstrip("=")
    return "A" + text[1:] if text.startswith("-") else text  # Kafka gives none that looks like an option


@contextmanager
def outputs_of_job(log_directory: Path | Destination, job: str | None = None) -> Generator[str]:
    """Makes a log directory if it is not there, and holds it, while tasks write partitions into it with the owner that
    this gives; what they left that was not committed is removed at the end. What killed runs left is removed before, if
    nobody writes there. ``job``: by which a later run is known for the same, and removes what this one left even so.
    Raises UsageError and UnwritableError."""
    at = Destination.of(log_directory)
    owner = owner_of_command(job)
    with ExitStack() as stack:
        if at.is_missing:
            stack.callback(remove_unused, at)
        with unwritable(at):
            prepare(at)
            stack.enter_context(at.hold())
        if job is not None:
            remove_staged_of(at, owner)
        stack.callback(remove_staged_of, at, owner)
        yield owner


@contextmanager
def cleared_of(log_directory: Destination, job: str) -> Generator[None]:
    """Removes what a job's tasks have left if it fails: those of Spark may go on until Spark has stopped."""
    is_missing = log_directory.is_missing
    try:
        yield
    except BaseException:
        remove_staged_of(log_directory, owner_of_command(job))
        if is_missing:
            remove_unused(log_directory)
        raise


def prepare(log_directory: Destination) -> None:
    """Make a log directory if it is not there, recover its interrupted commit, and remove what killed runs left: of
    commands, if nobody writes there, and in an object store all, as there is one writer at a time. Raises
    UnwritableError and OSError."""
    log_directory.make()
    recover_commit(log_directory)
    if log_directory.is_remote:
        log_directory.check()
        with suppress(UnreadableError):
            remove_unfinished(log_directory, [name for name, _ in _unfinished(log_directory)])
        return
    # Who makes such a directory holds the lock before: nobody who comes after this list is meant by it.
    left = [name for name, unique_id in _unfinished(log_directory) if unique_id.startswith(names.OF_COMMAND)]
    if left:
        with log_directory.hold() as lock:
            if is_only_holder(lock):
                remove_unfinished(log_directory, left)


def remove_unused(log_directory: Destination) -> None:
    """Removes a log directory that was made for what was given up then, unless there is more in it than our locks."""
    if not log_directory.is_remote:
        with suppress(OSError):
            locks = list(log_directory.local.iterdir())
            if {each.name for each in locks} <= {names.LOCK, names.COMMIT_LOCK}:
                for each in locks:
                    each.unlink()
                log_directory.local.rmdir()


def remove_staged_of(log_directory: Path | Destination, owner: str) -> None:
    """Removes all that tasks of a job left; none of it that is written to still can be committed then."""
    at = Destination.of(log_directory)
    with suppress(UnreadableError):
        remove_unfinished(at, [name for name, id in _unfinished(at) if id.startswith(owner)])


def _unfinished(log_directory: Destination) -> Iterator[tuple[str, str]]:
    """Names of directories that we gave them until they are finished, and their unique IDs."""
    for each in log_directory.entries():
        parsed = names.parse_partition_directory(each.name)
        if parsed is not None and parsed.is_unfinished and parsed.unique_id is not None:
            yield each.name, parsed.unique_id


def partitions_of(directory: Destination, topic: str | None) -> set[int]:
    """Return the numbers of a topic's partitions in a log directory; of all topics', if it is None."""
    found = (names.parse_partition_directory(each.name) for each in directory.entries())
    return {each.partition for each in found if each and each.state == "live" and topic in (None, each.topic)}


def _by_partition(staged: Collection[StagedPartition], hint: str) -> Iterator[list[StagedPartition]]:
    by_place: dict[tuple[str, int], list[StagedPartition]] = {}
    for each_staged in staged:
        by_place.setdefault(each_staged.place, []).append(each_staged)
    for _, parts in sorted(by_place.items()):
        if parts[0].has_offsets:
            parts.sort(key=lambda each: each.log_start_offset)
            for one, other in pairwise(parts):
                if other.log_start_offset < one.log_end_offset:
                    first, second = (f"{each.log_start_offset} to {each.log_end_offset - 1}" for each in (one, other))
                    raise UsageError(
                        f"{one.name}: one task has rows with offsets {first}, and another one with {second}: where "
                        f"several tasks have rows of a partition, their offsets may not reach into each other{hint}"
                    )
        yield parts


def _put_together(directory: Destination, parts: Sequence[StagedPartition], config: LogConfig) -> StagedPartition:
    first = parts[0]
    metadata = directory.location / first.directory / names.PARTITION_METADATA
    with PartitionWriter(
        NewPartition(
            directory, first.topic, first.partition, config, topic_id=load_partition_metadata(metadata).topic_id
        ),
        start_offset=first.log_start_offset,
    ) as output:
        for each in parts:
            append_staged(output, directory, each)
        if first.has_offsets and _have_gaps(parts):
            output.explain_gaps()
        return output.finish()


def _have_gaps(parts: Sequence[StagedPartition]) -> bool:
    are_apart = any(one.log_end_offset < other.log_start_offset for one, other in pairwise(parts))
    return are_apart or any(each.checkpoints.cleaner is not None for each in parts)
