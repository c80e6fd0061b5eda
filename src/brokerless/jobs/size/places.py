"""The segments of a topic that are measured, from their log start offsets on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from brokerless.errors import UnreadableError
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.live_segments import open_listed
from brokerless.log.positions import position_of_offset
from brokerless.log.ranges import Range, from_log_start
from brokerless.log.storage.paths import StorageOptions


@dataclass(frozen=True, slots=True)
class Place:
    """A segment that is sampled: the bytes from ``start`` on."""

    partition: PartitionPath
    segment: SegmentPaths
    selected: Range
    start: int

    @property
    def size(self) -> int:
        return max(0, self.segment.size - self.start)


def places_of(partitions: Sequence[PartitionPath], storage_options: StorageOptions | None = None) -> list[Place]:
    """All segments of some partitions, from their log start offsets on."""
    found: list[Place] = []
    for partition in partitions:
        selected = from_log_start(partition)
        for number, segment in enumerate(selected.segments(partition.segments)):
            start = 0
            if number == 0 and not selected.is_everything:
                with (
                    suppress(UnreadableError),
                    open_listed(segment, is_last=True, storage_options=storage_options) as file,
                ):
                    start = position_of_offset(file, segment, partition.log_start_offset, storage_options)
            found.append(Place(partition, segment, selected, start))
    return found
