"""Where an export is written: a local directory, or a URL through fsspec.

A file gets its name when it is whole. Locally it is written under :data:`UNFINISHED` and renamed, which is
:func:`publish`. Object stores know no renaming, but show an object only when it is complete: there it has its name
from the start, and appears at the end.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from brokerless.errors import UsageError
from brokerless.log import names, storage
from brokerless.log.atomic import rename, sync_directory, write_file
from brokerless.log.destination import writing
from brokerless.log.storage import StorageOptions

UNFINISHED = "_unfinished"
"""A directory beside the files; readers of Parquet pass over names that begin with ``_``."""
_BLOCK = 8 << 20
"""Bytes that are sent at once to an object store: S3 takes 10,000 of them for an object."""


class NewFile:
    """A file that is being written. ``sink``: a binary file for a writer. One of :meth:`finish` and :meth:`abandon`
    ends it; until it is finished (and published), no reader sees it."""

    def __init__(self, directory: str, name: str, storage_options: StorageOptions | None) -> None:
        self.path = storage.join(directory, name)
        self.is_remote = storage.is_remote(directory)
        with writing(self.path):
            if self.is_remote:
                self.unfinished = self.path
                fs, inner = storage.file_system(self.path, storage_options)
                self.sink: Any = fs.open(inner, "wb", autocommit=False, block_size=_BLOCK)
            else:
                beside = Path(storage.local(directory)) / UNFINISHED
                beside.mkdir(parents=True, exist_ok=True)
                # A lost executor's task is done again, maybe beside itself.
                self.unfinished = str(beside / f"{Path(name).name}.{uuid4().hex}")
                self.sink = Path(self.unfinished).open("wb")  # noqa: SIM115 - closed by finish or abandon

    def finish(self) -> None:
        """All is written: locally, synced."""
        with writing(self.path):
            if self.is_remote:
                self.sink.close()
                self.sink.commit()
            else:
                self.sink.flush()
                os.fsync(self.sink.fileno())
                self.sink.close()

    def abandon(self) -> None:
        with suppress(Exception):
            if self.is_remote:
                self.sink.discard()
            else:
                self.sink.close()
                Path(self.unfinished).unlink(missing_ok=True)


def publish(unfinished: str, path: str) -> None:
    """Gives a finished file its name, in place of one that has it."""
    if unfinished == path:
        return
    with writing(path):
        directory = Path(path).parent
        if not directory.exists():
            directory.mkdir(parents=True, exist_ok=True)
            sync_directory(directory.parent)
        rename(unfinished, path)


def write(path: str, data: bytes, storage_options: StorageOptions | None) -> None:
    """Makes ``data`` the whole content of a small file, at once."""
    with writing(path):
        if storage.is_remote(path):
            fs, inner = storage.file_system(path, storage_options)
            fs.pipe_file(inner, data)
        else:
            local = Path(storage.local(path))
            local.parent.mkdir(parents=True, exist_ok=True)
            write_file(local, data)


def remove(path: str, storage_options: StorageOptions | None) -> None:
    """Removes a file that may have gone already."""
    with writing(path), suppress(FileNotFoundError):
        if storage.is_remote(path):
            fs, inner = storage.file_system(path, storage_options)
            fs.rm_file(inner)
        else:
            Path(storage.local(path)).unlink()


def remove_unfinished(directory: str) -> None:
    """What was left of files that were never whole; object stores keep none of them where they are seen."""
    if not storage.is_remote(directory):
        shutil.rmtree(Path(storage.local(directory)) / UNFINISHED, ignore_errors=True)


def remove_if_empty(directory: str) -> None:
    """Removes a local directory in which nothing is; object stores have none."""
    if not storage.is_remote(directory):
        with suppress(OSError):
            Path(storage.local(directory)).rmdir()


def find(directory: str, storage_options: StorageOptions | None) -> list[str]:
    """The paths of all files in a directory and below, relative to it, sorted; none if it is not there."""
    if not storage.is_remote(directory):
        root = Path(storage.local(directory))
        return sorted(str(each.relative_to(root)) for each in root.rglob("*") if each.is_file())
    with writing(directory):
        fs, inner = storage.file_system(directory, storage_options)
        fs.invalidate_cache()
        prefix = f"{str(inner).rstrip('/')}/"
        found = (str(each) for each in fs.find(inner))
        return sorted(each[each.index(prefix) + len(prefix) :] for each in found if prefix in each)


def check_target(path: str, storage_options: StorageOptions | None) -> None:
    """Refuses a broker's log directory: it would not start with directories in it that it does not know."""
    for name in (names.META_PROPERTIES, names.RECOVERY_POINT_CHECKPOINT):
        if storage.exists(storage.join(path, name), storage_options):
            raise UsageError(f"{path} is a broker's log directory ({name}); export to another directory")


@contextmanager
def only_export(path: str) -> Generator[None]:
    """Nobody else exports to a local directory meanwhile. Raises :class:`UsageError` if somebody does."""
    if storage.is_remote(path):
        yield
        return
    import fcntl

    with writing(path):
        Path(storage.local(path)).mkdir(parents=True, exist_ok=True)
        descriptor = os.open(storage.local(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise UsageError(f"{path}: another export writes here; wait until it is done") from error
            # A file system without locks: as with a URL, its user sees to it.
        yield
    finally:
        os.close(descriptor)
