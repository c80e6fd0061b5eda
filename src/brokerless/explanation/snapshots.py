"""Fields of producer snapshots: a header, and an entry for each producer."""

from __future__ import annotations

import numpy as np

from brokerless.explanation.builder import FieldBudget, FieldBuilder, Said, build
from brokerless.explanation.field import Field
from brokerless.explanation.meanings import NONE, time_of
from brokerless.explanation.records import RecordRange
from brokerless.format import layouts
from brokerless.log.producer.snapshot import snapshot_checksum

_SIZE = layouts.PRODUCER_SNAPSHOT_ENTRY.itemsize


def explain_producer_snapshot(data: bytes, chosen: RecordRange, budget: FieldBudget) -> tuple[Field, ...]:
    """Return the fields of a ``.snapshot`` file."""

    def fill(builder: FieldBuilder) -> None:
        with builder.group("header"):
            values = builder.take_layout(
                layouts.PRODUCER_SNAPSHOT_HEADER, lambda name, values: _describe_header(name, values, data)
            )
        if values["version"] != 1:
            builder.expect("version 1")
        fitting = builder.left // _SIZE
        count = min(values["count"], fitting)
        shown = count if chosen.limit is None else min(count, chosen.limit)
        for index in range(shown):
            with builder.group(f"producer[{index}]") as entry:
                entry.note = (
                    f"producer id {builder.take_layout(layouts.PRODUCER_SNAPSHOT_ENTRY, _describe)['producer_id']}"
                )
        if count > shown:
            builder.take("producers", (count - shown) * _SIZE, None, Said(f"not shown: {count - shown} more"))
        if values["count"] > fitting:
            builder.expect(f"{values['count'] - fitting} more producers of {_SIZE} bytes each")
        builder.take_rest("after the entries; Kafka's reader ignores it")

    return build(data, 0, fill, budget)


def _describe_header(name: str, values: dict[str, int], data: bytes) -> Said:
    value = values[name]
    if name == "crc":
        start = layouts.PRODUCER_SNAPSHOT_CRC_START
        note = f"CRC-32C of the bytes from {start} to {len(data) - 1}: {value:#010x}"
        computed = snapshot_checksum(np.frombuffer(data, np.uint8))
        return Said(f"{note}, matches") if computed == value else Said(note, f"{computed:#010x}")
    if name == "version":
        return Said("", None if value == 1 else "1")
    return Said("producers that follow", None if value >= 0 else "0 or more")


def _describe(name: str, values: dict[str, int]) -> Said:
    value = values[name]
    match name:
        case "producer_id" | "producer_epoch":
            note = ""
        case "last_sequence":
            note = "of its last batch" if value >= 0 else NONE
        case "last_offset":
            note = "of its last batch" if value >= 0 else "none: it has no batch, or only a marker"
        case "offset_delta":
            first = values["last_offset"] - value
            note = (
                f"last offset - first offset of that batch: it began at {first}" if values["last_offset"] >= 0 else NONE
            )
        case "timestamp":
            note = f"ms since 1970: {time_of(value)}"
        case "coordinator_epoch":
            note = "of its last marker's transaction coordinator" if value >= 0 else NONE
        case _:  # current_txn_first_offset
            note = "where its open transaction begins" if value >= 0 else "none: no transaction is open"
    return Said(note)
