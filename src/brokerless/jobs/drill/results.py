"""What a drill tried, how much of it, and what it found: the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from brokerless.findings import Finding
from brokerless.log.backups.snapshot import Snapshot
from brokerless.text import short_html, short_repr

VERSION = 1
"""Of the evidence."""
CheckName = Literal["rebuild", "verify", "start", "offsets", "positions", "broker"]


@dataclass(frozen=True, slots=True)
class DrillCheck:
    """One thing that was tried."""

    name: CheckName
    counts: Mapping[str, int]
    """How much was tried, by what was counted."""
    findings: tuple[Finding, ...]
    """What was found, including what is only worth knowing."""
    is_clean: bool
    """Whether a cluster has all that the snapshot says, as far as this check shows it."""
    duration: int
    """How long it took (ms)."""
    lost: tuple[str, ...] = ()
    """What could not be rebuilt, as texts for people."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "check": self.name,
            "isClean": self.is_clean,
            **self.counts,
            "durationMs": self.duration,
            "lost": list(self.lost),
            "findings": [each.as_dict() for each in self.findings],
        }


@dataclass(frozen=True, slots=True)
class DrillResult:
    """A drill. Times are ms since the epoch."""

    place: str
    """The snapshot, as ``URL@SNAPSHOT``."""
    snapshot: Snapshot
    tool: str
    """What drilled."""
    began: int
    ended: int
    scratch: str | None
    """Where the rebuilt cluster is; None where it was removed."""
    checks: tuple[DrillCheck, ...]
    not_tried: tuple[str, ...]
    """For people, what the checks do not show."""
    partitions: tuple[str, ...] | None = None
    """The names of the partitions that alone were tried; None for all."""
    kafka: str | None = None
    """The version of the broker that was started, if one was."""

    __repr__ = short_repr
    _repr_html_ = short_html

    @property
    def is_clean(self) -> bool:
        """Whether every check was."""
        return all(each.is_clean for each in self.checks)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Those of all checks."""
        return tuple(finding for each in self.checks for finding in each.findings)

    def as_dict(self) -> dict[str, Any]:
        """Return the evidence."""
        return {
            "drill": VERSION,
            "tool": self.tool,
            "place": self.place,
            "snapshot": self.snapshot.id,
            "name": self.snapshot.name,
            "created": self.snapshot.created,
            "clusterId": self.snapshot.cluster_id,
            "began": self.began,
            "durationMs": self.ended - self.began,
            "isClean": self.is_clean,
            "scratch": self.scratch,
            "kafka": self.kafka,
            "partitions": None if self.partitions is None else list(self.partitions),
            "checks": [each.as_dict() for each in self.checks],
            "notTried": list(self.not_tried),
        }
