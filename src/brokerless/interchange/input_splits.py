"""Splits input files for parallel reading: Parquet by row groups, JSON Lines by whole lines."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from brokerless.errors import UnreadableError
from brokerless.log.checkpoint.topic_ids import is_topic_id
from brokerless.log.names import is_partition
from brokerless.log.storage import paths
from brokerless.log.storage.files import File
from brokerless.log.storage.location import Location
from brokerless.progress import Done, ignore

if TYPE_CHECKING:
    import pyarrow as pa

TOPIC, TOPIC_ID = b"brokerless.topic", b"brokerless.topicId"
"""The keys in a file's metadata under which its topic and the ID of that are recorded."""
PARQUET_MAGIC = b"PAR1"
_BLOCK = 1 << 20
_LINE_FEED = ord("\n")


@dataclass(frozen=True, slots=True)
class InputSplit:
    """A part of a file, from ``start`` to ``end``: numbers of row groups, or bytes of lines."""

    start: int
    end: int


class FileStream(io.RawIOBase):
    """A file of :mod:`storage`, or the bytes of a part of it, as Python's libraries want to have it."""

    def __init__(self, file: File, done: Done = ignore, part: InputSplit | None = None) -> None:
        self._file = file
        self._done = done
        self._start, self._end = (0, file.size) if part is None else (part.start, part.end)
        self._at = self._start

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (self._start, self._at, self._end)[whence]
        return self.tell()

    def tell(self) -> int:
        return self._at - self._start

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._end - self._at)
        requested = left if size < 0 else min(size, left)
        found = self._file.read(self._at, requested)
        if len(found) < requested:  # an end here would be one without a word
            raise UnreadableError(self._file.path, "the file became shorter while it was read")
        self._at += len(found)
        self._done(len(found))
        return found.tobytes()


def is_parquet(file: File) -> bool:
    return file.read(0, len(PARQUET_MAGIC)).tobytes() == PARQUET_MAGIC


def open_parquet(path: str, file: File) -> pa.NativeFile:
    """Open a file for Arrow, which reads a local file without Python's lock."""
    import pyarrow as pa

    return pa.PythonFile(FileStream(file), mode="r") if paths.is_remote(path) else pa.OSFile(paths.local(path))


def split_file(path: str, most_bytes: int) -> list[tuple[InputSplit, int]]:
    """Return a file in parts of about so many bytes, if row groups and lines are no larger, in their order; and the
    bytes of each, which together are the file's. Nothing if it cannot be read: whoever reads it then says why."""
    import pyarrow as pa

    try:
        with Location(path).open() as file:
            parts = _row_groups(path, file, most_bytes) if is_parquet(file) else _lines(file, most_bytes)
            return list(parts)
    except (UnreadableError, pa.ArrowException, OSError, ValueError):
        return []


def recorded_topic_id(path: str) -> tuple[str, str] | None:
    """Return the topic of a file that was exported and its ID, if they are recorded there and are what Kafka could
    give."""
    import pyarrow as pa

    try:
        with Location(path).open() as file:
            key_values: dict[bytes, bytes] = (_metadata(path, file).metadata or {}) if is_parquet(file) else {}
        topic, topic_id = (key_values.get(key, b"").decode() for key in (TOPIC, TOPIC_ID))
    except (UnreadableError, pa.ArrowException, OSError, ValueError):
        return None
    return (topic, topic_id) if is_partition(topic, 0) and is_topic_id(topic_id) else None


def rows_before(path: str, part: InputSplit | None) -> int:
    """Return how many rows or lines of the file are before a part of it. For errors: lines have to be counted."""
    if part is None or not part.start:
        return 0
    with Location(path).open() as file:
        if is_parquet(file):
            metadata = _metadata(path, file)
            return sum(metadata.row_group(group).num_rows for group in range(part.start))
        blocks = (file.read(at, min(_BLOCK, part.start - at)) for at in range(0, part.start, _BLOCK))
        return sum(int(np.count_nonzero(block == _LINE_FEED)) for block in blocks)


def _row_groups(path: str, file: File, most_bytes: int) -> Iterator[tuple[InputSplit, int]]:
    metadata = _metadata(path, file)
    groups = range(metadata.num_row_groups)
    sizes = np.array([metadata.row_group(group).num_rows for group in groups], np.float64)
    ends = np.cumsum(sizes) / max(1, metadata.num_rows) * file.size
    cuts = np.flatnonzero(np.diff(ends // most_bytes, prepend=0)).tolist()
    bounds = [0, *(cut for cut in cuts if 0 < cut < len(groups)), len(groups)]
    before = 0
    for start, end in pairwise(bounds):
        reached = file.size if end == len(groups) else int(ends[end - 1])
        yield InputSplit(start, end), reached - before
        before = reached


def _metadata(path: str, file: File) -> Any:
    import pyarrow.parquet as pq

    return pq.read_metadata(open_parquet(path, file))


def _lines(file: File, most_bytes: int) -> Iterator[tuple[InputSplit, int]]:
    start = 0
    while start < file.size:
        end = _line_end(file, start + most_bytes)
        yield InputSplit(start, end), end - start
        start = end


def _line_end(file: File, at: int) -> int:
    """Return where the first line begins at ``at`` or after, or the file ends."""
    at -= 1
    while at < file.size:
        found = np.flatnonzero(file.read(at, _BLOCK) == _LINE_FEED)
        if len(found):
            return at + int(found[0]) + 1
        at += _BLOCK
    return file.size
