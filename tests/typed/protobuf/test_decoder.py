"""Protobuf messages by their indexes equal what confluent-kafka's deserializer gives."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from tests.typed.registries import client, registry_of
from tests.typed.test_decode import VALUE, decoded

from brokerless.typed.protobuf.files import message_types
from brokerless.typed.registry import Registry, Schema

PROTO = """
syntax = "proto3";
package shop;
import "common/money.proto";
import "google/protobuf/timestamp.proto";
message Other { string unused = 1; }
message Order {
  int64 id = 1;
  optional string note = 2;
  repeated Line lines = 3;
  map<string, uint64> counts = 4;
  State state = 5;
  common.Money total = 6;
  google.protobuf.Timestamp at = 7;
  oneof way { string post = 8; bytes air = 9; }
  Order part = 10;
  message Line { string sku = 1; double price = 2; }
}
enum State { NEW = 0; PAID = 1; }
"""
MONEY = 'syntax = "proto3"; package common; message Money { int32 units = 1; }'
OWN = Schema("orders-value", 1, 7, "PROTOBUF", PROTO, (), imports=(
    ("common/money.proto", Schema("money", 1, 6, "PROTOBUF", MONEY)),
))  # fmt: skip


def registry() -> Registry:
    found = Registry()
    found.versions["orders-value", 1] = OWN
    found.by_id[".", 7] = OWN
    return found


def framed(indexes: bytes, message: Any) -> bytes:
    return b"\0\0\0\0\7" + indexes + message.SerializeToString()


def order() -> Any:
    message = message_types(OWN).message_class((1,))()
    message.id = -5
    message.lines.add(sku="a", price=0.5)
    message.counts["x"] = (1 << 64) - 1
    message.state = 1
    message.total.units = 3
    message.at.FromNanoseconds(1_500_000_000_000_000_001)
    message.air = b"\xff"
    message.part.id = 2
    return message


def test_a_message_is_found_by_its_indexes_and_has_all_types() -> None:
    whole, line = order(), order().lines[0]
    topic_type, found = decoded([framed(b"\x02\x02", whole), framed(b"\x04\x02\x00", line)], registry())
    value = found[0]["value"]
    assert value["id"] == -5
    assert value["note"] is None
    assert value["lines"] == [{"sku": "a", "price": 0.5}]
    assert dict(value["counts"]) == {"x": (1 << 64) - 1}
    assert (value["state"], value["total"], value["post"], value["air"]) == ("PAID", {"units": 3}, None, b"\xff")
    assert value["at"].value == 1_500_000_000_000_000_001
    assert value["part"] == '{"id": "2"}'
    assert topic_type.value.type.field("lines").type == pa.list_(
        pa.struct([("sku", pa.string()), ("price", pa.float64())])
    )
    assert found[1]["value"] | {"sku": "a", "price": 0.5} == found[1]["value"]


def test_what_is_no_message_keeps_its_bytes() -> None:
    good = framed(b"\x02\x02", order())
    _, found = decoded([good, good[:-1], b"\0\0\0\0\7\x02\x20abc", b"\0\0\0\0\7"], registry())
    assert [each["valueError"] is None for each in found] == [True, False, False, False]
    assert "no message [16]" in found[2]["valueError"]


def test_a_schema_that_a_client_registered_serialized_decodes_as_confluents_deserializer_does() -> None:
    own = client()
    kind = message_types(OWN).message_class((1, 1))
    message = kind(sku="x", price=2.5)  # type: ignore[call-arg]
    serialize = ProtobufSerializer(kind, own)  # type: ignore[arg-type]
    value = serialize(message, VALUE)
    assert value is not None
    theirs = ProtobufDeserializer(kind, {}, own)(value, VALUE)  # type: ignore[arg-type]
    _, found = decoded([value], registry_of(own))
    assert theirs == message
    assert {name: found[0]["value"][name] for name in ("sku", "price")} == {"sku": "x", "price": 2.5}


@pytest.mark.parametrize("name", ["../x.proto", "/etc/x.proto", "a\0b.proto"])
def test_an_import_that_leads_out_of_the_directory_is_refused(name: str) -> None:
    hostile = Schema("s", 1, 1, "PROTOBUF", f'syntax = "proto3"; import "{name}";', (), imports=((name, OWN),))
    with pytest.raises(ValueError, match="none of a file"):
        message_types(hostile)


def test_a_text_that_is_no_schema_says_what_protoc_says() -> None:
    with pytest.raises(ValueError, match="no Protobuf schema"):
        message_types(Schema("s", 1, 1, "PROTOBUF", "message {"))


TIMES = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Event {
  int64 id = 1;
  google.protobuf.Timestamp at = 2;
  Inner inner = 3;
  repeated google.protobuf.Timestamp many = 4;
  map<string, google.protobuf.Timestamp> named = 5;
  message Inner { google.protobuf.Timestamp until = 1; }
}
"""
NEVER = 253_402_300_799
"""9999-12-31T23:59:59Z, which many programs write for it; nanoseconds of 64 bits end in the year 2262."""


@pytest.mark.parametrize("path", ["at", "inner.until", "many[]", "named[]"])
def test_a_time_that_nanoseconds_do_not_hold_leaves_out_its_field_alone(path: str) -> None:
    schema = Schema("orders-value", 1, 7, "PROTOBUF", TIMES, ())
    found = Registry()
    found.versions["orders-value", 1] = found.by_id[".", 7] = schema
    message: Any = message_types(schema).message_class((0,))()
    message.id = 5
    now = datetime(2026, 11, 28, tzinfo=UTC)
    for at in (message.at, message.inner.until, message.many.add(), message.named["a"]):
        at.FromDatetime(now)
    held = framed(b"\0", message)
    name = path.removesuffix("[]")
    times = {"at": message.at, "inner.until": message.inner.until, "many": message.many[0], "named": message.named["a"]}
    times[name].seconds = NEVER
    _, rows = decoded([held, framed(b"\0", message)], found)
    whole = {"id": 5, "at": now, "inner": {"until": now}, "many": [now], "named": [("a", now)]}
    left: dict[str, Any] = {
        "at": {"at": None}, "inner.until": {"inner": {"until": None}}, "many[]": {"many": [None]},
        "named[]": {"named": [("a", None)]},
    }  # fmt: skip
    assert [row["value"] for row in rows] == [whole, whole | left[path]]
    assert rows[0]["valueError"] is None
    assert rows[1]["valueError"] == f"field {path}: a time that timestamp[ns, tz=UTC] does not hold is left out"
    assert rows[1]["valueRaw"] == framed(b"\0", message)


def test_a_time_that_is_none_within_json_is_the_reason_of_its_value() -> None:
    fields = "M m = 1; google.protobuf.Timestamp at = 2;"
    text = f'syntax = "proto3"; import "google/protobuf/timestamp.proto"; message M {{ {fields} }}'
    schema = Schema("s", 1, 7, "PROTOBUF", text)
    inner = message_types(schema).message_class((0,))()
    inner.m.at.seconds = 1 << 60
    own = Registry()
    own.versions["s", 1] = own.by_id[".", 7] = schema
    _, found = decoded([framed(b"\0", inner), framed(b"\0", message_types(schema).message_class((0,))())], own)
    assert "Timestamp is not valid" in found[0]["valueError"]
    assert (found[1]["valueError"], found[1]["value"]) == (None, {"m": None, "at": None})
