"""Loads the snapshots of a backup."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress

from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding
from brokerless.log.backups.names import LATEST, SnapshotName
from brokerless.log.backups.place import BackupPlace
from brokerless.log.backups.replaced import Replacements
from brokerless.log.backups.snapshot import Snapshot, SnapshotSegment
from brokerless.log.storage.location import Location
from brokerless.log.storage.side_by_side import side_by_side
from brokerless.log.tiered.detection import backup_at, snapshot_of


def describe_latest(location: Location) -> str | None:
    """Return which snapshot is read where people name none; None for what is no snapshot. ``location``: the log
    directory that it is."""
    state = None if snapshot_of(location) is None else location.file_system()[0].bucket.snapshot_state()
    if state is None:
        return None
    snapshot = state.snapshot
    text = f"snapshot {snapshot.id} is read, the latest"
    if snapshot.is_selection:
        return f"{text}: it has some topics only, and there is none of all topics"
    newer = [each.id for each in state.backup.names() if each > SnapshotName(snapshot.created, snapshot.id)]
    return f"{text} of all topics; newer ones have some only: {', '.join(newer)}" if newer else text


def load_snapshots(location: Location, *, only_last: bool = False) -> tuple[list[Snapshot], list[Finding]]:
    """Return the snapshots of a backup, the oldest first, or that of ``URL@SNAPSHOT``; and what keeps them from being
    read. ``only_last``: ``latest`` alone. Raises :class:`UnreadableError` where there is no backup, and UsageError for
    no such snapshot."""
    place, chosen = backup_at(location)
    known, listed = place.names_by_suffix()
    known = known if chosen is None else [chosen]
    if only_last and known:
        known = [place.find(LATEST) if chosen is None else chosen]
    findings = [place.without_segments(each) for each in known if each not in listed]
    replacements = _replacements(place)
    if isinstance(replacements, UnreadableError):
        findings.append(replacements.finding(replacements.path))

    def load(at: int) -> Snapshot | UnreadableError:
        try:
            found = place.snapshot(known[at])
        except UnreadableError as error:
            return error
        if not isinstance(replacements, UnreadableError) and replacements.lists:
            # Erasures have changed how much there is; where the list cannot be read, check says so.
            with suppress(UnreadableError):
                return place.applied(known[at], found, replacements)[0]
        return found

    snapshots: list[Snapshot] = []
    for each in side_by_side(load, range(len(known)), place.location.is_remote):
        if isinstance(each, UnreadableError):
            findings.append(each.finding(each.path))
        else:
            snapshots.append(each)
    return snapshots, findings


def last_complete(location: Location) -> tuple[Snapshot | None, int]:
    """Return the newest snapshot of a backup that has all of the cluster, None without one; and how many newer ones of
    all topics lack something, or cannot be read. Raises as :func:`load_snapshots`, and :class:`UsageError` for one
    snapshot of it."""
    if backup_at(location)[1] is not None:
        raise UsageError(f"{location}: give a backup, and not one of its snapshots")
    snapshots, findings = load_snapshots(location)
    later = len(findings)
    for each in reversed([one for one in snapshots if not one.is_selection]):
        if each.is_complete:
            return each, later
        later += 1
    return None, later


def load_with_segments(
    place: BackupPlace, names: Sequence[SnapshotName]
) -> Iterator[tuple[Snapshot, list[SnapshotSegment]] | UnreadableError]:
    """Yield each of these snapshots with its list of segments, or what keeps one of both from being read."""

    replacements = _replacements(place)

    def load(at: int) -> tuple[Snapshot, list[SnapshotSegment]] | UnreadableError:
        if isinstance(replacements, UnreadableError):
            return replacements
        try:
            return place.applied(names[at], place.snapshot(names[at]), replacements)
        except UnreadableError as error:
            return error

    return side_by_side(load, range(len(names)), place.location.is_remote)


def load_parts(
    place: BackupPlace, joined: Collection[str]
) -> Iterator[tuple[Snapshot, list[SnapshotSegment]] | UnreadableError]:
    """Yield the parts of sets as :func:`load_with_segments`, but for those that a snapshot was joined of. ``joined``:
    the IDs of these."""
    for own in (part for each in place.sets() for part in place.parts(each)):
        yield from load_with_segments(own, [each for each in own.names() if each.id not in joined])


def _replacements(place: BackupPlace) -> Replacements | UnreadableError:
    try:
        return place.replacements()
    except UnreadableError as error:
        return error
