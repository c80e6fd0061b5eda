"""Formats what an export wrote, as a table and as rows for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from brokerless.jobs.export.commit import ExportedPartition
from brokerless.log.names import partition_directory
from brokerless.text import format_bytes
from brokerless.views.table import format_number, format_span, table

_NAMES = ("partition", "offsets", "records", "files", "size")


def exported_lines(exported: Sequence[ExportedPartition]) -> Iterator[str]:
    """Return a table of partitions with what was exported of each."""
    cells = [
        [
            partition_directory(each.topic, each.partition), format_span(each.start_offset, each.next_offset),
            format_number(each.records), format_number(len(each.files)), format_bytes(each.size),
        ]
        for each in exported
    ]  # fmt: skip
    return table(_NAMES, cells, right=_NAMES[2:])


def _path(each: ExportedPartition, name: str) -> str:
    """Return the path of a file, in the target's directory or in the table's."""
    return name if each.table is not None else f"topic={each.topic}/{name}"


def exported_row(each: ExportedPartition, *, dry_run: bool) -> dict[str, Any]:
    """Return a partition for programs."""
    return {
        "topic": each.topic,
        "partition": each.partition,
        "source": each.source,
        **({} if each.table is None else {"table": each.table}),
        "startOffset": each.start_offset,
        "nextOffset": each.next_offset,
        "endOffset": each.end_offset,
        "records": each.records,
        "sizeInBytes": each.size,
        "files": [] if dry_run else [_path(each, file.name) for file in each.files],
        "leftOut": [list(offsets) for offsets in each.left_out],
        "missing": [[first, after - 1] for first, after in each.missing],
        "filled": [[first, after - 1] for first, after in each.filled],
        "damages": len(each.findings),
    }
