"""The ``*-offset-checkpoint`` files of a log directory: recovery points, log start offsets, high watermarks, cleaner.

All partitions of a log directory share them, so a change is read, merged and renamed under a lock that all brokerless
processes take (``flock`` on the directory; the lock that brokers take is another one: ``directory_lock.py``).

Sources: ``OffsetCheckpointFile`` (3.9.1, 4.1.1), ``LogManager.checkpointRecoveryOffsetsInDir`` and
``checkpointLogStartOffsetsInDir``, ``ReplicaManager.checkpointHighWatermarks`` (4.1.1).
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from brokerless.errors import UsageError
from brokerless.findings import Kind
from brokerless.log import names
from brokerless.log.checkpoint.text_files import (
    FileFindings,
    format_checkpoint,
    parse_entries,
    parse_integer,
    read_lines,
)
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.directory_lock import file_lock
from brokerless.log.storage.location import Location

_FILES = (names.RECOVERY_POINT_CHECKPOINT, names.LOG_START_OFFSET_CHECKPOINT, names.HIGH_WATERMARK_CHECKPOINT)


@dataclass(frozen=True, slots=True)
class OffsetCheckpoint:
    """A ``*-offset-checkpoint``: an offset for each (topic, partition) of a log directory."""

    file: str
    offsets: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    findings: FileFindings = ()


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """The offsets that a log directory's checkpoints record of one partition; None where a checkpoint has no line of
    it."""

    recovery_point: int | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    cleaner: int | None = None
    """The offset up to which the partition was compacted; where this is None, the checkpoint's line is left
    unchanged."""


def load_offset_checkpoint(location: Location) -> OffsetCheckpoint:
    """Reads a recovery point, high watermark (``replication-``), log start or cleaner ``-offset-checkpoint``."""
    offsets, findings = read_lines(location, _parse, {}, Kind.CHECKPOINT_CORRUPT)
    return OffsetCheckpoint(location.path, offsets, findings)


def _parse(lines: list[str]) -> dict[tuple[str, int], int]:
    return {
        (topic, parse_integer(partition, " ".join((topic, partition, offset)))): parse_integer(offset, offset, 64)
        for topic, partition, offset in parse_entries(lines, 3)
    }


def offset_checkpoint(offsets: Mapping[tuple[str, int], int]) -> bytes:
    """Return a ``*-offset-checkpoint``: an offset for each (topic, partition); lines come in the mapping's order."""
    return format_checkpoint(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())


def read_checkpoints(log_directory: Path | Destination, topic: str, partition: int) -> PartitionOffsets:
    """Return the lines of one partition. A file that Kafka could not read either counts as one without lines."""
    at = Destination.of(log_directory)
    return PartitionOffsets(*(_load(at, name).get((topic, partition)) for name in _FILES))


def recorded_offset(directory: Location, topic: str | None, partition: int | None, checkpoint: str) -> int | None:
    """Return the offset of a partition in a checkpoint (a file name) of the log directory that it is in, if there is
    one.

    Raises :class:`UnreadableError` if the checkpoint cannot be read.
    """
    log_directory = directory.containing
    if topic is None or log_directory is None:
        return None
    file = log_directory / checkpoint
    if not file.exists():
        return None
    return _loaded(file).get((topic, partition or 0))


def _loaded(location: Location) -> Mapping[tuple[str, int], int]:
    if location.is_remote:
        return load_offset_checkpoint(location).offsets
    state = location.local.stat()
    return _unchanged(location.path, state.st_ino, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=64)
def _unchanged(path: str, *_: int) -> Mapping[tuple[str, int], int]:
    """The offsets in a file that is still the same one: each of thousands of partitions looks for its line."""
    return load_offset_checkpoint(Location(path)).offsets


def write_checkpoints(log_directory: Path | Destination, lines: Mapping[tuple[str, int], PartitionOffsets]) -> None:
    """Puts the lines of partitions (topic and number) into the files, and takes out those that are None. Other
    partitions' lines stay unchanged; a file that needs no change is not written.

    Raises :class:`UsageError` if a file is not what Kafka writes, as merging would lose its lines; and OSError.
    """
    at = Destination.of(log_directory)
    with _only_merging(at):
        _merge(at, _FILES[0], {place: each.recovery_point for place, each in lines.items()})
        _merge(at, _FILES[1], {place: each.log_start_offset for place, each in lines.items()})
        _merge(at, _FILES[2], {place: each.high_watermark for place, each in lines.items()})
        cleaned = {place: each.cleaner for place, each in lines.items() if each.cleaner is not None}
        if cleaned:
            _merge(at, names.CLEANER_CHECKPOINT, cleaned)


@contextmanager
def _only_merging(log_directory: Destination) -> Generator[None]:
    if log_directory.is_remote:
        yield
        return
    with file_lock(os.open(log_directory.local, os.O_RDONLY | os.O_DIRECTORY)):
        yield


def _load(at: Destination, name: str) -> dict[tuple[str, int], int]:
    return load_offset_checkpoint(at.location / name).offsets if at.exists(name) else {}


def _merge(log_directory: Destination, name: str, changes: Mapping[tuple[str, int], int | None]) -> None:
    offsets: dict[tuple[str, int], int] = {}
    is_there = log_directory.exists(name)
    if is_there:
        loaded = load_offset_checkpoint(log_directory.location / name)
        if loaded.findings:
            raise UsageError(f"{loaded.findings[0]}; move the file away to have it written again")
        offsets = loaded.offsets
    merged = {**offsets, **changes}
    kept = {key: offset for key, offset in merged.items() if offset is not None}
    if kept != offsets or not is_there:
        # In whatever order partitions were finished, the file is the same.
        log_directory.write(name, offset_checkpoint(dict(sorted(kept.items()))))
