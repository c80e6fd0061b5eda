"""Counts records by cause, keeps the first differences as runs of adjacent offsets, and recognizes records that are
only in another order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from brokerless.format.arrays import Bools, Int64s
from brokerless.jobs.diff.causes import What
from brokerless.jobs.diff.partition_diff import Difference, Hand, PartitionDiff

Hashes = NDArray[np.uint64]

MOST_RECORDS = 1 << 16
"""Records that differ, among which those of both sides are looked for that are the same."""
_ENTRY = np.dtype([("offset", "i8"), ("on_left", "?"), ("on_right", "?"), ("left", "u8"), ("right", "u8")])


@dataclass(slots=True)
class _Runs:
    """Runs of adjacent offsets: the first ones, and how many more there are."""

    most: int
    """How many runs are listed; the rest is counted."""
    runs: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    more: int = 0
    last: int = -2

    def add(self, offsets: Int64s) -> None:
        borders = np.flatnonzero(np.diff(offsets) != 1) + 1
        firsts = offsets[np.append(0, borders)].tolist()
        lasts = offsets[np.append(borders - 1, len(offsets) - 1)].tolist()
        if firsts[0] == self.last + 1 and (self.runs or self.more):
            first = firsts.pop(0)
            if self.runs and self.runs[-1][1] == first - 1:
                self.runs[-1] = self.runs[-1][0], lasts[0]
            del lasts[0]
        room = max(0, self.most - len(self.runs))
        self.runs += list(zip(firsts, lasts, strict=True))[:room]
        self.more += max(0, len(firsts) - room)
        self.last = int(offsets[-1])


@dataclass(slots=True)
class Tally:
    """What a comparison has found so far."""

    allowed: Collection[str]
    limit: int | None
    """How many differences are listed; None for all."""
    records: int = 0
    """How many records were counted."""
    same: int = 0
    """How many of ``records`` are the same."""
    causes: Counter[str] = field(default_factory=Counter[str])
    """How many records each cause has, except those that are simply the same."""
    differing: Counter[str] = field(default_factory=Counter[str])
    counted: Counter[tuple[What, str]] = field(default_factory=Counter["tuple[What, str]"])
    """How many of the records in ``causes`` have an offset each, by what they are and by cause."""
    _runs: dict[tuple[What, str], _Runs] = field(default_factory=dict[tuple[What, str], _Runs])

    def add_same(self, records: int, cause: str | None = None, of_these: int | None = None) -> None:
        """Records that are the same; ``cause``: of ``of_these``, or all of them, what differs around them."""
        self.records += records
        self.same += records
        if cause is not None:
            self.note(cause, records if of_these is None else of_these)

    def note(self, cause: str, records: int) -> None:
        """A cause for which records count as the same, or are not compared."""
        if records:
            self.causes[cause] += records

    def add(self, what: What, cause: str, offsets: Int64s) -> None:
        """Records (their offsets, in order) that differ by a cause."""
        if not len(offsets):
            return
        self.records += len(offsets)
        self.causes[cause] += len(offsets)
        self.counted[what, cause] += len(offsets)
        if cause in self.allowed:
            return
        self.differing[what] += len(offsets)
        most = 1 << 62 if self.limit is None else self.limit
        self._runs.setdefault((what, cause), _Runs(most)).add(offsets)

    def add_span(self, span: Difference) -> None:
        """Add records that were counted by their headers."""
        if not span.records:
            return
        self.records += span.records
        self.causes[span.cause] += span.records
        if span.cause not in self.allowed:
            self.differing[span.what] += span.records
            self._spans.append(span)

    def add_to(self, result: PartitionDiff) -> PartitionDiff:
        """Return a result with what was counted, and the differences that are listed."""
        listed, more = self._listed()
        return replace(
            result, records=self.records, same=self.same, missing=self.differing["missing"],
            extra=self.differing["extra"], changed=self.differing["changed"], causes=dict(self.causes),
            differences=tuple(listed), not_listed=more,
        )  # fmt: skip

    def _listed(self) -> tuple[list[Difference], int]:
        """The first differences by offset, and how many more runs there are."""
        found = [
            Difference(what, cause, first, last, records=last - first + 1)
            for (what, cause), each in self._runs.items()
            for first, last in each.runs
        ]
        found = sorted([*found, *self._spans], key=lambda each: (each.first_offset, each.last_offset))
        more = sum(each.more for each in self._runs.values())
        kept = found if self.limit is None else found[: self.limit]
        return kept, more + len(found) - len(kept)

    _spans: list[Difference] = field(default_factory=list[Difference])


class DifferingRecords:
    """Records that differ, with hashes of their contents, until there are :data:`MOST_RECORDS` of them: those that are
    near each other on both sides are in another order."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._entries: list[NDArray[np.void]] = []
        self._count = 0

    def add(self, offsets: Int64s, left: Hashes | None, right: Hashes | None) -> None:
        """Add records; None for a side that has none at these offsets."""
        for start in range(0, len(offsets), MOST_RECORDS):
            part = slice(start, start + MOST_RECORDS)
            entries = np.zeros(len(offsets[part]), _ENTRY)
            entries["offset"] = offsets[part]
            for name, hashes in (("left", left), ("right", right)):
                if hashes is not None:
                    entries[f"on_{name}"], entries[name] = True, hashes[part]
            self._entries.append(entries)
            self._count += len(entries)
            if self._count >= MOST_RECORDS:
                self.flush()

    def are_waiting(self, hand: Hand, hashes: Hashes) -> Bools:
        """Return which of these a side has among the records that are not decided yet."""
        waiting = [each[hand][each[f"on_{hand}"]] for each in self._entries]
        return np.isin(hashes, np.concatenate(waiting)) if waiting else np.zeros(len(hashes), np.bool_)

    def flush(self) -> None:
        """Decide on all of them."""
        if not self._count:
            return
        entries = np.sort(np.concatenate(self._entries), order="offset")
        self._entries, self._count = [], 0
        on_left, on_right = entries["on_left"], entries["on_right"]
        is_right_too = np.isin(entries["left"], entries["right"][on_right])
        is_left_too = np.isin(entries["right"], entries["left"][on_left])
        moved = (~on_left | is_right_too) & (~on_right | is_left_too)
        offsets = entries["offset"]
        kinds: dict[What, Bools] = {
            "missing": on_left & ~on_right,
            "extra": on_right & ~on_left,
            "changed": on_left & on_right,
        }
        for what, rows in kinds.items():
            self._tally.add(what, "order", offsets[rows & moved])
            self._tally.add(what, what, offsets[rows & ~moved])
