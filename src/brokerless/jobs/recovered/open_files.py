"""Opens the log files of partitions that a running broker may be compacting or deleting.

What is recovered of a partition is read twice: to find its batches, and to write them. Both times it has to be the same
file, whatever has its name by then. So all files are opened right after they were listed, and stay open; where one has
been replaced since, the partition is listed again. An open file does not change, whatever becomes of its name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self, TypeVar

from brokerless.errors import UnreadableError
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.live_segments import PAUSE_S, TRIES, ReplacedError, list_again, open_listed
from brokerless.log.storage.files import File, LocalFile
from brokerless.log.storage.location import DirectoryEntry, Location
from brokerless.log.storage.paths import is_remote
from brokerless.progress import ignore

_LASTING = 128
"""Files that stay open, the first ones; those of a partition with more are opened when it is their turn."""
_RECENT = 16
"""Files whose windows stay in memory."""
_DELETED = ".deleted"

FilesT = TypeVar("FilesT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file."""

    location: Location
    base_offset: int
    size: int
    index: Location | None = None
    """Its offset index, if there is one."""
    entry: DirectoryEntry | None = None
    """The file as it was listed; None for a file that the caller named by itself."""
    is_last: bool = False
    """Whether the log ends in it, so that it may have grown."""

    @property
    def path(self) -> str:
        return self.location.path


class OpenFiles:
    """Log files by number, open until this is left as a context manager."""

    def __init__(
        self, sources: Sequence[LogFile], *, any_of_name: bool = False, pinned: PinnedFiles | None = None
    ) -> None:
        """Open files as they are needed. With ``any_of_name``, a file that is another than the one listed is taken all
        the same. ``pinned`` are files that are open already."""
        self._sources, self._any, self._pinned = tuple(sources), any_of_name, pinned
        self._lasting: dict[int, File] = {}
        self._recent: dict[int, File] = {}

    def open(self) -> Self:
        """Opens those that stay open. Raises :class:`ReplacedError` where one is not the file that was listed; what
        cannot be opened otherwise is left to :meth:`get`."""
        for number, source in enumerate(self._sources[:_LASTING]):
            if not is_remote(source.path):
                try:
                    self._lasting[number] = self._open(source)
                except ReplacedError:
                    raise
                except UnreadableError:
                    continue
        return self

    def path(self, number: int) -> str:
        return self._sources[number].path

    def get(self, number: int) -> File:
        """Raises :class:`UnreadableError`, and :class:`ReplacedError` as :meth:`open`."""
        if number not in self._recent:
            if len(self._recent) == _RECENT:
                self.release(next(iter(self._recent)))
            file = self._lasting.get(number)
            self._recent[number] = self._open(self._sources[number]) if file is None else file
        return self._recent[number]

    def release(self, number: int) -> None:
        """Gives back what memory a file has."""
        file = self._recent.pop(number, None)
        if file is None:
            return
        if number not in self._lasting:
            file.close()
        elif isinstance(file, LocalFile):
            file.release()

    def _open(self, source: LogFile) -> File:
        pinned = None if self._pinned is None or source.entry is None else self._pinned.find(source.entry)
        if pinned is not None:
            return pinned
        if source.entry is None or self._any:
            return open_lone(source.location)
        segment = SegmentPaths(source.base_offset, source.entry)
        return open_listed(segment, source.is_last)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in (*self._recent.values(), *self._lasting.values()):
            file.close()
        self._recent, self._lasting = {}, {}


class PinnedFiles:
    """Logs that are open as they were at a moment, until this is closed: what the cleaner puts in their places leaves
    out what later records made void."""

    def __init__(self) -> None:
        self._files: dict[tuple[str, int | str | None], LocalFile] = {}

    def pin(self, partition: PartitionPath) -> PartitionPath | None:
        """Opens all logs of one listing that was the same before and after, and return that; None where the directory
        is gone. Raises :class:`UnreadableError`, and OutOfFilesError for more files than this process may open."""
        for number in range(TRIES):
            if number:
                time.sleep(PAUSE_S)
            listed = list_again(partition, ignore)
            if listed is None:
                return None
            opened: dict[tuple[str, int | str | None], File] = {}
            try:
                for segment in listed.segments:
                    opened[_key(segment.log)] = open_listed(segment, segment is listed.segments[-1])
                again = list_again(listed, ignore)
            except ReplacedError:
                again = None
            except BaseException:
                _close(opened.values())
                raise
            if again is not None and _same_files(listed, again):
                for key, file in opened.items():
                    if isinstance(file, LocalFile) and key not in self._files:
                        self._files[key] = file
                    else:
                        file.close()
                return listed
            _close(opened.values())
        return None

    def find(self, entry: DirectoryEntry) -> LocalFile | None:
        """Return a handle of its own of a file that is pinned; None of any other."""
        file = self._files.get(_key(entry))
        return None if file is None else file.again()

    def find_any(self, partition: PartitionPath) -> bool:
        """Return whether the logs of a listing are pinned."""
        return any(_key(each.log) in self._files for each in partition.segments)

    def close(self) -> None:
        """Closes all of them."""
        _close(self._files.values())
        self._files.clear()


def _key(entry: DirectoryEntry) -> tuple[str, int | str | None]:
    return entry.path, entry.identity


def _close(files: Iterable[File]) -> None:
    for file in files:
        file.close()


def _same_files(one: PartitionPath, other: PartitionPath) -> bool:
    """Return whether two listings have the same logs, of which the last may have grown."""
    closed, last = (
        [(each.base_offset, each.log.identity, each.size) for each in found.segments] for found in (one, other)
    )
    return len(closed) == len(last) and closed[:-1] == last[:-1] and closed[-1][:2] == last[-1][:2]


def open_lone(location: Location) -> File:
    """Return a file by its name, also if it has been renamed to be deleted. Raises :class:`UnreadableError`."""
    try:
        return location.open()
    except UnreadableError as error:
        if not isinstance(error.__cause__, FileNotFoundError) or not location.path.endswith(".log"):
            raise
        with suppress(UnreadableError):
            file = location.at(location.path + _DELETED).open()
            file.path = location.path
            return file
        raise


def with_open_files(
    listed: FilesT,
    sources: Callable[[FilesT], Sequence[LogFile]],
    list_again: Callable[[FilesT], FilesT],
    work: Callable[[FilesT, OpenFiles], ResultT],
    pinned: PinnedFiles | None = None,
) -> ResultT:
    """Return what ``work`` makes of files that were listed and are open now; of files that were listed again, where
    they are others meanwhile. While nothing but that happens, the last try takes what has their names. ``pinned``:
    files that are open already."""
    for number in range(TRIES + 1):
        is_last = number == TRIES
        try:
            with OpenFiles(sources(listed), any_of_name=is_last, pinned=pinned) as files:
                return work(listed, files.open())
        except ReplacedError:
            if is_last:
                raise
        if number:
            time.sleep(PAUSE_S)
        listed = list_again(listed)
    raise AssertionError


def sources_of(partition: PartitionPath) -> list[LogFile]:
    """Return the live segments of a partition."""
    return [
        LogFile(
            segment.log.location,
            segment.base_offset,
            segment.size,
            index=None if segment.offset_index is None else segment.offset_index.location,
            entry=segment.log,
            is_last=segment is partition.segments[-1],
        )
        for segment in partition.segments
    ]
