"""New directories that a run gave their names before it was killed, or that an undone run made: found and removed.

A directory counts as such by its name and its inode number, which a renaming keeps: what has taken its place since is
not removed, and neither is one in which a broker has run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from brokerless.errors import UnreadableError, UsageError
from brokerless.log import names
from brokerless.log.storage.atomic import sync_directory, write_file
from brokerless.log.storage.location import Location
from brokerless.log.storage.own_files import is_own_directory, read_own
from brokerless.values import Int64, WrongJsonError, from_json, to_json

UNFINISHED = ".brokerless-rebuild"
"""Where directories are written before they get their names."""
_NAMED = "named.json"
_LIMIT = 1 << 26
Inodes = dict[Annotated[str, Meta(pattern=r"\Anode-[0-9]+(-[0-9]+)?\Z")], Int64]
"""The inode numbers of directories that a rebuild makes, by their names."""
_METADATA = names.partition_directory(names.CLUSTER_METADATA, 0)


def inodes(paths: Iterable[Path]) -> Inodes:
    return {path.name: path.stat().st_ino for path in paths}


def record_names(to: Path, named: Mapping[str, int]) -> None:
    """Says which directories are about to get their names, so that a later run knows them for unfinished ones."""
    write_file(to / UNFINISHED / _NAMED, to_json(named))


def unfinished_directories(to: Path) -> dict[str, int]:
    """Directories in ``to`` that a killed run had given their names. Raises :class:`UsageError` if a broker has run on
    one, UnreadableError for a record that is not ours."""
    record = to / UNFINISHED / _NAMED
    if not is_own_directory(record.parent) or not os.path.lexists(record):
        return {}
    try:
        named = from_json(read_own(Location(str(record)), _LIMIT), Inodes)
    except WrongJsonError as error:
        raise UnreadableError(record, f"this is not of brokerless rebuild: {error}") from error
    found = _those_of(to, named)
    for each in found:
        if has_started(to / each):
            text = "an earlier run was killed while it wrote this, and a broker has run on it since; move it away"
            raise UsageError(f"{to / each}: {text}, and give the disks again")
    return found


def has_started(directory: Path) -> bool:
    """Return whether a node has run on a new directory: it begins a log of the metadata after the snapshot."""
    return any((directory / _METADATA).glob("*.log"))


def remove_new(to: Path, named: Mapping[str, int]) -> None:
    """Removes those of the directories that are still there, and on which no broker has run. Raises OSError."""
    for each in _those_of(to, named):
        if not has_started(to / each):
            shutil.rmtree(to / each)
    sync_directory(to)


def remove_unfinished(to: Path) -> None:
    """Removes what was not to be seen yet; a link in its place is not followed."""
    shutil.rmtree(to / UNFINISHED, ignore_errors=True)


def _those_of(to: Path, named: Mapping[str, int]) -> dict[str, int]:
    return {
        name: inode
        for name, inode in named.items()
        if is_own_directory(to / name) and (to / name).stat().st_ino == inode
    }
