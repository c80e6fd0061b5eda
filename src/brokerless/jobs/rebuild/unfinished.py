"""Finds and removes the new directories of a rebuild that was killed, or undone.

A directory counts as such by its name and its inode number, which a renaming keeps: what has taken its place since is
not removed, and neither is one in which a broker has run.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from brokerless.errors import UsageError
from brokerless.log import names
from brokerless.log.own_file import OwnFile
from brokerless.log.storage.atomic import sync_directory
from brokerless.log.storage.guarded_files import is_own_directory
from brokerless.log.storage.location import Location
from brokerless.values import Int64, Value

UNFINISHED = ".brokerless-rebuild"
"""Where directories are written before they get their names."""
_NAMED = "named.json"
Inodes = dict[Annotated[str, Meta(pattern=r"\Anode-[0-9]+(-[0-9]+)?\Z")], Int64]
"""The inode numbers of directories that a rebuild makes, by their names."""


class _NamedDirectories(Value, frozen=True):
    version: Literal[1]
    directories: Inodes


_RECORD = OwnFile(_NamedDirectories, "a record of brokerless rebuild", "write to another directory", 1 << 26)
_METADATA = names.partition_directory(names.CLUSTER_METADATA, 0)


def inodes(paths: Iterable[Path]) -> Inodes:
    return {path.name: path.stat().st_ino for path in paths}


def record_names(to: Path, named: Mapping[str, int]) -> None:
    """Says which directories are about to get their names, so that a later run knows them for unfinished ones."""
    _RECORD.save(Location(str(to / UNFINISHED / _NAMED)), _NamedDirectories(1, dict(named)))


def unfinished_directories(to: Path) -> dict[str, int]:
    """Directories in ``to`` that a killed run had given their names. Raises :class:`UsageError` if a broker has run on
    one, UnreadableError for a record that is not ours."""
    record = to / UNFINISHED / _NAMED
    recorded = _RECORD.find(Location(str(record))) if is_own_directory(record.parent) else None
    found = _those_of(to, {} if recorded is None else recorded.directories)
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
