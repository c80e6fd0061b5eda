"""The old-to-new offset map: a journal while records are sent, and tables when all are there.

``journal.jsonl`` begins with what is restored from where to where. Each other line is a run of records that the target
has acknowledged: ``{"topic": "orders", "partition": 0, "sourceFirst": 100, "sourceLast": 149, "targetFirst": 0}``;
each offset of the source has the one of the target at the same distance. A run's line is written after the target has
its records, so that the journal never claims too much; what it misses after a kill is found on the target
(``resumption.py``).
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from brokerless.errors import UsageError
from brokerless.kafka_names import TopicPartition
from brokerless.log.own_file import end_of_lines
from brokerless.log.storage.atomic import replacing, sync_directory
from brokerless.log.storage.directory_lock import file_lock
from brokerless.log.storage.guarded_files import make_directory, open_own
from brokerless.log.storage.write_errors import unwritable
from brokerless.schemas import NAME
from brokerless.values import (
    Int32,
    Int64,
    LenientValue,
    Value,
    WrongJsonError,
    from_json,
    from_members,
    members,
    parse_object,
)

JOURNAL, PARQUET, JSON_LINES = "journal.jsonl", "offset-map.parquet", "offset-map.jsonl"
VERSION = 1
OFFSET_MAP = pa.schema(
    {
        "topic": NAME,
        "partition": pa.int32(),
        "sourceFirst": pa.int64(),
        "sourceLast": pa.int64(),
        "targetFirst": pa.int64(),
    }
)
"""A run of records: that with the offset ``sourceFirst + n`` has ``targetFirst + n`` on the target."""
_ROWS = 65_536
_LINE_LIMIT = 1 << 24
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class OffsetRun(Value, frozen=True):
    """Records of one partition whose offsets follow each other on both sides."""

    topic: str
    partition: Int32
    source_first: Int64
    source_last: Int64
    target_first: Int64

    def __post_init__(self) -> None:
        if self.source_last < self.source_first:
            raise WrongJsonError("sourceLast is before sourceFirst")

    @property
    def place(self) -> TopicPartition:
        return self.topic, self.partition

    @property
    def target_end(self) -> int:
        return self.target_first + self.source_last - self.source_first + 1

    def reaches(self, source: int, target: int) -> bool:
        """Return whether the record with these offsets is the next one of the run."""
        return self.source_last + 1 == source and self.target_end == target

    def up_to(self, source_last: int) -> OffsetRun:
        """Return the run with more records, up to this offset in the source."""
        return OffsetRun(self.topic, self.partition, self.source_first, source_last, self.target_first)


class _Topic(LenientValue, frozen=True):
    topic_id: str
    starts: dict[Int32, Int64]


class _Start(LenientValue, frozen=True):
    """The first line of a map, as far as it is checked. The rest says what is restored from where, and is compared."""

    offset_map: Literal[1]
    topics: dict[str, _Topic]


@dataclass(slots=True)
class Position:
    """The position that a partition's restore has reached: the offsets after the last records that are known to be on
    the target."""

    source: int
    """The offset in the source."""
    target: int
    """The offset on the target."""
    records: int = 0
    """How many records are there."""


@dataclass(slots=True)
class OffsetMap:
    """The map of one restore, open for writing."""

    directory: Path
    start: dict[str, Any]
    """The content of the first line."""
    is_new: bool
    positions: dict[TopicPartition, Position]
    """The position of each partition."""
    _file: BinaryIO = field(repr=False)
    _open: dict[TopicPartition, OffsetRun] = field(default_factory=dict[TopicPartition, OffsetRun], repr=False)
    _lines: list[OffsetRun] = field(default_factory=list[OffsetRun], repr=False)

    def add(self, place: TopicPartition, source: int, target: int) -> None:
        """A record that the target has; those of a partition come in order. It is in the file after :meth:`write`."""
        position, run = self.positions[place], self._open.get(place)
        if run is not None and run.reaches(source, target):
            self._open[place] = run.up_to(source)
        else:
            if run is not None:
                self._lines.append(run)
            self._open[place] = OffsetRun(*place, source, source, target)
        position.source, position.target, position.records = source + 1, target + 1, position.records + 1

    def write(self) -> None:
        """Writes all runs so far, durably. Raises OSError."""
        runs, self._lines = [*self._lines, *self._open.values()], []
        self._open.clear()
        if runs:
            self._file.write(b"".join(_JSON.encode(members(each)).encode() + b"\n" for each in runs))
            self._file.flush()
            os.fsync(self._file.fileno())

    def start_of(self, place: TopicPartition) -> int:
        """Return the offset on the target at which the records of a partition begin."""
        return self.start["topics"][place[0]]["starts"][str(place[1])]

    def runs(self) -> Iterator[OffsetRun]:
        """Return all runs that were written, as :func:`read_runs`."""
        return read_runs(self.directory)

    def write_tables(self) -> None:
        """Writes the map as Parquet and as JSON Lines beside the journal. Raises OSError, UnwritableError."""
        with (
            replacing(self.directory / PARQUET) as file,
            pq.ParquetWriter(file, OFFSET_MAP, compression="zstd") as writer,
            replacing(self.directory / JSON_LINES) as lines,
        ):
            runs = map(members, self.runs())
            while rows := list(islice(runs, _ROWS)):
                writer.write_batch(pa.RecordBatch.from_pylist(rows, OFFSET_MAP))
                lines.write(b"".join(_JSON.encode(row).encode() + b"\n" for row in rows))


@contextmanager
def open_map(directory: Path, start: Mapping[str, Any]) -> Generator[OffsetMap]:
    """The map in a directory, begun if there is none, and locked meanwhile. ``start`` has what an existing one must say
    by the same names (but for ``topics``), and ``topics``: by name the target's topic ID and, by partition, the offset
    at which the records will begin.

    Raises :class:`UsageError` if the map is of another restore, is in use, or is none; UnwritableError."""
    with unwritable(directory):
        make_directory(directory)
        path = directory / JOURNAL
        busy = f"{directory}: another restore writes this map; wait for its end"
        with file_lock(os.open(directory, os.O_RDONLY | os.O_DIRECTORY), busy):
            found = _load_start(path) if path.exists() else None
            if found is None:
                with replacing(path) as file:
                    file.write(_JSON.encode({"offsetMap": VERSION, **start}).encode() + b"\n")
                sync_directory(directory)
            else:
                _check_start(path, found, start)
                _cut_last_line(path)
            chosen = dict(start) if found is None else found
            positions = _positions(path, chosen)
            with os.fdopen(open_own(path, os.O_WRONLY | os.O_APPEND), "ab") as file:
                yield OffsetMap(directory, chosen, found is None, positions=positions, _file=file)


def read_runs(directory: Path) -> Iterator[OffsetRun]:
    """Yield all runs of a map, those of a partition in order; neighbours are one. Raises :class:`UsageError`."""
    last: dict[TopicPartition, OffsetRun] = {}
    for each in _read_runs(directory / JOURNAL):
        before = last.get(each.place)
        if before is not None and before.reaches(each.source_first, each.target_first):
            last[each.place] = before.up_to(each.source_last)
            continue
        if before is not None:
            yield before
        last[each.place] = each
    yield from last.values()


def is_map(directory: Path) -> bool:
    """Return whether a restore has begun a map there."""
    return (directory / JOURNAL).exists()


def load_map_start(directory: Path) -> dict[str, Any]:
    """Return the first line of a map. Raises :class:`UsageError`."""
    return _load_start(directory / JOURNAL)


def check_map(directory: Path, settings: Mapping[str, Any]) -> None:
    """Check that a map is of a restore with these settings: the source, the target, and what is read. Raises
    :class:`UsageError`."""
    path = directory / JOURNAL
    _check_settings(path, _load_start(path), settings)


def _load_start(path: Path) -> dict[str, Any]:
    with os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
        line = file.readline(_LINE_LIMIT)
    try:
        found = parse_object(line)
        from_members(found, _Start)
    except WrongJsonError as error:
        raise UsageError(
            f"{path}: this is no map of a restore: {error}; give another directory with --offset-map"
        ) from error
    del found["offsetMap"]
    return found


def _show(name: str, value: Any) -> str:
    """A setting as a user gives it; JSON for what is no time."""
    if value is None:
        return "not set"
    if name == "until" and isinstance(value, int):
        return str(np.datetime64(value, "ms")) + "Z"
    return json.dumps(value)


def _check_settings(path: Path, found: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    for name, value in settings.items():
        if found.get(name) != value:
            text = f"this map is of another restore: its {name} is {_show(name, found.get(name))}, and not "
            text += _show(name, value)
            raise UsageError(f"{path}: {text}; give another directory with --offset-map")


def _check_start(path: Path, found: Mapping[str, Any], start: Mapping[str, Any]) -> None:
    _check_settings(path, found, {name: value for name, value in start.items() if name != "topics"})
    if found["topics"].keys() != start["topics"].keys():
        known = ", ".join(sorted(found["topics"]))
        raise UsageError(f"{path}: this map is of the topics {known}; restore the same, or give another --offset-map")
    for topic, described in start["topics"].items():
        known_id = found["topics"][topic]["topicId"]
        if known_id != described["topicId"]:
            text = f"{topic} was deleted and created again since: its ID was {known_id}, and is {described['topicId']}"
            raise UsageError(f"{path}: {text}; to restore it again, give another directory with --offset-map")


def _cut_last_line(path: Path) -> None:
    """Takes away what a kill or a power loss left of the lines that were written last."""
    with os.fdopen(open_own(path, os.O_RDWR), "r+b") as file:
        end = end_of_lines(file)
        if end < file.seek(0, os.SEEK_END):
            file.truncate(end)
            os.fsync(file.fileno())


def _positions(path: Path, start: Mapping[str, Any]) -> dict[TopicPartition, Position]:
    positions = {
        (topic, int(number)): Position(0, offset)
        for topic, described in start["topics"].items()
        for number, offset in described["starts"].items()
    }
    for run in _read_runs(path):
        at = positions.get(run.place)
        if at is None or run.source_first < at.source or run.target_first < at.target:
            name = f"{run.topic}-{run.partition}"
            raise UsageError(f"{path}: the runs of {name} are not in order; give another directory with --offset-map")
        at.source, at.target = run.source_last + 1, run.target_end
        at.records += run.source_last - run.source_first + 1
    return positions


def _read_runs(path: Path) -> Iterator[OffsetRun]:
    with os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
        file.readline(_LINE_LIMIT)
        for number, line in enumerate(file, 2):
            try:
                run = from_json(line, OffsetRun)
            except WrongJsonError as error:
                text = f"line {number} is no run of offsets: {error}; give another directory with --offset-map"
                raise UsageError(f"{path}: {text}") from error
            yield run
