"""Reports the progress of reading a partition, in bytes of its segments' logs."""

from __future__ import annotations

from itertools import accumulate

from brokerless.log.directory import PartitionPath
from brokerless.progress import Done


class ReadProgress:
    """Calls ``done`` with the bytes by which reading went on, what was skipped among them: with :meth:`finish`, they
    add up to the partition's size."""

    def __init__(self, partition: PartitionPath, done: Done) -> None:
        ends = accumulate((segment.size for segment in partition.segments), initial=0)
        self._starts = {segment.log.path: start for segment, start in zip(partition.segments, ends, strict=False)}
        self._size = partition.size
        self._done = done
        self._reached = 0

    def reach(self, file: str, position: int) -> None:
        """All before this position of a segment's log was read, or is not needed."""
        self._reach(min(self._starts.get(file, 0) + position, self._size))

    def finish(self) -> None:
        self._reach(self._size)

    def _reach(self, position: int) -> None:
        if position > self._reached:
            self._done(position - self._reached)
            self._reached = position
