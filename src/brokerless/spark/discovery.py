"""Finds the partitions that a query reads: lists its paths and selects its topics, by names only."""

from __future__ import annotations

import glob

from brokerless.api.log import open
from brokerless.errors import UnreadableError, UsageError
from brokerless.kafka_names import TopicPartition
from brokerless.log.directory import PartitionPath
from brokerless.log.names import parse_partition_directory
from brokerless.log.storage.location import Location
from brokerless.spark.options import Options


def find_partitions(options: Options, may_be_empty: bool = False, may_be_missing: bool = False) -> list[PartitionPath]:
    """Return the partitions that the options ask for, and those that cannot be listed, with a finding of why.

    Raises :class:`UnreadableError` for a path that leads nowhere, for a directory without logs, unless it
    ``may_be_empty``, and for topics or partitions named that are not there, unless they ``may_be_missing``.
    """
    found = _list(options, may_be_empty)
    if not may_be_missing:
        _check_there(options, found)
    return [each for each in found if options.topics.have(each.topic, each.partition) or is_unknown(each)]


def _list(options: Options, may_be_empty: bool) -> list[PartitionPath]:
    storage = options.storage or None
    found: list[PartitionPath] = []
    for pattern in options.paths:
        for location in Location(pattern, storage).expand():
            path = location.path
            if glob.has_magic(pattern) and not _is_log_or_directory(location):
                continue
            try:
                log = open(path, include=options.include, storage_options=storage, as_it_lies=options.as_it_lies)  # type: ignore[arg-type]
            except UnreadableError as error:
                if may_be_empty and location.is_directory():
                    continue
                if not glob.has_magic(pattern):
                    raise
                found.append(_unreadable(location, error))
                continue
            found += log.paths
    return found


def _is_log_or_directory(location: Location) -> bool:
    """A pattern also meets a partition's indexes, a log directory's checkpoints, and links that lead nowhere."""
    if location.path.endswith((".log", ".checkpoint")) or location.is_directory():
        return True
    return parse_partition_directory(location.name) is not None and not location.exists()


def _unreadable(location: Location, error: UnreadableError) -> PartitionPath:
    """A partition of which nothing is known but why it cannot be read."""
    named = parse_partition_directory(location.name)
    finding = error.finding(location.path)
    topic, partition = (None, None) if named is None else (named.topic, named.partition)
    return PartitionPath(topic, partition, location, findings=(finding,))


def is_unknown(partition: PartitionPath) -> bool:
    """Return whether it could not be opened, and so may hold anything."""
    return partition.topic is None and bool(partition.findings)


def _check_there(options: Options, found: list[PartitionPath]) -> None:
    """Check that what is requested by name is there."""
    names = sorted({each.topic for each in found if each.topic is not None})
    there = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "") if names else "none"
    for topic in sorted((options.topics.subscribe or frozenset()) - set(names)):
        text = f"option subscribe: there is no topic {topic!r} in {_paths(options)}; topics: {there}"
        raise UnreadableError("", text)
    missing = (options.topics.assign or frozenset()) - {name_of(each) for each in found}
    for topic, partition in sorted(missing):
        raise UnreadableError(
            "", f"option assign: there is no partition {topic}-{partition} in {_paths(options)}; topics: {there}"
        )


def check_named(options: Options, found: list[PartitionPath]) -> None:
    """Offsets by partition are for all partitions or none, as in spark-sql-kafka."""
    assigned = frozenset(name_of(each) for each in found if not is_unknown(each))
    for side, limit in (("starting", options.start), ("ending", options.end)):
        named = limit.partitions
        if named is not None and named != assigned:
            name = f"{side}OffsetsByTimestamp" if limit.timestamps is not None else f"{side}Offsets"
            named_here, there = (", ".join(f"{t}-{p}" for t, p in sorted(each)) for each in (named, assigned))
            raise UsageError(
                f"option {name}: it has to name all partitions that are read (offset -2 is the earliest, -1 the "
                f"latest); it names {named_here or 'none'}; read are {there or 'none'}"
            )


def _paths(options: Options) -> str:
    return ", ".join(options.paths[:3]) + (", ..." if len(options.paths) > 3 else "")


def name_of(partition: PartitionPath) -> TopicPartition:
    return partition.topic or "", -1 if partition.partition is None else partition.partition
