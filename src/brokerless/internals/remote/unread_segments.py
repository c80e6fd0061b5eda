"""Finds the remote segments that brokers do not read, by ``__remote_log_metadata`` in the same log directory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from brokerless.errors import BrokerlessError, UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.internals.remote.segment_metadata import STATES, RemoteMetadata, SegmentMetadata, read_remote_metadata
from brokerless.log import names
from brokerless.log.directory import LogDirectory, PartitionPath, log_directories_below, resolve
from brokerless.log.names import REMOTE_LOG_METADATA
from brokerless.log.storage.location import DirectoryEntry, Location
from brokerless.log.tiered.detection import OPTION, is_joined, remote_of, without_remote
from brokerless.log.tiered.object_names import parse_object_name
from brokerless.log.tiered.remote_history import Elsewhere, InBucket, Standing, verdict_of
from brokerless.offset_spans import union, without

_MOST = 1000
"""Segments that go into options, and so to each process that reads, without asking whether the bucket has them: those
that were deleted stay in the metadata for ever."""


def with_unread_segments(location: Location) -> Location:
    """Return the location of a log, whose remote segments are read as well, with the segments among its options that
    are not to be read: whose copy was not finished or was replaced, while other segments have its offsets, or whose
    deletion began.

    What the metadata does not have is read, as its partition may be on another broker; so is what it does not have as
    finished, and no other segment has, as this replica of the metadata may be old, or damaged: a broker keeps its local
    segment until the copy is finished, so that such offsets are in the local log, or the copy was finished.
    """
    if not is_joined(location):
        return location
    unread: dict[str, str] = {}
    with suppress(UnreadableError):
        for known in load_remote_metadata(location).metadata.segments.values():
            unread |= _unread(list(known.values()))
    if len(unread) > _MOST and (remote := remote_of(location)) is not None:
        file_system, _ = remote.file_system()
        there = {segment_id for own in file_system.objects().values() for segment_id in own}
        unread = {segment_id: state for segment_id, state in unread.items() if segment_id in there}
    options = location.options or {}
    return Location(location.path, {**options, OPTION: {**options[OPTION], "unread": unread}}) if unread else location


def _unread(segments: Sequence[SegmentMetadata]) -> dict[str, str]:
    """The IDs of a partition's segments that are not read, with their states."""
    read = union((each.start_offset, each.end_offset + 1) for each in segments if each.is_referenced)
    return {
        each.segment_id: each.state
        for each in segments
        if not each.is_referenced
        and (each.state != STATES[0] or not without([(each.start_offset, each.end_offset + 1)], read))
    }


def with_lost_segments(directory: LogDirectory) -> LogDirectory:
    """Return what was listed with the findings about segments without a manifest as the metadata has it of them: what
    brokers read, and is not there, is lost, and no upload that did not end."""
    if not is_joined(directory.location) or not any(map(_lacking, directory.partitions)):
        return directory
    with suppress(UnreadableError):
        known = load_remote_metadata(directory.location).metadata.segments.values()
        read = {each.segment_id for segments in known for each in segments.values() if each.is_referenced}
        return replace(directory, partitions=tuple(_with_lost(each, read) for each in directory.partitions))
    return directory


def _lacking(partition: PartitionPath) -> list[Finding]:
    return [each for each in partition.findings if each.kind in _WITHOUT_MANIFEST]


def _with_lost(partition: PartitionPath, read: Collection[str]) -> PartitionPath:
    def graded(finding: Finding) -> Finding:
        named = parse_object_name(finding.file.rpartition("/")[2])
        if finding.kind not in _WITHOUT_MANIFEST or named is None or named.segment_id not in read:
            return finding
        elsewhere = Elsewhere.NOWHERE if finding.kind == Kind.REMOTE_SEGMENT_NEEDED else Elsewhere.COPY
        verdict = verdict_of(Standing.REFERENCED, InBucket.UNREADABLE, elsewhere)
        text = "not read: by the metadata of brokers, this remote segment is copied, and its manifest is not there"
        return replace(finding, kind=verdict.kind or finding.kind, severity=verdict.severity, message=text)

    return replace(partition, findings=tuple(map(graded, partition.findings))) if _lacking(partition) else partition


_WITHOUT_MANIFEST = (Kind.REMOTE_SEGMENT_UNFINISHED, Kind.REMOTE_SEGMENT_NEEDED)
"""What is said of such a segment without the metadata."""


@dataclass(frozen=True, slots=True)
class LoadedMetadata:
    """The metadata of remote segments as it was read."""

    metadata: RemoteMetadata
    partitions: frozenset[int]
    """The numbers of the partitions of ``__remote_log_metadata`` that were read."""
    is_damaged: bool
    """Whether some of their events may be lost."""


_loaded: dict[tuple[DirectoryEntry, ...], LoadedMetadata] = {}
"""What was read last, by the logs of the partitions."""


def load_remote_metadata(location: Location) -> LoadedMetadata:
    """Return what the partitions of :func:`metadata_partitions` say of remote segments; read once for all that ask, as
    long as their files do not change. Raises :class:`UnreadableError`."""
    readers = metadata_partitions(location)
    logs = tuple(each.log for reader in readers for each in reader.segments)
    found = _loaded.get(logs)
    if found is None:
        damage: list[Finding] = []
        metadata = read_remote_metadata(readers, damage.append)
        is_damaged = any(each.severity != "info" for each in damage)
        found = LoadedMetadata(metadata, frozenset(each.partition or 0 for each in readers), is_damaged)
        _loaded.clear()
        _loaded[logs] = found
    return found


def metadata_partitions(location: Location) -> list[PartitionPath]:
    """Return the partitions of ``__remote_log_metadata`` in a log directory, or in that of a partition's directory."""
    directory = log_directory_of(location)
    found: list[PartitionPath] = []
    with suppress(BrokerlessError):
        for entry in directory.entries():
            named = names.parse_partition_directory(entry.name)
            if named is None or named.topic != REMOTE_LOG_METADATA or named.state != "live":
                continue
            with suppress(BrokerlessError):
                found += resolve(entry.location).partitions
    return found


def log_directory_of(location: Location) -> Location:
    """Return a log directory, or that of a partition's directory, without what is chosen of remote segments."""
    own = without_remote(location)
    above = own.parent
    if above is None or names.parse_partition_directory(own.name) is None or log_directories_below(own, 0):
        return own  # such as node-1, or kafka-0
    return above
