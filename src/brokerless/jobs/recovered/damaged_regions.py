"""Damaged regions of files and findings, in bounded memory: on overflow, adjacent entries of one kind are merged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from brokerless.findings import Finding, Kind, Severity

MOST = 5_000
"""What is reported one by one; neighbours become one where there is more than twice as much."""
MOST_LISTED = 1_000
"""Findings of a kind that are reported one by one."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes ``[position, end)`` of a file that are in no intact batch; or several such places, with something intact
    between them, as one."""

    file: str
    """The file of the first place."""
    position: int
    end: int
    kind: Kind
    """The kind of finding that says why."""
    message: str
    """The message of that finding."""
    after: int | None = None
    """The offset after the intact batch before the region; None without one."""
    offset: int | None = None
    """The offset that the region's header claims; None without one."""
    places: int = 1
    """How many places it is."""
    damaged: int | None = None
    """The bytes of all places together, where these are several."""

    @property
    def size(self) -> int:
        """Bytes that are in no intact batch."""
        return self.end - self.position if self.damaged is None else self.damaged

    @property
    def is_empty(self) -> bool:
        """Whether there was never anything: zero bytes, as a file has that was preallocated."""
        return self.kind in (Kind.ZERO_TAIL, Kind.TRAILING_ZEROS)


PlacedRegion = tuple[Region, int]
"""A region with the offset before which it was in its file."""


class BoundedList(Generic[T]):
    """A list that is bounded: if there is too much, neighbours of one kind become one, of equally many each."""

    def __init__(
        self, together: Callable[[T, T], T], kind: Callable[[T], Hashable], weight: Callable[[T], int]
    ) -> None:
        """Make an empty list. ``together`` makes one of two items of a ``kind``; ``weight`` is how many an item stands
        for."""
        self._together, self._kind, self._weight = together, kind, weight
        self._most, self._at_once = 2 * MOST, 1
        self.clear()

    def clear(self) -> None:
        self.items: list[T] = []
        self._last: dict[Hashable, int] = {}

    def add(self, items: Iterable[T]) -> None:
        for each in items:
            self._add(each)
            if len(self.items) > self._most:
                self._at_once *= 2
                before = self.items
                self.clear()
                for one in before:
                    self._add(one)
                self._most = max(2 * MOST, len(self.items) * 3 // 2)  # of many kinds, there are not less

    def _add(self, each: T) -> None:
        kind = self._kind(each)
        at = self._last.get(kind)
        if at is not None and self._weight(self.items[at]) + self._weight(each) <= self._at_once:
            self.items[at] = self._together(self.items[at], each)
            return
        self._last[kind] = len(self.items)
        self.items.append(each)


def bounded_regions() -> BoundedList[PlacedRegion]:
    """Those of one kind in one file become one."""
    return BoundedList(_together, lambda placed: (placed[0].file, placed[0].kind), lambda placed: placed[0].places)


def _together(one: PlacedRegion, other: PlacedRegion) -> PlacedRegion:
    (first, before), (second, until) = one, other
    offsets = [before, until, *(each.after for each in (first, second) if each.after is not None)]
    places, damaged = first.places + second.places, first.size + second.size
    position, end = min(first.position, second.position), max(first.end, second.end)
    region = replace(first, position=position, end=end, after=min(offsets), places=places, damaged=damaged)
    return region, max(offsets)


class FindingCollector:
    """Collects findings as they are reported. Of a kind that is too frequent, it counts the rest."""

    def __init__(self) -> None:
        self._findings: list[Finding] = []
        self._counts: Counter[tuple[Severity, Kind]] = Counter()

    def __call__(self, finding: Finding) -> None:
        kind = finding.severity, finding.kind
        self._counts[kind] += 1
        if self._counts[kind] <= MOST_LISTED:
            self._findings.append(finding)

    def findings(self, path: str) -> tuple[Finding, ...]:
        """Return the findings, and by kind how many more there were, as findings about ``path``."""
        more = [(*kind, count - MOST_LISTED) for kind, count in self._counts.items() if count > MOST_LISTED]
        text = "{:,} more findings of this kind, which are not listed"
        rest = (kind.at(path, text.format(count), severity=severity) for severity, kind, count in more)
        return (*self._findings, *rest)
