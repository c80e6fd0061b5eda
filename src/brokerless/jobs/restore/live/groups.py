"""Translates the committed offsets of groups with the offset map, and commits them on the target."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from brokerless.errors import UsageError
from brokerless.internals.coordinators import partition_counts
from brokerless.internals.groups.offsets_file import read_offsets_file
from brokerless.internals.metadata.cluster import Cluster
from brokerless.internals.records import CONSUMER_OFFSETS
from brokerless.internals.tables import state_rows
from brokerless.jobs.restore.live.connection import TIMEOUT_S, ClusterConnection, describe, load_library
from brokerless.jobs.restore.live.offset_map import OffsetRun
from brokerless.jobs.restore.results import GroupRestore
from brokerless.jobs.restore.source import SourceReading
from brokerless.kafka_names import TopicPartition
from brokerless.log.directory import PartitionPath
from brokerless.values import Row

_FREE = ("EMPTY", "DEAD", "UNKNOWN")
"""States of groups without members; a group that is not there is dead."""


def source_offsets(
    partitions: Iterable[PartitionPath],
    cluster: Cluster | None,
    reading: SourceReading,
    file: str | os.PathLike[str] | None,
) -> list[Row]:
    """Return what groups have committed in the source, as its coordinators load it, and later in a ``file`` of offsets,
    as rows of ``internals``. Raises :class:`UsageError` where there is neither, and for a file of another form."""
    own = [each for each in partitions if each.topic == CONSUMER_OFFSETS and each.state == "live"]
    if not own and file is None:
        text = "--groups: the source has no __consumer_offsets, where groups' offsets are"
        raise UsageError(f"{text}; --offsets takes a file of them")
    counts = None if cluster is None else partition_counts(cluster)
    rows = state_rows(own, ("offsets",), reading.on_damage, reading.max_batch_bytes, counts=counts)["offsets"]
    rows += [] if file is None else read_offsets_file(os.fspath(file))
    last = {(each["group"], each["topic"], each["partition"]): each for each in rows}  # the file is newer
    return list(last.values())


def source_groups(rows: Iterable[Row], places: Iterable[TopicPartition]) -> list[GroupRestore]:
    """Return what groups have committed of the restored partitions, by the rows of the table ``offsets``."""
    restored = set(places)
    return [
        GroupRestore(each["group"], each["topic"], each["partition"], source_offset=each["offset"], target_offset=None)
        for each in rows
        if (each["topic"], each["partition"]) in restored
    ]


def translate(
    groups: Sequence[GroupRestore], runs: Iterable[OffsetRun], starts: Mapping[TopicPartition, int]
) -> list[GroupRestore]:
    """Each with the target's offset of the first restored record that the group has not read, or, if it has read all,
    the one after the last record. ``starts``: where the records begin on the target."""
    wanted: dict[TopicPartition, list[int]] = {}
    for each in groups:
        wanted.setdefault(each.place, []).append(each.source_offset)
    for offsets in wanted.values():
        offsets.sort()
    found: dict[tuple[TopicPartition, int], int] = {}
    ends = dict(starts)
    answered = dict.fromkeys(wanted, 0)
    for run in runs:
        place = run.place
        ends[place] = run.target_end
        if place not in wanted:
            continue
        until = bisect_right(wanted[place], run.source_last)
        for offset in wanted[place][answered[place] : until]:
            found[place, offset] = run.target_first + max(0, offset - run.source_first)
        answered[place] = max(answered[place], until)
    return [
        replace(each, target_offset=found.get((each.place, each.source_offset), ends.get(each.place)))
        for each in groups
    ]


def commit_groups(connection: ClusterConnection, groups: Sequence[GroupRestore]) -> list[GroupRestore]:
    """Commits the offsets of groups that have no members and nothing else committed there. All others get no
    ``target_offset``, and a ``reason``. The metadata of commits is left out: confluent-kafka adds a zero byte to it."""
    by_group: dict[str, list[GroupRestore]] = {}
    for each in groups:
        by_group.setdefault(each.group, []).append(each)
    return [each for group in sorted(by_group) for each in _commit(connection, group, by_group[group])]


def _commit(connection: ClusterConnection, group: str, offsets: Sequence[GroupRestore]) -> list[GroupRestore]:
    library = load_library()
    try:
        state = _state(connection, group)
        if state not in _FREE:
            return [_left(each, f"the group is active on the target ({state.lower()})") for each in offsets]
        there = _committed(connection, group, offsets)
    except library.KafkaException as error:
        return [_left(each, describe(error)) for each in offsets]
    chosen: list[GroupRestore] = []
    done: list[GroupRestore] = []
    for each in offsets:
        before = there.get(each.place, -1)
        if before in (-1, each.target_offset):
            chosen.append(each)
        else:
            done.append(_left(each, f"the group has committed offset {before} on the target"))
    partitions = [library.TopicPartition(each.topic, each.partition, each.target_offset or 0) for each in chosen]
    if partitions:
        requested = library.ConsumerGroupTopicPartitions(group, partitions)

        def commit(left: float) -> Any:
            answers = connection.admin.alter_consumer_group_offsets([requested], request_timeout=left)
            return next(iter(answers.values())).result(left + 1)

        try:
            answer = connection.ask(commit)
        except Exception as error:  # of librdkafka, or ours
            return [*done, *(_left(each, describe(error)) for each in chosen)]
        errors = {
            (each.topic, each.partition): each.error for each in answer.topic_partitions if each.error is not None
        }
        for each in chosen:
            error = errors.get(each.place)
            done.append(each if error is None else _left(each, str(error.str())))
    return sorted(done, key=lambda each: each.place)


def _left(each: GroupRestore, reason: str) -> GroupRestore:
    return replace(each, target_offset=None, reason=reason)


def _state(connection: ClusterConnection, group: str) -> str:
    library = load_library()

    def ask(left: float) -> str:
        answers = connection.admin.describe_consumer_groups([group], request_timeout=min(left, TIMEOUT_S))
        try:
            return str(answers[group].result(left + 1).state.name)
        except library.KafkaException as error:
            if error.args[0].code() == library.KafkaError.GROUP_ID_NOT_FOUND:
                return "DEAD"
            raise

    return connection.ask(ask)


def _committed(connection: ClusterConnection, group: str, offsets: Sequence[GroupRestore]) -> dict[TopicPartition, int]:
    library = load_library()
    partitions = [library.TopicPartition(each.topic, each.partition) for each in offsets]
    requested = library.ConsumerGroupTopicPartitions(group, partitions)

    def ask(left: float) -> Any:
        answers = connection.admin.list_consumer_group_offsets([requested], request_timeout=left)
        try:
            return next(iter(answers.values())).result(left + 1).topic_partitions
        except library.KafkaException as error:
            if error.args[0].code() == library.KafkaError.GROUP_ID_NOT_FOUND:
                return []
            raise

    return {(each.topic, each.partition): max(each.offset, -1) for each in connection.ask(ask)}
