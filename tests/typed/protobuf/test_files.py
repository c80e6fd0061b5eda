"""Files that schemas import: those that Confluent's clients bring with them are as in confluent-kafka."""

from __future__ import annotations

import base64
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry.common import protobuf as confluent
from google.protobuf import descriptor_pb2, descriptor_pool
from tests.typed.test_decode import decoded

import brokerless.typed.protobuf
from brokerless.typed.protobuf.files import message_types
from brokerless.typed.registry import Registry, Schema

BUILTIN = Path(brokerless.typed.protobuf.__file__).parent / "builtin"
NAMES = sorted(each.relative_to(BUILTIN).as_posix() for each in BUILTIN.rglob("*.proto"))
PAYMENT = """
syntax = "proto3";
package pay;
import "google/type/money.proto";
import "confluent/type/decimal.proto";
import "confluent/meta.proto";
message Payment {
  int64 id = 1 [(confluent.field_meta) = { tags: "PII" }];
  google.type.Money total = 2;
  confluent.type.Decimal fee = 3;
}
"""
PAYLOAD = b"\x08\x07\x12\x07\n\x03EUR\x10\x05\x1a\x06\n\x02\x04\xd2\x18\x02"
EXPECTED = {
    "id": 7,
    "total": {"currency_code": "EUR", "units": 5, "nanos": 0},
    "fee": {"value": b"\x04\xd2", "precision": 0, "scale": 2},
}


def schema(text: str, imports: tuple[tuple[str, Schema], ...] = ()) -> Schema:
    return Schema("pay-value", 1, 1, "PROTOBUF", text, (), imports=imports)


def shape(file: Any) -> Any:
    """What decides how a file's messages are read: without options, texts and Java's names."""
    own = descriptor_pb2.FileDescriptorProto()
    own.ParseFromString(file.SerializeToString())
    own.ClearField("options")
    own.ClearField("source_code_info")

    def plain(fields: Any) -> None:
        for field in fields:
            field.ClearField("json_name")
            field.ClearField("options")

    def plain_messages(messages: Any) -> None:
        for each in messages:
            plain(each.field)
            plain_messages(each.nested_type)

    plain(own.extension)
    plain_messages(own.message_type)
    return own


@pytest.mark.parametrize("name", NAMES)
def test_a_builtin_file_is_that_of_confluents_client(name: str) -> None:
    assert confluent is not None  # whose import adds its files to the pool
    if name.startswith("google/"):
        import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    own = message_types(schema(f'syntax = "proto3"; import "{name}"; message Own {{}}'))
    pool: Any = own.top[0].file.pool
    theirs: Any = descriptor_pool.Default()
    files = [descriptor_pb2.FileDescriptorProto(), descriptor_pb2.FileDescriptorProto()]
    for file, of in zip(files, (pool, theirs), strict=True):
        of.FindFileByName(name).CopyToProto(file)
    assert shape(files[0]) == shape(files[1])


def test_they_are_all_that_confluents_client_brings() -> None:
    pool: Any = descriptor_pool.DescriptorPool()
    confluent._init_pool(pool)  # pyright: ignore[reportPrivateUsage]
    for name in NAMES:
        if name not in NEWER:
            pool.FindFileByName(name)


NEWER = ("google/type/decimal.proto", "google/type/interval.proto", "google/type/localized_text.proto",
         "google/type/phone_number.proto")  # fmt: skip
"""Which Google has beside those that this client brings; other clients have more."""


@pytest.mark.parametrize("is_serialized", [False, True])
def test_a_schema_that_imports_what_no_registry_has_is_used(is_serialized: bool) -> None:
    text = PAYMENT
    if is_serialized:
        file = descriptor_pb2.FileDescriptorProto()
        message_types(schema(PAYMENT)).top[0].file.CopyToProto(file)
        text = base64.b64encode(file.SerializeToString()).decode()
    registry = Registry()
    registry.versions["orders-value", 1] = registry.by_id[".", 7] = schema(text)
    _, (row,) = decoded([b"\0\0\0\0\7\0" + PAYLOAD], registry)
    assert (row["value"], row["valueError"]) == (EXPECTED, None)


def test_a_registrys_own_file_of_that_name_counts() -> None:
    money = 'syntax = "proto3"; package google.type; message Money { string own = 9; }'
    imports = (("google/type/money.proto", schema(money)),)
    found = message_types(schema(PAYMENT, imports)).descriptor((0,))
    assert [each.name for each in found.fields_by_name["total"].message_type.fields] == ["own"]


@pytest.mark.parametrize(
    ("text", "names", "reason"),
    [
        ("message A { B b = 1; }", (), 'no Protobuf schema: brokerless_schema.proto:1:32: "B" is not defined.'),
        ('import "acme/x.proto";', (), "no Protobuf schema: acme/x.proto: File not found."),
        ('import "a"; import "a/b";', ("a", "a/b"), "an import of the name 'a/b': File exists"),
        ("", ("z" * 400,), f"an import of the name '{'z' * 60}': File name too long"),
    ],
)
def test_why_a_schema_is_none_names_no_place_of_this_machine(text: str, names: tuple[str, ...], reason: str) -> None:
    imports = tuple((name, schema('syntax = "proto3";')) for name in names)
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        message_types(schema(f'syntax = "proto3"; {text}', imports))
    assert str(caught.value) == reason
