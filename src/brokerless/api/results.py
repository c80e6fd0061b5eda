"""What :meth:`Log.audit` and :meth:`Log.restart` return: results of all partitions, and of the log directory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from brokerless.findings import Finding
from brokerless.text import short_html, short_repr

if TYPE_CHECKING:
    from brokerless.jobs.audit.job import PartitionAudit
    from brokerless.jobs.restart.results import DirectoryRestart, Restart


@dataclass(frozen=True, slots=True)
class LogAudit:
    """What ``Log.audit()`` found: in each partition, and in the log directory as a whole (``findings``)."""

    partitions: tuple[PartitionAudit, ...]
    findings: tuple[Finding, ...]

    __repr__ = short_repr
    _repr_html_ = short_html


@dataclass(frozen=True, slots=True)
class LogRestart:
    """What ``Log.restart()`` expects of each partition, and of the log directory as a whole; ``directory`` is None
    for the path of a partition or a file."""

    partitions: tuple[Restart, ...]
    directory: DirectoryRestart | None

    __repr__ = short_repr
    _repr_html_ = short_html

    @property
    def is_harmless(self) -> bool:
        """Whether all that can be read now is served afterwards."""
        return all(each.is_harmless for each in self.partitions) and (
            self.directory is None or self.directory.is_harmless
        )
