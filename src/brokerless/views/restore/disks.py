"""Shows what is restored into log directories, where it goes, and what was done: as text, and as rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from brokerless.jobs.restore.disks.job import DiskRestore
from brokerless.text import count_of, format_bytes, show_name
from brokerless.views.findings import finding_lines
from brokerless.views.table import NOTHING, format_number, format_span, table
from brokerless.views.text import format_times

_COLUMNS = ("partition", "records", "size", "from", "to", "offsets", "nodes", "there now")


def rows(restore: DiskRestore) -> Iterator[dict[str, Any]]:
    """Yield a row for each partition, each finding, and one of the restore; ``table`` says which."""
    done = {(each.topic, each.partition): each for each in restore.partitions}
    placed = {(each.topic, each.partition): each for each in restore.placements}
    for topic in restore.topics:
        for each in topic.partitions:
            place, result = placed.get((each.topic, each.partition)), done.get((each.topic, each.partition))
            yield {
                "table": "partitions",
                "topic": each.topic,
                "topicId": None if place is None else place.topic_id,
                "partition": each.partition,
                "records": each.records if result is None else result.records,
                "sourceStart": each.start_offset,
                "sourceEnd": each.end_offset,
                "leaderEpoch": None if place is None else place.leader_epoch,
                "directories": [] if place is None else [str(disk.path / place.name) for disk in place.replicas],
                "startOffset": None if result is None else result.start_offset,
                "endOffset": None if result is None else result.end_offset,
                "lostOffsets": None if result is None else result.lost,
                "aside": [] if result is None else list(result.aside),
            }
    yield from ({"table": "findings", **each.as_dict()} for each in restore.findings)
    yield {"table": "restore", "isApplied": restore.is_applied}


def plan_lines(restore: DiskRestore) -> Iterator[str]:
    """Yield what is in the source, where it goes, and what is to be known before."""
    placed = {(each.topic, each.partition): each for each in restore.placements}
    cells: list[list[str]] = []
    for topic in restore.topics:
        for each in topic.partitions:
            place = placed.get((each.topic, each.partition))
            nodes = NOTHING if place is None else ",".join(str(disk.node_id) for disk in place.replicas)
            there = NOTHING if place is None else "records" if any(place.existing.values()) else "nothing"
            times = format_times([each.first_timestamp, each.last_timestamp], "s")
            cells.append([
                f"{show_name(each.topic)}-{each.partition}", format_number(each.records), format_bytes(each.size),
                *times, format_span(each.start_offset, each.end_offset), nodes, there,
            ])  # fmt: skip
    yield from table(_COLUMNS, cells, right=("records", "size", "offsets"))
    yield from finding_lines(restore.findings)


def result_lines(restore: DiskRestore) -> Iterator[str]:
    """Yield what was done, or that nothing was."""
    if not restore.is_applied:
        if refused := sum(each.severity == "error" for each in restore.findings):
            yield f"nothing would be restored: {count_of(refused, 'error')}"
            return
        what = count_of(sum(len(each.partitions) for each in restore.topics), "partition")
        yield f"{what} would be restored; nothing is changed yet: with --apply, this is done"
        return
    for each in restore.partitions:
        name = f"{show_name(each.topic)}-{each.partition}"
        if each.lost:
            yield f"{name}: {each.lost:,} offsets are damaged in the source, and missing"
        for path in each.aside:
            yield f"{name}: what was there is in {path}"
    replicas = sum(len(each.directories) for each in restore.partitions)
    records = sum(each.records for each in restore.partitions)
    partitions = count_of(len(restore.partitions), "partition")
    what = f"{count_of(records, 'record')} in {partitions} restored, in {count_of(replicas, 'replica')}"
    yield f"{what}; start the brokers"
