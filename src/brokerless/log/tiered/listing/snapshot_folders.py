"""Chooses the segments of a snapshot among the objects of a backup: the others are of other snapshots, or of a run that
did not end."""

from __future__ import annotations

from collections.abc import Iterable

from brokerless.findings import Finding, Kind
from brokerless.log.backups.snapshot import LostRange, SnapshotPartition, SnapshotSegment
from brokerless.log.backups.state import SnapshotState
from brokerless.log.storage.location import Location
from brokerless.log.tiered.listing.folder import Folder
from brokerless.log.tiered.object_names import PartitionName, object_name, segment_directory
from brokerless.log.tiered.segments import object_missing


def folders_of(state: SnapshotState, listed: Iterable[Folder], root: Location) -> list[Folder]:
    """Return the partitions of a snapshot, each with its segments alone. ``listed``: all that is in the bucket."""
    there = {(each.name.topic_id, each.name.partition): each for each in listed if not each.name.is_plain}
    return [
        _folder(each, state.segments.get(each.place, []), there.get(each.place), root)
        for each in state.snapshot.partitions
    ]


def _folder(
    partition: SnapshotPartition, segments: list[SnapshotSegment], listed: Folder | None, root: Location
) -> Folder:
    name = PartitionName(partition.topic, partition.topic_id, partition.partition, is_plain=False)
    place = segment_directory(root, partition.topic, *partition.place)
    folder = Folder(name, place if listed is None else listed.location, {})
    folder.limits = partition.start_offset, partition.end_offset
    for each in segments:
        key = each.start_offset, each.segment_id
        objects = {} if listed is None else listed.objects.get(key, {})
        if "log" in objects and "rsm-manifest" in objects:
            folder.objects[key] = objects
            if listed is not None and objects["rsm-manifest"] in listed.manifests:
                folder.manifests[objects["rsm-manifest"]] = listed.manifests[objects["rsm-manifest"]]
        else:
            folder.findings.append(_missing(folder, each))
    folder.findings += [_lost(folder, each) for each in partition.lost]
    return folder


def _lost(folder: Folder, lost: LostRange) -> Finding:
    last = "the end of the log" if lost.last_offset is None else f"offset {lost.last_offset}"
    text = f"no replica had offsets from {lost.first_offset} to {last} intact when the snapshot was made"
    return Kind.STORED_OFFSETS_LOST.at(folder.location.path, text, offset=lost.first_offset)


def _missing(folder: Folder, segment: SnapshotSegment) -> Finding:
    path = (folder.location / object_name(segment.start_offset, segment.segment_id, "log")).path
    text = f"the snapshot has this segment up to offset {segment.end_offset}, and its objects are not all there"
    return object_missing(path, segment.start_offset, text)
