"""A backup by its place: whether there is one, and which snapshots it has."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from brokerless import clock
from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding, Kind
from brokerless.log.backups.names import CONFIG, DIRECTORY, LATEST, SnapshotName, parse_stem
from brokerless.log.backups.replaced import ReplacedList, Replacements, parse_replaced
from brokerless.log.backups.snapshot import (
    CONFIG_FILE,
    KEYS_FILE,
    LIMIT,
    NAME,
    BackupConfig,
    RunKeys,
    Snapshot,
    SnapshotFile,
    SnapshotSegment,
    parse_segments,
    parse_snapshot,
)
from brokerless.log.storage.location import DirectoryEntry, Location
from brokerless.log.storage.side_by_side import side_by_side

SETS = "sets"
"""Where the parts of sets are: ``sets/NAME/node-1/TIME-ID.json``."""
FORGOTTEN = "forgotten"
"""Where the files of a snapshot are between being forgotten and being removed."""
_PART = re.compile(r"node-[0-9]+(-[0-9]+)*")
_SHORTEST_ID = 4
_SMALL = 1 << 20
_LARGEST_FILE = 1 << 30


@dataclass(frozen=True, slots=True)
class BackupPlace:
    """A directory or a URL with a backup, or where one is to be."""

    location: Location
    snapshots: str = "snapshots"

    @property
    def own(self) -> Location:
        """What is next to the topics."""
        return self.location / DIRECTORY

    @property
    def config_file(self) -> Location:
        return self.own / CONFIG

    @property
    def snapshot_directory(self) -> Location:
        return self.own / self.snapshots

    @property
    def forgotten_directory(self) -> Location:
        return self.own / FORGOTTEN

    def forgotten(self) -> BackupPlace:
        """Return the place with the snapshots that were forgotten."""
        return BackupPlace(self.location, FORGOTTEN)

    def part(self, set_name: str, nodes: Iterable[int]) -> BackupPlace:
        """Return the place with the runs of one host in a set of hosts; ``nodes``: those whose disks the host has."""
        return BackupPlace(self.location, f"{SETS}/{set_name}/node-{'-'.join(map(str, sorted(set(nodes))))}")

    def sets(self) -> list[str]:
        """Return the names of sets of which hosts have stored parts."""
        return [each for each in _directories_in(self.own / SETS) if NAME.fullmatch(each)]

    def parts(self, set_name: str) -> list[BackupPlace]:
        """Return the parts of a set, each as a place with the runs of one host."""
        found = _directories_in(self.own / SETS / set_name)
        own = [each for each in found if _PART.fullmatch(each)]
        return [BackupPlace(self.location, f"{SETS}/{set_name}/{each}") for each in own]

    @property
    def file_directory(self) -> Location:
        return self.own / "files"

    def file(self, sha256: str) -> Location:
        return self.file_directory / sha256

    @property
    def check_directory(self) -> Location:
        """The ledger of which objects were read when."""
        return self.own / "checks"

    @property
    def drill_directory(self) -> Location:
        """What drills of snapshots have tried and found: ``TIME-ID.json`` by the snapshot's ID, and signatures."""
        return self.own / "drills"

    @property
    def key_directory(self) -> Location:
        return self.own / "keys"

    @property
    def replaced_directory(self) -> Location:
        """The lists of segments that erasures replaced."""
        return self.own / "replaced"

    def replaced_file(self, name: SnapshotName) -> Location:
        return self.replaced_directory / f"{name.stem}.parquet"

    def keys_file(self, run: str) -> Location:
        return self.key_directory / f"{run}.json"

    def run_keys(self) -> list[RunKeys]:
        """Return the data keys of all runs, encrypted. Raises :class:`UnreadableError`."""
        entries = self.key_directory.find_entries()
        runs = [each.name.removesuffix(".json") for each in entries if each.name.endswith(".json")]
        return list(side_by_side(self.keys_of, runs, self.location.is_remote))

    def keys_of(self, run: str) -> RunKeys:
        """Return the data key of a run, encrypted. Raises :class:`UnreadableError`."""
        return KEYS_FILE.load(self.keys_file(run))

    def config(self) -> BackupConfig | None:
        """Return what makes it a backup; None where there is no backup. Raises :class:`UnreadableError` for one of a
        later version."""
        return CONFIG_FILE.find(self.config_file)

    def names(self) -> list[SnapshotName]:
        """Return all snapshots, the oldest first."""
        return self.names_by_suffix()[0]

    def names_by_suffix(self) -> tuple[list[SnapshotName], list[SnapshotName]]:
        """Return all snapshots, the oldest first; and all lists of segments."""
        entries = self.snapshot_directory.find_entries()

        def named(suffix: str) -> list[SnapshotName]:
            stems = (each.name.removesuffix(suffix) for each in entries if each.name.endswith(suffix))
            return sorted(each for each in map(parse_stem, stems) if each is not None)

        return named(".json"), named(".parquet")

    def snapshot(self, name: SnapshotName) -> Snapshot:
        """Raises :class:`UnreadableError`, also where the file is of another snapshot than its name."""
        file = self.snapshot_directory / f"{name.stem}.json"
        found = parse_snapshot(file, self.snapshot_data(name))
        if (found.id, found.created) != (name.id, name.created):
            text = f"this is the snapshot {found.id}, and not the one of its name"
            raise UnreadableError(file.path, text, Kind.SNAPSHOT_UNREADABLE)
        return found

    def snapshot_data(self, name: SnapshotName) -> bytes:
        """Return the JSON of a snapshot, which is what is signed. Raises :class:`UnreadableError`."""
        return _read(self.snapshot_directory / f"{name.stem}.json")

    def segments_data(self, name: SnapshotName) -> bytes:
        """Return the list of its segments, as it was written. Raises :class:`UnreadableError`."""
        return _read(self.segments_file(name))

    def signature(self, name: SnapshotName) -> bytes | None:
        """Return the signature of a snapshot; None without one. Raises :class:`UnreadableError`."""
        file = self.snapshot_directory / f"{name.stem}.sig"
        return file.read(_SMALL) if file.exists() else None

    def segments(
        self, name: SnapshotName, snapshot: Snapshot, replacements: Replacements | None = None
    ) -> list[SnapshotSegment]:
        """Return the segments that are read of a snapshot, as :meth:`applied`."""
        return self.applied(name, snapshot, replacements)[1]

    def applied(
        self, name: SnapshotName, snapshot: Snapshot, replacements: Replacements | None = None
    ) -> tuple[Snapshot, list[SnapshotSegment]]:
        """Return a snapshot as it is read, with its segments, some of which erasures may have replaced.
        ``replacements``: all of them, where they were loaded before. Raises :class:`UnreadableError`, also where the
        list is not the one that the snapshot was written with."""
        file, data = self.segments_file(name), self.segments_data(name)
        if hashlib.sha256(data).hexdigest() != snapshot.segments.sha256:
            text = f"this is not the list of segments that snapshot {name.id} has"
            raise UnreadableError(file.path, text, Kind.SNAPSHOT_UNREADABLE)
        known = self.replacements() if replacements is None else replacements
        return known.applied(snapshot, parse_segments(file, data))

    def replacements(self) -> Replacements:
        """Return what erasures replaced. Raises :class:`UnreadableError` for a list that cannot be read: nobody knows
        then which segments are to be read."""
        known = self.replaced_lists()

        def load(at: int) -> ReplacedList:
            name, entry = known[at]
            segments = parse_replaced(entry.location, _read(entry.location))
            return ReplacedList(name, entry.location, segments, entry.written)

        return Replacements(list(side_by_side(load, range(len(known)), self.location.is_remote)))

    def replaced_lists(self) -> list[tuple[SnapshotName, DirectoryEntry]]:
        """Return the lists of segments that erasures replaced, the oldest first."""
        entries = self.replaced_directory.find_entries()
        named = ((parse_stem(each.name.removesuffix(".parquet")), each) for each in entries)
        return sorted(((name, each) for name, each in named if name is not None), key=lambda one: one[0])

    def segments_file(self, name: SnapshotName) -> Location:
        return self.snapshot_directory / f"{name.stem}.parquet"

    def without_segments(self, name: SnapshotName) -> Finding:
        """Return the finding about a snapshot whose list of segments is missing."""
        error = UnreadableError(self.segments_file(name).path, f"the list of segments of snapshot {name.id} is missing")
        return _unreadable(error).finding(error.path)

    def read_file(self, file: SnapshotFile) -> bytes:
        """Return what is stored of a file without records. Raises :class:`UnreadableError`, also for another one."""
        location = self.file(file.stored_sha256)
        data = location.read(_LARGEST_FILE)
        if hashlib.sha256(data).hexdigest() != file.stored_sha256:
            raise UnreadableError(location.path, f"this is not the {file.name} that was stored")
        return data

    def find(self, text: str) -> SnapshotName:
        """Return the snapshot that people call so: by its ID or the beginning of one, its name, ``latest``, or a time,
        for the last one before that. Raises :class:`UsageError` where there is none."""
        known = self.names()
        if not known:
            of_set = f"; {self._not_found(text)}" if text in self.sets() else ""
            raise UsageError(f"{self.location}: this backup has no snapshot yet{of_set}")
        if text == LATEST:
            return self._latest(known)
        same = [each for each in known if len(text) >= _SHORTEST_ID and each.id.startswith(text)]
        if len(same) == 1:
            return same[0]
        if len(same) > 1:
            raise UsageError(f"{self.location}: several snapshots begin with {text}: {', '.join(e.id for e in same)}")
        if (named := next(self._named(known, text), None)) is not None:
            return named
        return self._before(known, text)

    def _latest(self, known: list[SnapshotName]) -> SnapshotName:
        """The newest of all topics, or else the newest. One that cannot be read may be it."""
        for each in reversed(known):
            try:
                if not self.snapshot(each).is_selection:
                    return each
            except UnreadableError:
                return each
        return known[-1]

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
            raise UsageError(f"{self.location}: {self._not_found(text)}")
        before = [each for each in known if each.created <= at]
        if not before:
            raise UsageError(f"{self.location}: no snapshot is of {text} or before; the first is {known[0].stem}")
        return before[-1]

    def _not_found(self, text: str) -> str:
        if text in self.sets():
            advice = f"brokerless snapshots --join {text} makes a snapshot of those that are there"
            return f"the set {text} has not the parts of all hosts yet; {advice}"
        return f"no snapshot is called {text}; brokerless snapshots lists them"


def _directories_in(directory: Location) -> list[str]:
    return sorted(each.name for each in directory.find_entries() if each.is_directory)


def _read(file: Location) -> bytes:
    """A file of a snapshot. Raises :class:`UnreadableError`."""
    try:
        return file.read(LIMIT)
    except UnreadableError as error:
        raise _unreadable(error) from error


def _unreadable(error: UnreadableError) -> UnreadableError:
    return UnreadableError(error.path, error.reason, Kind.SNAPSHOT_UNREADABLE)
