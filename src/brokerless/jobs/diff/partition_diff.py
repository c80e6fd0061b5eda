"""The result of comparing one partition: what is the same, what differs, why, and what could not be compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from typing import Literal

from brokerless import clock
from brokerless.findings import Finding
from brokerless.jobs.diff.causes import UNPROVEN, What
from brokerless.kafka_names import TopicPartition
from brokerless.log import names
from brokerless.text import count_of, short_html, short_repr, show

Hand = Literal["left", "right"]
HANDS: tuple[Hand, Hand] = ("left", "right")
OTHER: dict[Hand, Hand] = {"left": "right", "right": "left"}
ONLY_ON: dict[Hand, What] = {"left": "missing", "right": "extra"}
"""What a record is that only this side has."""
DiffProblem = Literal["another-topic", "no-common-offset", "not-restored", "only-left", "only-right", "not-described"]
_MOST_KEY_BYTES = 60


@dataclass(frozen=True, slots=True)
class RecordView:
    """The record of one side that a difference begins with."""

    timestamp: int
    """The record's timestamp (ms)."""
    key: bytes | None
    """The record's key; None unless keys are shown."""
    header_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """Records that differ in one way, one after the other."""

    what: What
    cause: str
    """One of :data:`CAUSES`."""
    first_offset: int
    last_offset: int
    records: int
    left: RecordView | None = None
    """The first record on the left side; None if that has none, or where it was not read. ``right`` is the same of the
    right side."""
    right: RecordView | None = None

    @property
    def key(self) -> bytes | None:
        """The key of the first record, None unless keys are shown."""
        return next((each.key for each in (self.left, self.right) if each is not None and each.key is not None), None)

    @property
    def sentence(self) -> str:
        """What is wrong with the records."""
        on = {"missing": "missing on the right", "extra": "on the right only", "changed": "changed"}[self.what]
        if self.cause in ("missing", "extra", "changed"):
            return on
        headers = [_header_names(each) for each in (self.left, self.right)]
        return {
            UNPROVEN: f"{on}, as compaction takes records, but nothing says that the topic is compacted; allow "
            "compaction if it is",
            "duplicate": f"twice on the {'left' if self.what == 'missing' else 'right'}",
            "timestamps": "other timestamps"
            if self.right is None
            else f"other timestamps ({_time(self.left)} on the left, {_time(self.right)} on the right)",
            "headers": "other headers"
            if self.right is None
            else (
                f"other values of headers ({headers[0]})"
                if headers[0] == headers[1]
                else "other headers ({} on the left, {} on the right)".format(*headers)
            ),
            "lagging": f"after the end of the {'right' if self.what == 'missing' else 'left'} side",
            "order": "in another order",
        }.get(self.cause, f"{on} ({self.cause})")

    def __str__(self) -> str:
        one = self.first_offset == self.last_offset
        where = f"offset {self.first_offset}" if one else f"offsets {self.first_offset} to {self.last_offset}"
        many = "" if one else f" ({count_of(self.records, 'record')})"
        first = self.left or self.right
        key = "" if self.key is None else f", key {_shown(self.key)}"
        when = "" if first is None or self.cause == "timestamps" else f" ({_time(first)})"
        return f"{where}{many}{key}: {self.sentence}{when}"


def _time(view: RecordView | None) -> str:
    if view is None or view.timestamp < 0:
        return "no time"
    return (clock.in_zone(view.timestamp, UTC) or str(view.timestamp)).replace("+00:00", "Z")


def _header_names(view: RecordView | None) -> str:
    return ", ".join(map(show, view.header_names)) if view is not None and view.header_names else "none"


def _shown(key: bytes) -> str:
    text = show(key.decode(errors="replace"))
    return text if len(text) <= _MOST_KEY_BYTES else f"{text[:_MOST_KEY_BYTES]}..."


@dataclass(frozen=True, slots=True)
class Uncompared:
    """Offsets that could not be compared, as one side cannot be read there: why, and how many records the other side
    has."""

    side: Hand
    first_offset: int
    last_offset: int | None
    records: int
    finding: Finding

    def __str__(self) -> str:
        end = "on" if self.last_offset is None else f"to {self.last_offset}"
        other = f"{count_of(self.records, 'record')} on the {OTHER[self.side]}"
        where = f"offsets {self.first_offset} {end} could not be compared ({other})"
        return f"{where}: {self.finding.kind} on the {self.side}"


@dataclass(frozen=True, slots=True)
class SideSummary:
    """One side of a partition, with ``start_offset <= offset < end_offset``."""

    path: str
    start_offset: int
    end_offset: int

    @property
    def is_empty(self) -> bool:
        return self.start_offset >= self.end_offset

    def __str__(self) -> str:
        return f"offsets {self.start_offset} to {self.end_offset - 1}"


@dataclass(frozen=True, slots=True)
class PartitionDiff:
    """The comparison of one partition."""

    topic: str | None
    partition: int | None
    left: SideSummary | None
    right: SideSummary | None
    records: int = 0
    """How many offsets either side has a record at."""
    same: int = 0
    """How many of ``records`` are the same on both sides."""
    missing: int = 0
    """How many are on the left side only, by a cause that is not allowed."""
    extra: int = 0
    """How many are on the right side only, by a cause that is not allowed."""
    changed: int = 0
    """How many both sides have, which differ by a cause that is not allowed."""
    causes: dict[str, int] | None = None
    """How many of all records each cause has, allowed or not."""
    differences: tuple[Difference, ...] = ()
    """The first differences."""
    not_listed: int = 0
    """How many more differences there are."""
    uncompared: tuple[Uncompared, ...] = ()
    problem: DiffProblem | None = None
    """The reason why nothing was compared; None if it was."""
    explanation: str = ""
    findings: tuple[Finding, ...] = ()
    """What was found while both sides were read."""
    is_replica: bool = False
    """Whether both sides are replicas of one cluster, of which the left one counts."""

    __repr__ = short_repr
    _repr_html_ = short_html

    @property
    def name(self) -> str:
        """``orders-0``; the file's path where nothing else is known, and that of one of several replicas."""
        if self.is_replica and self.right is not None:
            return self.right.path
        if self.topic is None:
            side = self.left or self.right
            return "" if side is None else side.path
        return names.partition_directory(*self.place)

    @property
    def place(self) -> TopicPartition:
        """The topic and number, as far as they are known."""
        return self.topic or "", self.partition or 0

    @property
    def is_same(self) -> bool:
        """Whether all records are the same that both sides should have, by what is allowed."""
        return self.problem is None and not (self.missing or self.extra or self.changed or self.uncompared)

    def lines(self) -> Iterator[str]:
        """Yield what differs, a line each."""
        if self.problem is not None:
            yield f"{self.name}: {self.explanation}"
        for each in self.differences:
            yield f"{self.name}, {each}"
        if self.not_listed:
            yield f"{self.name}: {count_of(self.not_listed, 'more difference')}"
        for each in self.uncompared:
            yield f"{self.name}, {each}"
