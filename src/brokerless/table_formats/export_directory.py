"""Checks and locks the directory that an export writes to."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager

from brokerless.errors import UsageError
from brokerless.log import names
from brokerless.log.storage import paths
from brokerless.log.storage.directory_lock import file_lock
from brokerless.log.storage.guarded_files import make_directory
from brokerless.log.storage.location import Location
from brokerless.log.storage.write_errors import storage_errors


def check_target(directory: Location) -> None:
    """Refuses a broker's log directory: it would not start with directories in it that it does not know."""
    refuse_log_directory(directory.path, lambda name: (directory / name).exists())


def refuse_log_directory(path: str, has_file: Callable[[str], bool]) -> None:
    """Refuse a log directory where ``has_file`` says which files are there, as of tables whose library has settings of
    its own."""
    for name in (names.META_PROPERTIES, names.RECOVERY_POINT_CHECKPOINT):
        if has_file(name):
            raise UsageError(f"{path} is a broker's log directory ({name}); export to another directory")


@contextmanager
def only_export(path: str) -> Generator[None]:
    """Nobody else exports to a local directory meanwhile. Raises :class:`UsageError` if somebody does."""
    if paths.is_remote(path):
        yield
        return
    with storage_errors(path):
        make_directory(paths.local(path))
        descriptor = os.open(paths.local(path), os.O_RDONLY | os.O_DIRECTORY)
    with file_lock(descriptor, busy=f"{path}: another export writes here; wait until it is done"):
        yield
