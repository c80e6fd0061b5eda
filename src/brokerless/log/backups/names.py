"""Names of a backup's own files, and paths that name a snapshot. It imports nothing heavy: every path passes here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from brokerless.log.storage.location import DirectoryEntry, Location

DIRECTORY = ".brokerless"
"""What is next to the topics of a backup."""
CONFIG = "config.json"
LATEST = "latest"
_STEM = re.compile(r"(?P<time>[0-9]{8}T[0-9]{6})(?P<ms>[0-9]{3})Z-(?P<id>[0-9a-f]{8})")
_SECONDS = "%Y%m%dT%H%M%S"


@dataclass(frozen=True, slots=True, order=True)
class SnapshotName:
    """The name of a snapshot's files, without what they end with."""

    created: int
    """In ms since the epoch."""
    id: str

    @property
    def stem(self) -> str:
        at = datetime.fromtimestamp(self.created // 1000, UTC)
        return f"{at:{_SECONDS}}{self.created % 1000:03d}Z-{self.id}"


def parse_stem(text: str) -> SnapshotName | None:
    """Parse the name of a snapshot's file, without what it ends with; None for any other."""
    match = _STEM.fullmatch(text)
    if match is None:
        return None
    try:
        at = datetime.strptime(match["time"], _SECONDS).replace(tzinfo=UTC)
    except ValueError:
        return None
    return SnapshotName(int(at.timestamp()) * 1000 + int(match["ms"]), match["id"])


def is_backup(entries: Sequence[DirectoryEntry]) -> bool:
    """Return whether a directory may have a backup, by the names in it."""
    return any(each.name == DIRECTORY and each.is_directory for each in entries)


def has_backup(location: Location) -> bool:
    """Return whether there is a backup in a place."""
    return (location / DIRECTORY / CONFIG).exists()


def split_path(location: Location) -> tuple[Location, str] | None:
    """Return ``URL@SNAPSHOT`` as the place of a backup and what the snapshot is called; None for another path, and
    where there is no backup."""
    path, at, text = location.path.rstrip("/").rpartition("@")
    if not at or not path or not text or "/" in text:
        return None
    place = location.at(path)
    return (place, text) if has_backup(place) else None
