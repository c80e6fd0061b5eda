"""Shows an erasure in a backup: what has selected records, and what was written in its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from brokerless.jobs.backup_erasure.job import BackupErasure
from brokerless.text import count_of, format_bytes
from brokerless.views.table import format_number, table
from brokerless.views.text import format_times

_PARTITIONS = ("partition", "segments", "size", "touched", "selected")


def erasure_rows(result: BackupErasure) -> Iterator[dict[str, Any]]:
    """Yield a row for each partition, and one for the backup."""
    for each in result.partitions:
        yield {
            "topic": each.topic, "topicId": each.topic_id, "partition": each.partition, "segments": each.segments,
            "sizeInBytes": each.size, "touchedSegments": each.touched, "selected": each.selected,
        }  # fmt: skip
    yield {
        "place": result.place, "selected": result.selected, "segmentsWritten": len(result.replaced),
        "list": result.list_id, "prunedFrom": result.pruned_from, "findings": len(result.findings),
        "isApplied": result.is_applied,
    }  # fmt: skip


def erasure_lines(result: BackupErasure, manifest: str | None, sign_key: object) -> Iterator[str]:
    """Yield a table of partitions, the sum, and what is left to do. ``manifest``: its file, and ``sign_key``: what it
    was signed with, if it was."""
    cells = [
        [each.name, format_number(each.segments), format_bytes(each.size), format_number(each.touched),
         format_number(each.selected)]
        for each in result.partitions
    ]  # fmt: skip
    yield from table(_PARTITIONS, cells, right=_PARTITIONS[1:])
    yield ""
    yield _sum_of(result)
    if not result.is_applied:
        return
    if result.pruned_from is not None:
        (time,) = format_times([result.pruned_from])
        yield f"the bucket has these records until prune removes the old objects, which it may from {time} on"
    if manifest is not None:
        yield f"manifest: {manifest}" + (f", signed in {manifest}.sig" if sign_key is not None else ", not signed")


def _sum_of(result: BackupErasure) -> str:
    records = count_of(result.selected, "selected record")
    if result.findings and not result.selected:
        nothing = "nothing was written; " if result.is_applied else ""
        return f"{nothing}whether there are selected records is not known, as not all segments could be read"
    if not result.is_applied:
        segments = count_of(sum(each.touched for each in result.partitions), "segment")
        return f"{records} in {segments}; --apply writes these again without them, for all snapshots"
    if not result.replaced:
        return f"{records}: no segment was written again"
    written = count_of(len(result.replaced), "segment")
    return f"{records}: {written} written again, which all snapshots read from now on"
