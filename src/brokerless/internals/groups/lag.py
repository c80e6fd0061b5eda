"""The lag of groups: committed offsets against the ends of the logs that are here, as they are read.

A group's offsets are those that its coordinator loads (:mod:`brokerless.internals.coordinators`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from brokerless.errors import UnreadableError
from brokerless.internals.records import CONSUMER_OFFSETS
from brokerless.log.directory import PartitionPath
from brokerless.log.seek import end_offset
from brokerless.progress import Report
from brokerless.values import Row

TABLE = "lag"


def lag_rows(
    offsets: Iterable[Mapping[str, Any]], ends: Mapping[tuple[str | None, int | None], int | None]
) -> list[Row]:
    """Return a row for each committed offset, the largest lag first. ``ends``: the offset after the last record of the
    partitions that are here; ``endOffset`` and ``lag`` are null for all others."""
    rows: list[Row] = []
    for each in offsets:
        end = ends.get((each["topic"], each["partition"]))
        names = ("group", "topic", "partition", "offset", "commitTimestamp")
        lag = None if end is None else max(end - each["offset"], 0)
        rows.append({**{name: each[name] for name in names}, "endOffset": end, "lag": lag})
    place = itemgetter("group", "topic", "partition")
    return sorted(rows, key=lambda row: (row["lag"] is None, -(row["lag"] or 0), *place(row)))


def ends_of(partitions: Iterable[PartitionPath], on_damage: Report) -> dict[tuple[str | None, int | None], int | None]:
    """Return the offset after the last record of each partition, by headers; what cannot be read is reported."""
    found: dict[tuple[str | None, int | None], int | None] = {}
    for each in partitions:
        try:
            end = end_offset(each)
        except UnreadableError as error:
            on_damage(error.finding(each.path))
            continue
        known = found.get((each.topic, each.partition))
        found[each.topic, each.partition] = end if known is None or end is None else max(known, end)
    return found


def read_lag(
    partitions: Sequence[PartitionPath],
    others: Sequence[PartitionPath],
    read_offsets: Callable[[list[PartitionPath]], Sequence[Mapping[str, Any]]],
    on_damage: Report,
) -> list[Row]:
    """Return the lag of all groups in some partitions. ``others``: partitions of the same log directory, of which
    ``__consumer_offsets`` has what groups committed; where ``partitions`` are none but these, lags are in all."""
    own = [each for each in others if each.topic == CONSUMER_OFFSETS]
    data = [each for each in partitions if each.topic != CONSUMER_OFFSETS]
    offsets = read_offsets(own) if own else []
    is_all = not data or len(partitions) == len(others)
    rows = lag_rows(offsets, ends_of(partitions if data else others, on_damage))
    places = {(each.topic, each.partition) for each in data}
    return rows if is_all else [row for row in rows if (row["topic"], row["partition"]) in places]


def totals(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, int, int, int]]:
    """Yield each group with its lag, the number of its partitions, and of those that are not here."""
    found: dict[str, list[int]] = {}
    for row in rows:
        sums = found.setdefault(row["group"], [0, 0, 0])
        sums[0] += row["lag"] or 0
        sums[1] += 1
        sums[2] += row["lag"] is None
    for group, (lag, count, absent) in sorted(found.items(), key=lambda each: (-each[1][0], each[0])):
        yield group, lag, count, absent
