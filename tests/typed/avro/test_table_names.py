"""Fields are named as the columns that a table has under their aliases, at any depth, and no others."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from brokerless.typed.avro.schema import avro_arrow_type
from brokerless.typed.avro.table_names import with_names_of
from brokerless.typed.registry import Schema


def schema(*fields: dict[str, Any]) -> Schema:
    text = json.dumps({"type": "record", "name": "R", "fields": list(fields)})
    return Schema("t-value", 1, 1, "AVRO", text)


def test_a_field_has_the_name_that_the_table_has_at_any_depth() -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "new", "type": "int", "aliases": ["old"]}]}
    own = schema(
        {"name": "title", "type": "string", "aliases": ["label", "name"]},
        {"name": "lines", "type": ["null", {"type": "array", "items": inner}]},
    )
    lines = pa.list_(pa.struct([pa.field("old", pa.int32())]))
    known = pa.struct([pa.field("name", pa.string()), pa.field("lines", lines)])
    named = with_names_of(own, known)
    assert avro_arrow_type(named, None) == known
    assert json.loads(named.text)["fields"][0]["aliases"] == ["label", "title"]
    assert avro_arrow_type(own, named) == known  # as older versions of it are read


def test_what_the_table_has_itself_stays_and_so_does_what_no_alias_names() -> None:
    both = pa.struct([pa.field("name", pa.string()), pa.field("title", pa.string())])
    own = schema({"name": "title", "type": "string", "aliases": ["name"]})
    for known in (both, pa.struct([pa.field("other", pa.string())]), pa.string()):
        assert with_names_of(own, known) is own
    taken = schema({"name": "title", "type": "string", "aliases": ["name"]}, {"name": "name", "type": "int"})
    assert with_names_of(taken, pa.struct([pa.field("name", pa.int32())])) is taken


def test_what_is_no_schema_is_returned_unchanged() -> None:
    known = pa.struct([pa.field("a", pa.int32())])
    deep = '{"aliases":' + '{"type":' * 50_000
    texts = [
        '"aliases"',
        '{"aliases"',
        deep,
        '{"type":"record","fields":{"aliases":1}}',
        '{"type":"record","aliases":[]}',
    ]
    for text in texts:
        own = Schema("t-value", 1, 1, "AVRO", text)
        assert with_names_of(own, known) is own
