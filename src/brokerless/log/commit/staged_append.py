"""Appends the batches of a staged partition to a log.

Offset and leader epoch of a batch are outside of its checksum, so nothing is decompressed or recomputed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import UnreadableError, UsageError
from brokerless.format import layouts
from brokerless.format.append.offsets_and_timestamps import scatter
from brokerless.format.read.batch_headers import Batches
from brokerless.kafka_names import TopicPartition
from brokerless.log.checkpoint.commit_journal import GrowingPartition
from brokerless.log.segment import scan
from brokerless.log.storage.destination import Destination
from brokerless.progress import ignore

if TYPE_CHECKING:
    from brokerless.log.commit.types import StagedPartition
    from brokerless.log.write.log_writer import LogWriter

_EPOCH = layouts.position_of(layouts.BATCH_V2, "partition_leader_epoch")


class WritableLog(Protocol):
    """What grows: a log that is there, or one that is new."""

    @property
    def log_end_offset(self) -> int: ...

    def append(self, buffer: NDArray[np.uint8]) -> object: ...


def append_staged(
    log: WritableLog, log_directory: Destination, staged: StagedPartition, leader_epoch: int = -1
) -> None:
    """Appends all batches of ``staged``, which is in ``log_directory``. ``leader_epoch``: what v2 batches are stamped
    with, unless it is negative.

    Raises :class:`UsageError` if the piece was given offsets that the log has already, or cannot give way;
    UnreadableError and RefusedError where it is damaged.
    """
    check_after_end(log.log_end_offset, staged)
    shift = 0 if staged.has_offsets else log.log_end_offset - staged.log_start_offset
    for name in sorted(name for name, _ in staged.files if name.endswith(".log")):
        location = log_directory.location / staged.directory / name
        with location.open() as file:
            whole = 0
            for chunk in scan(file, ignore):
                start, end = int(chunk.batches.positions[0]), int(chunk.batches.ends[-1])
                buffer = np.array(chunk.buffer[start:end])
                _restamp(buffer, chunk.batches, start, shift=shift, leader_epoch=leader_epoch)
                log.append(buffer)
                whole += end - start
            if whole != file.size:
                raise UnreadableError(location.path, "this was damaged since it was written; write it again")


def begin_growing(log: LogWriter, place: TopicPartition) -> GrowingPartition:
    """Begin the segment of a log that has what a commit appends, and return what its journal says of the log."""
    epoch = log.leader_epochs[-1][0] if log.leader_epochs else -1
    log.roll()
    return GrowingPartition(*place, log.segments[-1], log.log_end_offset, epoch)


def check_after_end(end_offset: int, staged: StagedPartition) -> None:
    """Raises :class:`UsageError` if the piece was given offsets that a log has, which ends at ``end_offset``."""
    if staged.has_offsets and staged.log_start_offset < end_offset:
        raise UsageError(
            f"{staged.name}: the first new record has offset {staged.log_start_offset}, and the partition ends at "
            f"{end_offset}: appended offsets must come after that; give later offsets, or none"
        )


def _restamp(buffer: NDArray[np.uint8], batches: Batches, start: int, shift: int, leader_epoch: int) -> None:
    if shift:
        if (batches.is_wrapper & (batches.magic == layouts.MAGIC_V0)).any():
            raise UsageError(
                "compressed messages of format v0 say their offsets inside, so they cannot follow others; "
                "give offsets, write new partitions from one task each, or another message format"
            )
        scatter(buffer, batches.positions - start, (batches.entry_offset + shift).astype(">i8"))
    current = np.flatnonzero(batches.magic == layouts.MAGIC_V2)
    if leader_epoch >= 0 and len(current):
        epochs = np.full(len(current), leader_epoch, ">i4")
        scatter(buffer, batches.positions[current] - start + _EPOCH, epochs)
