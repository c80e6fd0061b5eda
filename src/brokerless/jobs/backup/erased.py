"""Leaves out of what is stored what an erasure removed from the backup, and a disk still has."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import RefusedError
from brokerless.jobs.erase.eraser import Eraser
from brokerless.jobs.erase.selection import OffsetMatcher
from brokerless.log.backups.replaced import ErasedPlaces
from brokerless.log.write.follower_append import whole_batches


@dataclass(frozen=True, slots=True)
class ErasedFilter:
    """A filter that removes erased records from batches, as the erasure did."""

    erased: ErasedPlaces
    max_batch_bytes: int
    found: set[int] = field(default_factory=set[int])
    """The offsets of the erased records that the batches had."""

    def meets(self, batches: NDArray[np.void]) -> bool:
        """Return whether some batches (:data:`INTACT_BATCH`, by offset) may have an erased record."""
        first = np.append(0, batches["last"][:-1] + 1) if len(batches) else batches["first"]
        first = np.where(batches["magic"] < 2, first, batches["first"])
        return bool(len(self.erased.within(first, batches["last"], batches["epoch"])[0]))

    def apply(self, buffer: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return whole batches without the erased records. Raises :class:`RefusedError` for a batch that has one, and
        cannot be decoded."""
        batches = whole_batches(buffer)
        # A batch of v0 or v1 is named by its last offset.
        before = np.append(0, batches.last_offset[:-1] + 1)[: len(batches)]
        first = np.where(batches.is_legacy, before, batches.entry_offset)
        offsets, _ = self.erased.within(first, batches.last_offset, batches.partition_leader_epoch)
        if not len(offsets):
            return buffer
        eraser = Eraser(OffsetMatcher(offsets), None, self.max_batch_bytes, needs=(False, False, False))
        pieces: list[NDArray[np.uint8]] = []
        for converted in eraser.convert(buffer, batches):
            for damage in converted.damages:
                text = f"a record in it was erased from the backup, and it cannot be decoded: {damage.message}"
                raise RefusedError("InvalidRecordException", text)
            pieces.append(converted.buffer)
        self.found.update(offset for each in eraser.totals.touched for offset in each.offsets.tolist())
        return np.concatenate(pieces) if pieces else buffer[:0]
