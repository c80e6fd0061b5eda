"""A snapshot of a backup as one log directory: its partitions with their segments, and the files of the disk that had
the newest metadata."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from brokerless.errors import UnreadableError
from brokerless.log import names
from brokerless.log.backups.names import SnapshotName, parse_stem
from brokerless.log.backups.place import BackupPlace
from brokerless.log.backups.snapshot import Snapshot, SnapshotFile, SnapshotPartition, SnapshotSegment
from brokerless.log.storage.location import Location


@dataclass(frozen=True)
class SnapshotState:
    """A snapshot's state: its segments as they are read, after all erasures."""

    backup: BackupPlace
    snapshot: Snapshot
    segments: Mapping[tuple[str, int], list[SnapshotSegment]]
    """The segments of each partition, by the topic's ID and the partition's number."""
    replaced: Sequence[SnapshotName] = ()
    """The names of the lists of erasures by which these are the segments that are read."""

    @property
    def is_current(self) -> bool:
        """Whether no erasure has replaced segments since."""
        return tuple(name for name, _ in self.backup.replaced_lists()) == tuple(self.replaced)

    def partition(self, topic_id: str | None, number: int) -> SnapshotPartition | None:
        """Return what the snapshot says of a partition; None where it does not have it."""
        place = topic_id, number
        return next((each for each in self.snapshot.partitions if each.place == place), None)

    @cached_property
    def _files(self) -> Mapping[str, SnapshotFile]:
        """The files of the disk with the metadata, by their names there."""
        metadata = self.snapshot.metadata
        start = f"disk-{1 if metadata is None else metadata.disk}/"
        own = [each for each in self.snapshot.files if each.name.startswith(start)]
        shown = [each for each in own if "/" in each.name[len(start) :] or each.name == start + names.META_PROPERTIES]
        return {each.name[len(start) :]: each for each in shown}

    def root_files(self) -> Mapping[str, SnapshotFile]:
        """Return the files of the log directory."""
        return {name: file for name, file in self._files.items() if "/" not in name}

    def files_of(self, directory: str) -> Mapping[str, SnapshotFile]:
        """Return the files of a partition's directory that are of no segment."""
        start = f"{directory}/"
        return {name[len(start) :]: file for name, file in self._files.items() if name.startswith(start)}


def load_state(location: Location, stem: str) -> SnapshotState:
    """Raises :class:`UnreadableError` where there is no such snapshot, or it cannot be read."""
    backup, name = BackupPlace(location), parse_stem(stem)
    if name is None:
        raise UnreadableError(location.path, f"{stem} is not what a snapshot is called")
    segments: dict[tuple[str, int], list[SnapshotSegment]] = defaultdict(list)
    try:
        known = backup.replacements()
        snapshot, listed = backup.applied(name, backup.snapshot(name), known)
        for each in listed:
            segments[each.place].append(each)
    except UnreadableError as error:
        earlier = [each for each in backup.names() if each < name]
        advice = f"; the snapshot before it is {location.path.rstrip('/')}@{earlier[-1].id}" if earlier else ""
        raise UnreadableError(error.path, f"{error.reason}{advice}", error.kind) from error
    return SnapshotState(backup, snapshot, segments, tuple(each.name for each in known.lists))
