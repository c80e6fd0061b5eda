"""Finds the files of segments in a partition's directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from brokerless.log import names
from brokerless.log.storage.location import Location


@dataclass(frozen=True, slots=True)
class SegmentFiles:
    """The files of segments in a partition's directory. ``actual`` has, for each name, what the file is called now:
    something else if a finished compaction's output is yet to take its place."""

    directory: Path
    actual: Mapping[str, str]

    def path(self, base_offset: int, kind: names.SegmentFileKind) -> Path:
        name = names.segment_file(base_offset, kind)
        return self.directory / self.actual.get(name, name)

    def has(self, base_offset: int, kind: names.SegmentFileKind) -> bool:
        return names.segment_file(base_offset, kind) in self.actual

    def offsets(self, kind: names.SegmentFileKind) -> list[int]:
        """The offsets of all files of a kind, sorted."""
        files = (names.parse_segment_file(name) for name in self.actual)
        return sorted(file.offset for file in files if file and file.kind == kind and file.state == "live")


def list_files(directory: Path) -> SegmentFiles:
    """What is in the directory now."""
    return SegmentFiles(
        directory, {entry.name: entry.name for entry in Location(str(directory)).entries() if not entry.is_directory}
    )
