"""A partition whose records are elsewhere than in segments, and are copied into such to be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from brokerless.findings import Finding
from brokerless.log.directory import PartitionPath


class Unread(NamedTuple):
    """Offsets ``[first, end)`` that a side cannot be read at, and why."""

    first: int
    end: int
    finding: Finding


@dataclass(frozen=True, slots=True)
class CopiedPartition(PartitionPath):
    """A partition whose records are elsewhere than in segments. With ``segments``, it is the copy."""

    url: str = ""
    """What it is called."""
    topic_id: str | None = None
    begin: int = 0
    """Its first offset."""
    end: int = 0
    """The offset after its last one."""
    cleanup_policy: str | None = None
    """The policy of its topic; None if nobody may know it."""
    unread: tuple[Unread, ...] = ()
    """What could not be copied, in the order of its offsets."""
    repeated: Path | None = None
    """A file with the offsets of rows that came again and are not in the copy."""
    undecoded: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """Files with the offsets of each ``key`` and ``value`` that a decoded table has as bytes; its copy has hashes of
    keys and values."""
