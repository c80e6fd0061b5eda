"""Advisory locks (``flock``) between brokerless's own processes; brokers take the one of ``directory_lock.py``."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager

from brokerless.errors import UsageError


@contextmanager
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


@contextmanager
def only_job(directory: str | os.PathLike[str], busy: str) -> Generator[None]:
    """Holds the lock of a directory that one job at a time writes to. Raises :class:`UsageError` with the text ``busy``
    while another one does; OSError."""
    with file_lock(os.open(directory, os.O_RDONLY | os.O_DIRECTORY), busy):
        yield
