"""Finds the files of segments in a partition's directory, also while a broker replaces some."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from brokerless.log import names
from brokerless.log.storage.location import DirectoryEntry, Location
from brokerless.log.storage.paths import is_remote, local

_SETTLE_TRIES, _SETTLE_PAUSE_S = 20, 0.05
"""How often, and after how many seconds, a partition is listed again while files change places in it."""


@dataclass(frozen=True, slots=True)
class SegmentFiles:
    """The files of segments in a partition's directory."""

    directory: Path
    actual: Mapping[str, str]
    """For each name, the present name of the file: another one if a finished compaction's output is yet to take its
    place."""

    def path(self, base_offset: int, kind: names.SegmentFileKind) -> Path:
        name = names.segment_file(base_offset, kind)
        return self.directory / self.actual.get(name, name)

    def location(self, base_offset: int, kind: names.SegmentFileKind) -> Location:
        return Location(str(self.path(base_offset, kind)))

    def has(self, base_offset: int, kind: names.SegmentFileKind) -> bool:
        return names.segment_file(base_offset, kind) in self.actual

    def offsets(self, kind: names.SegmentFileKind) -> list[int]:
        """Return the offsets of all files of a kind, sorted."""
        files = (names.parse_segment_file(name) for name in self.actual)
        return sorted(file.offset for file in files if file and file.kind == kind and file.state == "live")


def list_files(directory: Path) -> SegmentFiles:
    """Return what is in the directory now."""
    return SegmentFiles(
        directory, {entry.name: entry.name for entry in Location(str(directory)).entries() if not entry.is_directory}
    )


def settled_entries(location: Location, entries: list[DirectoryEntry]) -> list[DirectoryEntry]:
    """Return what is in a partition's directory, where a broker may be replacing segments.

    A listing is not of one moment: a file that gets its name meanwhile may be missing in it. While there are signs of
    such work, the directory is listed again, until two listings are alike and no finished compaction waits for its
    place, which takes a broker some milliseconds."""
    if location.is_remote:
        return entries
    for _ in range(_SETTLE_TRIES):
        if not any(_is_passing(entry) for entry in entries):
            break
        before, entries = entries, location.entries()
        if _live_names(entries) == _live_names(before) and not _awaited(entries):
            break
        time.sleep(_SETTLE_PAUSE_S)
    return entries


def _is_passing(entry: DirectoryEntry) -> bool:
    file = names.parse_segment_file(entry.name)
    return file is not None and file.state in ("cleaned", "swap", "deleted")


def _live_names(entries: Sequence[DirectoryEntry]) -> set[str]:
    files = ((entry.name, names.parse_segment_file(entry.name)) for entry in entries)
    return {name for name, file in files if file is not None and file.state == "live"}


def _awaited(entries: Sequence[DirectoryEntry]) -> set[str]:
    """The names that a compaction's output is about to get."""
    swaps = {entry.name.removesuffix(".swap") for entry in entries if entry.name.endswith(".swap")}
    return swaps - {entry.name for entry in entries}


def drop_cached(paths: Iterable[str]) -> None:
    """Have files leave the page cache, as far as they are on a disk of this machine and still there (Linux)."""
    for path in paths if hasattr(os, "posix_fadvise") else ():
        if is_remote(path):
            continue
        with suppress(OSError):
            descriptor = os.open(local(path), os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
