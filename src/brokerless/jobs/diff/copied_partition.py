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
    """``url``: what it is called; ``begin`` and ``end``: its first offset and the one after its last;
    ``cleanup_policy``: that of its topic, None if nobody may know it. With ``segments``, it is the copy; ``unread``:
    what could not be copied, in the order of its offsets; ``repeated``: a file with the offsets of rows that came again
    and are not in the copy; ``undecoded``: of a decoded table, whose copy has hashes of keys and values, files with the
    offsets of each ``key`` and ``value`` that it has as bytes."""

    url: str = ""
    topic_id: str | None = None
    begin: int = 0
    end: int = 0
    cleanup_policy: str | None = None
    unread: tuple[Unread, ...] = ()
    repeated: Path | None = None
    undecoded: Mapping[str, Path] = field(default_factory=dict[str, Path])
