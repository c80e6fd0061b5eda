"""The dry run of a broker's next start, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

from brokerless.jobs.restart import Restart
from brokerless.printable import show_name
from brokerless.views.table import NOTHING, format_bytes, format_number, table

_COLUMNS = ("partition", "offsets after", "bytes cut", "segments deleted", "indexes rebuilt", "lost offsets", "records")
_RIGHT = ("bytes cut", "segments deleted", "indexes rebuilt", "records")
_REASONS = {
    "not-flushed": "not known to be flushed",
    "index-missing": "without an offset index",
    "transaction-index-corrupt": "the transaction index does not fit",
}


def row(restart: Restart) -> dict[str, Any]:
    """One partition, for programs: offsets, bytes, paths."""
    return {
        "topic": restart.topic,
        "partition": restart.partition,
        "path": restart.path,
        "refused": restart.refused,
        "logStartOffset": None if restart.refused else restart.log_start_offset,
        "logEndOffset": None if restart.refused else restart.log_end_offset,
        "recovered": [{"baseOffset": base, "reason": reason} for base, reason in restart.recovered],
        "truncated": [
            {"file": each.file, "sizeInBytes": each.size, "keptBytes": each.kept, "reason": each.reason}
            for each in restart.cut
        ],
        "deleted": [{"file": file, "sizeInBytes": size} for file, size in restart.deleted],
        "rebuilt": list(restart.rebuilt),
        "emptied": list(restart.emptied),
        "unclosed": list(restart.unclosed),
        "removed": list(restart.removed),
        "renamed": [list(pair) for pair in restart.renamed],
        "lostBytes": restart.lost_bytes,
        "lostBatches": restart.lost.batches,
        "lostRecords": restart.lost.records,
        "firstLostOffset": restart.lost.first_offset,
        "lastLostOffset": restart.lost.last_offset,
    }


def partition_lines(restarts: Sequence[Restart]) -> Iterator[str]:
    """A table of partitions."""
    return table(_COLUMNS, [_cells(each) for each in restarts], _RIGHT)


def detail_lines(restart: Restart) -> Iterator[str]:
    """What would happen to one partition and why, if it is more than that unflushed segments are read."""
    reasons: dict[str, list[str]] = {}
    for base_offset, reason in restart.recovered:
        reasons.setdefault(reason, []).append(str(base_offset))
    changes = (
        restart.refused,
        restart.cut,
        restart.deleted,
        restart.emptied,
        restart.removed,
        restart.renamed,
        restart.unclosed,
    )
    if not any(changes) and not reasons.keys() - {"not-flushed"}:
        return
    yield f"\n{show_name(restart.path)}:"
    if restart.refused is not None:
        yield f"  the broker cannot load it as it is, and takes the log directory offline: {show_name(restart.refused)}"
    for reason, bases in reasons.items():
        yield f"  reads segment {', '.join(bases)} batch by batch: {_REASONS[reason]}"
    for each in restart.cut:
        kept, size = format_number(each.kept), format_number(each.size)
        yield f"  cuts {_name(each.file)} from {size} bytes to {kept}: {show_name(each.reason)}"
    for file, size in restart.deleted:
        yield f"  deletes {_name(file)} of {format_number(size)} bytes, and its indexes"
    for text in restart.unclosed:
        yield f"  takes the end of the log as it is, as the stop was clean: {show_name(text)}"
    for file in restart.emptied:
        yield f"  makes an empty {_name(file)}: retention then goes by the time of the log file"
    for name in restart.removed:
        yield f"  deletes {show_name(name)}, which was left over"
    for source, target in restart.renamed:
        yield f"  renames {show_name(source)} to {show_name(target)}"


def _name(path: str) -> str:
    return show_name(PurePath(path).name)


def _cells(restart: Restart) -> list[str]:
    lost, name = restart.lost, f"{restart.topic}-{restart.partition}" if restart.topic is not None else restart.path
    if restart.refused is not None:
        return [show_name(name), "refused", *[NOTHING] * 5]
    kept = f"{restart.log_start_offset}..{restart.log_end_offset - 1}"
    return [
        show_name(name),
        NOTHING if restart.log_start_offset == restart.log_end_offset else kept,
        format_bytes(restart.lost_bytes) if restart.lost_bytes else NOTHING,
        format_number(len(restart.deleted)) if restart.deleted else NOTHING,
        format_number(len(restart.rebuilt)) if restart.rebuilt else NOTHING,
        NOTHING if lost.first_offset is None else f"{lost.first_offset}..{lost.last_offset}",
        format_number(lost.records) if lost.records else NOTHING,
    ]
