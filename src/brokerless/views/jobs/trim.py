"""Shows what goes of a log directory, and what it costs: as text, and as rows for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from brokerless.jobs.trim.job import Trim, TrimmedPartition
from brokerless.text import count_of, format_bytes, show_name
from brokerless.views.table import NOTHING, format_number, table
from brokerless.views.text import format_times

_COLUMNS = ("partition", "segments", "size", "because", "offsets before", "from", "to", "hours", "records", "unread")
_RIGHT = ("segments", "size", "offsets before", "hours", "records", "unread")
_HOUR_MS = 3_600_000


def rows(trim: Trim) -> Iterator[dict[str, Any]]:
    """Yield a row for each partition, and one of the directory, which has neither a topic nor a partition."""
    for each in trim.partitions:
        yield {
            "topic": each.topic,
            "partition": each.partition,
            "path": each.path,
            "segments": [
                {
                    "file": segment.file,
                    "baseOffset": segment.base_offset,
                    "sizeInBytes": segment.size,
                    "maxTimestamp": segment.largest_timestamp,
                    "reason": segment.reason,
                }
                for segment in each.segments
            ],
            "sizeInBytes": each.size,
            "logStartOffset": each.start_offset,
            "newLogStartOffset": each.log_start_offset,
            "records": each.records,
            "firstTimestamp": each.first_timestamp,
            "lastTimestamp": each.last_timestamp,
            "unread": [{"group": group, "offsets": offsets} for group, offsets in each.unread.items()],
        }
    yield {
        "topic": None,
        "partition": None,
        "path": trim.path,
        "sizeInBytes": trim.size,
        "missingBytes": trim.missing,
        "waiting": [{"file": path, "sizeInBytes": size} for path, size in trim.waiting],
        "retained": [
            {"topic": topic, "sizeInBytes": size, "reason": why} for topic, (size, why) in trim.retained.items()
        ],
        "isApplied": trim.is_applied,
        "isResumed": trim.is_resumed,
    }


def lines(trim: Trim) -> Iterator[str]:
    """Yield what goes, what groups have not read of it, what may not go, and the sum."""
    if trim.partitions:
        yield from table(_COLUMNS, [_cells(each) for each in trim.partitions], right=_RIGHT)
    unread = [(each, group, offsets) for each in trim.partitions for group, offsets in each.unread.items()]
    if unread:
        yield ""
        yield "offsets that groups have not read yet, and could not read any more:"
        cells = [[show_name(group), _name(each), format_number(offsets)] for each, group, offsets in unread]
        yield from table(("group", "partition", "offsets"), cells, right=("offsets",))
    if trim.retained:
        yield ""
        yield "nothing goes of:"
        kept = sorted(trim.retained.items(), key=lambda each: -each[1][0])
        yield from table(
            ("topic", "size", "because"),
            [[show_name(topic), format_bytes(size), why] for topic, (size, why) in kept],
            right=("size",),
        )
    yield from _verdict(trim)


def _verdict(trim: Trim) -> Iterator[str]:
    if trim.is_resumed:
        yield "an earlier run was cut short: what goes is what is left of its plan; to free more, give it again"
    segments = sum(len(each.segments) for each in trim.partitions)
    parts = [f"{count_of(segments, 'segment')} of {count_of(len(trim.partitions), 'partition')}"]
    if trim.waiting:
        parts.append(f"{count_of(len(trim.waiting), 'file')} that a broker removes anyway")
    yield ""
    done = "removed" if trim.is_applied else "would go"
    if trim.size or trim.is_applied:
        yield f"{' and '.join(parts)} {done}: {format_bytes(trim.size)}"
    elif not trim.missing:
        yield "nothing has to go: no segment is expired, or before the time that was requested"
    if trim.missing:
        yield f"{format_bytes(trim.missing)} less than requested: nothing {'else ' if trim.size else ''}may go"
    if not trim.is_applied and trim.size:
        yield "nothing is changed yet: with --apply, this is done"


def _cells(each: TrimmedPartition) -> list[str]:
    first, last = each.first_timestamp, each.last_timestamp
    hours = NOTHING if first is None or last is None else f"{max(0, last - first) / _HOUR_MS:,.1f}"
    times = format_times([first, last], "s")
    reasons = ", ".join(dict.fromkeys(segment.reason for segment in each.segments))
    return [
        _name(each), format_number(len(each.segments)), format_bytes(each.size), reasons,
        format_number(each.log_start_offset), *times, hours, format_number(each.records),
        format_number(max(each.unread.values(), default=0)),
    ]  # fmt: skip


def _name(each: TrimmedPartition) -> str:
    return f"{show_name(each.topic)}-{each.partition}"
