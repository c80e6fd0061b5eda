"""Restores topics into a running cluster: plans, says what will happen, sends the records, and commits groups' offsets.

Only committed records are sent, in no transaction of their own: what a transaction's outcome was stays, its markers do
not. A partition's records keep their partition and order; their offsets are new, and the offset map has both.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from brokerless import clock
from brokerless.errors import UsageError
from brokerless.findings import Finding, Kind
from brokerless.internals.metadata.cluster import Cluster, cluster_of
from brokerless.jobs.restore import source
from brokerless.jobs.restore.checks import check_groups, check_topic, codec_on, limits_of, refuse_errors
from brokerless.jobs.restore.live.connection import ClusterConnection
from brokerless.jobs.restore.live.groups import commit_groups, source_groups, source_offsets, translate
from brokerless.jobs.restore.live.offset_map import OffsetMap, check_map, is_map, open_map
from brokerless.jobs.restore.live.production import LiveRecord, Pace, Production, rows_of
from brokerless.jobs.restore.live.resumption import Resumed, TargetReader, resume
from brokerless.jobs.restore.live.topics import (
    REPLICATION,
    TargetTopic,
    check_new_topics,
    create_topics,
    default_settings,
    describe_topics,
    own_settings,
)
from brokerless.jobs.restore.results import GroupRestore, Restore, RestoredPartition, TopicRestore
from brokerless.kafka_names import TopicPartition
from brokerless.log import names
from brokerless.log.directory import PartitionPath
from brokerless.log.settings.topic import TopicSettings, is_compacted
from brokerless.log.storage.paths import full_path
from brokerless.progress import Done
from brokerless.requests.recovery import RestoreRequest
from brokerless.text import short_html, short_repr


@dataclass(slots=True)
class PlannedRestore:
    """A restore that was planned."""

    plan: Restore
    connection: ClusterConnection
    request: RestoreRequest
    reading: source.SourceReading
    paths: tuple[str, ...]
    readers: Mapping[str, Sequence[PartitionPath]]

    __repr__ = short_repr
    _repr_html_ = short_html

    @property
    def size(self) -> int:
        """Bytes that are read."""
        return sum(each.size for readers in self.readers.values() for each in readers)

    def apply(self, done: Done) -> Restore:
        """Creates what is missing, sends the records, writes the map, and commits groups' offsets. After an error or a
        kill, the same again goes on where it ended.

        Raises :class:`UsageError` where a finding is an error, or the map is of another restore;
        :class:`ClusterError`."""
        return _apply(replace(self, reading=replace(self.reading, done=done)))


def plan_restore(
    selected: source.SelectedPartitions, connection: ClusterConnection, request: RestoreRequest
) -> PlannedRestore:
    """Reads the source once, and compares it with the target; nothing is changed.

    Raises :class:`UsageError`, :class:`ClusterError`, UnreadableError."""
    reading = source.SourceReading.of(request)
    readers = source.choose_partitions(selected.partitions, selected.named)
    connection.open()
    map_directory = None if request.offset_map is None else str(Path(request.offset_map))
    is_resumed = map_directory is not None and is_map(Path(map_directory))
    if is_resumed and map_directory is not None:
        check_map(Path(map_directory), _map_settings(selected.paths, connection, reading))
    cluster = cluster_of(selected.everything, reading.max_batch_bytes)
    targets = describe_topics(connection, list(readers))
    defaults = default_settings(connection) if readers.keys() - targets.keys() else {}
    topics: list[TopicRestore] = []
    findings: list[Finding] = []
    for name, of_topic in readers.items():
        topic = _plan_topic(name, of_topic, cluster, target=targets.get(name), defaults=defaults, reading=reading)
        topics.append(topic)
        findings += check_topic(topic, connection.bootstrap)
        findings += _check_partitions(topic, connection.bootstrap, len(of_topic), cluster is not None)
    findings += check_new_topics(connection, _missing(topics))
    if not is_resumed and not request.append and targets:
        findings += _check_empty(connection, targets, readers)
    groups: list[GroupRestore] = []
    if request.groups:
        offsets = source_offsets(selected.everything, cluster, reading, request.offsets)
        groups = source_groups(offsets, [each.place for topic in topics for each in topic.partitions])
    findings += check_groups(groups, topics, connection.bootstrap)
    plan = Restore(
        connection.bootstrap, tuple(topics), tuple(findings), tuple(groups), is_resumed=is_resumed,
        map_directory=map_directory,
    )  # fmt: skip
    paths = tuple(map(full_path, selected.paths))
    return PlannedRestore(plan, connection, request, reading, paths=paths, readers=readers)


def _missing(topics: Iterable[TopicRestore]) -> dict[str, tuple[int, TopicSettings]]:
    """Return the topics that are to be created, with their numbers of partitions and settings."""
    return {each.topic: (each.partition_count, each.configs or {}) for each in topics if not each.exists}


def _plan_topic(
    name: str,
    readers: Sequence[PartitionPath],
    cluster: Cluster | None,
    target: TargetTopic | None,
    defaults: Mapping[str, str],
    reading: source.SourceReading,
) -> TopicRestore:
    configs = source.topic_configs(cluster, name)
    effective = {**defaults, **own_settings(configs or {})} if target is None else target.settings
    limits = limits_of(effective, clock.now())
    found = tuple(source.measure(each, reading, limits) for each in readers)
    count = source.partition_count(cluster, name, readers) if target is None else target.partition_count
    replicas = int(defaults.get(REPLICATION, 1)) if target is None else target.replicas
    return TopicRestore(
        name, found, count, configs=configs, target=effective, exists=target is not None, replicas=replicas
    )


def _check_partitions(topic: TopicRestore, path: str, count: int, is_known: bool) -> Iterator[Finding]:
    last = max(each.partition for each in topic.partitions)
    if topic.partition_count <= last:
        text = f"{topic.topic} has too few partitions on the target: kafka-topics --alter --topic {topic.topic} "
        text, found = f"{text}--partitions {last + 1}", str(topic.partition_count)
        yield Kind.TOO_FEW_PARTITIONS.at(path, text, expected=str(last + 1), found=found)
    elif topic.partition_count > count:
        text = f"{topic.topic} has {topic.partition_count} partitions, of which {count} are in the source"
        yield Kind.PARTITIONS_MISSING.at(path, text, severity="info" if is_known else "warning")


def _check_empty(
    connection: ClusterConnection, targets: Mapping[str, TargetTopic], readers: Mapping[str, Sequence[PartitionPath]]
) -> Iterator[Finding]:
    with TargetReader(connection) as target:
        for name, topic in targets.items():
            numbers = [each.partition or 0 for each in readers[name] if (each.partition or 0) < topic.partition_count]
            found = [target.bounds((name, number)) for number in numbers]
            records = sum(end - start for start, end in found)
            if records:
                text = f"{name} has records on the target ({records} offsets): give --append to restore after them, or "
                text += "the --offset-map of the restore that wrote them to go on with it"
                yield Kind.TARGET_NOT_EMPTY.at(connection.bootstrap, text)


def _apply(restore: PlannedRestore) -> Restore:
    plan, connection = restore.plan, restore.connection
    refuse_errors(plan.findings)
    if plan.map_directory is None:
        raise UsageError("give the directory of the offset map with --offset-map; the same one lets a restore go on")
    missing = _missing(plan.topics)
    if missing and plan.is_resumed:
        text = f"{next(iter(missing))} is not on the target any more"
        raise UsageError(f"{plan.map_directory}: {text}; to restore it again, give another directory with --offset-map")
    create_topics(connection, missing)
    targets = describe_topics(connection, list(restore.readers))
    with TargetReader(connection) as target:
        places = [each.place for topic in plan.topics for each in topic.partitions]
        bounds = target.settled_ends(places) if plan.is_resumed else {at: target.bounds(at) for at in places}
        with open_map(Path(plan.map_directory), _start(restore, targets, bounds)) as map_:
            restored, interrupted = _send_all(restore, map_, target, targets=targets, bounds=bounds)
            map_.write_tables()
            starts = {at: map_.start_of(at) for at in places}
            groups = commit_groups(connection, translate(plan.groups, map_.runs(), starts)) if plan.groups else []
    more = [_interruption(connection, place) for place in interrupted]
    return replace(
        plan, partitions=tuple(restored), groups=tuple(groups), findings=(*plan.findings, *more), is_applied=True,
        created=tuple(missing),
    )  # fmt: skip


def _start(
    restore: PlannedRestore, targets: Mapping[str, TargetTopic], bounds: Mapping[TopicPartition, tuple[int, int]]
) -> dict[str, Any]:
    return {
        **_map_settings(restore.paths, restore.connection, restore.reading),
        "topics": {
            name: {
                "topicId": targets[name].topic_id,
                "starts": {str(number): end for (topic, number), (_, end) in bounds.items() if topic == name},
            }
            for name in restore.readers
        },
    }


def _map_settings(paths: Sequence[str], connection: ClusterConnection, reading: source.SourceReading) -> dict[str, Any]:
    """Return what a map says of its restore, and what has to be the same where it goes on."""
    return {
        "source": list(map(full_path, paths)),
        "clusterId": connection.cluster_id,
        "isolation": reading.isolation,
        "until": reading.until,
    }


def _send_all(
    restore: PlannedRestore,
    map_: OffsetMap,
    target: TargetReader,
    targets: Mapping[str, TargetTopic],
    bounds: Mapping[TopicPartition, tuple[int, int]],
) -> tuple[list[RestoredPartition], list[TopicPartition]]:
    before = {place: at.records for place, at in map_.positions.items()}
    matched: dict[TopicPartition, Resumed] = {}
    interrupted: list[TopicPartition] = []
    with Production(restore.connection, map_, Pace(restore.request.rate)) as production:
        for topic in restore.plan.topics:
            settings = targets[topic.topic].settings
            largest = limits_of(settings, clock.now()).largest
            for found, reader in zip(topic.partitions, restore.readers[topic.topic], strict=True):
                place = found.place
                start, codec = map_.positions[place].source, codec_on(settings, found.codec)
                with closing(_rows(reader, restore.reading, start, found.end_offset)) as rows:
                    left: Iterator[LiveRecord] = rows
                    if not map_.is_new:
                        matched[place], left = resume(
                            map_, target, place, bounds=bounds[place], rows=rows, is_compacted=is_compacted(settings)
                        )
                        if matched[place].foreign:
                            interrupted.append(place)
                    for row in left:
                        production.send(place, row, codec, largest)
        production.finish()
    interrupted += [each for each in production.interrupted if each not in interrupted]
    results = [_result(map_, place, before[place], matched.get(place)) for place in map_.positions]
    return results, interrupted


def _rows(reader: PartitionPath, reading: source.SourceReading, start: int, end: int) -> Generator[LiveRecord]:
    with closing(source.records(reader, reading, start, end)) as batches:
        for batch in batches:
            for row in rows_of(batch):
                if row.is_nameable:
                    yield row


def _result(map_: OffsetMap, place: TopicPartition, before: int, resumed: Resumed | None) -> RestoredPartition:
    at, matched = map_.positions[place], 0 if resumed is None else resumed.matched
    first = map_.start_of(place) if at.records else None
    return RestoredPartition(*place, at.records - before - matched, before, matched, first, at.target)


def _interruption(connection: ClusterConnection, place: TopicPartition) -> Finding:
    name = names.partition_directory(*place)
    text = f"{name}: somebody else wrote to it while it was restored; the offset map says which records are restored"
    return Kind.WRITTEN_BY_OTHERS.at(connection.bootstrap, text)
