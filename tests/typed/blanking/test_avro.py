"""Avro payloads without some fields' values, as fastavro reads them."""

from __future__ import annotations

import io
import json
from functools import cache
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from brokerless.typed.avro.schema import AvroType, parse_schema
from brokerless.typed.blanking.avro import avro_edits, names_of_fields
from brokerless.typed.blanking.edits import apply_edits
from brokerless.typed.blanking.paths import NamedFields, Presence, parse_path
from brokerless.typed.blanking.values import BlankedValue
from brokerless.typed.registry import Schema

PLACE = {"type": "record", "name": "Place", "fields": [
    {"name": "street", "type": "string"}, {"name": "zip", "type": ["null", "long"]}, {"name": "at", "type": "double"},
]}  # fmt: skip
PERSON = {"type": "record", "name": "Person", "fields": [
    {"name": "name", "type": ["null", "string"]},
    {"name": "email", "type": "string"},
    {"name": "age", "type": "int"},
    {"name": "places", "type": {"type": "array", "items": PLACE}},
    {"name": "tags", "type": {"type": "map", "values": ["string", "null"]}},
    {"name": "notes", "type": {"type": "map", "values": "bytes"}},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
    {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
    {"name": "contact", "type": ["string", "Place", "long"]},
    {"name": "home", "type": ["null", "Place"]},
    {"name": "only", "type": ["string"]},
    {"name": "flag", "type": "boolean"},
    {"name": "paid", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    {"name": "uid", "type": {"type": "string", "logicalType": "uuid"}},
]}  # fmt: skip
ADA: dict[str, Any] = {
    "name": "Ada", "email": "ada@example.org", "age": 36, "flag": True, "kind": "OLD", "hash": b"\x01\x02\x03\x04",
    "places": [{"street": "Long street 1", "zip": 5, "at": 1.5}, {"street": "", "zip": None, "at": 0.0}],
    "tags": {"phone": "+44 1", "x": None}, "notes": {"a": b"secret"}, "contact": {"street": "s", "zip": 1, "at": 2.0},
    "home": {"street": "h", "zip": 2, "at": 3.0}, "only": "one", "paid": b"\x04\xd2", "uid": "u",
}  # fmt: skip


def of(schema: Any) -> AvroType:
    return _parsed(json.dumps(schema))


@cache
def _parsed(text: str) -> AvroType:
    return parse_schema(Schema("s", 1, 1, "AVRO", text))


@cache
def _theirs(text: str) -> Any:
    return fastavro.parse_schema(json.loads(text))


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _theirs(json.dumps(schema).replace('"logicalType"', '"none"')), value)
    return out.getvalue()


def read(schema: Any, data: bytes, *, logical: bool = False) -> Any:
    text = json.dumps(schema)
    own = _theirs(text if logical else text.replace('"logicalType"', '"none"'))
    return fastavro.schemaless_reader(io.BytesIO(data), own, None)


def blanked(data: bytes, *fields: str, schema: Any = PERSON, reader: Any = None) -> bytes:
    own, others = of(schema), [] if reader is None else [of(reader)]
    result = apply_edits(data, avro_edits(data, own, others, named(*fields)))
    assert not avro_edits(result, own, others, named(*fields)), "there is nothing left"
    return result


def named(*fields: str) -> NamedFields:
    return NamedFields.of([parse_path(each) for each in fields])


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("name", {"name": None}),
        ("email", {"email": ""}),
        ("age", {"age": 0}),
        ("flag", {"flag": False}),
        ("kind", {"kind": "NEW"}),
        ("hash", {"hash": bytes(4)}),
        ("places", {"places": []}),
        ("places.street", {"places": [{"street": "", "zip": 5, "at": 1.5}, {"street": "", "zip": None, "at": 0.0}]}),
        ("places.zip", {"places": [ADA["places"][0] | {"zip": None}, ADA["places"][1]]}),
        ("tags", {"tags": {}}),
        ("tags.phone", {"tags": {"phone": None, "x": None}}),
        ("notes.a", {"notes": {"a": b""}}),
        ("contact", {"contact": {"street": "", "zip": None, "at": 0.0}}),
        ("contact.street", {"contact": {"street": "", "zip": 1, "at": 2.0}}),
        ("home", {"home": None}),
        ("home.at", {"home": {"street": "h", "zip": 2, "at": 0.0}}),
        ("only", {"only": ""}),
        ("paid", {"paid": b"\0"}),
        ("uid", {"uid": "00000000-0000-0000-0000-000000000000"}),
        ("none", {}),
        ("email.none", {}),
    ],
)
def test_a_field_is_null_where_its_schema_permits_it_else_the_empty_value_of_its_type(
    field: str, expected: dict[str, Any]
) -> None:
    assert read(PERSON, blanked(written(PERSON, ADA), field)) == ADA | expected


def test_all_fields_at_once_leave_no_byte_of_them_and_logical_types_are_read() -> None:
    fields = [each["name"] for each in PERSON["fields"]]  # type: ignore[index]
    data = blanked(written(PERSON, ADA), *fields)
    assert all(text not in data for text in (b"Ada", b"ada@", b"Long", b"+44", b"secret", b"\x04\xd2"))
    found = read(PERSON, data, logical=True)
    assert (int(found["paid"]), found["uid"].int, found["contact"]["street"]) == (0, 0, "")


def test_keys_of_maps_are_names_and_not_what_is_searched_for() -> None:
    data = written(PERSON, ADA)
    parts = BlankedValue(data, tuple(avro_edits(data, of(PERSON), [], NamedFields.of([("tags",)])))).parts
    assert b"+44 1" in parts
    assert b"phone" not in parts


def test_blocks_with_their_sizes_are_as_long_as_they_say() -> None:
    schema = {"type": "array", "items": {"type": "map", "values": "string"}}
    inner = b"\x01\x10\x02a\x0asecre\x00"  # one entry in 8 bytes
    data = b"\x03" + bytes([2 * 2 * len(inner)]) + inner + inner + b"\x00"
    assert read(schema, data) == [{"a": "secre"}] * 2
    result = blanked(data, "a", schema=schema)
    assert read(schema, result) == [{"a": ""}] * 2
    assert result == b"\x03\x18" + b"\x01\x06\x02a\x00\x00" * 2 + b"\x00"
    with pytest.raises(ValueError, match="a block of another size"):
        avro_edits(b"\x03\x02" + data[2:], of(schema), [], named("a"))


def test_a_field_is_found_by_its_new_name_as_well() -> None:
    old = {"type": "record", "name": "R", "fields": [{"name": "customer", "type": "string"}]}
    new = {"type": "record", "name": "R", "fields": [{"name": "client", "type": "string", "aliases": ["customer"]}]}
    data = written(old, {"customer": "Ada"})
    for name in ("client", "customer"):
        assert read(old, blanked(data, name, schema=old, reader=new)) == {"customer": ""}
    assert blanked(data, "client", schema=old) == data


@pytest.mark.parametrize(
    ("field", "presence"),
    [
        ("name", Presence.HELD),
        ("Name", Presence.LACKING),
        ("places.street", Presence.HELD | Presence.EMPTY),
        ("places.none", Presence.LACKING),
        ("tags.x", Presence.EMPTY),
        ("tags.y", Presence.LACKING),
        ("contact.street", Presence.HELD),
        ("only.street", Presence.LACKING),
        ("home.street", Presence.HELD),
        ("flag.street", Presence.LACKING),
    ],
)
def test_what_a_value_has_of_a_field(field: str, presence: Presence) -> None:
    fields = named(field)
    avro_edits(written(PERSON, ADA), of(PERSON), [], fields)
    assert fields.presence == [presence]


@pytest.mark.parametrize("field", ["name", "email", "places.street", "tags.phone", "home.street"])
def test_null_and_what_holds_nothing_is_empty_already(field: str) -> None:
    nobody = ADA | {"name": None, "email": "", "places": [], "tags": {}, "home": None}
    fields = named(field)
    assert not avro_edits(written(PERSON, nobody), of(PERSON), [], fields)
    assert fields.presence == [Presence.EMPTY]


def test_names_that_other_fields_have_are_no_aliases() -> None:
    """In the record that has both, mail is one of them alone; what a later record took it for may be both."""
    both = {"type": "record", "name": "R", "fields": [
        {"name": "mail", "type": "string"}, {"name": "email", "type": "string", "aliases": ["mail", "address"]},
    ]}  # fmt: skip
    later = {"type": "record", "name": "R", "fields": [{"name": "address", "type": "string", "aliases": ["mail"]}]}
    assert names_of_fields(of(both), (of(later),)) == {"mail": {"mail", "address"}, "email": {"email", "address"}}
    data = written(both, {"mail": "a", "email": "b"})
    assert read(both, blanked(data, "mail", schema=both, reader=later)) == {"mail": "", "email": "b"}


def test_a_field_goes_by_the_name_that_a_later_record_gives_it_also_where_another_had_that() -> None:
    """As Java renames them: a is b, and b is c. In the record that has a and b, b is either of them."""

    def record(*fields: dict[str, Any]) -> Any:
        return {"type": "record", "name": "R", "fields": list(fields)}

    old = record({"name": "a", "type": "string"}, {"name": "b", "type": "string"})
    new = record({"name": "b", "type": "string", "aliases": ["a"]}, {"name": "c", "type": "string", "aliases": ["b"]})
    assert names_of_fields(of(old), (of(new),)) == {"a": {"a", "b"}, "b": {"b", "c"}}
    data = written(old, {"a": "Ada", "b": "Bob"})
    assert read(old, blanked(data, "c", schema=old, reader=new)) == {"a": "Ada", "b": ""}
    assert read(old, blanked(data, "b", schema=old, reader=new)) == {"a": "", "b": ""}
    data = written(new, {"b": "Ada", "c": "Bob"})
    assert read(new, blanked(data, "b", schema=new, reader=old)) == {"b": "", "c": "Bob"}


def test_aliases_of_records_within_others_and_in_other_versions_count() -> None:
    def version(name: str, *aliases: str) -> Any:
        inner = {"type": "record", "name": "In", "fields": [{"name": name, "type": "string", "aliases": [*aliases]}]}
        return {"type": "record", "name": "R", "fields": [{"name": "list", "type": {"type": "array", "items": inner}}]}

    old, new = version("mail"), version("email", "mail")
    data = written(new, {"list": [{"email": "Ada"}]})
    assert read(new, blanked(data, "list.mail", schema=new)) == {"list": [{"email": ""}]}, "its own alias"
    data = written(old, {"list": [{"mail": "Ada"}]})
    assert read(old, blanked(data, "list.email", schema=old, reader=new)) == {"list": [{"mail": ""}]}


def test_a_record_within_itself_ends() -> None:
    node = {"type": "record", "name": "Node", "fields": [
        {"name": "text", "type": "string"}, {"name": "next", "type": ["Node", "string"]},
    ]}  # fmt: skip
    whole = {"type": "record", "name": "Top", "fields": [{"name": "node", "type": node}]}
    data = written(whole, {"node": {"text": "a", "next": {"text": "b", "next": "end"}}})
    assert read(whole, blanked(data, "node", schema=whole)) == {"node": {"text": "", "next": ""}}
    endless = {"type": "record", "name": "E", "fields": [{"name": "e", "type": ["E", "E2"]}]}
    endless["fields"][0]["type"][1] = {  # type: ignore[index]
        "type": "record", "name": "E2", "fields": [{"name": "e", "type": ["E", "E2"]}]
    }  # fmt: skip
    with pytest.raises(ValueError, match=r"cut off|too deeply"):
        avro_edits(b"\0" * 100, of(endless), [], named("e"))


VALUES = st.fixed_dictionaries({
    "name": st.none() | st.text(), "email": st.text(), "age": st.integers(-(1 << 31), (1 << 31) - 1),
    "flag": st.booleans(), "kind": st.sampled_from(["NEW", "OLD"]), "hash": st.binary(min_size=4, max_size=4),
    "places": st.lists(st.fixed_dictionaries({
        "street": st.text(), "zip": st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
        "at": st.floats(allow_nan=False),
    }), max_size=4),
    "tags": st.dictionaries(st.text(), st.none() | st.text()), "notes": st.dictionaries(st.text(), st.binary()),
    "contact": st.text() | st.integers(0, 99), "home": st.none(), "only": st.text(), "paid": st.binary(min_size=1),
    "uid": st.text(),
})  # fmt: skip
FIELDS = st.lists(st.sampled_from(["name", "email", "places.street", "places.zip", "tags", "contact", "notes.a"]))


@examples(150)
@given(VALUES, FIELDS)
def test_all_other_fields_stay(value: dict[str, Any], fields: list[str]) -> None:
    found = read(PERSON, blanked(written(PERSON, value), *fields))
    tops = {each.partition(".")[0] for each in fields}
    assert {name: each for name, each in found.items() if name not in tops} == {
        name: each for name, each in value.items() if name not in tops
    }
    if "places.street" in fields:
        assert not any(each["street"] for each in found["places"])
        assert [each["at"] for each in found["places"]] == [each["at"] for each in value["places"]]


@examples(200)
@given(st.binary(max_size=60) | VALUES.map(lambda value: written(PERSON, value)[:-1]))
def test_bytes_that_are_not_as_the_schema_says_are_refused_or_read_by_others_as_well(data: bytes) -> None:
    try:
        edits = avro_edits(data, of(PERSON), [], named("email"))
    except ValueError:
        return
    read(PERSON, apply_edits(data, edits))
