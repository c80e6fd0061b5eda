"""Copies the objects of a snapshot's segments to another place of the same store, for brokers to have as their own."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from brokerless.errors import UsageError
from brokerless.log.backups.names import has_backup
from brokerless.log.backups.snapshot import SnapshotSegment
from brokerless.log.backups.state import SnapshotState
from brokerless.log.storage.atomic import replacing
from brokerless.log.storage.guarded_files import make_directory
from brokerless.log.storage.location import Location
from brokerless.log.storage.object_store import copy_object
from brokerless.log.storage.paths import is_local_within
from brokerless.log.storage.side_by_side import side_by_side
from brokerless.log.storage.write_errors import unwritable
from brokerless.log.tiered.listing.stored_objects import check_sizes, sizes_in, stored_objects
from brokerless.log.tiered.object_names import object_name, segment_directory

_BLOCK = 8 << 20


def check_target(place: Location, target: Location) -> None:
    """Raises :class:`UsageError` where a backup in ``place`` cannot be copied to ``target``."""
    if _store(place) != _store(target):
        raise UsageError(f"--copy-to {target}: this is not in the store of the backup, {place}, which is to copy it")
    inside = is_local_within(target.path, place.path) or f"{target.path}/".startswith(f"{place.path.rstrip('/')}/")
    if inside or has_backup(target):
        raise UsageError(f"--copy-to {target}: this is in a backup; name a place of the brokers' own")


def _store(location: Location) -> str:
    return location.path.partition("://")[0] if location.is_remote else ""


def copy_objects(state: SnapshotState, target: Location, topic_ids: Collection[str]) -> None:
    """Copies the objects of some topics, those of a segment in the order in which brokers write them. What is there in
    its size stays, so that a run that was killed goes on, and so does what is damaged in the backup, which the plan
    says. Raises UnreadableError, UnwritableError, OSError."""
    for each in state.snapshot.partitions:
        if each.topic_id not in topic_ids:
            continue
        own = each.topic, each.topic_id, each.partition
        source, copy = (segment_directory(place, *own) for place in (state.backup.location, target))
        there, known = sizes_in(source), sizes_in(copy)
        segments = state.segments.get(each.place, ())
        new = [
            one for one in segments if any(check_sizes(copy, one, known)) and not any(check_sizes(source, one, there))
        ]
        if new and not target.is_remote:
            make_directory(copy.local)
        for _ in side_by_side(partial(_copy_segment, source, copy), new, target.is_remote):
            pass


def _copy_segment(source: Location, target: Location, segment: SnapshotSegment) -> None:
    for each in stored_objects(segment):
        name = object_name(segment.start_offset, segment.segment_id, each.kind)
        if target.is_remote:
            copy_object(source / name, target / name)
        else:
            _copy_file(source / name, target / name)


def _copy_file(source: Location, target: Location) -> None:
    with unwritable(target.path), source.open() as file, replacing(target.local) as copy:
        for position in range(0, file.size, _BLOCK):
            copy.write(file.read(position, min(_BLOCK, file.size - position)).data)
