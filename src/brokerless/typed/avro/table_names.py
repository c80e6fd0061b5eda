"""Names fields of Avro schemas as a table's columns are named that exist under their aliases."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa

from brokerless.typed.registry import Schema

_MAX_DEPTH = 60


def with_names_of(schema: Schema, known: pa.DataType) -> Schema:
    """The schema, in which each field that ``known`` has under an alias alone has that name; its own is an alias then.

    ``known``: the type of a table's column. Names are in the schema's own text, not in what it references; a schema
    that is not Avro's, or no schema, is returned unchanged.
    """
    if schema.type != "AVRO" or not pa.types.is_struct(known) or '"aliases"' not in schema.text:
        return schema
    try:
        root = json.loads(schema.text)
    except (ValueError, RecursionError):
        return schema
    return replace(schema, text=json.dumps(root)) if _rename(root, known, 0) else schema


def _rename(node: Any, known: Any, depth: int) -> bool:
    """Renames within a type of a schema, in place; whether anything has another name then."""
    if depth > _MAX_DEPTH:
        return False
    if isinstance(node, list):
        branches = [each for each in cast("list[Any]", node) if each != "null"]
        return len(branches) == 1 and _rename(branches[0], known, depth + 1)
    if not isinstance(node, dict):
        return False
    own = cast("dict[str, Any]", node)
    kind, t = own.get("type"), pa.types
    if kind == "record" and t.is_struct(known):
        return _rename_fields(own.get("fields"), known, depth)
    if kind == "array" and t.is_list(known):
        return _rename(own.get("items"), known.value_type, depth + 1)
    if kind == "map" and t.is_map(known):
        return _rename(own.get("values"), known.item_type, depth + 1)
    return isinstance(kind, (list, dict)) and _rename(kind, known, depth + 1)


def _rename_fields(found: Any, known: Any, depth: int) -> bool:
    types = {each.name: each.type for each in known}
    fields = [each for each in cast("list[Any]", found) if isinstance(each, dict)] if isinstance(found, list) else []
    there = {each.get("name") for each in cast("list[dict[str, Any]]", fields)}
    is_changed = False
    for field in cast("list[dict[str, Any]]", fields):
        name, aliases = field.get("name"), field.get("aliases")
        if name not in types and isinstance(aliases, list):
            old = next((each for each in cast("list[Any]", aliases) if each in types and each not in there), None)
            if old is not None:
                others = [each for each in cast("list[Any]", aliases) if each != old]
                field["name"], field["aliases"] = old, [*others, name]
                there.add(old)
                is_changed = True
        if field.get("name") in types:
            is_changed |= _rename(field.get("type"), types[field["name"]], depth + 1)
    return is_changed
