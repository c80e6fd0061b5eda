"""A backup by its place: whether there is one, and which snapshots it has."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from brokerless import clock
from brokerless.errors import UnreadableError, UsageError
from brokerless.log.snapshots.names import CONFIG, DIRECTORY, LATEST, SnapshotName, parse_stem
from brokerless.log.snapshots.snapshot import (
    LIMIT,
    BackupConfig,
    Snapshot,
    SnapshotFile,
    SnapshotSegment,
    parse_config,
    parse_segments,
    parse_snapshot,
)
from brokerless.log.storage.location import Location

_SHORTEST_ID = 4
_SMALL = 1 << 20
_LARGEST_FILE = 1 << 30


@dataclass(frozen=True, slots=True)
class BackupPlace:
    """A directory or a URL with a backup, or where one is to be."""

    location: Location

    @property
    def own(self) -> Location:
        """What is next to the topics."""
        return self.location / DIRECTORY

    @property
    def config_file(self) -> Location:
        return self.own / CONFIG

    @property
    def snapshot_directory(self) -> Location:
        return self.own / "snapshots"

    def file(self, sha256: str) -> Location:
        return self.own / "files" / sha256

    def config(self) -> BackupConfig | None:
        """None where there is no backup. Raises :class:`UnreadableError` for one of a later version."""
        if not self.config_file.exists():
            return None
        return parse_config(self.config_file, self.config_file.read(_SMALL))

    def names(self) -> list[SnapshotName]:
        """All snapshots, the oldest first."""
        directory = self.snapshot_directory
        entries = directory.entries() if directory.is_directory() else []
        stems = (each.name.removesuffix(".json") for each in entries if each.name.endswith(".json"))
        return sorted(each for each in map(parse_stem, stems) if each is not None)

    def snapshot(self, name: SnapshotName) -> Snapshot:
        """Raises :class:`UnreadableError`, also where the file is of another snapshot than its name."""
        file = self.snapshot_directory / f"{name.stem}.json"
        found = parse_snapshot(file, file.read(LIMIT))
        if (found.id, found.created) != (name.id, name.created):
            raise UnreadableError(file.path, f"this is the snapshot {found.id}, and not the one of its name")
        return found

    def segments(self, name: SnapshotName, snapshot: Snapshot) -> list[SnapshotSegment]:
        """Raises :class:`UnreadableError`, also where the list is not the one that the snapshot was written with."""
        file = self.snapshot_directory / f"{name.stem}.parquet"
        data = file.read(LIMIT)
        if hashlib.sha256(data).hexdigest() != snapshot.segments.sha256:
            raise UnreadableError(file.path, f"this is not the list of segments that snapshot {name.id} has")
        return parse_segments(file, data)

    def read_file(self, file: SnapshotFile) -> bytes:
        """A file without records. Raises :class:`UnreadableError`, also where it is another one."""
        location = self.file(file.sha256)
        data = location.read(_LARGEST_FILE)
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise UnreadableError(location.path, f"this is not the {file.name} that was stored")
        return data

    def find(self, text: str) -> SnapshotName:
        """The snapshot that people call so: by its ID or the beginning of one, its name, ``latest``, or a time, for the
        last one before that. Raises :class:`UsageError` where there is none."""
        known = self.names()
        if not known:
            raise UsageError(f"{self.location}: this backup has no snapshot yet")
        if text == LATEST:
            return known[-1]
        same = [each for each in known if len(text) >= _SHORTEST_ID and each.id.startswith(text)]
        if len(same) == 1:
            return same[0]
        if len(same) > 1:
            raise UsageError(f"{self.location}: several snapshots begin with {text}: {', '.join(e.id for e in same)}")
        if (named := next(self._named(known, text), None)) is not None:
            return named
        return self._before(known, text)

    def _named(self, known: list[SnapshotName], text: str) -> Iterator[SnapshotName]:
        """Those of this name, the newest first. One that cannot be read has none."""
        for each in reversed(known):
            try:
                found = self.snapshot(each).name
            except UnreadableError:
                continue
            if found == text:
                yield each

    def _before(self, known: list[SnapshotName], text: str) -> SnapshotName:
        try:
            at = clock.milliseconds(text)
        except UsageError:
            at = None
        if at is None:
            raise UsageError(f"{self.location}: no snapshot is called {text}; brokerless snapshots lists them")
        before = [each for each in known if each.created <= at]
        if not before:
            raise UsageError(f"{self.location}: no snapshot is of {text} or before; the first is {known[0].stem}")
        return before[-1]
