"""The commit journal (all partitions or none), and the last batch that each streaming query committed.

Three files of ours in a log directory, which a broker ignores (``LogManager.loadLogs`` lists directories only, 4.1.1).
The journal exists from before the first change until after the last one, and lists what changes: readers skip that, and
the next writer completes or undoes it. A commit of several directories has one in each (``commit/joint_commit.py``). A
commit holds the lock. The third file has the last committed batch of each streaming query that wrote here.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from msgspec.structs import astuple, replace

from brokerless.errors import UnwritableError, UsageError
from brokerless.log import names
from brokerless.log.own_file import OwnFile
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.directory_lock import file_lock
from brokerless.log.storage.guarded_files import open_own
from brokerless.log.storage.location import Location
from brokerless.values import Int32, Int32OrNone, Int64, Value, WrongJsonError

_UNIQUE = re.compile(r"[0-9a-f]{32}")


class GrowingPartition(Value, frozen=True, rename=None):
    """A partition that existed before, to which a commit appends."""

    topic: str
    partition: Int32
    base_offset: Int64
    """Segments from this base offset on do not count yet."""
    end_offset: Int64
    """Where the log ended before."""
    leader_epoch: Int32OrNone
    """The leader epoch of the log's last batches, -1 without one."""

    def __post_init__(self) -> None:
        parsed = names.parse_partition_directory(self.name)
        if parsed is None or parsed.topic != self.topic or self.topic == names.CLUSTER_METADATA:
            raise WrongJsonError("this is not a partition that can be appended to")

    @property
    def name(self) -> str:
        """That of its directory."""
        return names.partition_directory(self.topic, self.partition)


class Renaming(Value, frozen=True, array_like=True):
    """A new partition that gets its name; all members are names of directories, except for the offsets.

    Only a commit of several log directories has ``aside``, ``discarded`` and ``offsets``.
    """

    staged: str
    """The name that the partition has until then."""
    name: str
    aside: str | None = None
    """The new name of what has the ``name`` already, in a directory next to the log directory."""
    discarded: str | None = None
    """The new name of what has the ``name`` already, if it stays in the log directory; it is removed at the end."""
    offsets: tuple[Int64 | None, Int64 | None, Int64 | None, Int64 | None] | None = None
    """The members of the :class:`PartitionOffsets` that are recorded with the name; until then, the offsets of the
    replaced partition stay recorded."""

    def __post_init__(self) -> None:
        own, target = names.parse_partition_directory(self.staged), names.parse_partition_directory(self.name)
        if own is None or target is None or not own.is_unfinished or target.state != "live":
            raise WrongJsonError("new has what is not a name of ours and one of a partition")
        if own.partition != target.partition or not target.topic.startswith(own.topic):  # a long topic is cut
            raise WrongJsonError("new has the names of two partitions")
        discarded = None if self.discarded is None else names.parse_partition_directory(self.discarded)
        if self.discarded is not None and (discarded is None or not discarded.is_unfinished):
            raise WrongJsonError("new discards what has no name of ours")
        prefix, aside = f"{self.name}.", self.aside
        if aside is not None and not (aside.startswith(prefix) and _UNIQUE.fullmatch(aside.removeprefix(prefix))):
            raise WrongJsonError("new has something aside that has no name of ours")

    @property
    def is_plain(self) -> bool:
        """Whether nothing has the name before."""
        return astuple(self)[2:] == (None, None, None)


class Journal(Value, frozen=True, rename=None):
    """The journal of a commit to a log directory."""

    version: Literal[1, 2]
    growing: tuple[GrowingPartition, ...]
    """Partitions that are appended to."""
    new: tuple[Renaming, ...]
    """Partitions that get their names."""
    query: tuple[str, Int64] | None
    """The ID of the streaming query that is written, and the number of its batch."""
    is_decided: bool
    """Whether all is written and only names are left; before that, the commit is undone after a crash."""
    together: tuple[str, ...] = ()
    """The log directories of a commit of several; only the first one's journal is decided."""

    @classmethod
    def begun(cls, query: tuple[str, int] | None = None) -> Journal:
        """Return the journal of a commit that has changed nothing yet."""
        return cls(2, (), (), query, is_decided=False)

    @classmethod
    def of_several(cls, new: Sequence[Renaming], directories: Sequence[Path]) -> Journal:
        """Return the journal of one of the log directories of a commit, undecided."""
        return replace(cls.begun(), new=tuple(new), together=tuple(map(str, directories)))

    def __post_init__(self) -> None:
        own = [name for each in self.new for name in (each.staged, each.discarded) if name is not None]
        changed = [*(each.name for each in self.growing), *(each.name for each in self.new), *own]
        if len({*changed}) != len(changed):
            raise WrongJsonError("a directory comes twice")
        if not self.together and not all(each.is_plain for each in self.new):
            raise WrongJsonError("new replaces something, which a commit of one directory does not")
        if self.together and (self.growing or self.query or len({*self.together}) != len(self.together)):
            raise WrongJsonError("together is not of a commit of several directories")

    def grow(self, growing: GrowingPartition) -> Journal:
        return replace(self, growing=(*self.growing, growing))

    def decide(self, new: Iterable[Renaming]) -> Journal:
        return replace(self, new=tuple(new), is_decided=True)

    @property
    def hidden(self) -> Mapping[str, int]:
        """From which segment on a partition's directory is not to be read, by its name; -1 for one that is new. Of a
        commit of several directories nothing: what it replaces, and what it replaces that with, is whole."""
        new = self.new if not self.together else ()
        return {each.name: each.base_offset for each in self.growing} | {each.name: -1 for each in new}

    @property
    def complete(self) -> Mapping[str, str]:
        """By the names that they have until then, those of the partitions that only lack them: of all that is decided,
        and of commits of several directories, where another one's journal says whether they are."""
        return {each.staged: each.name for each in self.new} if self.is_decided or self.together else {}


class _Queries(Value, frozen=True):
    version: Literal[1]
    queries: dict[str, Int64]


_ADVICE = "move the file away"
_JOURNAL = OwnFile(Journal, "a journal of brokerless's commits", _ADVICE)
_QUERIES = OwnFile(_Queries, "what brokerless records of streaming queries", _ADVICE)


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


def is_committing(log_directory: Location) -> bool:
    """Return whether somebody is :func:`committing` in a local log directory; True where that cannot be known."""
    try:
        lock = open_own(log_directory.local / names.COMMIT_LOCK, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except (OSError, UnwritableError):
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def write_journal(log_directory: Path | Destination, journal: Journal) -> None:
    """Raises :class:`UsageError` for one that would be too large to be read."""
    at = Destination.of(log_directory)
    try:
        data = _JOURNAL.dump(journal, at.join(names.COMMIT_JOURNAL))
    except UsageError as error:
        count = len(journal.growing) + len(journal.new)
        text = f"{log_directory}: {count:,} partitions are too many for one commit; write some of them first"
        raise UsageError(text) from error
    at.write(names.COMMIT_JOURNAL, data)


def remove_journal(log_directory: Destination) -> None:
    log_directory.remove(names.COMMIT_JOURNAL)


def load_journal(location: Location) -> Journal:
    """Raises :class:`UnreadableError` if there is none any more, and for one that we did not write: one with names that
    are not those of partitions' directories, for example. UsageError for that of a newer brokerless."""
    return _JOURNAL.load(location)


def last_batch(log_directory: Path | Destination, query: str) -> int | None:
    """Return the last batch of a streaming query that was committed here."""
    return _queries(Destination.of(log_directory)).get(query)


def record_query(log_directory: Destination, query: tuple[str, int]) -> None:
    queries = {**_queries(log_directory), query[0]: query[1]}
    path = log_directory.join(names.COMMITTED_QUERIES)
    log_directory.write(names.COMMITTED_QUERIES, _QUERIES.dump(_Queries(1, queries), path))


def _queries(log_directory: Destination) -> dict[str, int]:
    found = _QUERIES.find(log_directory.location / names.COMMITTED_QUERIES)
    return {} if found is None else found.queries
