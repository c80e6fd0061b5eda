"""Partitions that a running broker makes in a directory while that is served."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from brokerless.errors import UnreadableError
from brokerless.log.directory import LogDirectory, PartitionPath, resolve
from brokerless.log.names import CLUSTER_METADATA, parse_partition_directory
from brokerless.log.storage.location import Location

IsWanted = Callable[[str, int], bool]
"""Whether a partition is to be served: by topic and number."""
_WRITTEN_WITHIN_S = 5.0
"""A broker writes the topic's ID soon after it has made the directory."""


@dataclass(slots=True)
class NewPartitions:
    """A search for new partitions in local log directories. Nothing is read where nothing was made."""

    is_wanted: IsWanted | None
    """Returns whether a partition is to be served; None for all."""
    _seen: dict[Path, set[str]] = field(default_factory=dict[Path, set[str]])
    _modified: dict[Path, int] = field(default_factory=dict[Path, int])

    @classmethod
    def since(cls, directories: Iterable[LogDirectory], is_wanted: IsWanted | None = None) -> NewPartitions:
        """Those that were not there when the directories were listed."""
        new = cls(is_wanted)
        for each in directories:
            if each.is_local_log_directory:
                listed = (*each.partitions, *each.others)
                new._seen[each.location.local] = {partition.location.name for partition in listed}
        return new

    def look(self) -> list[PartitionPath]:
        """Return the partitions that were made since the last look, as far as they are complete."""
        return [partition for directory, seen in self._seen.items() for partition in self._in(directory, seen)]

    def _in(self, directory: Path, seen: set[str]) -> Sequence[PartitionPath]:
        with suppress(OSError):
            modified = directory.stat().st_mtime_ns
            if self._modified.get(directory) == modified:
                return []
            names = {each.name for each in directory.iterdir()} - seen
            found = {name: self._listed(directory / name) for name in names}
            for name, partition in found.items():
                if partition is not None:
                    seen.add(name)
            if all(found.values()) or not any(map(self._may_become_one, names)):
                self._modified[directory] = modified  # else its files are checked again
            return [each for each in found.values() if each is not None]
        return []

    def _may_become_one(self, name: str) -> bool:
        parsed = parse_partition_directory(name)
        if parsed is None or parsed.state != "live" or parsed.topic == CLUSTER_METADATA:
            return False
        return self.is_wanted is None or self.is_wanted(parsed.topic, parsed.partition)

    def _listed(self, path: Path) -> PartitionPath | None:
        """A partition of this path; None for anything else, and for one whose files are not all there yet."""
        if not self._may_become_one(path.name) or not path.is_dir():
            return None
        with suppress(UnreadableError, OSError):
            (found,) = resolve(Location(str(path))).partitions
            is_old = time.time() - path.stat().st_mtime > _WRITTEN_WITHIN_S
            if found.segments and (found.partition_metadata is not None or is_old):
                return found
        return None
