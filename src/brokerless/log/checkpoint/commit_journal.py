"""The commit journal (all partitions or none), and the last batch that each streaming query committed.

Three files of ours in a log directory, which a broker ignores (``LogManager.loadLogs`` lists directories only, 4.1.1).
The journal exists from before the first change until after the last one, and lists what changes: readers skip that, and
the next writer completes or undoes it. A commit holds the lock. The third file has the last committed batch of each
streaming query that wrote here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from brokerless.bounds import MAX_INT32
from brokerless.errors import UnreadableError, UsageError
from brokerless.log import names
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.directory_lock import file_lock
from brokerless.log.storage.location import Location
from brokerless.log.storage.own_files import open_own, read_own
from brokerless.strict_json import (
    WrongJsonError,
    as_flag,
    as_integer,
    as_list,
    as_object,
    as_text,
    member,
    optional,
    parse_object,
)

_VERSION = 1
_LIMIT = 16 << 20
"""Bytes of one of these files: some 100,000 partitions."""


@dataclass(frozen=True, slots=True)
class GrowingPartition:
    """A partition that was there before, to which is appended: segments from ``base_offset`` on do not count yet.
    ``end_offset``: where its log ended before; ``leader_epoch``: that of its last batches, -1 without one."""

    topic: str
    partition: int
    base_offset: int
    end_offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Journal:
    """``growing``: partitions that are appended to. ``new``: pairs of the name that a new partition's directory has and
    the one that it gets. ``query``: of which streaming query this is which batch.

    ``is_decided``: whether all is written and only names are left; before that, it is undone after a crash.
    """

    growing: tuple[GrowingPartition, ...] = ()
    new: tuple[tuple[str, str], ...] = ()
    query: tuple[str, int] | None = None
    is_decided: bool = False

    def grow(self, growing: GrowingPartition) -> Journal:
        return replace(self, growing=(*self.growing, growing))

    def decide(self, new: tuple[tuple[str, str], ...]) -> Journal:
        return replace(self, new=new, is_decided=True)

    @property
    def hidden(self) -> Mapping[str, int]:
        """From which segment on a partition's directory is not to be read, by its name; -1 for one that is new."""
        hidden = {names.partition_directory(each.topic, each.partition): each.base_offset for each in self.growing}
        return {**hidden, **{name: -1 for _, name in self.new}}


@contextmanager
def committing(log_directory: Path | Destination) -> Generator[None]:
    """Waits until nobody else commits in a log directory, in any thread or process, and keeps others waiting. In an
    object store nobody is kept from it: there is one writer at a time, as its users see to it."""
    at = Destination.of(log_directory)
    if at.is_remote:
        yield
        return
    with file_lock(open_own(at.local / names.COMMIT_LOCK, os.O_WRONLY | os.O_CREAT)):
        yield


def write_journal(log_directory: Path | Destination, journal: Journal) -> None:
    """Raises :class:`UsageError` for one that would be too large to be read."""
    data = _dump(asdict(journal))
    if len(data) > _LIMIT:
        count = len(journal.growing) + len(journal.new)
        raise UsageError(f"{log_directory}: {count:,} partitions are too many for one commit; write some of them first")
    Destination.of(log_directory).write(names.COMMIT_JOURNAL, data)


def remove_journal(log_directory: Destination) -> None:
    log_directory.remove(names.COMMIT_JOURNAL)


def load_journal(location: Location) -> Journal:
    """Raises :class:`UnreadableError` if there is none any more, and for one that we did not write: one with names that
    are not those of partitions' directories, for example. UsageError for that of a newer brokerless."""
    found = _load(location)
    try:
        journal = Journal(
            as_list(member(found, "growing"), "growing", _growing),
            as_list(member(found, "new"), "new", _new),
            optional(member(found, "query"), "query", _query),
            as_flag(member(found, "is_decided"), "is_decided"),
        )
        changed = [names.partition_directory(each.topic, each.partition) for each in journal.growing]
        changed += [name for _, name in journal.new]
        if len({*changed, *(name for name, _ in journal.new)}) != len(changed) + len(journal.new):
            raise WrongJsonError("a directory comes twice")
    except WrongJsonError as error:
        raise _foreign(location.path, error) from error
    return journal


def hidden_segments(directory: Location, *, is_listed: bool) -> Mapping[str, int] | None:
    """:attr:`Journal.hidden` of a log directory, empty without a commit. ``is_listed``: whether the journal was in a
    listing made before the partitions were listed. None if there was a commit then and it has ended."""
    journal = directory / names.COMMIT_JOURNAL
    if not is_listed:
        try:
            if not journal.exists():
                return {}
        except UnreadableError:  # of a URL, it may be that only a part may be read
            return {}
    try:
        return load_journal(journal).hidden
    except UnreadableError:
        if journal.exists():
            raise
        return None


def _growing(value: Any, name: str) -> GrowingPartition:
    found = as_object(value, name)
    topic = as_text(member(found, "topic"), name)
    partition = as_integer(member(found, "partition"), name, 0, MAX_INT32)
    parsed = names.parse_partition_directory(names.partition_directory(topic, partition))
    if parsed is None or parsed.topic != topic or topic == names.CLUSTER_METADATA:
        raise WrongJsonError(f"{name} is not a partition that can be appended to")
    base, end = (as_integer(member(found, key), f"{name}.{key}") for key in ("base_offset", "end_offset"))
    return GrowingPartition(topic, partition, base, end, as_integer(member(found, "leader_epoch"), name, -1, MAX_INT32))


def _new(value: Any, name: str) -> tuple[str, str]:
    """What is renamed is of the same log directory and the same partition, and not finished, by its name."""
    pair = as_list(value, name, as_text)
    before, after = (names.parse_partition_directory(each) for each in pair) if len(pair) == 2 else (None, None)
    if before is None or after is None or not before.is_unfinished or after.state != "live":
        raise WrongJsonError(f"{name} is not a name of ours and one of a partition")
    if before.partition != after.partition or not after.topic.startswith(before.topic):  # a long topic is cut
        raise WrongJsonError(f"{name} has the names of two partitions")
    return pair[0], pair[1]


def _query(value: Any, name: str) -> tuple[str, int]:
    if not isinstance(value, list) or len(value) != 2:  # pyright: ignore[reportUnknownArgumentType]
        raise WrongJsonError(f"{name} is not a pair")
    return as_text(value[0], name), as_integer(value[1], name)


def last_batch(log_directory: Path | Destination, query: str) -> int | None:
    """The last batch of a streaming query that was committed here."""
    return _queries(Destination.of(log_directory)).get(query)


def record_query(log_directory: Destination, query: tuple[str, int]) -> None:
    queries = {**_queries(log_directory), query[0]: query[1]}
    log_directory.write(names.COMMITTED_QUERIES, _dump({"queries": queries}))


def _queries(log_directory: Destination) -> dict[str, int]:
    location = log_directory.location / names.COMMITTED_QUERIES
    if not log_directory.exists(names.COMMITTED_QUERIES):
        return {}
    found = _load(location)
    try:
        queries = as_object(member(found, "queries"), "queries")
        return {query: as_integer(batch, "queries") for query, batch in queries.items()}
    except WrongJsonError as error:
        raise _foreign(location.path, error) from error


def _dump(value: dict[str, Any]) -> bytes:
    return json.dumps({"version": _VERSION, **value}).encode() + b"\n"


def _load(location: Location) -> dict[str, Any]:
    try:
        found = parse_object(read_own(location, _LIMIT))
        version = as_integer(member(found, "version"), "version")
    except WrongJsonError as error:
        raise _foreign(location.path, error) from error
    if version != _VERSION:
        raise UsageError(f"{location}: a newer brokerless wrote this (version {version}); use that one")
    return found


def _foreign(path: str, error: WrongJsonError) -> UnreadableError:
    return UnreadableError(path, f"this is not what brokerless writes there ({error}); move the file away")
