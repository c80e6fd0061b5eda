"""Lists the contents of a log by segment, partition or topic, from batch headers alone.

A segment's row has the names of ``schemas.SEGMENTS``; those of partitions and topics are sums of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Literal

from brokerless import clock
from brokerless.clusters.deletion import Deletion, deletion_of
from brokerless.log.directory import LogDirectory, PartitionPath, deleted_segments
from brokerless.log.names import INCLUDE
from brokerless.progress import Done, Report, ignore
from brokerless.tables.partition_tables import OnUnreadable, segment_rows
from brokerless.text import format_bytes, show_name
from brokerless.views.table import NOTHING, format_number, format_offsets, table
from brokerless.views.text import format_times

if TYPE_CHECKING:
    from brokerless.values import Row

By = Literal["segment", "partition", "topic"]

_COLUMNS = {
    "segment": ("file", "batches", "records", "size", "offsets", "from", "to", "format", "codecs"),
    "partition": ("partition", "segments", "records", "size", "offsets", "from", "to", "format", "codecs"),
    "topic": ("topic", "partitions", "records", "size", "from", "to", "format", "codecs"),
}
_DELETED = "deleted"
_RIGHT = ("partitions", "segments", "batches", "records", "size")


def rows(
    partitions: Iterable[PartitionPath],
    by: By,
    on_damage: Report,
    on_unreadable: OnUnreadable,
    done: Done = ignore,
    *,
    deleted: bool = False,
    max_batch_bytes: int | None = None,
) -> list[Row]:
    """Return a row for each segment, partition or topic. ``done`` is called with the bytes of each segment when it is
    read. ``deleted``: also of segments that wait for their deletion, apart."""

    def rows_of(partition: PartitionPath) -> Iterator[Row]:
        for row in segment_rows(
            partition, max_batch_bytes=max_batch_bytes, on_damage=on_damage, on_unreadable=on_unreadable
        ):
            done(row["sizeInBytes"])
            if partition.topic is not None or row["batches"] or not row["sizeInBytes"]:
                yield row  # a file without a batch is no log; what it is was reported

    by_partition: list[tuple[PartitionPath, str, list[Row]]] = []
    for each in partitions:
        found = list(rows_of(each))
        if found or each.topic is not None:
            by_partition.append((each, each.state, found))
        waiting = deleted_segments(each)
        if deleted and waiting.segments:
            by_partition.append((waiting, _DELETED, list(rows_of(waiting))))
    if by == "segment":
        return [row for _, _, segments in by_partition for row in segments]
    partition_rows = [_partition(*each) for each in by_partition]
    if by == "partition":
        return partition_rows
    topics: dict[tuple[str | None, bool], list[Row]] = {}
    for row in partition_rows:
        topics.setdefault((row["topic"], row["state"] == _DELETED), []).append(row)
    return [
        _topic(topic, of_topic) | ({"state": _DELETED} if gone else {}) for (topic, gone), of_topic in topics.items()
    ]


def lines(rows: Sequence[Row], by: By, zone: tzinfo = UTC) -> Iterator[str]:
    """Return the rows as a table for people; nothing but its head if there are none."""
    names = _COLUMNS[by]
    cells = [
        {**_cells(row, by), "from": start, "to": end} for row, start, end in zip(rows, *_times(rows, zone), strict=True)
    ]
    return table(names, [[cell[name] for name in names] for cell in cells], _RIGHT)


def left_out_lines(directory: LogDirectory) -> Iterator[str]:
    """Says which partitions a log directory has that are not listed, by their states."""
    counts = Counter("unfinished" if each.is_unfinished else each.state for each in directory.others)
    if not counts:
        return
    states = [state for state in INCLUDE if counts[state]]
    how = f"; --include {','.join(states)} lists them" if states else ""
    yield f"(left out: {', '.join(f'{count:,} {state}' for state, count in sorted(counts.items()))}{how})"


def deletion_lines(partitions: Iterable[PartitionPath], zone: tzinfo = UTC) -> Iterator[str]:
    """Says of deleted partitions how long their files stay, and how to keep them."""
    is_any = False
    for each in partitions:
        deletion = deletion_of(each)
        if deletion is None:
            continue
        is_any = True
        yield f"{show_name(f'{each.topic}-{each.partition}')} was deleted: {_time_left(deletion, zone)}"
    if is_any:
        yield "to keep them, link them now, on the same disk, whatever their size: cp -al DIRECTORY/*-delete KEPT/"


def _time_left(deletion: Deletion, zone: tzinfo) -> str:
    if deletion.deleted_ms is None or deletion.removed_ms is None:
        return "no broker runs here, so its files stay until one starts, which removes them one to two minutes later"
    deleted, removed = format_times([deletion.deleted_ms, deletion.removed_ms], "s", zone)
    left = max(0, deletion.removed_ms - clock.now()) // 1000
    when = f"in {left} s ({removed}) or up to a minute later" if left else "any moment"
    return f"a broker runs here, and removes its files {when}; it was deleted at {deleted}"


def _cells(row: Row, by: By) -> dict[str, str]:
    partition = f"{row['topic']}-{row.get('partition')}" if row["topic"] is not None else row.get("path") or NOTHING
    state = f" ({row['state']})" if row.get("state", "live") != "live" else ""
    return {
        "file": show_name(row.get("file", "")),
        "partition": show_name(partition) + state,
        "topic": (row["topic"] or NOTHING) + state,
        "partitions": format_number(row.get("partitions") if by == "topic" else None),
        "segments": format_number(row.get("segments")),
        "batches": format_number(row["batches"]),
        "records": format_number(row["records"]),
        "size": format_bytes(row["sizeInBytes"]),
        "offsets": format_offsets(row.get("firstOffset"), row.get("lastOffset")),
        "format": ",".join(f"v{magic}" for magic in row["magics"]) or NOTHING,
        "codecs": ",".join(row["compressions"]) or NOTHING,
    }


def _times(rows: Sequence[Row], zone: tzinfo) -> tuple[list[str], list[str]]:
    names = ("minTimestamp", "maxTimestamp")
    starts, ends = (format_times([row[name] for row in rows], "s", zone) for name in names)
    return starts, ends


def _partition(partition: PartitionPath, state: str, segments: Sequence[Row]) -> Row:
    """A partition's row from those of its segments."""
    named = {"topic": partition.topic, "partition": partition.partition, "path": partition.path}
    return named | {"state": state, "segments": len(segments)} | _sums(segments) | _offsets(segments)


def _topic(topic: str | None, partitions: Sequence[Row]) -> Row:
    """A topic's row from those of its partitions."""
    counts = {"partitions": len(partitions), "segments": sum(row["segments"] for row in partitions)}
    return {"topic": topic} | counts | _sums(partitions)


def _sums(rows: Sequence[Row]) -> Row:
    return {
        "batches": sum(row["batches"] for row in rows),
        "records": sum(row["records"] for row in rows),
        "sizeInBytes": sum(row["sizeInBytes"] for row in rows),
        "minTimestamp": _over(min, rows, "minTimestamp"),
        "maxTimestamp": _over(max, rows, "maxTimestamp"),
        "magics": sorted({magic for row in rows for magic in row["magics"]}),
        "compressions": sorted({name for row in rows for name in row["compressions"]}),
    }


def _offsets(rows: Sequence[Row]) -> Row:
    return {"firstOffset": _over(min, rows, "firstOffset"), "lastOffset": _over(max, rows, "lastOffset")}


def _over(choose: Callable[[list[int]], int], rows: Sequence[Row], name: str) -> int | None:
    known = [row[name] for row in rows if row[name] is not None]
    return choose(known) if known else None
