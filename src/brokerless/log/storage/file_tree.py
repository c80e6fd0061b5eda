"""Writes, publishes, finds and removes files below a local directory or an object store's prefix; follows no link.

A file gets its name when it is complete. Locally it is written under :data:`UNFINISHED` and renamed, which is
:func:`publish`. Object stores know no renaming, but show an object only when it is complete: there it has its name
from the start, and appears at the end.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from brokerless.log.storage.atomic import write_in
from brokerless.log.storage.guarded_files import create, make_directory, open_directory, remove_tree
from brokerless.log.storage.location import Location
from brokerless.log.storage.object_store import fresh_file_system, open_object, put_object, remove_object
from brokerless.log.storage.write_errors import storage_errors

UNFINISHED = "_unfinished"
"""A directory beside the files; readers of Parquet pass over names that begin with ``_``."""


class NewFile:
    """A file that is being written: ``name`` (with the directories it is below, if any) in ``directory``. ``sink``: a
    binary file for a writer. One of :meth:`finish` and :meth:`abandon` ends it; until it is finished (and published),
    no reader sees it. ``unfinished``: its name until then."""

    def __init__(self, directory: Location, name: str) -> None:
        location = directory / name
        self.path = location.path
        self.is_remote = directory.is_remote
        self.unfinished = name
        self._directory = directory
        with storage_errors(self.path):
            if self.is_remote:
                self.sink: Any = open_object(location)
            else:
                # A lost executor's task is done again, maybe beside itself.
                self.unfinished = f"{UNFINISHED}/{Path(name).name}.{uuid4().hex}"
                path = directory.local / self.unfinished
                with _open_directory(directory, UNFINISHED, make=True) as beside:
                    self.sink = os.fdopen(create(beside, path), "wb")

    def finish(self) -> None:
        """All is written: locally, synced."""
        with storage_errors(self.path):
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
                with suppress(OSError):  # what is not written yet has no room on a full disk
                    self.sink.close()
                remove(self._directory, self.unfinished)


def publish(directory: Location, unfinished: str, name: str) -> None:
    """Gives a finished file its name in a directory, in place of one that has it."""
    if unfinished == name:
        return
    with storage_errors((directory / name).path):
        *above, source = unfinished.split("/")
        *dates, target = name.split("/")
        with _open_directory(directory, *above) as old, _open_directory(directory, *dates, make=True) as new:
            os.replace(source, target, src_dir_fd=old, dst_dir_fd=new)
            os.fsync(new)


def write(location: Location, data: bytes) -> None:
    """Makes ``data`` the whole content of a small file, at once."""
    if location.is_remote:
        put_object(location, data)
        return
    own = location.local
    with storage_errors(location.path), _open_directory(location.at(str(own.parent)), make=True) as descriptor:
        write_in(descriptor, own, data)


def remove(directory: Location, name: str) -> None:
    """Removes a file in a directory, or below, that may have gone already."""
    location = directory / name
    if location.is_remote:
        remove_object(location)
        return
    *above, own = name.split("/")
    with storage_errors(location.path), suppress(FileNotFoundError), _open_directory(directory, *above) as descriptor:
        os.unlink(own, dir_fd=descriptor)


def has_unfinished(directory: Location) -> bool:
    """Return whether a local topic's directory has files that were never whole, or had."""
    return not directory.is_remote and (directory / UNFINISHED).is_directory()


def remove_unfinished(directory: Location) -> None:
    """Remove what was left of files that were never whole; object stores keep none of them where they are seen."""
    if not directory.is_remote:
        with storage_errors(directory.path), suppress(FileNotFoundError):
            with _open_directory(directory, UNFINISHED):
                pass  # is no link
            with _open_directory(directory) as descriptor:
                remove_tree(descriptor, UNFINISHED)


def remove_if_empty(directory: Location) -> None:
    """Removes a local directory in which nothing is; object stores have none."""
    if not directory.is_remote:
        with suppress(OSError):
            directory.local.rmdir()


def exists(location: Location) -> bool:
    """Return whether there is a file; locally, a link that leads nowhere as well."""
    return location.exists() or (not location.is_remote and os.path.lexists(location.local))


def refuse_link(directory: Location) -> None:
    """Raises :class:`UnwritableError` for a directory that is a link."""
    if not directory.is_remote:
        with storage_errors(directory.path), suppress(FileNotFoundError), _open_directory(directory):
            pass


@contextmanager
def _open_directory(root: Location, *inner: str, make: bool = False) -> Generator[int]:
    """The descriptor of ``root``, or of a directory below it. With ``make`` they are made if they are not there."""
    own = root.local
    if make:
        make_directory(own.parent)
    with open_directory(own.parent, own.name, *inner, make=make) as descriptor:
        yield descriptor


def find(directory: Location) -> list[str]:
    """Return the paths of all files in a directory and below, relative to it, sorted; none if it is not there. Links to
    directories are not followed. Raises :class:`UnwritableError` if it is a link itself."""
    if not directory.is_remote:
        refuse_link(directory)
        root = directory.local
        found = ((Path(path), name) for path, _, files in os.walk(root) for name in files)
        return sorted(str((path / name).relative_to(root)) for path, name in found)
    with storage_errors(directory.path):
        fs, inner = fresh_file_system(directory)
        prefix = f"{inner}/"
        found = (str(each) for each in fs.find(inner))
        return sorted(each[each.index(prefix) + len(prefix) :] for each in found if each.startswith(prefix))
