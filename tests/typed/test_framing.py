"""Ids before values, and in headers, are told apart by the bytes: those that Confluent's, Apicurio's and AWS Glue's
serializers write."""

from __future__ import annotations

import io
import json
import zlib
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.source_context_pb2 import SourceContext
from tests.typed.registries import client, registry_of
from tests.typed.test_decode import V1, V2, VALUE, decoded

from brokerless.schemas import HEADERS
from brokerless.typed.framing import Frame, find_frames, payloads
from brokerless.typed.schema_source import load_registry

ROW = {"id": 1, "user": "ann", "old": b""}
PLAIN = bytes.fromhex("0206616e6e00")
"""ROW in Avro."""
UUID_OF_GLUE = "b7b4a7f0-9c96-4e4a-a687-fb5cc9ef0c63"
GLUE = bytes.fromhex("0300b7b4a7f09c964e4aa687fb5cc9ef0c630206616e6e00")
"""As aws-glue-schema-registry 1.1.3 encodes it (``codec.encode``)."""
GLUE_ZLIB = bytes.fromhex("0305b7b4a7f09c964e4aa687fb5cc9ef0c63") + zlib.compress(PLAIN)


def frames(values: list[bytes | None]) -> list[tuple[Frame | None, bytes]]:
    found = find_frames(pa.array(values, pa.binary()), "value")
    rows = range(len(values))
    rest = payloads(found, pa.array(rows, pa.int64()).to_numpy())
    return [(found.known[found.codes[row]] if found.codes[row] >= 0 else None, rest[row]) for row in rows]


def test_the_first_bytes_of_a_value() -> None:
    values = [
        b"\0\0\0\0\7" + PLAIN,
        b"\0" + (7).to_bytes(8, "big") + PLAIN,
        b"\0" + (2**40).to_bytes(8, "big"),
        GLUE,
        GLUE_ZLIB,
        b"\0\0\0\0",
        GLUE[:17],
        b"\3\1" + GLUE[2:],
        b"\1\0\0\0\7" + PLAIN,
        b"",
        None,
    ]
    assert (
        frames(values)
        == [
            (Frame("confluent", 7), PLAIN),
            (Frame("apicurio", 7), PLAIN),
            (
                Frame("confluent", 256),
                b"\0\0\0\0",
            ),  # an id of Apicurio from 2^32 on is not told from one of Confluent's
            (Frame("glue", UUID_OF_GLUE), PLAIN),
            (Frame("glue-zlib", UUID_OF_GLUE), zlib.compress(PLAIN)),
            *((None, value or b"") for value in values[5:]),
        ]
    )


@pytest.mark.parametrize("value", [GLUE, GLUE_ZLIB])
def test_aws_glue(tmp_path: Path, value: bytes) -> None:
    (tmp_path / f"{UUID_OF_GLUE}.avsc").write_text(V1)
    (tmp_path / f"{UUID(int=7)}.avsc").write_text(V2)
    _, found = decoded([value, None], load_registry(str(tmp_path), []))
    assert [row["value"] for row in found] == [ROW, None]
    assert [row["valueError"] for row in found] == [None, None]


def test_zlib_of_glue_that_is_none(tmp_path: Path) -> None:
    (tmp_path / f"{UUID_OF_GLUE}.avsc").write_text(V1)
    broken = [GLUE_ZLIB[:-6], GLUE_ZLIB[:18] + b"no zlib", GLUE_ZLIB[:18] + zlib.compress(b"\0" * (200 << 20))]
    _, found = decoded([GLUE_ZLIB, *broken], load_registry(str(tmp_path), []))
    assert [row["value"] for row in found] == [ROW, None, None, None]
    assert [row["valueRaw"] for row in found] == [None, *broken]
    assert ["cut off" in row["valueError"] for row in found[1:]] == [True, False, True]
    assert found[2]["valueError"].startswith("zlib data that is damaged")


@pytest.mark.parametrize("name", ["apicurio.value.globalId", "apicurio.value.contentId"])
def test_apicurio(tmp_path: Path, name: str) -> None:
    (tmp_path / "7.avsc").write_text(V1)
    headers = [[], [{"key": name, "value": (7).to_bytes(8, "big")}]]
    _, found = decoded(
        [b"\0" + (7).to_bytes(8, "big") + PLAIN, PLAIN], load_registry(str(tmp_path), []), headers=headers
    )
    assert [row["value"] for row in found] == [ROW, ROW]


def test_guids_in_headers() -> None:
    """Confluent's ``HeaderSchemaIdSerializer``: one byte, the GUID, and for Protobuf the message's indexes."""
    registry = client()
    context = SerializationContext("orders", MessageField.VALUE, [])
    serializer = AvroSerializer(registry, V1, conf={"schema.id.serializer": header_schema_id_serializer})
    value = serializer(ROW, context)
    (name, guid), *_ = context.headers
    assert (value, name, guid[:1], len(guid)) == (PLAIN, "__value_schema_id", b"\1", 17)
    headers = [[{"key": name, "value": guid}], [{"key": "__key_schema_id", "value": guid}]]
    _, found = decoded([value, value], registry_of(registry), headers=headers)
    assert found[0]["value"] == AvroDeserializer(registry)(value, context)
    assert found[1]["value"] != found[0]["value"]  # that header is of the key


def test_guids_in_headers_of_protobuf() -> None:
    registry = client()
    context = SerializationContext("orders", MessageField.VALUE, [])
    conf = {"use.deprecated.format": False, "schema.id.serializer": header_schema_id_serializer}
    value = ProtobufSerializer(SourceContext, registry, conf)(SourceContext(file_name="ann"), context)
    (name, guid), *_ = context.headers
    assert len(guid) > 17  # the message's indexes
    _, found = decoded([value], registry_of(registry), headers=[[{"key": name, "value": guid}]])
    assert found[0]["valueError"] is None
    assert found[0]["value"]["file_name"] == "ann"


def test_a_header_that_is_none_of_an_id(tmp_path: Path) -> None:
    (tmp_path / "7.avsc").write_text(V1)
    value = b"\0\0\0\0\7" + PLAIN
    wrong = [None, b"", b"\0", b"\1abc", b"\2" * 17]
    headers = [[{"key": "__value_schema_id", "value": each}] for each in wrong]
    assert pa.array(headers, HEADERS).type == HEADERS
    _, found = decoded([value] * len(wrong), load_registry(str(tmp_path), []), headers=headers)
    assert [row["value"] for row in found] == [ROW] * len(wrong)


def test_both_sides_have_ids_of_their_own() -> None:
    registry = client()
    key = AvroSerializer(registry, V2)(
        {"id": 2, "user": "k", "note": None}, SerializationContext("orders", MessageField.KEY)
    )
    value = AvroSerializer(registry, V1)(ROW, VALUE)
    _, found = decoded([value], registry_of(registry), keys=[key])
    assert (found[0]["key"]["user"], found[0]["value"]["user"]) == ("k", "ann")


def test_no_registry_gives_the_id_0() -> None:
    """A long key, and a store's value that begins with a time, of 0."""
    values = [(18_203).to_bytes(8, "big"), bytes(16), (1 << 24).to_bytes(8, "big")]
    assert frames(values) == [(None, values[0]), (None, values[1]), (Frame("confluent", 1), b"\0\0\0")]


@pytest.mark.parametrize("place", ["header", "value"])
def test_apicurios_json(tmp_path: Path, place: str) -> None:
    """Avro's JSON encoding, by fastavro's writer; the header says it."""
    fixed = {"type": "fixed", "name": "ns.F", "size": 2}
    inner = {"type": "record", "name": "ns.R", "fields": [{"name": "x", "type": ["null", "ns.F", "double"]}]}
    types = [
        "null", "boolean", "int", "long", "float", "double", "bytes", "string", fixed, inner,
        {"type": "enum", "name": "E", "symbols": ["A", "B"]}, {"type": "array", "items": ["null", "string", "ns.R"]},
        {"type": "map", "values": "long"}, ["null", "int"], {"type": "long", "logicalType": "timestamp-millis"},
    ]  # fmt: skip
    schema = {
        "type": "record",
        "name": "T",
        "fields": [{"name": f"f{at}", "type": each} for at, each in enumerate(types)],
    }
    parsed = fastavro.parse_schema(schema)
    rows: list[list[Any]] = [
        [
            None,
            True,
            1,
            1 << 60,
            0.5,
            -1.5,
            b"\xff\0",
            "é",
            b"ab",
            {"x": None},
            "B",
            ["a", None, {"x": b"cd"}],
            {"k": 1},
            5,
            7,
        ],
        [None, False, -1, 0, 0.0, 1e300, b"", "", b"\xff\xfe", {"x": 2.5}, "A", [], {}, None, -1],
    ]  # fmt: skip
    binary, text = list[bytes](), list[bytes]()
    for row in rows:
        value = {f"f{at}": each for at, each in enumerate(row)}
        out, lines = io.BytesIO(), io.StringIO()
        fastavro.schemaless_writer(out, parsed, value)
        fastavro.json_writer(lines, parsed, [value])
        binary.append(out.getvalue())
        text.append(lines.getvalue().encode())
    text += [b"{}", b"no JSON", text[0].replace(b'"B"', b'"C"')]
    (tmp_path / "7.avsc").write_text(json.dumps(schema))
    id_, json_ = (7).to_bytes(8, "big"), {"key": "apicurio.value.encoding", "value": b"JSON"}
    named = {"key": "apicurio.value.globalId", "value": id_}
    in_value = b"\0" + id_ if place == "value" else b""
    headers = [[json_] if in_value else [json_, named] for _ in text]
    headers += [[{**json_, "value": b"BINARY"}, *([] if in_value else [named])] for _ in binary]
    _, found = decoded(
        [in_value + each for each in [*text, *binary]], load_registry(str(tmp_path), []), headers=headers
    )
    assert [row["value"] for row in found[:2]] == [row["value"] for row in found[5:]]
    assert (found[0]["value"]["f8"], found[0]["value"]["f3"]) == (b"ab", 1 << 60)
    assert [row["valueError"] for row in found] == [
        None, None, "field f0 is missing in JSON", "no JSON: Expecting value", "JSON that is no E", None, None
    ]  # fmt: skip
    assert [row["valueRaw"] for row in found[2:5]] == [in_value + each for each in text[2:]]
