"""Restores topics into a running cluster: plans, says what will happen, sends the records, and commits groups' offsets.

Only committed records are sent, in no transaction of their own: what a transaction's outcome was stays, its markers do
not. A partition's records keep their partition and order; their offsets are new, and the offset map has both.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from brokerless import clock
from brokerless.clock import milliseconds
from brokerless.errors import UsageError
from brokerless.findings import Finding, Kind
from brokerless.internals.metadata.cluster import Cluster
from brokerless.jobs.restore import source
from brokerless.jobs.restore.checks import check_groups, check_topic, codec_on, limits_of, refuse_errors
from brokerless.jobs.restore.live.connection import ClusterConnection
from brokerless.jobs.restore.live.groups import commit_groups, source_groups, source_offsets, translate
from brokerless.jobs.restore.live.offset_map import OffsetMap, is_map, open_map
from brokerless.jobs.restore.live.production import Pace, ProducedRecord, Production, rows_of
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
from brokerless.jobs.restore.results import (
    GroupRestore,
    Limits,
    Restore,
    RestoredPartition,
    SourcePartition,
    TopicRestore,
)
from brokerless.kafka_names import TopicPartition
from brokerless.log import names
from brokerless.log.directory import PartitionPath
from brokerless.log.settings.topic import is_compacted
from brokerless.log.storage.paths import full_path
from brokerless.progress import Done, Report
from brokerless.requests.recovery import RestoreRequest
from brokerless.text import short_html, short_repr


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """The settings of a restore into a running cluster."""

    reading: source.SourceReading = field(default_factory=source.SourceReading)
    map_directory: Path | None = None
    """Where the offset map is written."""
    rate: int | None = None
    """At most so many bytes are sent in a second; None for no limit."""
    groups: bool = False
    """Whether groups' offsets are committed, too."""
    append: bool = False
    """Whether topics may have records already."""
    offsets: str | None = None
    """A file of what groups have committed later (``serve --offsets``)."""

    @classmethod
    def of(cls, request: RestoreRequest) -> LiveSettings:
        """Return what was requested. Raises :class:`UsageError` for what is of directories, or needs another option."""
        if request.replace or request.metadata:
            raise UsageError("--replace and --metadata are for --to; leave them out")
        if request.offsets is not None and not request.groups:
            raise UsageError("--offsets needs --groups")
        return cls(
            source.SourceReading(request.isolation, milliseconds(request.until), request.max_batch_bytes),
            None if request.offset_map is None else Path(request.offset_map),
            request.rate,
            groups=request.groups,
            append=request.append,
            offsets=None if request.offsets is None else os.fspath(request.offsets),
        )


@dataclass(slots=True)
class LiveRestore:
    """A restore that was planned."""

    connection: ClusterConnection
    settings: LiveSettings
    paths: tuple[str, ...]
    readers: Mapping[str, Sequence[PartitionPath]]
    everything: Sequence[PartitionPath]
    """All partitions of the source, Kafka's own topics among them."""
    plan: Restore
    targets: dict[str, TargetTopic]

    __repr__ = short_repr
    _repr_html_ = short_html


def plan_restore(
    selected: source.SelectedPartitions,
    connection: ClusterConnection,
    settings: LiveSettings,
    on_damage: Report,
    done: Done,
) -> LiveRestore:
    """Reads the source once, and compares it with the target; nothing is changed.

    Raises :class:`UsageError`, :class:`ClusterError`, UnreadableError."""
    readers = source.choose_partitions(selected.partitions, selected.named)
    connection.open()
    limit = settings.reading.max_batch_bytes
    cluster = source.source_cluster(selected.everything, limit)
    targets = describe_topics(connection, list(readers))
    defaults = default_settings(connection) if readers.keys() - targets.keys() else {}
    is_resumed = settings.map_directory is not None and is_map(settings.map_directory)
    topics: list[TopicRestore] = []
    findings: list[Finding] = []

    def measure(reader: PartitionPath, limits: Limits) -> SourcePartition:
        return source.measure(reader, settings.reading, limits, on_damage, done)

    for name, of_topic in readers.items():
        topic = _plan_topic(name, of_topic, cluster, target=targets.get(name), defaults=defaults, measure=measure)
        topics.append(topic)
        findings += check_topic(topic, connection.bootstrap)
        findings += _check_partitions(topic, connection.bootstrap, len(of_topic), cluster is not None)
    new = {each.topic: (each.partition_count, each.configs or {}) for each in topics if not each.exists}
    findings += check_new_topics(connection, new)
    if not is_resumed and not settings.append and targets:
        findings += _check_empty(connection, targets, readers)
    others = selected.everything
    places = [(each.topic, each.partition) for topic in topics for each in topic.partitions]
    groups: list[GroupRestore] = []
    if settings.groups:
        groups = source_groups(
            source_offsets(others, cluster, settings.offsets, on_damage, max_batch_bytes=limit), places
        )
    findings += check_groups(groups, topics, connection.bootstrap)
    plan = Restore(
        connection.bootstrap, tuple(topics), tuple(findings), tuple(groups), is_resumed=is_resumed,
        map_directory=None if settings.map_directory is None else str(settings.map_directory),
    )  # fmt: skip
    return LiveRestore(
        connection,
        settings,
        tuple(map(full_path, selected.paths)),
        readers=readers,
        everything=others,
        plan=plan,
        targets=targets,
    )


def _plan_topic(
    name: str,
    readers: Sequence[PartitionPath],
    cluster: Cluster | None,
    target: TargetTopic | None,
    defaults: Mapping[str, str],
    measure: Callable[[PartitionPath, Limits], SourcePartition],
) -> TopicRestore:
    configs = source.topic_configs(cluster, name)
    effective = {**defaults, **own_settings(configs or {})} if target is None else target.settings
    limits = limits_of(effective, clock.now())
    found = tuple(measure(each, limits) for each in readers)
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


def apply(restore: LiveRestore, on_damage: Report, done: Done) -> Restore:
    """Creates what is missing, sends the records, writes the map, and commits groups' offsets. After an error or a
    kill, the same again goes on where it ended.

    Raises :class:`UsageError` where a finding is an error, or the map is of another restore; :class:`ClusterError`."""
    plan, settings, connection = restore.plan, restore.settings, restore.connection
    refuse_errors(plan.findings)
    if settings.map_directory is None:
        raise UsageError("give the directory of the offset map with --offset-map; the same one lets a restore go on")
    missing = {each.topic: (each.partition_count, each.configs or {}) for each in plan.topics if not each.exists}
    if missing and plan.is_resumed:
        text = f"{next(iter(missing))} is not on the target any more"
        raise UsageError(
            f"{settings.map_directory}: {text}; to restore it again, give another directory with --offset-map"
        )
    create_topics(connection, missing)
    targets = describe_topics(connection, list(restore.readers))
    with TargetReader(connection) as target:
        places = [(each.topic, each.partition) for topic in plan.topics for each in topic.partitions]
        bounds = target.settled_ends(places) if plan.is_resumed else {at: target.bounds(at) for at in places}
        with open_map(settings.map_directory, _start(restore, targets, bounds)) as map_:
            restored, interrupted = _send_all(
                restore, map_, target, targets=targets, bounds=bounds, on_damage=on_damage, done=done
            )
            map_.write_tables()
            starts = {at: map_.start["topics"][at[0]]["starts"][str(at[1])] for at in places}
            groups = commit_groups(connection, translate(plan.groups, map_.runs(), starts)) if plan.groups else []
    more = [_interruption(connection, place) for place in interrupted]
    return replace(
        plan, partitions=tuple(restored), groups=tuple(groups), findings=(*plan.findings, *more), is_applied=True,
        created=tuple(missing),
    )  # fmt: skip


def _start(
    restore: LiveRestore, targets: Mapping[str, TargetTopic], bounds: Mapping[TopicPartition, tuple[int, int]]
) -> dict[str, Any]:
    reading = restore.settings.reading
    return {
        "source": list(restore.paths),
        "clusterId": restore.connection.cluster_id,
        "isolation": reading.isolation,
        "until": reading.until,
        "topics": {
            name: {
                "topicId": targets[name].topic_id,
                "starts": {str(number): end for (topic, number), (_, end) in bounds.items() if topic == name},
            }
            for name in restore.readers
        },
    }


def _send_all(
    restore: LiveRestore,
    map_: OffsetMap,
    target: TargetReader,
    targets: Mapping[str, TargetTopic],
    bounds: Mapping[TopicPartition, tuple[int, int]],
    on_damage: Report,
    done: Done,
) -> tuple[list[RestoredPartition], list[TopicPartition]]:
    before = {place: at.records for place, at in map_.positions.items()}
    matched: dict[TopicPartition, Resumed] = {}
    interrupted: list[TopicPartition] = []
    with Production(restore.connection, map_, Pace(restore.settings.rate)) as production:
        for topic in restore.plan.topics:
            settings = targets[topic.topic].settings
            largest = limits_of(settings, clock.now()).largest
            for found, reader in zip(topic.partitions, restore.readers[topic.topic], strict=True):
                place = found.topic, found.partition
                start, codec = map_.positions[place].source, codec_on(settings, found.codec)
                with closing(
                    _rows(reader, restore.settings.reading, start, end=found.end_offset, on_damage=on_damage, done=done)
                ) as rows:
                    pending = None
                    if not map_.is_new:
                        matched[place], pending = resume(
                            map_, target, place, bounds=bounds[place], rows=rows, is_compacted=is_compacted(settings)
                        )
                        if matched[place].foreign:
                            interrupted.append(place)
                    for row in (*([] if pending is None else [pending]),):
                        production.send(place, row, codec, largest)
                    for row in rows:
                        production.send(place, row, codec, largest)
        production.finish()
    interrupted += [each for each in production.interrupted if each not in interrupted]
    results = [_result(map_, place, before[place], matched.get(place)) for place in map_.positions]
    return results, interrupted


def _rows(
    reader: PartitionPath, reading: source.SourceReading, start: int, end: int, on_damage: Report, done: Done
) -> Generator[ProducedRecord]:
    with closing(source.records(reader, reading, start, end, on_damage, done)) as batches:
        for batch in batches:
            for row in rows_of(batch):
                if row.is_nameable:
                    yield row


def _result(map_: OffsetMap, place: TopicPartition, before: int, resumed: Resumed | None) -> RestoredPartition:
    at, matched = map_.positions[place], 0 if resumed is None else resumed.matched
    start = map_.start["topics"][place[0]]["starts"][str(place[1])]
    first = start if at.records else None
    return RestoredPartition(*place, at.records - before - matched, before, matched, first, at.target)


def _interruption(connection: ClusterConnection, place: TopicPartition) -> Finding:
    name = names.partition_directory(*place)
    text = f"{name}: somebody else wrote to it while it was restored; the offset map says which records are restored"
    return Kind.WRITTEN_BY_OTHERS.at(connection.bootstrap, text)
