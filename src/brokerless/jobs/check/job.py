"""Checks a backup: each object that a snapshot names is there in its size, and if it is read, in its bytes.

No key is needed: the hashes are those of the objects as they are stored.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Literal

import xxhash

from brokerless import clock
from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.jobs.check.seal import check_seal, unsigned_findings, unsigned_snapshots
from brokerless.jobs.check.snapshots import load_parts, load_with_segments
from brokerless.jobs.ledger import Checked, Ledger
from brokerless.jobs.run.job import longest_first, run
from brokerless.jobs.run.types import HERE, RunOptions
from brokerless.jobs.turns import Item, Turn
from brokerless.log.backups.place import BackupPlace
from brokerless.log.backups.snapshot import Snapshot, SnapshotFile, SnapshotSegment
from brokerless.log.storage.atomic import SUFFIX
from brokerless.log.storage.location import Location
from brokerless.log.storage.side_by_side import side_by_side
from brokerless.log.tiered.detection import backup_at
from brokerless.log.tiered.listing.stored_objects import (
    check_sizes,
    file_differs,
    object_differs,
    segment_objects,
    sizes_in,
    stored_objects,
)
from brokerless.log.tiered.object_names import object_name, segment_directory
from brokerless.log.tiered.segments import object_missing
from brokerless.progress import Done
from brokerless.text import short_html, short_repr

ReadExtent = int | Literal["all"]
"""What is read of the objects: everything, or so many bytes in a run."""
_OBJECT = "object"
_WINDOW = 8 << 20
PartitionKey = tuple[str, str, int]
"""A topic, its ID, and a partition's number."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What was found of a backup."""

    place: str
    """Where the backup is."""
    snapshots: tuple[Snapshot, ...]
    """The snapshots that were checked."""
    objects: int
    """How many objects these snapshots name."""
    size: int
    """Bytes of these objects."""
    unnamed: int | None
    """How many objects of segments no snapshot names, as interrupted runs leave them; None if not all snapshots were
    checked, or one could not be read."""
    unnamed_size: int | None
    """Bytes of these objects."""
    findings: tuple[Finding, ...]
    is_read: bool
    """Whether the bytes of all objects were read."""
    turn: Turn | None = None
    """What was read, and how far all runs together have come, where a run reads a part."""

    __repr__ = short_repr
    _repr_html_ = short_html


@dataclass(frozen=True, slots=True)
class _ObjectsTask:
    """The segments of one partition whose objects are read."""

    directory: Location
    place: PartitionKey
    """The partition, as ledgers and findings name it."""
    segments: tuple[SnapshotSegment, ...]

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(map(_stored_size, self.segments))


def check_backup(
    location: Location,
    read: ReadExtent | None = None,
    *,
    seal: str | None = None,
    trusted: Sequence[bytes] = (),
    running: RunOptions = HERE,
) -> CheckResult:
    """Check a backup, or one snapshot of it. ``location``: a backup, of which all snapshots are checked, or
    ``URL@SNAPSHOT``. ``read``: what is read; of a number of bytes, a ledger in the backup keeps what was read when.
    ``seal``: a file with what was sealed. ``trusted``: public keys, by one of which each snapshot has to be signed.

    Raises :class:`UnreadableError` where there is no backup, UsageError for no such snapshot, and UnwritableError where
    the ledger cannot be written."""
    place, chosen = backup_at(location)
    findings: list[Finding] = []
    known = _readable(load_with_segments(place, place.names() if chosen is None else [chosen]), findings)
    snapshots = tuple(snapshot for snapshot, _ in known)
    if chosen is None:
        known += _readable(load_parts(place, {one for each in snapshots for one in each.parts}), findings)
    segments = {(each.place, each.start_offset, each.segment_id): each for _, listed in known for each in listed}
    read_ids = {segment_id for _, _, segment_id in segments}
    findings += [] if findings else place.replacements().findings(read_ids)
    if trusted:
        findings += unsigned_findings(place, unsigned_snapshots(place, snapshots, trusted))
    findings += [] if seal is None else check_seal(place, seal, trusted)
    is_all = chosen is None and not any(each.kind == Kind.SNAPSHOT_UNREADABLE for each in findings)
    by_place: dict[PartitionKey, list[SnapshotSegment]] = defaultdict(list)
    for each in segments.values():
        by_place[each.topic, each.topic_id, each.partition].append(each)
    directories = {each: segment_directory(place.location, *each) for each in by_place}
    listed = side_by_side(sizes_in, list(directories.values()), place.location.is_remote)
    sizes = dict(zip(directories, listed, strict=True))
    wrong: set[SnapshotSegment] = set()
    for each, own in by_place.items():
        for segment in own:
            found = list(check_sizes(directories[each], segment, sizes[each]))
            findings += found
            wrong |= {segment} if found else set()
    files = {each.stored_sha256: each for snapshot, _ in known for each in snapshot.files}
    tasks = [
        _ObjectsTask(directories[each], each, tuple(one for one in own if one not in wrong))
        for each, own in by_place.items()
    ]
    turn = None if read is None or read == "all" else _begin_turn(place, tasks, files, budget=read, is_all=is_all)
    chosen_files = {} if read is None else files if turn is None else _chosen_files(files, turn)
    of_files = list(_check_files(place, list(files.values()), chosen_files))
    findings += [finding for _, finding in of_files]
    findings += _check_keys(place, [snapshot for snapshot, _ in known if snapshot.key_pairs])
    if turn is not None:
        for stored in chosen_files.values():
            turn.add(_checked_file(stored, turn, [finding for each, finding in of_files if each == stored]))
        tasks = _chosen_tasks(tasks, turn)
    if read is not None:
        findings += _read_all(tasks, running, turn)
    if turn is not None:
        turn.end()
    unnamed = None if not is_all else _unnamed(place, set(segments))
    expected = [one for each in segments.values() for one in stored_objects(each)]
    return CheckResult(
        place.location.path, snapshots, len(expected) + len(files),
        size=sum(each.size for each in expected) + sum(each.stored_size_in_bytes for each in files.values()),
        unnamed=None if unnamed is None else unnamed[0], unnamed_size=None if unnamed is None else unnamed[1],
        findings=tuple(findings), is_read=read == "all", turn=turn,
    )  # fmt: skip


def _begin_turn(
    place: BackupPlace, tasks: Sequence[_ObjectsTask], files: Mapping[str, SnapshotFile], *, budget: int, is_all: bool
) -> Turn:
    """Begin the turn of a run that reads ``budget`` bytes. ``is_all``: these are all objects of the backup, so that
    others in the ledger are gone."""
    ledger = Ledger(place.check_directory)
    ledger.load()
    items = {_path(task.place, each): Item(each.sha256, _stored_size(each)) for task in tasks for each in task.segments}
    items |= {_path_of_file(each): Item(each.stored_sha256, each.stored_size_in_bytes) for each in files.values()}
    return Turn.begin(ledger, _OBJECT, items, budget=budget, roots=("/",) if is_all else ())


def _path(place: PartitionKey, segment: SnapshotSegment) -> str:
    """Return by what the ledger knows a segment's objects."""
    return f"/{place[1]}/{place[2]}/{segment.start_offset:020d}-{segment.segment_id}"


def _path_of_file(file: SnapshotFile) -> str:
    return f"/files/{file.stored_sha256}"


def _stored_size(segment: SnapshotSegment) -> int:
    return sum(each.size for each in stored_objects(segment))


def _chosen_tasks(tasks: Sequence[_ObjectsTask], turn: Turn) -> list[_ObjectsTask]:
    """A task for each segment that this run reads, so that what was read is recorded at once."""
    return [
        replace(task, segments=(each,))
        for task in tasks
        for each in task.segments
        if _path(task.place, each) in turn.chosen
    ]


def _chosen_files(files: Mapping[str, SnapshotFile], turn: Turn) -> dict[str, SnapshotFile]:
    return {name: each for name, each in files.items() if _path_of_file(each) in turn.chosen}


def _checked_file(file: SnapshotFile, turn: Turn, findings: Sequence[Finding]) -> Checked:
    own = _path_of_file(file), file.stored_sha256, clock.now(), turn.run_id
    return Checked(_OBJECT, *own, topic=None, partition=None, findings=tuple(findings))


def _checked_segment(task: _ObjectsTask, turn: Turn, findings: Sequence[Finding]) -> Checked:
    (segment,) = task.segments
    own = _path(task.place, segment), segment.sha256, clock.now(), turn.run_id
    return Checked(_OBJECT, *own, topic=task.place[0], partition=task.place[2], findings=tuple(findings))


def _check_files(
    place: BackupPlace, files: Sequence[SnapshotFile], read: Mapping[str, SnapshotFile]
) -> Iterator[tuple[SnapshotFile, Finding]]:
    """Yield files that are not there, not of their size, or, of those in ``read``, not of their bytes."""
    sizes = sizes_in(place.file_directory)
    for each in files:
        path = place.file(each.stored_sha256).path
        if each.stored_sha256 not in sizes:
            yield each, object_missing(path, 0, f"the file {each.name} is missing")
        elif sizes[each.stored_sha256] not in (None, each.stored_size_in_bytes):
            yield each, file_differs(path, each.name)
        elif each.stored_sha256 in read:
            data = place.file(each.stored_sha256).read(max(each.stored_size_in_bytes, 1))
            if hashlib.sha256(data).hexdigest() != each.stored_sha256:
                yield each, file_differs(path, each.name)


def _check_keys(place: BackupPlace, snapshots: Sequence[Snapshot]) -> Iterator[Finding]:
    """The data key of each run is there, for all key pairs but the first, which segments have it for themselves."""

    runs = list(dict.fromkeys(run for each in snapshots for run in each.runs))

    def load(at: int) -> Finding | None:
        file = place.keys_file(runs[at])
        if not file.exists():
            return object_missing(file.path, 0, f"the data key of snapshot {runs[at]} is missing")
        try:
            place.keys_of(runs[at])
        except UnreadableError as error:
            return error.finding(file.path)
        return None

    yield from (each for each in side_by_side(load, range(len(runs)), place.location.is_remote) if each)


def _readable(
    loaded: Iterable[tuple[Snapshot, list[SnapshotSegment]] | UnreadableError], findings: list[Finding]
) -> list[tuple[Snapshot, list[SnapshotSegment]]]:
    """Return the snapshots that can be read, and add to ``findings`` what keeps others from it, each once."""
    readable: list[tuple[Snapshot, list[SnapshotSegment]]] = []
    for each in loaded:
        if not isinstance(each, UnreadableError):
            readable.append(each)
        elif (finding := each.finding(each.path)) not in findings:
            findings.append(finding)
    return readable


def _read_all(tasks: Sequence[_ObjectsTask], running: RunOptions, turn: Turn | None) -> list[Finding]:
    found: dict[int, list[Finding]] = {}
    with closing(run(read_task, tasks, running, name="brokerless check", order=longest_first(tasks))) as results:
        for at, value in results:
            found[at] = value
            if turn is not None:
                turn.add(_checked_segment(tasks[at], turn, value))
    return [finding for at in range(len(tasks)) for finding in found[at]]


def read_task(task: _ObjectsTask, done: Done) -> list[Finding]:
    """Reads the objects of a partition, and compares their hashes."""
    findings: list[Finding] = []
    for segment in task.segments:
        for each in stored_objects(segment):
            location = task.directory / object_name(segment.start_offset, segment.segment_id, each.kind)
            try:
                found, sha256 = _hashes(location, done)
            except UnreadableError as error:
                findings.append(error.finding(location.path, segment.start_offset))
                continue
            if found != each.xxh3:
                findings.append(object_differs(location.path, segment, f"XXH3-128 {each.xxh3}", found))
            elif each.kind == "log" and each.size == segment.size_in_bytes and sha256 != segment.sha256:
                findings.append(object_differs(location.path, segment, f"SHA-256 {segment.sha256}", sha256))
    return findings


def _hashes(location: Location, done: Done) -> tuple[str, str]:
    xxh3, sha256 = xxhash.xxh3_128(), hashlib.sha256()
    with location.open() as file:
        for position in range(0, file.size, _WINDOW):
            data = file.read(position, min(_WINDOW, file.size - position)).data
            xxh3.update(data)
            sha256.update(data)
            done(len(data))
    return xxh3.hexdigest(), sha256.hexdigest()


def _unnamed(place: BackupPlace, named: set[tuple[tuple[str, int], int, str]]) -> tuple[int, int]:
    """Return how many objects of segments no snapshot names, and their bytes."""
    ids = {segment_id for _, _, segment_id in named}
    found = [each for each, name in segment_objects(place.location) if name.segment_id not in ids]
    unnamed = [each for each in found if not each.name.endswith(SUFFIX)]
    return len(unnamed), sum(each.size or 0 for each in unnamed)
