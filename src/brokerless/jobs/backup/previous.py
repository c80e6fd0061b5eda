"""What is stored of partitions already: by the newest snapshots of a place, as far as their objects are there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding
from brokerless.jobs.backup.options import BackupOptions
from brokerless.kafka_names import TopicIdPartition
from brokerless.log.backups.names import DIRECTORY, SnapshotName, split_path
from brokerless.log.backups.place import BackupPlace
from brokerless.log.backups.replaced import Replacements
from brokerless.log.backups.snapshot import Snapshot, SnapshotPartition, SnapshotSegment
from brokerless.log.storage.side_by_side import side_by_side
from brokerless.log.tiered.detection import has_objects, has_objects_below
from brokerless.log.tiered.listing.stored_objects import check_sizes, sizes_in
from brokerless.log.tiered.object_names import segment_directory
from brokerless.progress import Report

_MOST_PARENTS = 24
"""Snapshots in which the segments of a partition are looked for, the newest first."""


@dataclass(frozen=True, slots=True)
class PreviousPartition:
    """What an earlier snapshot has of a partition."""

    partition: SnapshotPartition
    segments: tuple[SnapshotSegment, ...]
    """Its segments, in the order of their offsets."""
    is_whole: bool
    """Whether no segment was left out because objects of it are gone or were cut."""


class Earlier(NamedTuple):
    """An earlier snapshot, and the place that has its files: that of the backup, or of one host's parts of a set."""

    place: BackupPlace
    name: SnapshotName
    snapshot: Snapshot


def snapshots_before(
    place: BackupPlace, cluster_id: str | None, options: BackupOptions, nodes: Collection[int], report: Report
) -> list[Earlier]:
    """Return the newest snapshots of a place, the newest first; where this run is a part of a set, among them are parts
    of these ``nodes``. Those that cannot be read are reported. Raises :class:`UsageError` for a place with anything
    else."""
    location = place.location
    config = place.config()
    if config is None:
        if (named := split_path(location)) is not None:
            raise UsageError(f"{location}: this would be a snapshot of the backup {named[0]}; give another place")
        entries = location.find_entries()
        others = [each for each in entries if each.name != DIRECTORY]
        if others and (has_objects(location, others) or has_objects_below(others)):
            text = "this has objects of tiered storage, and no backup: brokers may write here; give a place of its own"
            raise UsageError(f"{location}: {text}")
        if others:
            raise UsageError(f"{location}: this is not empty, and no backup; give an empty directory or prefix")
        return []
    if config.is_encrypted and not options.public_keys:
        raise UsageError(f"{location}: this backup is encrypted; give its public keys (--public-key)")
    if options.public_keys and not config.is_encrypted:
        raise UsageError(f"{location}: this backup is not encrypted; give another place for one that is")
    places = [place]
    if options.set_name is not None:
        places += [place.part(each, nodes) for each in place.sets()]
    found: list[Earlier] = []
    named = [(name, each) for each in places for name in each.names()]
    for name, own in sorted(named, key=lambda each: each[0], reverse=True):
        if len(found) == _MOST_PARENTS:
            break
        try:
            found.append(Earlier(own, name, own.snapshot(name)))
        except UnreadableError as error:
            report(_passed_over(error))
    of_set = [] if options.set_name is None else newest_parts(place, options.set_name)
    known = next((each.snapshot.cluster_id for each in (*found, *of_set)), None)
    if known is not None and cluster_id is not None and known != cluster_id:
        text = f"this is a backup of the cluster {known}, and the disks are of {cluster_id}; give another place"
        raise UsageError(f"{location}: {text}")
    return found


def newest_parts(place: BackupPlace, set_name: str) -> list[Earlier]:
    """Return the newest run of each host in a set that can be read."""
    found: list[Earlier] = []
    for own in place.parts(set_name):
        for name in reversed(own.names()):
            with suppress(UnreadableError):
                found.append(Earlier(own, name, own.snapshot(name)))
                break
    return found


def _passed_over(error: UnreadableError) -> Finding:
    finding = error.finding(error.path)
    return replace(finding, message=f"{finding.message}; this backup goes on from earlier snapshots")


def previous_of(
    place: BackupPlace,
    snapshots: Iterable[Earlier],
    backed_up: Mapping[TopicIdPartition, object],
    replacements: Replacements,
    *,
    report: Report,
) -> dict[TopicIdPartition, PreviousPartition]:
    """Return what the newest snapshot that has a partition, and that can be read, has of it, without the segments of
    which objects are gone or were cut; both is reported. ``backed_up``: the partitions that are backed up."""
    return _still_there(place, _previous(snapshots, backed_up, replacements, report), report)


def _previous(
    snapshots: Iterable[Earlier],
    backed_up: Mapping[TopicIdPartition, object],
    replacements: Replacements,
    report: Report,
) -> dict[TopicIdPartition, PreviousPartition]:
    """Return what the newest snapshot that has a partition, and that can be read, has of it."""
    found: dict[TopicIdPartition, PreviousPartition] = {}
    for place, name, snapshot in snapshots:
        own = [each for each in snapshot.partitions if each.place in backed_up and each.place not in found]
        if not own:
            continue
        segments: dict[TopicIdPartition, list[SnapshotSegment]] = defaultdict(list)
        try:
            for each in place.segments(name, snapshot, replacements):
                segments[each.place].append(each)
        except UnreadableError as error:
            report(_passed_over(error))
            continue
        for each in own:
            in_order = sorted(segments[each.place], key=lambda one: one.start_offset)
            found[each.place] = PreviousPartition(each, tuple(in_order), is_whole=True)
        if len(found) == len(backed_up):
            break
    return found


def _still_there(
    place: BackupPlace, previous: Mapping[TopicIdPartition, PreviousPartition], report: Report
) -> dict[TopicIdPartition, PreviousPartition]:
    """Without the segments of which objects are gone or were cut, which is reported: they are stored again."""
    known = list(previous.values())
    directories = [segment_directory(place.location, each.partition.topic, *each.partition.place) for each in known]
    found: dict[TopicIdPartition, PreviousPartition] = {}
    listed = side_by_side(sizes_in, directories, place.location.is_remote)
    for each, directory, sizes in zip(known, directories, listed, strict=True):
        wrong = {segment: list(check_sizes(directory, segment, sizes)) for segment in each.segments}
        for finding in (one for own in wrong.values() for one in own):
            report(finding)
        kept = tuple(segment for segment in each.segments if not wrong[segment])
        found[each.partition.place] = PreviousPartition(each.partition, kept, len(kept) == len(each.segments))
    return found
