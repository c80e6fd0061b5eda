"""What trees of fields have to hold, and what they say about records."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from brokerless.explanation.batches import ExplainSettings, explain_entry
from brokerless.explanation.builder import FieldBudget
from brokerless.explanation.field import Field, leaves
from brokerless.format.read.batch_scan import scan_batches


def entries_of(data: bytes, settings: ExplainSettings) -> Iterator[tuple[int, tuple[Field, ...]]]:
    """The fields of each batch, message and wrapper, and of what is left at the end."""
    scan = scan_batches(np.frombuffer(data, np.uint8))
    bounds = [*scan.positions.tolist(), scan.stopped_at, len(data)]
    for start, end in pairwise(bounds):
        if start < end:
            yield start, explain_entry(data[start:end], start, settings, FieldBudget())


def check_tiles(fields: Sequence[Field], start: int, size: int, data: bytes | None = None) -> None:
    """The fields make up ``size`` bytes from ``start`` on without gap or overlap; so do those of each group, and those
    inside of inflated ones. ``data``: all the bytes."""
    at = start
    for each in fields:
        assert each.position == at
        assert each.length > 0
        if each.children:
            check_tiles(each.children, each.position, each.length)
        else:
            assert len(each.own) == each.length
        if each.inflated is not None:
            check_tiles(each.inflated.fields, 0, each.inflated.size)
        at = each.end
    assert at == start + size
    if data is not None:
        assert b"".join(leaf.own for _, leaf in leaves(fields)) == data[start : start + size]


def named(field: Field) -> dict[str, Field]:
    """The fields of a group by name."""
    return {each.name: each for each in field.children}


def inner_groups(field: Field) -> list[Field]:
    """The groups of records, or of messages inside: the field itself is the batch or wrapper."""
    payload = next((each for each in field.children if each.inflated is not None), None)
    of = field.children if payload is None or payload.inflated is None else payload.inflated.fields
    return [each for each in of if re.fullmatch(r"(record|message)\[\d+\]", each.name)]


def records_of(entry: Field) -> list[dict[str, Any]]:
    """The records of a batch, a message or a wrapper: offset, timestamp, key, value and headers."""
    header = named(entry)
    if entry.name == "message":
        return [_message(entry, header["offset"].value)]
    groups = inner_groups(entry)
    if entry.name == "wrapper":
        is_append = header["magic"].value and header["attributes"].value & 8
        found = [_message(each, int(each.note.removeprefix("offset "))) for each in groups]
        return [each | {"timestamp": header["timestamp"].value} for each in found] if is_append else found
    return [_record(each, header) for each in groups]


def _message(group: Field, offset: Any) -> dict[str, Any]:
    fields = named(group)
    timestamp = fields["timestamp"].value if "timestamp" in fields else -1
    return {"offset": offset, "timestamp": timestamp, **_contents(fields), "headers": []}


def _record(group: Field, header: dict[str, Field]) -> dict[str, Any]:
    fields = named(group)
    base, attributes = header["base_timestamp"].value, header["attributes"].value
    timestamp = header["max_timestamp"].value if attributes & 8 else base + fields["timestamp_delta"].value
    headers = [_header(named(each)) for each in group.children if each.name.startswith("header[")]
    offset = header["base_offset"].value + fields["offset_delta"].value
    assert group.note == f"offset {offset}"
    assert f" = offset {offset}" in fields["offset_delta"].note
    return {"offset": offset, "timestamp": timestamp, **_contents(fields), "headers": headers}


def _header(fields: dict[str, Field]) -> tuple[bytes, bytes | None]:
    key, value = (_bytes(fields, name) for name in ("key", "value"))
    assert key is not None
    return key, value


def _contents(fields: dict[str, Field]) -> dict[str, bytes | None]:
    return {name: _bytes(fields, name) for name in ("key", "value")}


def _bytes(fields: dict[str, Field], name: str) -> bytes | None:
    if fields[f"{name}_length"].value < 0:
        return None
    return fields[name].raw if name in fields else b""
