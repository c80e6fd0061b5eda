"""Shows what is restored into a running cluster, what it meets there, and what was done: as text, and as rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from brokerless.jobs.restore.results import GroupRestore, Restore, SourcePartition, TopicRestore
from brokerless.text import count_of, format_bytes, show_name
from brokerless.views.findings import finding_lines
from brokerless.views.table import format_number, format_span, table
from brokerless.views.text import format_times

_COLUMNS = ("partition", "records", "size", "from", "to", "offsets", "on the target")
_GROUPS = ("group", "partition", "offset", "on the target")


def rows(restore: Restore) -> Iterator[dict[str, Any]]:
    """Yield a row for each partition, each group's offset, each finding, and one of the restore; ``table`` says
    which."""
    done = {(each.topic, each.partition): each for each in restore.partitions}
    for topic in restore.topics:
        for each in topic.partitions:
            result = done.get((each.topic, each.partition))
            yield {
                "table": "partitions",
                "topic": each.topic,
                "partition": each.partition,
                "records": each.records,
                "sizeInBytes": each.size,
                "sourceStart": each.start_offset,
                "sourceEnd": each.end_offset,
                "firstTimestamp": each.first_timestamp,
                "lastTimestamp": each.last_timestamp,
                "largestRecord": each.largest[0],
                "isOnTarget": topic.exists,
                "targetFirst": None if result is None else result.first_offset,
                "targetEnd": None if result is None else result.end_offset,
                "sent": None if result is None else result.records,
                "sentEarlier": None if result is None else result.earlier,
                "foundOnTarget": None if result is None else result.matched,
            }
    for each in restore.groups:
        yield {
            "table": "groups",
            "group": each.group,
            "topic": each.topic,
            "partition": each.partition,
            "sourceOffset": each.source_offset,
            "targetOffset": each.target_offset,
            "reason": each.reason or None,
        }
    yield from ({"table": "findings", **each.as_dict()} for each in restore.findings)
    yield {
        "table": "restore",
        "target": restore.target,
        "map": restore.map_directory,
        "isApplied": restore.is_applied,
        "isResumed": restore.is_resumed,
        "created": list(restore.created),
    }


def plan_lines(restore: Restore) -> Iterator[str]:
    """Yield what is in the source, and what is to be known before it is restored."""
    cells = [_cells(topic, each) for topic in restore.topics for each in topic.partitions]
    yield from table(_COLUMNS, cells, right=("records", "size", "offsets"))
    yield from finding_lines(restore.findings)


def result_lines(restore: Restore) -> Iterator[str]:
    """Yield what was done, or that nothing was."""
    records, partitions = (
        sum(each.records for each in restore.topics),
        sum(len(each.partitions) for each in restore.topics),
    )
    what = f"{count_of(records, 'record')} in {count_of(partitions, 'partition')}"
    if not restore.is_applied:
        if refused := sum(each.severity == "error" for each in restore.findings):
            yield f"nothing would be restored to {restore.target}: {count_of(refused, 'error')}"
            return
        if restore.groups:
            groups = count_of(len({each.group for each in restore.groups}), "group")
            yield f"{count_of(len(restore.groups), 'committed offset')} of {groups} would be translated"
        going = "would go on" if restore.is_resumed else "would be restored"
        yield f"{what} {going}, to {restore.target}; nothing is changed yet: with --apply, this is done"
        return
    sent, earlier = sum(each.records for each in restore.partitions), sum(each.earlier for each in restore.partitions)
    matched = sum(each.matched for each in restore.partitions)
    if restore.is_resumed:
        yield f"sent now {sent:,}, by earlier runs {earlier:,}, and {matched:,} that had been on their way"
    if restore.groups:
        cells = [_group_cells(each) for each in restore.groups]
        yield from table(_GROUPS, cells, right=("offset",))
    yield f"{what} restored to {restore.target}; the offset map is in {restore.map_directory}"


def _cells(topic: TopicRestore, each: SourcePartition) -> list[str]:
    times = format_times([each.first_timestamp, each.last_timestamp], "s")
    return [
        f"{show_name(topic.topic)}-{each.partition}", format_number(each.records), format_bytes(each.size), *times,
        format_span(each.start_offset, each.end_offset), "exists" if topic.exists else "will be created",
    ]  # fmt: skip


def _group_cells(each: GroupRestore) -> list[str]:
    target = f"not committed: {each.reason}" if each.target_offset is None else format_number(each.target_offset)
    name = f"{show_name(each.topic)}-{each.partition}"
    return [show_name(each.group), name, format_number(each.source_offset), target]
