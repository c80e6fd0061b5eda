"""Explained fields as JSON Lines: one for each field that has bytes of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import isfinite

from brokerless.explanation.field import Field, FieldValue, leaves
from brokerless.explanation.files import LOG, Explanation
from brokerless.text import json_bytes


def entries_of(explanation: Explanation) -> Iterator[tuple[int | None, int, tuple[Field, ...]]]:
    """Yield the fields of each batch, with its position (None in other files), and with the bytes that costs are a
    share of. What could not be read belongs to the batch before."""
    if explanation.kind != LOG:
        yield None, explanation.size, explanation.fields
        return
    starts = [index for index, each in enumerate(explanation.fields) if each.children or index == 0]
    for start, end in pairwise([*starts, len(explanation.fields)]):
        fields = explanation.fields[start:end]
        if fields:
            yield fields[0].position, sum(each.length for each in fields), fields


def json_lines(explanation: Explanation) -> Iterator[dict[str, object]]:
    """Yield a line for each field that has bytes of its own; those of a batch follow one another without a gap. What is
    inside a compressed field is in the line of that field."""
    for position, whole, fields in entries_of(explanation):
        for line in _json(fields, "", whole):
            yield {"file": explanation.file, "batchPosition": position} | line


def _json(fields: Sequence[Field], above: str, whole: int) -> Iterator[dict[str, object]]:
    for path, field in leaves(fields):
        line: dict[str, object] = {
            "position": field.position,
            "length": field.length,
            "name": field.name,
            "value": _json_value(field.value),
            "note": field.note,
            "path": above + path,
            "bytes": field.own.hex(),
            "share": round(field.length / whole, 6),
            "expected": field.expected,
        }
        if field.parts:
            line["parts"] = [{"bits": each.bits, "name": each.name, "value": each.value} for each in field.parts]
        if field.inflated is not None:
            inside = field.inflated
            below = list(_json(inside.fields, f"{above}{path}.", inside.size))
            line["inflated"] = {"codec": inside.codec, "sizeInBytes": inside.size, "fields": below}
        yield line


def _json_value(value: FieldValue) -> object:
    """Return a value as ``cat --json`` writes keys and values: bytes are text where they are UTF-8, else base64."""
    return str(value) if isinstance(value, float) and not isfinite(value) else json_bytes(value)
