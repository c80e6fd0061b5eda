"""The kernel gives what fastavro gives, for any schema and value; and what is no value is refused, never read past."""

from __future__ import annotations

import io
import json
import random
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from brokerless.typed.avro.decoder import avro_decoder
from brokerless.typed.avro.program import NoProgramError, compile_program
from brokerless.typed.avro.schema import avro_arrow_type, parse_schema
from brokerless.typed.framing import Frame
from brokerless.typed.merge import without_nulls
from brokerless.typed.registry import Schema

FRAME = Frame("confluent", 1)
PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]


def schema_of(found: Any) -> Schema:
    return Schema("s", 1, 1, "AVRO", json.dumps(found))


def random_schema(dice: random.Random, names: list[int], depth: int = 0) -> Any:
    names[0] += 1
    name = f"N{names[0]}"
    kinds = ["primitive"] * 4 + ["enum", "fixed", "decimal", "logical", "nullable", "union"]
    kinds += ["record", "array", "map", "record"] if depth < 3 else []
    match dice.choice(kinds) if depth else "record":
        case "record":
            fields = [
                {"name": f"f{at}", "type": random_schema(dice, names, depth + 1)} for at in range(dice.randint(0, 5))
            ]
            return {"type": "record", "name": name, "fields": fields}
        case "array":
            return {"type": "array", "items": random_schema(dice, names, depth + 1)}
        case "map":
            return {"type": "map", "values": random_schema(dice, names, depth + 1)}
        case "enum":
            return {"type": "enum", "name": name, "symbols": ["A", "B_", "C"][: dice.randint(1, 3)]}
        case "fixed":
            return {"type": "fixed", "name": name, "size": dice.randint(0, 20)}
        case "decimal":
            inner = {"type": "bytes"} if dice.random() < 0.5 else {"type": "fixed", "name": name, "size": 12}
            return {**inner, "logicalType": "decimal", "precision": 20, "scale": 3}
        case "logical":
            kind, logical = dice.choice([("int", "date"), ("long", "timestamp-millis"), ("long", "time-micros")])
            return {"type": kind, "logicalType": logical}
        case "nullable":
            branches = ["null", dice.choice(PRIMITIVES[1:])]
            return branches if dice.random() < 0.5 else branches[::-1]
        case "union":
            return ["null", "string", "long", {"type": "enum", "name": name, "symbols": ["A"]}]
        case _:
            return dice.choice(PRIMITIVES)


def random_value(dice: random.Random, type_: Any) -> tuple[Any, Any]:
    """A value as fastavro writes it, and as Arrow has it."""
    if isinstance(type_, list):
        branch = dice.choice(type_)
        value, arrow = random_value(dice, branch)
        if len(type_) == 2 or branch == "null":
            return value, arrow
        name = branch if isinstance(branch, str) else branch["name"]
        labels = [each if isinstance(each, str) else each["name"] for each in type_ if each != "null"]
        return (name, value), {label: arrow if label == name else None for label in labels}
    kind = type_ if isinstance(type_, str) else type_["type"]
    own = {} if isinstance(type_, str) else type_
    if own.get("logicalType") == "decimal":
        number = Decimal(dice.randint(-(10**19), 10**19)).scaleb(-3)
        return number, number
    if kind == "record":
        pairs = {each["name"]: random_value(dice, each["type"]) for each in own["fields"]}
        values, columns = ({name: pair[at] for name, pair in pairs.items()} for at in (0, 1))
        return values, columns or "{}"  # what has no fields is text
    if kind == "array":
        items = [random_value(dice, own["items"]) for _ in range(dice.choice([0, 1, 3]))]
        return [one for one, _ in items], [two for _, two in items]
    if kind == "map":
        pairs = {f"k{at}": random_value(dice, own["values"]) for at in range(dice.choice([0, 1, 3]))}
        return {name: one for name, (one, _) in pairs.items()}, [(name, two) for name, (_, two) in pairs.items()]
    value: Any = {
        "null": lambda: None, "boolean": lambda: dice.random() < 0.5,
        "int": lambda: dice.choice([0, -1, 2**31 - 1, -(2**31), dice.randint(-99, 99)]),
        "long": lambda: dice.choice([0, 2**63 - 1, -(2**63), dice.randint(-(10**9), 10**9)]),
        "float": lambda: dice.choice([0.0, -1.5, 2.0**100]), "double": lambda: dice.random(),
        "bytes": lambda: dice.randbytes(dice.choice([0, 1, 70])),
        "string": lambda: dice.choice(["", "abc", "\u00e9\U0001f600" * 9, "x" * 300]),
        "enum": lambda: dice.choice(own["symbols"]), "fixed": lambda: dice.randbytes(own["size"]),
    }[kind]()  # fmt: skip
    if "logicalType" in own:  # Python's times have bounds; fastavro writes numbers, too
        value = dice.randint(0, 10**6)
    return value, value


def encode(parsed: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, parsed, value)
    return out.getvalue()


def decode(found: Any, payloads: list[bytes], reader: Any = None) -> tuple[Any, dict[int, str]]:
    schema, newest = schema_of(found), schema_of(found if reader is None else reader)
    type_ = without_nulls(avro_arrow_type(newest, newest))
    ends = np.cumsum([0, *map(len, payloads)], dtype=np.int64)
    data = np.frombuffer(b"".join(payloads), np.uint8)  # ends where the last payload does
    column, reasons = avro_decoder(schema, newest, type_)(FRAME, data, ends[:-1], ends[1:])
    column.validate(full=True)
    return column, {row: str(reason) for row, reason in reasons.items()}


@pytest.mark.parametrize("seed", range(60))
def test_random_schemas_and_values(seed: int) -> None:
    dice = random.Random(seed)
    schema = random_schema(dice, [0])
    compile_program(parse_schema(schema_of(schema)), avro_arrow_type(schema_of(schema), None), None)
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    pairs = [random_value(dice, schema) for _ in range(20)]
    payloads = [encode(parsed, value) for value, _ in pairs]
    column, reasons = decode(schema, payloads)
    assert reasons == {}
    expected = [arrow for _, arrow in pairs]
    assert _numbers(column) == expected


def _numbers(column: Any) -> list[Any]:
    def target(type_: Any) -> pa.DataType:
        t = pa.types
        if t.is_struct(type_):
            return pa.struct([pa.field(field.name, target(field.type)) for field in type_])
        if t.is_list(type_):
            return pa.list_(target(type_.value_type))
        if t.is_map(type_):
            return pa.map_(pa.string(), target(type_.item_type))
        if t.is_date(type_):
            return pa.int32()
        return pa.int64() if t.is_timestamp(type_) or t.is_time64(type_) else type_

    return column.cast(target(column.type)).to_pylist()


@pytest.mark.parametrize("seed", range(40))
def test_damaged_payloads_are_refused_or_read_and_never_past_their_end(seed: int) -> None:
    dice = random.Random(seed)
    schema = random_schema(dice, [0])
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    payloads: list[bytes] = []
    for _ in range(50):
        payload = bytearray(encode(parsed, random_value(dice, schema)[0]))
        for _ in range(dice.randint(0, 3)):
            if payload:
                payload[dice.randrange(len(payload))] = dice.choice([0, 1, 2, 0x7F, 0x80, 0xFF, dice.randrange(256)])
        payloads.append(bytes(payload[: dice.randint(0, len(payload))]) if dice.random() < 0.3 else bytes(payload))
    column, reasons = decode(schema, payloads)
    assert len(column) == len(payloads)
    assert all(not column[row].is_valid for row in reasons)


def test_claims_of_many_items_cost_nothing() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}]}
    many = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    column, reasons = decode(schema, [many + b"\0", b"\x04\0", b"\x03\x02\0", b"\0"])
    assert reasons[0] == "more items than its bytes can hold"
    assert column[1].as_py() == {"a": [None, None]}


def test_defaults_and_promotions_are_those_of_the_newest_schema() -> None:
    old = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}, {"name": "f", "type": "float"}]}
    new = {"type": "record", "name": "R", "fields": [
        {"name": "n", "type": "double"}, {"name": "f", "type": "double"},
        {"name": "s", "type": "string", "default": "d\u00e9fault"},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["X", "Y"]}, "default": "Y"},
        {"name": "r", "type": {"type": "record", "name": "Q", "fields": [{"name": "l", "type": "long"}]},
         "default": {"l": 7}},
        {"name": "m", "type": {"type": "map", "values": "int"}, "default": {"k": 1}},
    ]}  # fmt: skip
    parsed, target = (fastavro.parse_schema(json.loads(json.dumps(each))) for each in (old, new))
    payload = encode(parsed, {"n": 3, "f": 0.5})
    column, reasons = decode(old, [payload, payload], new)
    assert reasons == {}
    theirs = fastavro.schemaless_reader(io.BytesIO(payload), parsed, target)
    assert column.to_pylist() == [theirs | {"m": [("k", 1)]}] * 2


@pytest.mark.parametrize(
    ("kind", "default", "why"),
    [
        ("int", "text", "is not of its type"),
        ("int", 1 << 31, "is not of its type"),
        ("long", None, "is not of its type"),
        ("long", 1 << 63, "is not of its type"),
        ({"type": "fixed", "name": "F", "size": 2}, "abc", "is of another size"),
        (["null", "int"], "text", "is of no branch of its union"),
        ({"type": "record", "name": "Q", "fields": [{"name": "l", "type": "long"}]}, {}, "has not all fields"),
        ("string", "x" * 5000, "is of more than 4,096 bytes"),
    ],
)
@pytest.mark.parametrize("tree", [False, True])
def test_a_default_that_its_type_does_not_hold_is_null_and_named(kind: Any, default: Any, why: str, tree: bool) -> None:
    old: Any = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    if tree:  # which is decoded row by row
        old["fields"].append({"name": "next", "type": ["null", "R"]})
    new = {**old, "fields": [*old["fields"], {"name": "d", "type": kind, "default": default}]}
    payload = encode(old, {"n": 3, "next": None} if tree else {"n": 3})
    column, reasons = decode(old, [payload, payload[:0]], new)
    assert (column[0].as_py()["n"], column[0].as_py()["d"]) == (3, None)
    assert reasons[0] == f"the default of R.d in the schema s 1 {why}, and is left out"
    assert "left out" not in reasons[1]


def test_a_type_within_itself_is_json_row_by_row() -> None:
    tree = {"type": "record", "name": "T", "fields": [
        {"name": "v", "type": "int"}, {"name": "next", "type": ["null", "T"]}]}  # fmt: skip
    with pytest.raises(NoProgramError):
        compile_program(parse_schema(schema_of(tree)), avro_arrow_type(schema_of(tree), None), None)
    parsed = fastavro.parse_schema(json.loads(json.dumps(tree)))
    payload = encode(parsed, {"v": 1, "next": {"v": 2, "next": {"v": 3, "next": None}}})
    column, reasons = decode(tree, [payload, payload[:-1], b"\x02" * 100_000])
    assert column[0].as_py() == {"v": 1, "next": '{"v":2,"next":{"v":3,"next":null}}'}
    assert sorted(reasons) == [1, 2]
    assert reasons[2] == "nested too deeply"


def test_a_union_of_one_branch_has_its_index() -> None:
    found = {"type": "record", "name": "R", "fields": [{"name": "a", "type": ["string"]}, {"name": "b", "type": "int"}]}
    value = {"a": "x", "b": 7}
    column, failed = decode(found, [encode(found, value)])
    assert (column.to_pylist(), failed) == ([value], {})
