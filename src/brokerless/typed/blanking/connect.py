"""Finds what to change of JSON with its schema in it, as Connect's JsonConverter writes it.

Paths are those of fields in ``payload``. A field becomes null where its schema is optional, else the empty or zero
value of its type.
"""

from __future__ import annotations

import json
from typing import Any, cast

from brokerless.typed.blanking.edits import Edit
from brokerless.typed.blanking.json_text import Route, edits_of, find_spans
from brokerless.typed.blanking.paths import FieldTarget, NamedFields

PAYLOAD = "payload"
_ZEROS: dict[str, Any] = {
    "int8": 0, "int16": 0, "int32": 0, "int64": 0, "float": 0.0, "double": 0.0, "boolean": False, "string": "",
    "bytes": "", "array": [],
}  # fmt: skip
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_ZERO_DECIMAL = "AA=="
_MAX_DEPTH = 60


def connect_edits(data: bytes, envelope: dict[str, Any], fields: NamedFields) -> list[Edit]:
    """Return the edits of a value, which ``envelope`` is parsed. Paths may begin with ``payload``, where that is no
    field. Raises ValueError for a schema that is none."""
    schema = envelope["schema"]
    is_field = _is_field(schema, PAYLOAD)
    targets = [
        each if each.path[0] == PAYLOAD and not is_field else FieldTarget((PAYLOAD, *each.path), each.number)
        for each in fields.targets
    ]
    own = NamedFields(
        targets, fields.presence, lambda route, name: _is_field(_schema_at(schema, route[1:]), name)
    )  # fmt: skip
    text = data.decode()
    spans = find_spans(text, own)
    values = [json.dumps(_empty(_schema_at(schema, each.route[1:]), 0)) for each in spans]
    return edits_of(text, spans, values, own)


def _object(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, dict):
        raise ValueError("a Connect schema is no object")
    return cast("dict[str, Any]", schema)


def _fields(schema: dict[str, Any]) -> list[dict[str, Any]]:
    fields = schema.get("fields", [])
    return [_object(each) for each in cast("list[Any]", fields)] if isinstance(fields, list) else []


def _is_field(schema: Any, name: str) -> bool:
    return isinstance(schema, dict) and any(each.get("field") == name for each in _fields(_object(schema)))


def _schema_at(schema: Any, route: Route) -> Any:
    """The schema of the value to which a route leads; None where the value has none."""
    at = 0
    while at < len(route) and schema is not None:
        own, name = _object(schema), route[at]
        kind = own.get("type")
        if kind == "struct":
            schema = next((each for each in _fields(own) if each.get("field") == name), None)
            if schema is None:
                raise ValueError(f"the schema has no field {name}")
        elif kind == "map" and isinstance(name, int):  # of keys that are no strings: an array of pairs
            at += 1
            schema = own.get("keys" if route[at : at + 1] == (0,) else "values")
        else:
            schema = own.get("values" if kind == "map" else "items")
        at += 1
    return schema


def _empty(schema: Any, depth: int) -> Any:
    if schema is None:
        return None
    own = _object(schema)
    kind = own.get("type")
    if own.get("optional") is True or depth > _MAX_DEPTH:
        return None
    if own.get("name") == _DECIMAL:
        return _ZERO_DECIMAL
    if kind == "struct":
        return {str(each.get("field")): _empty(each, depth + 1) for each in _fields(own)}
    if kind == "map":
        keys = own.get("keys")
        return {} if isinstance(keys, dict) and _object(keys).get("type") == "string" else []
    if kind not in _ZEROS:
        raise ValueError(f"a Connect schema has no type {kind!r}")
    return _ZEROS[kind]
