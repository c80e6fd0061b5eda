"""The objects of a backup's segments: what a snapshot says of them, and whether they are there in their sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from brokerless.findings import Finding, Kind
from brokerless.log.backups.names import DIRECTORY
from brokerless.log.backups.snapshot import SnapshotSegment
from brokerless.log.storage.atomic import SUFFIX
from brokerless.log.storage.location import DirectoryEntry, Location
from brokerless.log.storage.side_by_side import side_by_side
from brokerless.log.tiered.object_names import ObjectKind, ObjectName, object_name, parse_object_name
from brokerless.log.tiered.segments import object_missing


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object of a segment."""

    kind: ObjectKind
    size: int
    xxh3: str


def stored_objects(segment: SnapshotSegment) -> tuple[StoredObject, ...]:
    return (
        StoredObject("log", segment.log_size_in_bytes, segment.log_xxh3),
        StoredObject("indexes", segment.indexes_size_in_bytes, segment.indexes_xxh3),
        StoredObject("rsm-manifest", segment.manifest_size_in_bytes, segment.manifest_xxh3),
    )


def sizes_in(directory: Location) -> Mapping[str, int | None]:
    """Return the sizes of objects by their names; nothing where there is no such directory."""
    return {each.name: each.size for each in directory.find_entries() if not each.is_directory}


def check_sizes(directory: Location, segment: SnapshotSegment, sizes: Mapping[str, int | None]) -> Iterator[Finding]:
    """Yield what is wrong with the objects of a segment, by :func:`sizes_in` of its directory."""
    for each in stored_objects(segment):
        name = object_name(segment.start_offset, segment.segment_id, each.kind)
        path = (directory / name).path
        if name not in sizes:
            text = f"this object of a segment up to offset {segment.end_offset} is missing"
            yield object_missing(path, segment.start_offset, text)
        elif sizes[name] not in (None, each.size):
            yield object_differs(path, segment, f"{each.size} bytes", f"{sizes[name]} bytes")


class SegmentOffsets(Protocol):
    """What is known of a segment by its offsets, the last one included."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...


def object_differs(path: str, segment: SegmentOffsets, expected: str, found: str) -> Finding:
    text = f"this is not what was stored of the offsets up to {segment.end_offset}"
    return Kind.STORED_OBJECT_DIFFERS.at(path, text, offset=segment.start_offset, expected=expected, found=found)


def file_differs(path: str, name: str) -> Finding:
    return Kind.STORED_OBJECT_DIFFERS.at(path, f"this is not the file {name} that was stored")


def segment_objects(backup: Location) -> Iterator[tuple[DirectoryEntry, ObjectName]]:
    """Yield all objects of segments in a backup, and what their names say; also those that a run was writing when it
    was killed, ``NAME.tmp``."""
    is_remote = backup.is_remote
    topics = [each.location for each in backup.entries() if each.is_directory and each.name != DIRECTORY]
    inner = side_by_side(lambda topic: topic.entries(), topics, is_remote)
    partitions = [each.location for entries in inner for each in entries if each.is_directory]
    for entries in side_by_side(lambda each: each.entries(), partitions, is_remote):
        named = ((each, parse_object_name(each.name.removesuffix(SUFFIX))) for each in entries)
        yield from ((each, name) for each, name in named if name is not None)
