"""Unsigned message indexes, as confluent-kafka's serializer wrote them before 1.8, and with ``use.deprecated.format``.

Those of today refuse that setting, but still have the function that writes such numbers.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from tests.typed.registries import client, registry_of
from tests.typed.test_decode import VALUE, decoded

from brokerless.typed.protobuf.files import message_types
from brokerless.typed.protobuf.indexes import MessageFinder, read_indexes
from brokerless.typed.registry import Registry, Schema
from brokerless.typed.topic_type import Decoding

PROTO = """syntax = "proto3";
message A { string a = 1; }
message B { string b = 1; message N1 { string n = 1; } message N2 { string m = 1; } }
message C { string c = 1; message N3 { string k = 2; } }
"""
OWN = Schema("orders-value", 1, 7, "PROTOBUF", PROTO, ())
MESSAGES = {"a": (0,), "b": (1,), "c": (2,), "n": (1, 0), "m": (1, 1), "k": (2, 0)}
"""By the one field that each has."""


def serialized(*names: str, is_deprecated: bool) -> tuple[list[bytes | None], Registry]:
    """What the client writes, or wrote, and its registry."""
    own, values = client(), list[bytes | None]()
    for name in names:
        kind: Any = message_types(OWN).message_class(MESSAGES[name])
        serialize: Any = ProtobufSerializer(kind, own)
        value: bytes = serialize(kind(**{name: f"{name}!"}), VALUE)
        payload = value[5 + read_indexes(value[5:])[1] :]
        unsigned = BytesIO()
        for number in (len(MESSAGES[name]), *MESSAGES[name]):  # also of the first message, which is one zero today
            ProtobufSerializer._write_varint(unsigned, number, zigzag=False)
        old = value[:5] + unsigned.getvalue() + payload
        values.append(old if is_deprecated else value)
    return values, registry_of(own)


def fields_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The fields that are set in each value."""
    return [{name: each for name, each in (row["value"] or {}).items() if each} for row in rows]


@pytest.mark.parametrize("is_deprecated", [True, False])
def test_all_messages_are_decoded_whichever_way_their_indexes_are_written(is_deprecated: bool) -> None:
    values, registry = serialized(*MESSAGES, is_deprecated=is_deprecated)
    _, rows = decoded(values, registry)
    assert fields_of(rows) == [{name: f"{name}!"} for name in MESSAGES]
    assert not any(row["valueError"] for row in rows)


def test_both_are_decoded_in_one_topic() -> None:
    old, registry = serialized(*MESSAGES, is_deprecated=True)
    new, _ = serialized(*MESSAGES, is_deprecated=False)
    assert old[0] != new[0]
    _, rows = decoded([*old, *new], registry)
    assert fields_of(rows) == [{name: f"{name}!"} for name in MESSAGES] * 2


def test_the_format_takes_all_for_unsigned_and_says_so_where_they_are_not() -> None:
    old, registry = serialized("b", "m", is_deprecated=True)
    new, _ = serialized("c", is_deprecated=False)
    _, rows = decoded([*old, *new], registry, Decoding(value_format="protobuf-deprecated"))
    assert fields_of(rows) == [{"b": "b!"}, {"m": "m!"}, {}]
    assert rows[2]["valueError"] == "the schema has no message [4, 10] (unsigned, as protobuf-deprecated has them)"


def test_what_is_no_message_either_way_keeps_its_bytes_and_says_so() -> None:
    (value,), registry = serialized("a", is_deprecated=True)
    assert value is not None
    wrong = value[:5] + b"\x02\x12" + value[7:]
    _, rows = decoded([wrong], registry)
    assert rows[0]["valueRaw"] == wrong
    assert rows[0]["valueError"].endswith("(nor any of unsigned indexes, as Python clients before 1.8 wrote them)")


def test_a_guess_with_fields_that_the_message_does_not_have_is_refused() -> None:
    (value,), registry = serialized("a", is_deprecated=True)
    assert value is not None
    strange = value[:7] + b"\x4a\x01x"  # a field 9, which no message has
    _, rows = decoded([strange], registry)
    assert rows[0]["value"] is None
    assert "protobuf-deprecated" in rows[0]["valueError"]
    _, rows = decoded([strange], registry, Decoding(value_format="protobuf-deprecated"))
    assert rows[0]["value"] is not None


def test_indexes_are_read_in_both_ways() -> None:
    assert read_indexes(b"\x04\x02\x00rest") == ((1, 0), 3)
    assert read_indexes(b"\x02\x01\x00rest", is_unsigned=True) == ((1, 0), 3)
    assert read_indexes(b"\x00rest") == read_indexes(b"\x00rest", is_unsigned=True) == ((0,), 1)
    for data in (b"", b"\x04\x02", b"\xff" * 6, b"\x7f\x00"):
        with pytest.raises(ValueError, match="message indexes that are"):
            read_indexes(data)


def test_the_messages_of_beginnings_are_found() -> None:
    finder = MessageFinder(message_types(OWN))
    assert finder.used([b"\x01\x01\x0a", b"\x04\x02\x02\x0a", b"", b"\x02\x12\x0a"]) == {(1,), (1, 1)}
