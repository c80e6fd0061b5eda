"""The lock on a log directory that keeps brokers and brokerless from writing into it at the same time.

A broker holds an exclusive lock on ``.lock`` in each of its log directories (``LogManager.lockLogDirs``, 4.1.1; on
POSIX, Java's file locks are those of ``fcntl``). Whoever only adds a partition here takes it shared, so that several
processes can; whoever changes a partition that is there takes it exclusively. The file stays, as a broker leaves it.

Between brokerless's own processes there are advisory locks (``flock``): :func:`file_lock`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import sys
import threading
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from brokerless.errors import UnreadableError, UnwritableError, UsageError
from brokerless.log import names
from brokerless.log.storage.atomic import SUFFIX, rename, write_file
from brokerless.log.storage.guarded_files import open_own, read_own
from brokerless.log.storage.location import Location

NO_BROKER = b'{"version":0,"brokerEpoch":-1}'
"""The mark of a clean stop (``.kafka_cleanshutdown``) where no broker was (``CleanShutdownFileHandler``, 4.1.1)."""
_MARK_LIMIT = 4096


@dataclass(slots=True)
class DirectoryLock:
    """A lock of this process on a log directory. Such locks belong to a process, and go with any of its descriptors."""

    process: int
    descriptor: int
    exclusive: bool = False
    was_clean: bool = False
    """Whether the last stop was a clean one, and nobody has changed anything since."""
    mark: bytes | None = None
    holders: int = 0


_locks: dict[str, DirectoryLock] = {}
_written: dict[str, int] = {}
"""Partitions' directories that are open for writing, and in which process."""
_guard = threading.Lock()


@contextlib.contextmanager
def lock_directory(path: str | Path, *, exclusive: bool) -> Generator[DirectoryLock]:
    """Holds the lock on a log directory; within one process, any number of holders share it.

    While it is held exclusively, the mark of a clean stop is away, so that a crash is known for one. It comes back when
    the last holder goes, unless :func:`mark_unclean` was called; a log directory without partitions counts as clean.

    Raises :class:`UsageError` if a broker, or another process that writes here, holds it; OSError if the directory
    cannot be written; UnwritableError or UnreadableError where a link is in the place of the lock or the mark.
    """
    name = os.path.realpath(path)
    with _guard:
        lock = _take(name, exclusive)
    try:
        yield lock
    finally:
        with _guard:
            lock.holders -= 1
            if not lock.holders:
                try:
                    if lock.exclusive:
                        _put_mark_back(Path(name), lock.mark)
                finally:
                    del _locks[name]
                    os.close(lock.descriptor)


def was_clean_shutdown(directory: Location) -> bool:
    """Return whether the log directory that a partition is in has the mark of a clean stop."""
    log_directory = directory.containing
    return log_directory is not None and (log_directory / names.CLEAN_SHUTDOWN).exists()


def is_locked(path: str | Path) -> bool:
    """Return whether a broker, or another process that writes, holds the lock of a log directory. Takes no lock, and
    changes nothing. Only Linux is asked; False where nothing can be known."""
    name = os.path.realpath(path)
    with _guard, contextlib.suppress(OSError, UnwritableError):
        # Any of this process's descriptors would take its own lock along when it is closed.
        if name in _locks or sys.platform != "linux":
            return False
        descriptor = open_own(Path(name) / names.LOCK, os.O_RDONLY)
        try:
            return _is_locked_by_others(descriptor)
        finally:
            os.close(descriptor)
    return False


def is_only_holder(lock: DirectoryLock) -> bool:
    """Return whether nobody else has the lock: no holder in this process, and no other process."""
    with _guard:
        if lock.holders > 1:
            return False
        if sys.platform == "linux":
            return not _is_locked_by_others(lock.descriptor)
        try:  # for a moment
            fcntl.lockf(lock.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(lock.descriptor, (fcntl.LOCK_EX if lock.exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


def _is_locked_by_others(descriptor: int) -> bool:
    # struct flock: type, from where, start, length, process
    requested = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    found = struct.unpack("hhqqi4x", fcntl.fcntl(descriptor, fcntl.F_GETLK, requested))
    return found[0] != fcntl.F_UNLCK


@contextlib.contextmanager
def only_writer(partition: Path) -> Generator[None]:
    """Keep others in this process from writing to a partition's directory; other processes are kept away by the lock
    on the log directory. Raises :class:`UsageError` if somebody does."""
    name = os.path.realpath(partition)
    with _guard:
        if _written.get(name) == os.getpid():
            raise UsageError(f"{partition}: this log is open for writing already; close it first")
        _written[name] = os.getpid()
    try:
        yield
    finally:
        with _guard:
            del _written[name]


@contextlib.contextmanager
def clean_mark_removed(path: Path, lock: DirectoryLock) -> Generator[bool]:
    """While one process changes partitions that are there, and holds the lock shared, since others add theirs: the mark
    of a clean stop is away, and comes back unless something is raised. Gives whether there was one."""
    if lock.exclusive:
        yield lock.was_clean
        return
    _take_mark_away(path, lock)
    mark, lock.mark = lock.mark, None
    try:
        yield mark is not None
    except BaseException:
        _put_mark_back(path, None)
        raise
    _put_mark_back(path, mark)


def mark_unclean(lock: DirectoryLock) -> None:
    """Says that something was left in a state that has to be recovered."""
    lock.mark = None


def has_partitions(path: Path) -> bool:
    """Return whether there are partitions in a log directory that a broker would load."""
    found = (names.parse_partition_directory(each.name) for each in path.iterdir() if each.is_dir())
    return any(each is not None and each.state in ("live", "future") for each in found)


def _take(name: str, exclusive: bool) -> DirectoryLock:
    lock = _locks.get(name)
    if lock is None or lock.process != os.getpid():  # a child process has its parent's memory, but not its locks
        descriptor = open_own(Path(name) / names.LOCK, os.O_RDWR | os.O_CREAT)
        try:
            _lock(name, descriptor, exclusive)
        except BaseException:
            os.close(descriptor)
            raise
        lock = _locks[name] = DirectoryLock(os.getpid(), descriptor)
    elif exclusive and not lock.exclusive:
        _lock(name, lock.descriptor, exclusive)
    lock.holders += 1
    if exclusive and not lock.exclusive:
        lock.exclusive = True
        _take_mark_away(Path(name), lock)
    return lock


def _take_mark_away(directory: Path, lock: DirectoryLock) -> None:
    mark = directory / names.CLEAN_SHUTDOWN
    if os.path.lexists(mark):
        lock.mark = read_own(Location(str(mark)), _MARK_LIMIT)
        rename(mark, _aside(directory))  # back is a name alone, for which a full disk has space
    elif not has_partitions(directory):
        lock.mark = NO_BROKER
    lock.was_clean = lock.mark is not None


def _put_mark_back(directory: Path, mark: bytes | None) -> None:
    """Gives the directory its mark again; None for none. One that a killed run left aside means nothing: a broker may
    have run since."""
    aside = _aside(directory)
    if mark is not None:
        with contextlib.suppress(OSError, UnreadableError):
            if read_own(Location(str(aside)), _MARK_LIMIT) == mark:
                rename(aside, directory / names.CLEAN_SHUTDOWN)
                return
        write_file(directory / names.CLEAN_SHUTDOWN, mark)
    with contextlib.suppress(OSError):
        aside.unlink()


def _aside(directory: Path) -> Path:
    return directory / (names.CLEAN_SHUTDOWN + SUFFIX)


def _lock(name: str, descriptor: int, exclusive: bool) -> None:
    try:
        fcntl.lockf(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError) as error:
        text = "a broker, or another process that writes, is running on this log directory"
        raise UsageError(f"{name}: {text}; stop it first, or write elsewhere") from error


@contextlib.contextmanager
def file_lock(descriptor: int, busy: str | None = None) -> Generator[None]:
    """Holds an exclusive lock on an open file or directory, which is closed at the end.

    Waits for others, in any thread or process; with ``busy``, raises :class:`UsageError` with that text instead, and
    goes on without a lock where the file system has none. Raises OSError.
    """
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if busy is None else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if busy is None:
                raise
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise UsageError(busy) from error
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def only_job(directory: str | os.PathLike[str], busy: str) -> Generator[None]:
    """Holds the lock of a directory that one job at a time writes to. Raises :class:`UsageError` with the text ``busy``
    while another one does; OSError."""
    with file_lock(os.open(directory, os.O_RDONLY | os.O_DIRECTORY), busy):
        yield
