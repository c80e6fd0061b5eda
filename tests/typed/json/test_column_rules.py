"""What a JSON Schema allows is the same where its rules are checked on columns as where jsonschema checks each row."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from brokerless.typed.framing import Frame
from brokerless.typed.json.schema import JsonValidator, json_arrow_type, json_decoder
from brokerless.typed.payloads import rows_decoder
from brokerless.typed.plain import parse_json
from brokerless.typed.registry import Schema

DRAFTS = ["http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#",
          "https://json-schema.org/draft/2020-12/schema"]  # fmt: skip
MEMBERS: dict[str, Any] = {
    "id": {"type": "integer", "minimum": 0, "maximum": 5},
    "amount": {"type": "number", "maximum": 2.5, "description": "in euros"},
    "state": {"type": "string", "enum": ["NEW", "PAID"]},
    "name": {"type": ["null", "string"], "minLength": 2, "maxLength": 3, "pattern": "^[aé]"},
    "other": {"oneOf": [{"type": "null"}, {"type": "boolean"}]},
    "part": {"$ref": "#/definitions/part"},
    "parts": {"type": "array", "items": {"$ref": "#/definitions/part"}, "minItems": 1},
    "tags": {"type": "array", "items": {"type": ["string", "null"], "maxLength": 2}},
}
PART = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]}
VALUES: dict[str, Any] = {
    "id": st.integers(-1, 6), "amount": st.sampled_from([1, 2.5, 2.6, -1e300]), "state": st.sampled_from(["NEW", "X"]),
    "name": st.text("aéb", max_size=4), "other": st.booleans(),
}  # fmt: skip
part = st.fixed_dictionaries({}, optional={"a": st.integers(0, 9) | st.none(), "b": st.text("x", max_size=1)})
odd = st.none() | st.sampled_from(["", 5.0, True, [], {}, [None], 1 << 60])
documents = st.fixed_dictionaries({}, optional={
    **{name: values | odd for name, values in VALUES.items()}, "part": part | odd,
    "parts": st.lists(part | st.none(), max_size=3) | odd,
    "tags": st.lists(st.text("xyz", max_size=3) | st.none(), max_size=3), "unknown": st.just(1),
})  # fmt: skip
schemas = st.builds(
    lambda draft, names, required, rest: {
        "$schema": draft, "type": "object", "properties": {name: MEMBERS[name] for name in names},
        "definitions": {"part": PART}, **rest,
        **({"required": sorted(required & set(names))} if required & set(names) else {}),
    },
    st.sampled_from(DRAFTS), st.lists(st.sampled_from(sorted(MEMBERS)), min_size=1, unique=True),
    st.frozensets(st.sampled_from(sorted(MEMBERS))), st.sampled_from([{}, {"additionalProperties": False}]),
)  # fmt: skip


def schema_of(document: dict[str, Any]) -> Schema:
    return Schema("orders-value", 1, 1, "JSON", json.dumps(document))


@examples(200)
@given(schemas, st.lists(documents, min_size=1, max_size=8))
def test_columns_are_checked_as_rows_are(document: dict[str, Any], values: list[dict[str, Any]]) -> None:
    schema = schema_of(document)
    target = json_arrow_type(schema)
    validator = JsonValidator(schema)
    assert validator.rule(target) is not None

    def parse(data: bytes) -> Any:
        value = parse_json(data)
        validator.check(value)
        return value

    payloads = [
        json.dumps({name: value for name, value in each.items() if name in MEMBERS}).encode() for each in values
    ]
    payloads += [json.dumps(each).encode() for each in values]
    ends = np.cumsum([0, *map(len, payloads)], dtype=np.int64)
    where = (Frame("", 0), np.frombuffer(b"".join(payloads), np.uint8), ends[:-1], ends[1:])
    ours, theirs = json_decoder(schema, target)(*where), rows_decoder(parse, target)(*where)
    assert ours[1] == theirs[1]
    assert ours[0].to_pylist() == theirs[0].to_pylist()


@pytest.mark.parametrize(
    "rule",
    [
        {"type": "integer", "multipleOf": 3}, {"type": "string", "not": {"const": "x"}},
        {"type": "integer", "enum": [1.5]},
        {"type": ["string", "integer"]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"type": "array"},
        {"type": "number", "minimum": 1 << 60}, {"type": "object", "additionalProperties": {"type": "string"}},
        {"$ref": "#/nothing"}, {"$ref": "other.json"}, {"enum": ["a"]}, True,
    ],
)  # fmt: skip
def test_other_rules_are_left_to_rows(rule: Any) -> None:
    validator = JsonValidator(schema_of({"type": "object", "properties": {"a": rule}}))
    assert validator.rule(pa.struct([("a", pa.string())])) is None
    assert validator.rule(pa.struct([("a", pa.int64())])) is None
