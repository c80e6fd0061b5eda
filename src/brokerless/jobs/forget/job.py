"""Forgets snapshots: moves their files to ``forgotten/``, from where ``prune`` removes them later, with the objects
that they name. A run or a reader that began before is not disturbed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from brokerless import clock
from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding
from brokerless.jobs.check.seal import unsigned_findings, unsigned_snapshots
from brokerless.jobs.check.snapshots import load_with_segments
from brokerless.jobs.forget.drilled import drilled_snapshots
from brokerless.jobs.forget.rules import Decision, KeepRules, decide
from brokerless.log.backups.names import SnapshotName
from brokerless.log.backups.place import BackupPlace
from brokerless.log.storage.location import Location
from brokerless.log.storage.object_store import new_object, remove_object
from brokerless.log.tiered.detection import backup_at
from brokerless.text import short_html, short_repr


@dataclass(frozen=True, slots=True)
class ForgetResult:
    """What stays of a backup's snapshots, and what is forgotten."""

    place: str
    decisions: tuple[Decision, ...]
    """What stays, and why, and what does not stay; the oldest first."""
    unreadable: str | None
    """The ID of a snapshot that was named, and cannot be read."""
    findings: tuple[Finding, ...]
    is_applied: bool
    """Whether the snapshots that do not stay are forgotten; without it, they would be."""

    __repr__ = short_repr
    _repr_html_ = short_html

    @property
    def forgotten(self) -> tuple[str, ...]:
        """The IDs of the snapshots that do not stay."""
        own = [each.snapshot.id for each in self.decisions if not each.reasons]
        return (*own, *(() if self.unreadable is None else (self.unreadable,)))


def forget(
    location: Location,
    rules: KeepRules | None,
    trusted: Sequence[bytes] = (),
    *,
    apply: bool = False,
    now: int | None = None,
) -> ForgetResult:
    """Forget the snapshots that do not stay, or without ``apply`` only name them. ``location``: a backup, whose
    snapshots stay by ``rules``; or ``URL@SNAPSHOT`` without rules, for that one. ``trusted``: public keys, by one of
    which a snapshot is signed that fills a place of a rule, and the evidence of a drill; without them, any does.
    ``now``: ms since the epoch.

    Raises :class:`UsageError` for one without the other, UnreadableError where there is no backup, UnwritableError.
    """
    place, chosen = backup_at(location)
    if (chosen is None) == (rules is None):
        raise UsageError("give a backup and rules of what stays, such as --keep-daily 7, or URL@SNAPSHOT without any")
    if rules is None:
        assert chosen is not None
        result = _of_one(place, chosen, apply)
    else:
        loaded = list(load_with_segments(place, place.names()))
        # What cannot be read fills no place of a rule, and stays.
        snapshots = [each[0] for each in loaded if not isinstance(each, UnreadableError)]
        unread = [each.finding(each.path) for each in loaded if isinstance(each, UnreadableError)]
        at = clock.now() if now is None else now
        unsigned = list(unsigned_snapshots(place, snapshots, trusted)) if trusted else []
        unread += unsigned_findings(place, unsigned)
        drilled = drilled_snapshots(place, snapshots, trusted, unread.append) if rules.drilled else ()
        decisions, findings = decide(
            snapshots, _stored_times(place), rules, now=at, path=place.location.path,
            unsigned=frozenset(each.id for each in unsigned), drilled=drilled,
        )  # fmt: skip
        result = ForgetResult(
            place.location.path, tuple(decisions), None, findings=(*unread, *findings), is_applied=apply
        )
    if apply:
        names = {each.id: each for each in place.names()}
        for each in result.forgotten:
            _move(place, names[each])
    return result


def _of_one(place: BackupPlace, name: SnapshotName, apply: bool) -> ForgetResult:
    path = place.location.path
    try:
        decisions, unreadable = (Decision(place.snapshot(name), ()),), None
    except UnreadableError:
        decisions, unreadable = (), name.id
    return ForgetResult(path, decisions, unreadable, findings=(), is_applied=apply)


def _stored_times(place: BackupPlace) -> dict[str, int]:
    """When snapshots came into the store, by their IDs, as far as it says so."""
    times = {each.name: each.written for each in place.snapshot_directory.entries()}
    stored = {each.id: times.get(f"{each.stem}.json") for each in place.names()}
    return {name: at for name, at in stored.items() if at is not None}


def _move(place: BackupPlace, name: SnapshotName) -> None:
    """Copies its files, and removes them, the one that makes the snapshot first."""
    suffixes = (".parquet", ".sig", ".json")
    for suffix in suffixes:
        source = place.snapshot_directory / f"{name.stem}{suffix}"
        if source.exists():
            data = source.read(1 << 30)
            with new_object(place.forgotten_directory / source.name) as sink:
                sink.write(data)
    for suffix in reversed(suffixes):
        remove_object(place.snapshot_directory / f"{name.stem}{suffix}")
