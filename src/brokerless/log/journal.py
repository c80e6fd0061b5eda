"""What is noted of a commit of several partitions while it happens, so that it is all or nothing.

Three files of ours in a log directory, over which a broker passes (``LogManager.loadLogs`` looks at directories only,
4.1.1). The journal is there from before the first change until after the last one, and lists what changes: readers pass
over that, and the next writer completes or undoes it. The lock is held by whoever commits. The third file has, for each
streaming query that wrote here, its last batch.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from brokerless.errors import UnreadableError, UsageError
from brokerless.log import names
from brokerless.log.destination import Destination
from brokerless.log.storage import StorageOptions, open_file

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Growing:
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

    growing: tuple[Growing, ...] = ()
    new: tuple[tuple[str, str], ...] = ()
    query: tuple[str, int] | None = None
    is_decided: bool = False

    def grow(self, growing: Growing) -> Journal:
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
    with (at.local / names.COMMIT_LOCK).open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def write_journal(log_directory: Path | Destination, journal: Journal) -> None:
    Destination.of(log_directory).write(names.COMMIT_JOURNAL, _dump(asdict(journal)))


def remove_journal(log_directory: Destination) -> None:
    log_directory.remove(names.COMMIT_JOURNAL)


def load_journal(path: str, storage_options: StorageOptions | None = None) -> Journal:
    """Raises :class:`UnreadableError` if there is none any more, and for one that we did not write."""
    value = _load(path, storage_options)
    try:
        return Journal(
            tuple(Growing(**each) for each in value["growing"]),
            tuple((one, other) for one, other in value["new"]),
            None if value["query"] is None else (value["query"][0], value["query"][1]),
            value["is_decided"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _foreign(path) from error


def last_batch(log_directory: Path | Destination, query: str) -> int | None:
    """The last batch of a streaming query that was committed here."""
    return _queries(Destination.of(log_directory)).get(query)


def note_query(log_directory: Destination, query: tuple[str, int]) -> None:
    queries = {**_queries(log_directory), query[0]: query[1]}
    log_directory.write(names.COMMITTED_QUERIES, _dump({"queries": queries}))


def _queries(log_directory: Destination) -> dict[str, int]:
    path = log_directory.join(names.COMMITTED_QUERIES)
    if not log_directory.exists(names.COMMITTED_QUERIES):
        return {}
    queries = _load(path, log_directory.storage_options).get("queries")
    if not isinstance(queries, dict):
        raise _foreign(path)
    return queries


def _dump(value: dict[str, Any]) -> bytes:
    return json.dumps({"version": _VERSION, **value}).encode() + b"\n"


def _load(path: str, storage_options: StorageOptions | None = None) -> dict[str, Any]:
    with open_file(path, storage_options) as file:
        data = file.read(0, file.size).tobytes()
    try:
        value = json.loads(data)
        if value["version"] == _VERSION:
            return value
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _foreign(path) from error
    raise UsageError(f"{path}: a newer brokerless wrote this (version {value['version']}); use that one")


def _foreign(path: str) -> UnreadableError:
    return UnreadableError(f"{path}: this is not what brokerless writes there; move the file away")
