"""Verifies some bytes of logs in each run, what was verified longest ago first, so that runs take turns over a disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from brokerless import clock
from brokerless.jobs.ledger import Checked, Ledger, run_id_of
from brokerless.jobs.turns import choose, open_ledger
from brokerless.log.directory import PartitionPath, SegmentPaths

_SAVE_EVERY = 10.0
"""Seconds between two writes of the state during a run."""


@dataclass(slots=True)
class Turn:
    """What one run verifies. ``segments``: all of them, by the paths of their logs, of which ``chosen`` has those to
    verify. ``bytes``: those of the segments that this run has verified."""

    ledger: Ledger
    partitions: Sequence[PartitionPath]
    segments: dict[str, SegmentPaths]
    chosen: frozenset[str]
    bytes: int = 0
    run_id: str = field(default_factory=lambda: run_id_of(clock.now()))
    _saved: float = field(default_factory=monotonic)

    @property
    def total(self) -> int:
        """Bytes of all segments."""
        return sum(each.size for each in self.segments.values())

    @property
    def chosen_bytes(self) -> int:
        return sum(self.segments[each].size for each in self.chosen)

    @property
    def verified_bytes(self) -> int:
        """Bytes of the segments that were verified, in this run or before, and have not changed since."""
        return sum(each.size for each in self.segments.values() if self.ledger.verified(each) is not None)

    @property
    def oldest(self) -> int | None:
        """Since when all segments were verified, in ms since the epoch; None while one was not, or has changed."""
        found = [self.ledger.verified(each) for each in self.segments.values()]
        known = [each.verified for each in found if each is not None]
        return min(known, default=None) if len(known) == len(found) else None

    def as_dict(self) -> dict[str, Any]:
        return {
            "runBytes": self.bytes,
            "verifiedBytes": self.verified_bytes,
            "totalBytes": self.total,
            "verifiedSince": self.oldest,
        }

    def is_chosen(self, segment: SegmentPaths) -> bool:
        return segment.log.path in self.chosen

    def add(self, checked: Checked, size: int) -> None:
        """Records that a segment of ``size`` bytes was verified. Raises :class:`UnwritableError`."""
        self.ledger.add(checked)
        self.bytes += size
        if monotonic() - self._saved > _SAVE_EVERY:
            self.ledger.flush()
            self._saved = monotonic()

    def end(self) -> None:
        """Records what this run has done; what is known of removed segments goes. Raises :class:`UnwritableError`."""
        self.ledger.consolidate([each.path for each in self.partitions], list(self.segments))


def begin_turn(partitions: Sequence[PartitionPath], budget: int | None, path: str | None) -> Turn | None:
    """Choose what a run verifies: at most ``budget`` bytes, and one segment at least; None without a budget. First come
    segments in which there were errors, then those that were never verified or have changed (but the last one of a
    partition, which changes all the time), then those that were verified longest ago.

    Raises as :func:`brokerless.jobs.turns.open_ledger`.
    """
    ledger = open_ledger(partitions, budget, path)
    if ledger is None or budget is None:
        return None
    segments = {each.log.path: each for partition in partitions for each in partition.segments}
    growing = {partition.segments[-1].log.path for partition in partitions if partition.segments}

    def order(log: str) -> tuple[int, int]:
        known = ledger.get("segment", log)
        if known is None:
            return 1, 0
        if known.has_errors:
            return 0, known.verified
        return (2 if log in growing or ledger.verified(segments[log]) else 1), known.verified

    chosen = choose({log: each.size for log, each in segments.items()}, budget, order)
    return Turn(ledger, partitions, segments, frozenset(chosen))
