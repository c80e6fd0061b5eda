"""Lists what there is to read in a path: partitions as the next start of a broker completes them, with what is in
remote storage only, and with those replicas that a start gives their partition's name."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace

from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Kind
from brokerless.log import names
from brokerless.log.checkpoint.partition_metadata import topic_id_of
from brokerless.log.directory import LogDirectory, PartitionPath, metadata_of, order, resolve
from brokerless.log.names import Include
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import RUNNING_CLUSTER
from brokerless.log.tiered.detection import is_joined


def open_directory(
    location: Location, include: Collection[Include] | Include = (), *, as_it_lies: bool = False
) -> LogDirectory:
    """Return what there is to read in a path; parameters and errors as those of
    :func:`brokerless.log.directory.resolve`."""
    if location.path.startswith(RUNNING_CLUSTER):
        raise UsageError(f"{location}: this is a running cluster, which diff alone reads; give its disks, or a bucket")
    if is_joined(location):
        from brokerless.internals.remote.unread_segments import with_unread_segments

        if location.exists() and not location.is_directory():
            raise UsageError(f"{location}: this is a file; --remote is for directories of logs")
        location = with_unread_segments(location)
    found = with_whole_names(resolve(location, include, read_setting, as_it_lies=as_it_lies))
    if is_joined(location):
        from brokerless.internals.remote.unread_segments import with_lost_segments

        found = with_lost_segments(found)
    if not as_it_lies:
        found = with_promoted(found)
    from brokerless.log.offset_gaps import may_have_remote_offsets  # it imports NumPy

    if not may_have_remote_offsets(found):
        return found
    from brokerless.internals.remote.storage import with_remote_findings

    return with_remote_findings(found)


def read_setting(directory: Location, topic: str, name: str) -> str | None:
    """Return a topic's setting by the cluster's metadata beside its partition; see :func:`read_topic_setting`."""
    from brokerless.internals.topic_settings import read_topic_setting

    return read_topic_setting(directory, topic, name)


def with_whole_names(directory: LogDirectory) -> LogDirectory:
    """Give partitions whose topic Kafka cut in the name of their directory, as it renamed it, the topic's own name, by
    its ID and the cluster's metadata beside them. Where that does not have it, a finding says so. Nothing is read
    where no name is as long as a cut one is."""
    cut = {each.path for each in (*directory.partitions, *directory.others) if names.may_be_cut(each.location.name)}
    if not cut:
        return directory
    known = _topic_names(directory)

    def named(each: PartitionPath) -> PartitionPath:
        if each.path not in cut or each.topic is None:
            return each
        topic_id = topic_id_of(each.partition_metadata)
        topic = known.get(topic_id or "", "")
        if topic.startswith(each.topic):
            return replace(each, topic=topic)
        text = "the topic's name may be cut here, as that of a directory with a suffix has 255 characters at most"
        found = f"topic ID {topic_id}, which the cluster's metadata beside it does not have" if topic_id else "no ID"
        finding = Kind.TOPIC_NAME_CUT.at(each.path, text, expected="a topic that begins so", found=found)
        return replace(each, findings=(*each.findings, finding))

    def all_named(partitions: tuple[PartitionPath, ...]) -> tuple[PartitionPath, ...]:
        return tuple(sorted(map(named, partitions), key=order))

    return replace(directory, partitions=all_named(directory.partitions), others=all_named(directory.others))


def _topic_names(directory: LogDirectory) -> dict[str, str]:
    """The names of topics by their IDs; none where there is no metadata, or it cannot be read."""
    from brokerless.internals.metadata.topic_names import topic_names  # it imports NumPy

    metadata = metadata_of(directory.partitions)
    with suppress(UnreadableError):
        above = directory.location.parent if directory.kind == "partition" else None
        if above is not None:
            (metadata,) = resolve(above / names.partition_directory(names.CLUSTER_METADATA, 0)).partitions
        if metadata is not None:
            return topic_names(metadata)
    return {}


def with_promoted(directory: LogDirectory) -> LogDirectory:
    """Add to a log directory's partitions those ``-future`` replicas that a broker's start gives their partition's
    name, by the cluster's metadata beside them. Nothing is read where no partition is there as such a replica alone."""
    live = {(each.topic, each.partition) for each in directory.partitions}
    future = [each for each in directory.others if each.state == "future" and (each.topic, each.partition) not in live]
    metadata = metadata_of(directory.partitions)
    if not future or metadata is None or directory.location.is_remote:
        return directory
    promoted = {each.path for each in future} & _promoted(directory, metadata)
    if not promoted:
        return directory
    partitions = [*directory.partitions, *(each for each in future if each.path in promoted)]
    partitions.sort(key=lambda each: each.place)
    others = tuple(each for each in directory.others if each.path not in promoted)
    return replace(directory, partitions=tuple(partitions), others=others)


def _promoted(directory: LogDirectory, metadata: PartitionPath) -> set[str]:
    """Paths of the replicas that a start promotes. What is damaged of the metadata is reported where that is read."""
    from brokerless.clusters.placement import BrokerNode, Verdict  # they import NumPy
    from brokerless.clusters.start.directory_files import load_properties
    from brokerless.clusters.start.metadata_log import place_by

    properties = load_properties(directory)
    if properties is None:
        return set()
    node = BrokerNode(properties.node_id, {directory.path.rstrip("/"): properties.directory_id})
    placed = place_by(metadata, directory, node)
    return {each.replica.path for each in placed if each.verdict == Verdict.PROMOTED}
