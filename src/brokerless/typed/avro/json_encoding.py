"""Turns Avro's JSON encoding into its binary one, by a schema, so that the same decoder reads both."""

from __future__ import annotations

import struct
from typing import Any, cast

from brokerless.format.plain_varint import encode_zigzag
from brokerless.typed.avro.schema import AvroType
from brokerless.typed.plain import parse_json

_MAX_DEPTH = 200


def from_json(type_: AvroType, data: bytes) -> bytes:
    """Return the binary encoding of a value that is encoded as JSON. Raises ValueError for what its schema does not
    hold."""
    out = bytearray()
    _encode(type_, parse_json(data), out, 0)
    return bytes(out)


def _encode(type_: AvroType, value: Any, out: bytearray, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    match type_.kind, value:
        case "union", _:
            _encode_branch(type_, value, out, depth)
        case "null", None:
            pass
        case "boolean", bool():
            out.append(value)
        case "int" | "long", int() if not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63:
            out += encode_zigzag(value)
        case "float" | "double", int() | float() | str() if not isinstance(value, bool):
            out += struct.pack("<f" if type_.kind == "float" else "<d", float(value))  # "NaN", "Infinity"
        case "string", str():
            out += encode_zigzag(len(data := value.encode())) + data
        case "bytes", str():
            out += encode_zigzag(len(data := value.encode("latin-1"))) + data
        case "fixed", str() if len(value) == type_.size:
            out += value.encode("latin-1")
        case "enum", str() if value in type_.symbols:
            out += encode_zigzag(type_.symbols.index(value))
        case "array" | "map", list() | dict() if isinstance(value, list) == (type_.kind == "array"):
            _encode_items(type_, cast(Any, value), out, depth)
        case "record", dict():
            members = cast("dict[str, Any]", value)
            for each in type_.fields:
                if each.written not in members:
                    raise ValueError(f"field {each.written} is missing in JSON")
                _encode(each.type, members[each.written], out, depth + 1)
        case _:
            raise ValueError(f"JSON that is no {type_.label}")


def _encode_branch(union: AvroType, value: Any, out: bytearray, depth: int) -> None:
    """Encode a union's value: null, or an object whose one member has the name of the branch."""
    for index, branch in enumerate(union.branches):
        if value is None and branch.kind == "null":
            out += encode_zigzag(index)
            return
        if isinstance(value, dict) and len(cast("dict[str, Any]", value)) == 1:
            ((name, inner),) = cast("dict[str, Any]", value).items()
            if name == (branch.name or branch.kind):
                out += encode_zigzag(index)
                _encode(branch, inner, out, depth + 1)
                return
    raise ValueError("JSON that is no branch of a union")


def _encode_items(type_: AvroType, value: Any, out: bytearray, depth: int) -> None:
    assert type_.items is not None
    if value:
        out += encode_zigzag(len(value))
    for each in value:
        if type_.kind == "map":
            out += encode_zigzag(len(name := each.encode())) + name
        _encode(type_.items, value[each] if type_.kind == "map" else each, out, depth + 1)
    out.append(0)
