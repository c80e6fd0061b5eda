"""Messages without some fields, as google.protobuf reads them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from brokerless.typed.blanking.edits import apply_edits
from brokerless.typed.blanking.paths import NamedFields, Presence, parse_path
from brokerless.typed.blanking.protobuf import protobuf_edits
from brokerless.typed.blanking.values import BlankedValue
from brokerless.typed.protobuf.files import MessageTypes, message_types
from brokerless.typed.registry import Schema

PROTO = """
syntax = "proto3";
import "google/protobuf/struct.proto";
message Person {
  string name = 1;
  optional string mail = 2;
  repeated Place places = 3;
  map<string, string> tags = 4;
  map<int32, Place> by_year = 5;
  repeated int32 numbers = 6;
  oneof way { string phone = 7; bytes fax = 8; }
  Place home = 9;
  google.protobuf.Struct more = 200;
  Person friend = 11;
  double height = 12;
  message Place { string street = 1; int64 zip = 2; }
}
"""
OLD = """
syntax = "proto2";
message Person {
  required string name = 1;
  required Kind kind = 2;
  required Place place = 3;
  optional group Extra = 4 { optional string note = 1; required int32 number = 2; }
  required fixed64 hash = 5;
  message Place { required double at = 1; optional string street = 2; }
}
enum Kind { FIRST = 3; SECOND = 4; }
"""


def types(text: str) -> MessageTypes:
    return message_types(Schema("s", 1, 1, "PROTOBUF", text))


def person(text: str = PROTO) -> Any:
    return types(text).message_class((0,))()


def ada() -> Any:
    message = person()
    message.name, message.mail, message.phone, message.height = "Ada", "ada@example.org", "+44 1", 1.7
    message.places.add(street="Long street 1", zip=5)
    message.places.add(zip=6)
    message.tags.update({"phone": "+44 2", "x": "y"})
    message.by_year[1840].street = "By year"
    message.numbers.extend([1, 2, 3])
    message.home.street = "At home"
    message.more.update({"secret": "s1", "list": [{"secret": "s2"}, 3], "deep": {"secret": "s3", "open": 1}})
    message.friend.name = "Charles"
    return message


def blanked(message: Any, *fields: str, text: str = PROTO, more: bytes = b"") -> Any:
    data = message.SerializeToString() + more
    descriptor = types(text).descriptor((0,))
    result = apply_edits(data, protobuf_edits(data, descriptor, [], named(*fields)))
    assert not protobuf_edits(result, descriptor, [], named(*fields)), "there is nothing left"
    read = person(text)
    read.ParseFromString(result)
    return read


def named(*fields: str) -> NamedFields:
    return NamedFields.of([parse_path(each) for each in fields])


def test_a_field_is_removed_and_all_others_stay() -> None:
    for field in ("name", "mail", "places", "tags", "by_year", "numbers", "phone", "home", "more", "friend", "height"):
        expected = ada()
        expected.ClearField(field)
        assert blanked(ada(), field) == expected


def test_keys_of_maps_are_names_and_not_what_is_searched_for() -> None:
    data = ada().SerializeToString()
    edits = protobuf_edits(data, types(PROTO).descriptor((0,)), [], named("tags", "more"))
    parts = BlankedValue(data, tuple(edits)).parts
    assert {b"+44 2", b"y", b"s1"} <= set(parts)
    assert not {b"phone", b"x", b"secret"} & set(parts)


def test_fields_within_messages_repeated_ones_and_maps() -> None:
    expected = ada()
    expected.places[0].street = ""
    expected.home.street = expected.friend.name = ""
    expected.by_year[1840].street = ""
    assert blanked(ada(), "places.street", "home.street", "friend.name", "by_year.1840.street") == expected
    del expected.by_year[1840]
    del expected.tags["phone"]
    fields = ("places.street", "home.street", "friend.name", "by_year.1840", "tags.phone", "tags.none", "name.none")
    assert blanked(ada(), *fields) == expected


def test_paths_name_what_is_in_a_struct_as_they_do_in_json() -> None:
    expected = ada()
    del expected.more["secret"]
    del expected.more["list"][0]["secret"]
    del expected.more["deep"]["secret"]
    assert blanked(ada(), "more.secret", "more.list.secret", "more.deep.secret") == expected


@pytest.mark.parametrize(
    ("field", "presence"),
    [
        ("name", Presence.HELD),
        ("fax", Presence.EMPTY),
        ("Name", Presence.LACKING),
        ("home.street", Presence.HELD),
        ("home.zip", Presence.EMPTY),
        ("home.none", Presence.LACKING),
        ("places.street", Presence.HELD | Presence.EMPTY),
        ("name.none", Presence.LACKING),
        ("tags.phone", Presence.HELD),
        ("tags.none", Presence.LACKING),
        ("tags.phone.none", Presence.LACKING),
        ("by_year.1840.zip", Presence.EMPTY),
        ("by_year.1841.zip", Presence.LACKING),
        ("byYear.1840.street", Presence.HELD),
        ("friend.tags.phone", Presence.EMPTY),
        ("more.secret", Presence.HELD),
        ("more.none", Presence.LACKING),
        ("more.list.secret", Presence.HELD | Presence.LACKING),
        ("more.secret.none", Presence.LACKING),
    ],
)
def test_what_a_message_has_of_a_field(field: str, presence: Presence) -> None:
    fields = named(field)
    protobuf_edits(ada().SerializeToString(), types(PROTO).descriptor((0,)), [], fields)
    assert fields.presence == [presence]


def test_a_field_goes_by_the_names_that_its_number_has_in_other_versions() -> None:
    other = types(PROTO.replace("string mail = 2", "string email = 2").replace("int64 zip = 2", "int64 code = 2"))
    same, data = other.find("Person"), ada().SerializeToString()
    assert (other.find("Nobody"), same.full_name) == (None, "Person")
    for names in (("email", "places.code"), ("mail", "places.zip")):
        result = person()
        edits = protobuf_edits(data, types(PROTO).descriptor((0,)), [same], named(*names))
        result.ParseFromString(apply_edits(data, edits))
        assert (result.mail, [each.zip for each in result.places], result.name) == ("", [0, 0], "Ada")


def test_every_occurrence_goes_and_fields_of_newer_schemas_stay() -> None:
    again = person()
    again.name, again.home.street = "Ada again", "Street again"
    unknown = b"\xfa\x7f\x03new"
    read = blanked(ada(), "name", "home.street", more=again.SerializeToString() + unknown)
    assert (read.name, read.home.street) == ("", "")
    assert unknown in read.SerializeToString()


def test_required_fields_become_the_empty_value_of_their_type() -> None:
    message = person(OLD)
    message.name, message.kind, message.hash = "Ada", 4, 77
    message.place.at, message.place.street = 1.5, "s"
    message.extra.note, message.extra.number = "n", 9
    read = blanked(message, "name", "kind", "hash", "place", "extra.note", "extra.number", text=OLD)
    assert read.IsInitialized()
    assert (read.name, read.kind, read.hash, read.place.at, read.place.street) == ("", 3, 0, 0.0, "")
    assert (read.extra.HasField("note"), read.extra.number) == (False, 0)
    assert not blanked(message, "extra", text=OLD).HasField("extra")


@pytest.mark.parametrize(
    "data", [b"\x0a", b"\x0a\x05a", b"\x08", b"\x0b", b"\x0c", b"\x0f\x00", b"\0", b"\x4d\0\0\0\0"]
)
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"cut off|past the message|none|no message"):
        protobuf_edits(data, types(PROTO).descriptor((0,)), [], named("home.street"))


@examples(200)
@given(st.binary(max_size=60))
def test_what_google_reads_is_read_and_stays_readable(data: bytes) -> None:
    from google.protobuf.message import DecodeError

    try:
        person().ParseFromString(data)
    except DecodeError:
        return
    try:
        edits = protobuf_edits(data, types(PROTO).descriptor((0,)), [], named("name", "home.street", "tags.x"))
    except ValueError:
        return
    read = person()
    read.ParseFromString(apply_edits(data, edits))
    assert (read.name, read.home.street, "x" in read.tags) == ("", "", False)
