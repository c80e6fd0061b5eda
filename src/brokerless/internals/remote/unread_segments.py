"""Finds the remote segments that brokers do not read, by ``__remote_log_metadata`` in the same log directory."""

from __future__ import annotations

from contextlib import suppress

from brokerless.errors import BrokerlessError, UnreadableError
from brokerless.findings import Finding
from brokerless.internals.records import REMOTE_LOG_METADATA
from brokerless.internals.remote.segment_metadata import STATES, read_remote_metadata
from brokerless.log import names
from brokerless.log.storage.location import Location
from brokerless.log.tiered.detection import OPTION, is_joined, remote_of
from brokerless.tables.partition_reader import PartitionReader, open_partitions

_MOST = 1000
"""Segments that go into options, and so to each process that reads, without asking whether the bucket has them: those
that were deleted stay in the metadata for ever."""


def with_unread_segments(location: Location) -> Location:
    """Return the location of a log, whose remote segments are read as well, with the segments among its options that
    are not to be read: whose copy was not finished or was replaced, or whose deletion began. What the metadata does not
    have is read, as its partition may be on another broker; so is, where the metadata is damaged, what it does not have
    as finished."""
    if not is_joined(location):
        return location
    unread: dict[str, str] = {}
    damage: list[Finding] = []
    with suppress(UnreadableError):
        metadata = read_remote_metadata(metadata_partitions(location), damage.append)
        segments = (each for known in metadata.segments.values() for each in known.values())
        unread = {each.segment_id: each.state for each in segments if not each.is_referenced}
    if any(each.severity != "info" for each in damage):  # an event that says that copying was finished may be lost
        unread = {segment_id: state for segment_id, state in unread.items() if state != STATES[0]}
    if len(unread) > _MOST and (remote := remote_of(location)) is not None:
        file_system, _ = remote.file_system()
        there: set[str] = file_system.segment_ids()
        unread = {segment_id: state for segment_id, state in unread.items() if segment_id in there}
    options = location.options or {}
    return Location(location.path, {**options, OPTION: {**options[OPTION], "unread": unread}}) if unread else location


def metadata_partitions(location: Location) -> list[PartitionReader]:
    """The partitions of ``__remote_log_metadata`` in a log directory, or in that of a partition's directory."""
    directory = log_directory_of(location)
    found: list[PartitionReader] = []
    with suppress(BrokerlessError):
        for entry in directory.entries():
            named = names.parse_partition_directory(entry.name)
            if named is None or named.topic != REMOTE_LOG_METADATA or named.state != "live":
                continue
            with suppress(BrokerlessError):
                found += open_partitions(entry.location)
    return found


def log_directory_of(location: Location) -> Location:
    """A log directory, or that of a partition's directory, without what is chosen of remote segments."""
    above = location.parent
    is_partition = names.parse_partition_directory(location.name) is not None
    path = above.path if is_partition and above is not None else location.path
    return without_remote(location.at(path))


def without_remote(location: Location) -> Location:
    """The same place without what is chosen of remote segments."""
    return Location(location.path, {name: each for name, each in (location.options or {}).items() if name != OPTION})
