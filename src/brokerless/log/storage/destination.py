"""A directory that is written to: on this machine, or in an object store through fsspec.

Object stores know neither locks nor renaming, but show an object only when it is whole, and copy it themselves. So a
partition that is complete on this machine is uploaded under a name that readers skip, and gets its own by copying; the
journal (:mod:`brokerless.log.commit.commit`) makes that atomic, as for many partitions of a disk.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from brokerless.errors import UnreadableError
from brokerless.log import names
from brokerless.log.storage import file_tree, paths
from brokerless.log.storage.atomic import sync_directory, write_file
from brokerless.log.storage.directory_lock import DirectoryLock, lock_directory
from brokerless.log.storage.guarded_files import is_own_directory, make_directory, open_directory, remove_tree
from brokerless.log.storage.location import DirectoryEntry, Location
from brokerless.log.storage.object_store import (
    BLOCK,
    copy_object,
    put_object,
    remove_object,
    remove_objects,
    upload,
)


@dataclass(frozen=True, slots=True)
class Destination:
    """A place to which files are written; names are relative to it.

    What a storage raises is an :class:`UnwritableError`, or OSError where it is local.
    """

    location: Location
    """A local path or a URL, without ``file:``."""

    @classmethod
    def of(cls, path: str | os.PathLike[str] | Location | Destination) -> Destination:
        return path if isinstance(path, Destination) else cls(Location.of(path))

    @property
    def path(self) -> str:
        return self.location.path

    def __str__(self) -> str:
        return self.path

    @property
    def is_remote(self) -> bool:
        return self.location.is_remote

    @property
    def local(self) -> Path:
        """The path of a destination that is not remote."""
        return self.location.local

    @property
    def is_missing(self) -> bool:
        """Whether it has to be made; object stores need no directories."""
        return not self.is_remote and not self.local.exists()

    def join(self, name: str, inner: str = "") -> str:
        """Return the path of what is in it, or in a directory that is in it."""
        path = paths.join(self.path, name)
        return paths.join(path, inner) if inner else path

    def exists(self, name: str) -> bool:
        """Return whether there is a file or directory; locally, a link that leads nowhere as well."""
        return file_tree.exists(self.location / name)

    def is_directory(self, name: str) -> bool:
        return (self.location / name).is_directory()

    def entries(self, name: str = "") -> list[DirectoryEntry]:
        """Return what is in it, or in a directory that is in it, sorted by name; nothing if there is none."""
        return (self.location / name if name else self.location).find_entries()

    def files(self, name: str) -> tuple[tuple[str, int], ...]:
        """Names and sizes (bytes) of the files in a directory."""
        return tuple((each.name, each.size or 0) for each in self.entries(name))

    def write(self, name: str, data: bytes) -> None:
        """Makes ``data`` the whole content of a small file, at once and durably."""
        if not self.is_remote:
            write_file(self.local / name, data)
            return
        put_object(self.location / name, data)

    def remove(self, name: str) -> None:
        """Removes a file, durably."""
        if not self.is_remote:
            (self.local / name).unlink()
            sync_directory(self.local)
            return
        remove_object(self.location / name)

    def remove_directory(self, name: str) -> None:
        """Removes a directory and the files in it, as far as they are there and can be removed."""
        if not self.is_remote:
            with suppress(OSError), open_directory(self.local) as directory:
                remove_tree(directory, name)
            return
        remove_objects(self.location / name)

    def move(self, name: str, target: str) -> bool:
        """Gives a directory another name, durably after :meth:`sync`. In an object store that is not one step, and what
        a stop cut short is completed by doing it again. False if there is neither it nor one of that
        name."""
        if not self.is_remote:
            if not is_own_directory(self.local / name):
                return is_own_directory(self.local / target)
            if not self.exists(target):
                (self.local / name).rename(self.local / target)
            return True
        if not self.is_directory(name):
            return self.is_directory(target)
        for each in self.entries(name):
            copy_object(each.location, self.location / target / each.name)
        self.remove_directory(name)
        return True

    def send(self, path: Path, name: str, inner: str) -> None:
        """Copies a file of this machine into a directory of an object store, where it appears when it is whole."""
        upload(path, self.location / name / inner)

    def fetch(self, name: str, inner: str, path: Path) -> None:
        """Copies a file in one of its directories to ``path``, on this machine. Raises UnreadableError, and OSError."""
        with (self.location / name / inner).open() as file, path.open("wb") as copy:
            for position in range(0, file.size, BLOCK):
                copy.write(file.read(position, min(BLOCK, file.size - position)).data)
            if copy.tell() < file.size:
                raise UnreadableError(file.path, "the file became shorter while it was read")

    def make(self) -> None:
        """Makes it if it is not there; object stores need no directories."""
        if not self.is_remote:
            make_directory(self.local)

    def check(self) -> None:
        """Tries whether an object store can be written to, which is known at the end only otherwise."""
        if self.is_remote:
            self.write(names.COMMIT_LOCK, b"")
            self.remove(names.COMMIT_LOCK)

    @contextmanager
    def hold(self) -> Generator[DirectoryLock]:
        """Hold its lock: no broker starts on it meanwhile. Object stores have no locks, and no brokers. Raises as
        :func:`lock_directory`."""
        if self.is_remote:
            yield DirectoryLock(os.getpid(), -1)
            return
        with lock_directory(self.local, exclusive=False) as lock:
            yield lock

    def refuse_running_broker(self) -> None:
        """Raises :class:`UsageError` if a broker runs on it; leaves no lock where there was none."""
        if not self.is_remote and self.exists(names.LOCK):
            with self.hold():
                pass

    def sync(self) -> None:
        """Makes durable what was moved."""
        if not self.is_remote:
            sync_directory(self.local)
