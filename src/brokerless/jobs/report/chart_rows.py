"""Turns figures into rows that charts draw: few enough of them, and labelled."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import pyarrow as pa

from brokerless import arrow
from brokerless.clock import HOUR_MS
from brokerless.findings import describe_kinds
from brokerless.jobs.report.sums import END_OF_TIME_MS
from brokerless.jobs.report.treemap import Rectangle, lay_out
from brokerless.text import show_name
from brokerless.values import Row

MOST_RECTANGLES = 150
MOST_LANES = 40
MOST_TOPICS = 8
MOST_BARS = 200
OTHERS = "all others"
SEVERAL = "several"
TREEMAP = Rectangle(0, 0, 2.6, 1)
_STEPS_HOURS = (1, 2, 3, 6, 12, 24, 48, 7 * 24, 30 * 24, 91 * 24, 365 * 24, 10 * 365 * 24)


def partition_name(row: Row) -> str:
    """Return a name such as ``orders-0``; ``(file)`` for a lone file."""
    return "(file)" if row["topic"] is None else show_name(f"{row['topic']}-{row['partition']}")


def topic_name(topic: str | None) -> str:
    return "(file)" if topic is None else show_name(topic)


def size_rows(partitions: pa.Table) -> list[Row]:
    """Return a rectangle for each partition that has bytes, topics together; the smallest partitions share one."""
    found = [row for row in arrow.rows(partitions) if row["sizeInBytes"] > 0]
    found.sort(key=lambda row: row["sizeInBytes"], reverse=True)
    labelled: list[Row] = [{**row, "label": partition_name(row), "topic": topic_name(row["topic"])} for row in found]
    shown, rest = labelled[:MOST_RECTANGLES], labelled[MOST_RECTANGLES:]
    by_topic: dict[str, list[Row]] = {}
    for row in shown:
        by_topic.setdefault(row["topic"], []).append(row)
    if rest:
        sums: Row = {name: sum(row[name] for row in rest) for name in ("segments", "records", "sizeInBytes")}
        by_topic[OTHERS] = [{"label": f"{len(rest):,} others", "topic": OTHERS, **sums}]
    topics = sorted(by_topic.values(), key=_size, reverse=True)
    placed: list[Row] = []
    for rows, area in zip(topics, lay_out([_size(rows) for rows in topics], TREEMAP), strict=True):
        for row, each in zip(rows, lay_out([row["sizeInBytes"] for row in rows], area), strict=True):
            names = ("label", "topic", "segments", "records", "sizeInBytes")
            corners = {"x": each.x, "y": each.y, "x2": each.x + each.width, "y2": each.y + each.height}
            placed.append({name: row[name] for name in names} | {key: round(at, 5) for key, at in corners.items()})
    return placed


def _size(rows: Sequence[Row]) -> int:
    return sum(row["sizeInBytes"] for row in rows)


def damaged_partitions(findings: pa.Table | None) -> set[str]:
    """Return the names of partitions with errors that lose or hide records; of none where there was no audit."""
    rows = [] if findings is None else arrow.rows(findings)
    of_records = {name for name, kind in describe_kinds().items() if kind.concerns == "records"}
    return {partition_name(row) for row in rows if row["severity"] == "error" and row["kind"] in of_records}


def timeline_rows(segments: pa.Table, damaged: Collection[str] = ()) -> list[Row]:
    """Return a bar for each segment that has timestamps: if there are many partitions, of those that are ``damaged``
    and the largest of the others."""
    rows = arrow.rows(segments)
    lanes: dict[str, int] = {}
    for row in rows:
        lanes[partition_name(row)] = lanes.get(partition_name(row), 0) + row["sizeInBytes"]
    shown = set(sorted(lanes, key=lambda name: (name in damaged, lanes[name]), reverse=True)[:MOST_LANES])
    return [
        {
            "partition": partition_name(row),
            "from": row["minTimestamp"],
            "to": max(row["maxTimestamp"], row["minTimestamp"]),
            "firstOffset": row["firstOffset"],
            "lastOffset": row["lastOffset"],
            "sizeInBytes": row["sizeInBytes"],
            "gapBefore": row["gapBefore"],
            "compression": _one(row["compressions"]),
            "format": _one([f"v{magic}" for magic in row["magics"]]),
            "leaderEpochs": "-".join(map(str, row["leaderEpochs"])),
        }
        for row in rows
        if partition_name(row) in shown and _has_times(row)
    ]


def _has_times(row: Row) -> bool:
    """Return whether times can be drawn: not if a timestamp is impossible, next to which all others would be one
    point."""
    times = (row["minTimestamp"], row["maxTimestamp"])
    return all(time is not None and 0 <= time < END_OF_TIME_MS for time in times)


def _one(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else SEVERAL if names else "unknown"


def throughput_rows(throughput: pa.Table) -> list[Row]:
    """Bars by topic and time, one above the other: of an hour, or of as many hours as leave few enough of them."""
    rows = [row for row in arrow.rows(throughput) if row["start"] is not None]
    if not rows:
        return []
    first, last = min(row["start"] for row in rows), max(row["end"] for row in rows)
    widest = max(row["end"] - row["start"] for row in rows)
    steps = [hours * HOUR_MS for hours in _STEPS_HOURS]
    step = next((each for each in steps if each >= widest and (last - first) / each <= MOST_BARS), steps[-1])
    shown = largest_topics(rows)
    bars: dict[tuple[str, int], list[int]] = {}
    for row in rows:
        topic = topic_name(row["topic"])
        bar = bars.setdefault((topic if topic in shown else OTHERS, row["start"] // step * step), [0, 0])
        bar[0] += row["records"]
        bar[1] += row["sizeInBytes"]
    placed: list[Row] = []
    heights: dict[int, int] = {}
    for (topic, start), (records, size) in sorted(bars.items()):
        below = heights.get(start, 0)
        heights[start] = above = below + records
        times = {"start": start, "end": start + step}
        placed.append(
            {"topic": topic, **times, "records": records, "sizeInBytes": size, "below": below, "above": above}
        )
    return placed


def largest_topics(rows: Iterable[Row]) -> list[str]:
    """At most so many names of topics as there are colours, the largest first."""
    sizes: dict[str, int] = {}
    for row in rows:
        topic = topic_name(row["topic"])
        sizes[topic] = sizes.get(topic, 0) + row["sizeInBytes"]
    return sorted(sizes, key=lambda topic: (-sizes[topic], topic))[:MOST_TOPICS]


def batch_size_rows(batch_sizes: pa.Table) -> list[Row]:
    """Return how many batches of which size, of all topics; sizes between the smallest and the largest are all
    there."""
    counts: dict[int, list[int]] = {}
    for row in arrow.rows(batch_sizes):
        counted = counts.setdefault(row["fromBytes"], [0, 0, 0])
        for index, name in enumerate(("batches", "records", "sizeInBytes")):
            counted[index] += row[name]
    rows: list[Row] = []
    size = min(counts, default=1)
    while counts and size <= max(counts):
        batches, records, total = counts.get(size, [0, 0, 0])
        label = f"{_short(size)} to {_short(2 * size)}"
        rows.append({"size": label, "fromBytes": size, "batches": batches, "records": records, "sizeInBytes": total})
        size *= 2
    return rows


def _short(size: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size} {unit}"
        size //= 1024
    return f"{size} GiB"


def compression_rows(compression: pa.Table) -> list[Row]:
    """Bytes by codec and message format, of the largest topics."""
    rows = arrow.rows(compression)
    shown = largest_topics(rows)
    sums: dict[tuple[str, str, str], list[int]] = {}
    for row in rows:
        topic = topic_name(row["topic"])
        codec = row["compression"] or "unknown"
        added = sums.setdefault((topic if topic in shown else OTHERS, codec, f"v{row['magic']}"), [0, 0, 0])
        for index, name in enumerate(("batches", "records", "sizeInBytes")):
            added[index] += row[name]
    codecs = sorted({codec for _, codec, _ in sums})
    return [
        {"topic": topic, "compression": codec, "format": magic, "rank": codecs.index(codec),
         "batches": each[0], "records": each[1], "sizeInBytes": each[2]}
        for (topic, codec, magic), each in sorted(sums.items())
    ]  # fmt: skip
