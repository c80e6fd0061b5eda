"""Writes small local files atomically: after a crash there is either the old one or the new one.

As Kafka does it: the new file is written beside the old one as ``NAME.tmp``, synced, and renamed; then the directory is
synced, without which the new name could be lost. It has the owner, the group and the mode of the old one. Local paths
only; no link is followed (:mod:`guarded_files`).

Sources: ``CheckpointFile``, ``PartitionMetadataFile`` and ``Utils.atomicMoveWithFallback`` (4.1.1).
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO

from brokerless.errors import UnwritableError
from brokerless.log.storage.guarded_files import create, give_as, open_directory, sync, sync_path

SUFFIX = ".tmp"
"""What Kafka adds to the name of a file that is not complete yet; one that remains is replaced by the next attempt."""


def write_file(path: str | Path, data: bytes) -> None:
    """Makes ``data`` the whole content of ``path``, durably. After an OSError it is the old or the new file even so.

    Raises :class:`UnwritableError` where a link is in the place of ``NAME.tmp``; OSError.
    """
    path = Path(path)
    with open_directory(path.parent) as directory:
        write_in(directory, path, data)


def write_in(directory: int, path: Path, data: bytes) -> None:
    """Write the whole content of ``path`` in a directory that is open."""
    with _replacing_in(directory, path) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(path: str | Path) -> Generator[BinaryIO]:
    """Yield a file to write, which becomes ``path``, durably, when all is written; what is there stays if anything is
    raised.

    Raises as :func:`write_file`."""
    path = Path(path)
    with open_directory(path.parent) as directory, _replacing_in(directory, path) as file:
        yield file


@contextlib.contextmanager
def open_output(path: str | Path) -> Generator[BinaryIO]:
    """Yields the file to write of an output that somebody named: as :func:`replacing`, and where a link is there, in
    place of the file that it leads to, if the system lets it be opened. A pipe or a terminal is written to directly.

    Raises :class:`UnwritableError` for a disk's device; as :func:`write_file`."""
    path = Path(path)
    try:
        is_there = not stat.S_ISREG(path.lstat().st_mode)
        descriptor = os.open(path, os.O_WRONLY) if is_there else None
    except FileNotFoundError:  # or a link that leads nowhere, which is replaced
        descriptor = None
    if descriptor is not None:
        with os.fdopen(descriptor, "wb") as opened:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISBLK(mode):
                raise UnwritableError(f"{path}: this is the device of a disk; give a file")
            if not stat.S_ISREG(mode):
                yield opened
                return
        path = path.resolve()
    with replacing(path) as file:
        yield file


def write_output(path: str | Path, data: bytes) -> None:
    """Writes ``data`` to an output that somebody named, as :func:`open_output`."""
    with open_output(path) as file:
        file.write(data)


@contextlib.contextmanager
def _replacing_in(directory: int, path: Path) -> Generator[BinaryIO]:
    beside = path.name + SUFFIX
    try:
        descriptor = create(directory, path.with_name(beside))
    except OSError as error:
        error.filename = str(path)  # its name for the meantime means nothing to people
        raise
    try:
        with os.fdopen(descriptor, "wb") as file:
            give_as(descriptor, directory, path)
            yield file
            file.flush()
            sync(file.fileno())
        os.replace(beside, path.name, src_dir_fd=directory, dst_dir_fd=directory)
        sync(directory)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside, dir_fd=directory)
        raise


def rename(source: str | Path, target: str | Path) -> None:
    """Renames a file or directory, durably, in place of a file that has the name already. Raises OSError.

    What is in ``source`` must have been synced before.
    """
    sync_directory(Path(source).replace(target).parent)


def sync_directory(path: str | Path) -> None:
    """Makes durable what was created, renamed or removed in a directory (``Utils.flushDir``). Raises OSError."""
    sync_path(path, os.O_DIRECTORY)
