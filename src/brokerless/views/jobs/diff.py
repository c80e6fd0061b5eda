"""Formats a comparison of two logs as tables, lines, and rows for JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from brokerless.jobs.diff.partition_diff import Difference, PartitionDiff, RecordView, SideSummary, Uncompared
from brokerless.jobs.diff.results import Diff
from brokerless.text import count_of, json_bytes
from brokerless.views.table import NOTHING, format_number, table

_NAMES = ("partition", "records", "same", "missing", "extra", "changed", "because")
_SHOWN = 20
"""Partitions without a difference that are shown, where there are many more."""
_OBVIOUS = ("missing", "extra", "changed")
"""Causes that have a column of their own."""


def partition_lines(partitions: Sequence[PartitionDiff]) -> Iterator[str]:
    """Yield a table of the partitions that were compared. Of many without a difference, the first."""
    compared = [each for each in partitions if each.problem is None]
    plain = [each for each in compared if each.is_same]
    hidden = {id(each) for each in (plain[_SHOWN:] if len(plain) > 2 * _SHOWN else ())}
    cells = [
        [
            each.name,
            *map(format_number, (each.records, each.same, each.missing, each.extra, each.changed)),
            _because(each),
        ]
        for each in compared
        if id(each) not in hidden
    ]
    if cells:
        yield from table(_NAMES, cells, right=_NAMES[1:-1])
    if hidden:
        yield f"... and {len(hidden):,} more partitions without a difference"


def _because(partition: PartitionDiff) -> str:
    causes = {
        name: count
        for name, count in (partition.causes or {}).items()
        if name not in _OBVIOUS or getattr(partition, name) < count  # of which the column has none: they are allowed
    }
    return ", ".join(f"{name} {count:,}" for name, count in causes.items()) or NOTHING


def lines(compared: Diff) -> Iterator[str]:
    """Yield the table, what differs, and how much of each does."""
    yield from partition_lines(compared.partitions)
    for each in compared.partitions:
        yield from each.lines()
    yield from map(str, compared.groups)
    yield from map(str, compared.state)
    unit = "replica" if any(each.is_replica for each in compared.partitions) else "partition"
    for name, several in ((unit, compared.partitions), ("group", compared.groups)):
        if several:
            yield _verdict(name, [each.is_same for each in several])
    if compared.state:
        kinds = Counter(each.kind for each in compared.state)
        many = ", ".join(count_of(count, kind) for kind, count in kinds.items())
        yield f"{many} {'differs' if sum(kinds.values()) == 1 else 'differ'}"
    elif not (compared.partitions or compared.groups):
        yield "the same"


def _verdict(name: str, are_same: Sequence[bool]) -> str:
    differing = are_same.count(False)
    if not differing:
        return f"{count_of(len(are_same), name)}: the same"
    return f"{differing:,} of {count_of(len(are_same), name)} {'differs' if differing == 1 else 'differ'}"


def rows_beside(compared: Diff) -> Iterator[dict[str, Any]]:
    """Yield groups, and what differs of the metadata, for programs."""
    for group in compared.groups:
        yield {
            "kind": "group",
            "group": group.group,
            "isShareGroup": group.is_share_group,
            "isSame": group.is_same,
            "positions": group.positions,
            "same": group.same,
            "differences": [
                {
                    "topic": each.topic,
                    "partition": each.partition,
                    "cause": each.cause,
                    "leftOffset": each.left_offset,
                    "rightOffset": each.right_offset,
                    "records": each.records,
                }
                for each in group.differences
            ],
        }
    for each in compared.state:
        yield {"kind": each.kind, "name": each.name, "left": each.left, "right": each.right}


def row(partition: PartitionDiff) -> dict[str, Any]:
    """Return a partition for programs."""
    return {
        "kind": "partition",
        "topic": partition.topic,
        "partition": partition.partition,
        "left": _side_row(partition.left),
        "right": _side_row(partition.right),
        "isSame": partition.is_same,
        "problem": partition.problem,
        "explanation": partition.explanation or None,
        "records": partition.records,
        "same": partition.same,
        "missing": partition.missing,
        "extra": partition.extra,
        "changed": partition.changed,
        "causes": partition.causes or {},
        "differences": [_difference_row(each) for each in partition.differences],
        "notListed": partition.not_listed,
        "uncompared": [_uncompared_row(each) for each in partition.uncompared],
    }


def _side_row(side: SideSummary | None) -> dict[str, Any] | None:
    if side is None:
        return None
    return {"path": side.path, "startOffset": side.start_offset, "endOffset": side.end_offset}


def _difference_row(each: Difference) -> dict[str, Any]:
    return {
        "what": each.what,
        "cause": each.cause,
        "firstOffset": each.first_offset,
        "lastOffset": each.last_offset,
        "records": each.records,
        "left": _record_row(each.left),
        "right": _record_row(each.right),
    }


def _record_row(view: RecordView | None) -> dict[str, Any] | None:
    if view is None:
        return None
    key = {} if view.key is None else {"key": json_bytes(view.key)}
    return {"timestamp": view.timestamp, **key, "headerNames": list(view.header_names)}


def _uncompared_row(each: Uncompared) -> dict[str, Any]:
    return {
        "side": each.side,
        "firstOffset": each.first_offset,
        "lastOffset": each.last_offset,
        "recordsOnTheOtherSide": each.records,
        "finding": each.finding.as_dict(),
    }
