"""Fields of index files: a fixed layout for each entry, and the zeros that Kafka preallocates after them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from brokerless.explanation.builder import FieldBudget, FieldBuilder, Said, build
from brokerless.explanation.field import Field
from brokerless.explanation.meanings import time_of
from brokerless.explanation.records import RecordRange
from brokerless.findings import Finding
from brokerless.format import layouts
from brokerless.log.index.readers import parse_offset_index, parse_time_index, parse_transaction_index
from brokerless.log.names import SegmentFileKind

LAYOUTS: dict[SegmentFileKind, np.dtype[Any]] = {
    "offset-index": layouts.OFFSET_INDEX_ENTRY,
    "time-index": layouts.TIME_INDEX_ENTRY,
    "transaction-index": layouts.TRANSACTION_INDEX_ENTRY,
}


def explain_index(
    data: bytes, kind: SegmentFileKind, base_offset: int, chosen: RecordRange, budget: FieldBudget, start: int = 0
) -> tuple[Field, ...]:
    """Return the fields of an index; entries before position ``start`` (bytes) and before the chosen offset are one
    field."""
    layout = LAYOUTS[kind]
    used, offsets, findings = _read(data, kind, base_offset)
    wrong = {each.position: each for each in findings if each.position is not None}
    first = start // layout.itemsize
    if chosen.offset is not None:  # the last entry that is not after it, as a lookup takes it
        first = max(0, int(np.searchsorted(offsets, chosen.offset, side="right")) - 1)
    first = min(first, used)
    end = used if chosen.limit is None else min(used, first + chosen.limit)

    def fill(builder: FieldBuilder) -> None:
        if first:
            builder.take("entries", first * layout.itemsize, None, Said(f"not shown: {first} before"))
        for index in range(first, end):
            finding = wrong.get(index * layout.itemsize)
            with builder.group(f"entry[{index}]") as entry:
                if finding is not None:
                    entry.expected = _expected(finding)
                values = builder.take_layout(layout, _describe(base_offset))
                entry.note = _summary(kind, values, base_offset)
        if end < used:
            length = (used - end) * layout.itemsize
            builder.take("entries", length, None, Said(f"not shown: {used - end} more"))
        zeros = (builder.left // layout.itemsize) * layout.itemsize
        if zeros and not any(data[builder.at : builder.at + zeros]):
            builder.take("unused", zeros, None, Said(f"zeros: room for {zeros // layout.itemsize} more, preallocated"))
        if builder.left and (finding := wrong.get(builder.at)) is not None:
            builder.expect(_expected(finding))

    return build(data, 0, fill, budget)


def _read(data: bytes, kind: SegmentFileKind, base_offset: int) -> tuple[int, Any, tuple[Finding, ...]]:
    """Return how many entries are used, their offsets, and what is wrong with them."""
    array = np.frombuffer(data, np.uint8)
    match kind:
        case "offset-index":
            index = parse_offset_index(array, "", base_offset)
            return len(index.offsets), index.offsets, index.findings
        case "time-index":
            index = parse_time_index(array, "", base_offset)
            return len(index.offsets), index.offsets, index.findings
        case _:
            index = parse_transaction_index(array, "", base_offset)
            return len(index.last_offsets), index.last_offsets, index.findings


def _expected(finding: Finding) -> str:
    return finding.message if finding.expected is None else f"{finding.expected}: {finding.message}"


def _summary(kind: SegmentFileKind, values: dict[str, int], base_offset: int) -> str:
    if kind == "transaction-index":
        return f"offsets {values['first_offset']} to {values['last_offset']}, aborted"
    return f"offset {base_offset + values['relative_offset']}"


def _describe(base_offset: int) -> Callable[[str, dict[str, int]], Said]:
    def said(name: str, values: dict[str, int]) -> Said:
        value = values[name]
        # As AbstractIndex.toRelative and OffsetIndex.append of Kafka 4.4.0 write them.
        expected = "at least 0" if value < 0 and name in ("relative_offset", "position") else None
        match name:
            case "relative_offset":
                note = f"base offset {base_offset} (the file's name) + {value} = offset {base_offset + value}"
            case "position":
                note = "where the append that ended with this offset begins in the log, in bytes"
            case "timestamp":
                note = f"the largest up to this offset, ms since 1970: {time_of(value)}"
            case "version":
                note = ""
            case "producer_id":
                note = "whose transaction was aborted"
            case "first_offset":
                note = "the transaction's first record"
            case "last_offset":
                note = "its abort marker"
            case _:  # last_stable_offset
                note = "how far a read_committed reader could get when the marker was written"
        return Said(note, expected)

    return said
