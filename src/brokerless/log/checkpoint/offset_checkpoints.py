"""One partition's lines in the checkpoints of its log directory: recovery point, log start offset, high watermark.

The files are shared by all partitions of a log directory, so a change is read, merged and renamed under a lock that all
processes that write here take (``flock`` on the directory itself: a broker's lock is another one, ``lock.py``).

Sources: ``OffsetCheckpointFile``, ``LogManager.checkpointRecoveryOffsetsInDir`` and ``checkpointLogStartOffsetsInDir``,
``ReplicaManager.checkpointHighWatermarks`` (4.1.1).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from brokerless.errors import UsageError
from brokerless.log import names
from brokerless.log.checkpoint.readers import load_offset_checkpoint
from brokerless.log.checkpoint.writers import offset_checkpoint
from brokerless.log.storage.destination import Destination


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """What a log directory notes about one partition: offsets, None where there is no line."""

    recovery_point: int | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None


def read_checkpoints(log_directory: Path | Destination, topic: str, partition: int) -> Checkpoints:
    """The lines of one partition. A file that Kafka could not read either counts as one without lines."""
    at = Destination.of(log_directory)
    return Checkpoints(*(_load(at, name).get((topic, partition)) for name in _FILES))


def write_checkpoints(log_directory: Path | Destination, lines: Mapping[tuple[str, int], Checkpoints]) -> None:
    """Puts the lines of partitions (topic and number) into the files, and takes out those that are None. Other
    partitions' lines stay as they are; a file that needs no change is not written.

    Raises :class:`UsageError` if a file is not what Kafka writes, as merging would lose its lines; and OSError.
    """
    at = Destination.of(log_directory)
    with _only_merging(at):
        _merge(at, _FILES[0], {place: each.recovery_point for place, each in lines.items()})
        _merge(at, _FILES[1], {place: each.log_start_offset for place, each in lines.items()})
        _merge(at, _FILES[2], {place: each.high_watermark for place, each in lines.items()})


@contextmanager
def _only_merging(log_directory: Destination) -> Generator[None]:
    if log_directory.is_remote:
        yield
        return
    descriptor = os.open(log_directory.local, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


_FILES = (names.RECOVERY_POINT_CHECKPOINT, names.LOG_START_OFFSET_CHECKPOINT, names.HIGH_WATERMARK_CHECKPOINT)


def _load(at: Destination, name: str) -> dict[tuple[str, int], int]:
    return load_offset_checkpoint(at.join(name), at.storage_options).offsets if at.exists(name) else {}


def _merge(log_directory: Destination, name: str, changes: Mapping[tuple[str, int], int | None]) -> None:
    offsets: dict[tuple[str, int], int] = {}
    is_there = log_directory.exists(name)
    if is_there:
        loaded = load_offset_checkpoint(log_directory.join(name), log_directory.storage_options)
        if loaded.findings:
            raise UsageError(f"{loaded.findings[0]}; move the file away to have it written anew")
        offsets = loaded.offsets
    merged = {**offsets, **changes}
    kept = {key: offset for key, offset in merged.items() if offset is not None}
    if kept != offsets or not is_there:
        # In whatever order partitions were finished, the file is the same.
        log_directory.write(name, offset_checkpoint(dict(sorted(kept.items()))))
