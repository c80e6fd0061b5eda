"""Checks where groups go on in what was rebuilt: on a record, at the end, or past it."""

from __future__ import annotations

from collections.abc import Mapping

from brokerless.errors import UnreadableError
from brokerless.findings import Finding
from brokerless.internals.coordinators import partition_counts
from brokerless.internals.groups.positions import GroupPosition, lost_positions, read_positions
from brokerless.internals.metadata.cluster import Cluster
from brokerless.jobs.diff.alignment.sides import count_records
from brokerless.kafka_names import TopicPartition
from brokerless.log.directory import PartitionPath
from brokerless.log.seek import end_offset


def check_positions(
    cluster: Cluster, logs: Mapping[TopicPartition, PartitionPath], max_batch_bytes: int
) -> tuple[dict[str, int], list[Finding]]:
    """Return how many positions are where, and the findings of those that are not within a log. ``logs``: one of each
    partition, by topic and number. A position between two records, as compaction and markers leave them, is that of the
    next one."""
    found: list[Finding] = []
    limits = _PartitionLimits(logs, found)
    positions = [
        each
        for each in read_positions(
            logs.values(), cluster.topics, found.append, max_batch_bytes, counts=partition_counts(cluster) or None
        )
        if cluster.row(each.topic, each.partition) is not None
    ]
    counts: dict[str, int] = dict.fromkeys(
        ("groups", "positions", "onRecord", "atEnd", "betweenRecords", "beforeStart", "pastEnd"), 0
    )
    counts["groups"] = len({(each.group, each.is_shared) for each in positions})
    counts["positions"] = len(positions)
    for lost in lost_positions(positions, limits.of):
        found.append(lost.finding(logs[lost.position.source].path))
        counts["pastEnd"] += 1
    is_record: dict[tuple[TopicPartition, int], bool] = {}
    for each in positions:
        place = each.topic, each.partition
        start, end = limits.of(each)
        if each.offset < start:
            counts["beforeStart"] += 1  # as of a group that has not read for long
        elif each.offset == end:
            counts["atEnd"] += 1
        elif each.offset < end:
            at = place, each.offset
            if at not in is_record:
                is_record[at] = count_records(logs[place], each.offset, each.offset + 1, max_batch_bytes) > 0
            counts["onRecord" if is_record[at] else "betweenRecords"] += 1
    return counts, found


class _PartitionLimits:
    """Where partitions start and end, each looked for once. One that is not there, or cannot be read, is empty."""

    def __init__(self, logs: Mapping[TopicPartition, PartitionPath], found: list[Finding]) -> None:
        self._logs, self._found = logs, found
        self._known: dict[TopicPartition, tuple[int, int]] = {}

    def of(self, position: GroupPosition) -> tuple[int, int]:
        place = position.topic, position.partition
        if place not in self._known:
            self._known[place] = self._limits(place)
        return self._known[place]

    def _limits(self, place: TopicPartition) -> tuple[int, int]:
        log = self._logs.get(place)
        if log is None:
            return 0, 0
        start = log.start_offset or 0
        try:
            return start, max(start, end_offset(log) or 0)
        except UnreadableError as error:
            self._found.append(error.finding(log.path))
            return start, start
