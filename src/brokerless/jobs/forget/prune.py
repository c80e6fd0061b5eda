"""Removes the objects of a backup that no snapshot names, and that were there for some time.

There are no locks. What a run writes is young until its snapshot names it, and what it goes on from was named by a
snapshot when it began: that is named still, or was forgotten since, and what was forgotten lately counts as named.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from brokerless import clock
from brokerless.errors import UnreadableError, UnwritableError, UsageError
from brokerless.findings import Finding, Kind
from brokerless.jobs.check.snapshots import load_parts, load_with_segments
from brokerless.kafka_names import TopicPartition
from brokerless.log.backups.names import SnapshotName, parse_stem
from brokerless.log.backups.place import BackupPlace
from brokerless.log.storage.atomic import SUFFIX
from brokerless.log.storage.location import DirectoryEntry, Location
from brokerless.log.storage.object_store import HeldObject, held_objects, put_object, remove_object
from brokerless.log.storage.side_by_side import side_by_side
from brokerless.log.tiered.detection import backup_at
from brokerless.log.tiered.listing.stored_objects import segment_objects
from brokerless.log.tiered.object_names import parse_object_name
from brokerless.text import short_html, short_repr

GRACE_MS = 48 * 3_600_000
_ORDER = ("rsm-manifest", "indexes", "log")
"""Of a segment, what is removed first: without a manifest, readers take it for an interrupted upload."""


@dataclass(frozen=True, slots=True)
class PruneResult:
    """What no snapshot of a backup names, and what was removed of it."""

    place: str
    objects: int
    """How many objects are named by no snapshot and are old enough."""
    size: int
    """Bytes of ``objects``."""
    young: int
    """How many objects are named by no snapshot and are not old enough."""
    findings: tuple[Finding, ...]
    is_applied: bool
    """Whether ``objects`` are removed, except for those that are held and those among the findings."""
    held: tuple[HeldObject, ...] = ()
    """Those of ``objects`` that stay, as Object Lock holds them."""
    unknown: str | None = None
    """The reason why it is not known whether objects are held."""

    __repr__ = short_repr
    _repr_html_ = short_html


@dataclass(frozen=True, slots=True)
class _Named:
    """What snapshots name."""

    snapshots: frozenset[SnapshotName]
    parts: frozenset[SnapshotName]
    """Parts of sets of which no snapshot was joined yet, and which are newer than the last complete one."""
    segments: frozenset[str]
    """The IDs of segments."""
    files: frozenset[str]
    """The names of files."""
    lists: frozenset[SnapshotName]
    """The names of the lists of segments that erasures replaced."""


def prune(location: Location, *, grace_ms: int = GRACE_MS, apply: bool = False, now: int | None = None) -> PruneResult:
    """Remove what no snapshot names, or without ``apply`` only count it. ``grace_ms``: what is younger stays, and what
    was forgotten within it. ``now``: ms since the epoch; without it, the store's clock is asked where anything is
    removed.

    Raises :class:`UsageError` for one snapshot of a backup, UnreadableError where there is no backup, or a snapshot
    cannot be read: nobody knows what it names.
    """
    place, chosen = backup_at(location)
    if chosen is not None:
        raise UsageError(f"{location}: give a backup, and not one of its snapshots")
    if grace_ms < 0:
        raise UsageError("--grace: this is a number of hours from 0 on")
    at = now if now is not None else _store_time(place) if apply else clock.now()
    before = at - grace_ms
    found = list(_unnamed(place, _named(place, before), before))
    old = [each for each, is_old in found if is_old]
    if apply and old:
        # A snapshot that came meanwhile was made of what it names: that is young, or another one names it.
        named = _named(place, before)
        old = [each for each in old if not _is_named(each, named)]
    held, unknown = held_objects(place.location, [each.location for each in old], at)
    kept = {each.location.path for each in held}
    findings = _remove([each for each in old if each.path not in kept], place.location.is_remote) if apply else []
    return PruneResult(
        place.location.path, len(old), sum(each.size or 0 for each in old), len(found) - len(old),
        findings=tuple(findings), is_applied=apply, held=tuple(held), unknown=unknown,
    )  # fmt: skip


def _store_time(place: BackupPlace) -> int:
    """Return the time by the store's clock (ms since the epoch), which is that of the objects."""
    file = place.own / f"clock-{os.urandom(4).hex()}"
    put_object(file, b"{}")
    try:
        entry = next((each for each in place.own.entries() if each.name == file.name), None)
    finally:
        remove_object(file)
    return clock.now() if entry is None or entry.written is None else min(entry.written, clock.now())


def _named(place: BackupPlace, before: int) -> _Named:
    segments: set[str] = set()
    files: set[str] = set()
    places: set[TopicPartition] = set()
    names = place.names()
    lately = [each.name for each in _forgotten(place) if not _is_old(each.entry, before)]
    joined: set[str] = set()
    parts: set[SnapshotName] = set()
    newest = SnapshotName(-1, "")
    stored = chain(load_with_segments(place, names), load_with_segments(place.forgotten(), lately))
    for loaded in chain(stored, load_parts(place, joined)):
        if isinstance(loaded, UnreadableError):
            text = (
                "nothing is removed, as nobody knows what this snapshot names; run again if it was forgotten meanwhile"
            )
            raise UnreadableError(loaded.path, f"{loaded.reason}; {text}", loaded.kind) from loaded
        snapshot, listed = loaded
        name = SnapshotName(snapshot.created, snapshot.id)
        if snapshot.is_part:
            if name <= newest:
                continue
            parts.add(name)
        elif snapshot.is_complete and not snapshot.is_selection:
            newest = max(newest, name)
        joined |= set(snapshot.parts)
        segments |= {each.segment_id for each in listed}
        files |= {each.stored_sha256 for each in snapshot.files}
        places |= {each.place for each in snapshot.partitions}
    lists = place.replacements().lists
    # Readers that began before an erasure read what it replaced.
    young = [each for each in lists if each.written is None or each.written > before]
    segments |= {one.old.old_segment_id for each in young for one in each.segments}
    # As long as there is a partition, its disks may have what was erased, which a list keeps from being stored again.
    needed = {each.name for each in lists if any(one.new.place in places for one in each.segments)}
    needed |= {each.name for each in young}
    return _Named(
        frozenset(names), frozenset(parts), frozenset(segments), files=frozenset(files), lists=frozenset(needed)
    )


@dataclass(frozen=True, slots=True)
class _Forgotten:
    name: SnapshotName
    entry: DirectoryEntry


def _forgotten(place: BackupPlace) -> list[_Forgotten]:
    found = ((parse_stem(each.name.removesuffix(".json")), each) for each in _entries(place.forgotten_directory))
    return [_Forgotten(name, each) for name, each in found if name is not None]


def _unnamed(place: BackupPlace, named: _Named, before: int) -> Iterator[tuple[DirectoryEntry, bool]]:
    """Yield what no snapshot names, and whether it is old."""
    lists = [each for each in _entries(place.snapshot_directory) if each.name.endswith((".parquet", ".sig"))]
    everything = [
        *(each for each, _ in segment_objects(place.location)),
        *_entries(place.file_directory),
        *lists,
        *_entries(place.forgotten_directory),
        *_entries(place.replaced_directory),
        *(one for each in place.sets() for part in place.parts(each) for one in _entries(part.snapshot_directory)),
    ]
    for each in everything:
        if not _is_named(each, named):
            yield each, _is_old(each, before)


def _is_named(entry: DirectoryEntry, named: _Named) -> bool:
    if (own := parse_object_name(entry.name.removesuffix(SUFFIX))) is not None:
        return own.segment_id in named.segments
    stem = parse_stem(entry.name.rpartition(".")[0])
    above = entry.location.parent
    if stem is not None and above is not None and above.name == "snapshots":
        return stem in named.snapshots
    if stem is not None and above is not None and above.name == "replaced":
        return stem in named.lists
    if stem is not None and above is not None and above.name.startswith("node-"):
        return stem in named.parts
    return entry.name in named.files


def _is_old(entry: DirectoryEntry, before: int) -> bool:
    return entry.written is not None and entry.written <= before


def _entries(directory: Location) -> list[DirectoryEntry]:
    listed = directory.find_entries()
    return [each for each in listed if not each.is_directory]


def _remove(entries: Sequence[DirectoryEntry], remote: bool) -> list[Finding]:
    findings: list[Finding] = []

    def remove(entry: DirectoryEntry) -> Finding | None:
        try:
            remove_object(entry.location)
        except UnwritableError as error:
            return Kind.OBJECT_NOT_REMOVED.at(entry.path, f"no snapshot needs this, and it stays: {error}")
        return None

    by_suffix = {suffix: [each for each in entries if each.name.endswith(f".{suffix}")] for suffix in _ORDER}
    others = [each for each in entries if not any(each in own for own in by_suffix.values())]
    for own in (*by_suffix.values(), others):
        findings += [each for each in side_by_side(remove, own, remote) if each is not None]
    return findings
