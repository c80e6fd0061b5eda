"""Collects what one run of a check found, for files that other programs read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from brokerless.findings import Finding, Severity
from brokerless.log import names
from brokerless.log.directory import PartitionPath
from brokerless.log.tiered.object_names import partition_directory_of

MOST = 10_000
"""Findings that are kept; all are counted."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a partition; that of a lone file has no topic. ``size`` in bytes."""

    path: str
    topic: str | None
    partition: int | None
    size: int

    @property
    def name(self) -> str:
        """A name such as ``orders-0``; the path of a lone file."""
        if self.topic is None or self.partition is None:
            return self.path
        return names.partition_directory(self.topic, self.partition)


@dataclass(slots=True)
class CheckedRun:
    """``started_ms`` and ``ended_ms``: since the epoch. ``counts``: findings by the path of the partition (empty for
    what is in none), severity and kind. ``findings``: the first :data:`MOST`. ``unread``: why paths were
    not read."""

    started_ms: int
    places: dict[str, Place]
    ended_ms: int = 0
    exit_code: int = 0
    counts: Counter[tuple[str, Severity, str]] = field(default_factory=Counter[tuple[str, Severity, str]])
    findings: list[tuple[str, Finding]] = field(default_factory=list[tuple[str, Finding]])
    unread: list[str] = field(default_factory=list[str])

    @property
    def duration_s(self) -> float:
        """Seconds."""
        return (self.ended_ms - self.started_ms) / 1000

    @property
    def left_out(self) -> int:
        """How many findings were counted and not kept."""
        return self.counts.total() - len(self.findings)

    def add(self, found: Finding) -> None:
        """Take what was found next."""
        path = self._place_of(found.file)
        self.counts[path, found.severity, str(found.kind)] += 1
        if len(self.findings) < MOST:
            self.findings.append((path, found))

    def _place_of(self, file: str) -> str:
        """The path of the partition that a file or an object belongs to, empty where that is not known."""
        above, name = file.rpartition("/")[0], partition_directory_of(file)
        named = [each.path for each in self.places.values() if each.name == name]
        return next((each for each in (above, file) if each in self.places), named[0] if len(named) == 1 else "")


def begin_run(partitions: Sequence[PartitionPath], started_ms: int) -> CheckedRun:
    """Return a run over these partitions that has found nothing yet."""
    return CheckedRun(
        started_ms, {each.path: Place(each.path, each.topic, each.partition, each.size) for each in partitions}
    )
