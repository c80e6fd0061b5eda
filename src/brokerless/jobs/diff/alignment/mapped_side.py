"""Reads the target of a restore by its offset map: records get the offsets that they had in the source.

Records that the map does not have are on that side only.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from brokerless.bounds import MAX_INT64
from brokerless.findings import Finding
from brokerless.format.arrays import Int64s
from brokerless.jobs.diff.alignment.blocks import Block
from brokerless.jobs.diff.alignment.sides import SideReader, SideSettings
from brokerless.jobs.diff.pairs import OffsetRuns
from brokerless.log.directory import PartitionPath
from brokerless.progress import Done, Report


class MappedSide(SideReader):
    """A restored side, with the offsets that its records had. Those that the map does not have are in ``unknown``."""

    has_same_offsets = False

    def __init__(
        self, partition: PartitionPath, settings: SideSettings, report: Report, done: Done, *, runs: OffsetRuns
    ) -> None:
        """Read the offsets of ``settings``, which are source offsets, as ``runs`` maps them."""
        self.runs = runs
        start, end = runs.target_bound(settings.start), runs.target_bound(settings.end)
        super().__init__(partition, replace(settings, start=start, end=end, to_the_end=False), report, done)

    @property
    def frontier(self) -> int:
        bound = self.runs.source_bound(super().frontier)
        return bound if self._decoding is None else min(bound, MAX_INT64 - 1)

    def pull(self, until: int, most: int) -> bool:
        return super().pull(self.runs.target_bound(until), most)

    def take_until(self, offset: int) -> list[Block]:
        taken = [self._mapped(each) for each in super().take_until(self.runs.target_bound(offset))]
        return [each for each in taken if each.rows]

    def own_offset(self, offset: int) -> int:
        return self.runs.target_bound(offset)

    def common_offsets(self, offsets: Int64s) -> Int64s:
        sources, has = self.runs.sources(offsets)
        last = int(self.runs.target_end[-1])
        return np.where(has, sources, np.where(offsets >= last, self.runs.limits[1], -1))

    def count(self, start: int, end: int) -> int:
        return self.runs.count(start, end)

    def _mapped(self, block: Block) -> Block:
        sources, has = self.runs.sources(block.offsets)
        if not has.all():
            within = (block.offsets >= self.settings.start) & (block.offsets < self.settings.end) & ~has
            is_control = block.batches.is_control[block.batch_of]
            for cause, rows in (("control", within & is_control), ("extra", within & ~is_control)):
                if rows.any():
                    self.unknown.append((cause, block.offsets[rows].copy()))
            block, sources = block.take(has), sources[has]
        return replace(block, columns=replace(block.columns, offset=sources))

    def _add_unread(self, first: int, end: int, finding: Finding) -> None:
        super()._add_unread(self.runs.source_bound(first), self.runs.source_bound(end), finding)

    def _add_gone(self, first: int, end: int) -> None:
        super()._add_gone(self.runs.source_bound(first), self.runs.source_bound(end))
