"""Loads the snapshots of a backup."""

from __future__ import annotations

from brokerless.errors import UnreadableError
from brokerless.findings import Finding
from brokerless.log.snapshots.snapshot import Snapshot
from brokerless.log.storage.location import Location
from brokerless.log.storage.side_by_side import side_by_side
from brokerless.log.tiered.detection import backup_at


def load_snapshots(location: Location, *, only_last: bool = False) -> tuple[list[Snapshot], list[Finding]]:
    """The snapshots of a backup, the oldest first, or that of ``URL@SNAPSHOT``; and what keeps others from being read.
    ``only_last``: the newest alone. Raises :class:`UnreadableError` where there is no backup, and UsageError for no
    such snapshot."""
    place, chosen = backup_at(location)
    known = place.names() if chosen is None else [chosen]
    if only_last and known:
        return [place.snapshot(known[-1])], []
    findings: list[Finding] = []

    def load(at: int) -> Snapshot | UnreadableError:
        try:
            return place.snapshot(known[at])
        except UnreadableError as error:
            return error

    snapshots: list[Snapshot] = []
    for each in side_by_side(load, range(len(known)), place.location.is_remote):
        if isinstance(each, UnreadableError):
            findings.append(each.finding(each.path))
        else:
            snapshots.append(each)
    return snapshots, findings
