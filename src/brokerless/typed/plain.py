"""Formats without a schema: Kafka's own serializers, JSON, Connect's JSON with schema, the windowed keys of Streams.

``org.apache.kafka.common.serialization``: numbers are big-endian and of one size, a UUID is text. Streams append to the
key of a window its start as int64 (``TimeWindowedSerializer``); to that of a session its end, then its start
(``SessionKeySchema``).
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Mapping
from ctypes import c_float
from decimal import Decimal
from typing import Any, cast
from uuid import UUID

import pyarrow as pa

from brokerless.typed.merge import decimal_of, merge_types
from brokerless.typed.times import Moment
from brokerless.values import distinct_members

Parse = Callable[[bytes], Any]
"""Of one payload: its value. Raises ValueError (RecursionError) for what is none."""

TIMESTAMP_MS = pa.timestamp("ms", tz="UTC")
_NUMBERS = {"long": ("q", pa.int64()), "int": ("i", pa.int32()), "short": ("h", pa.int16()),
            "double": ("d", pa.float64()), "float": ("f", pa.float32())}  # fmt: skip


def _bytes(data: bytes) -> bytes:
    return data


def _number(name: str) -> Parse:
    layout = struct.Struct(">" + _NUMBERS[name][0])

    def parse(data: bytes) -> Any:
        if len(data) != layout.size:
            raise ValueError(f"{len(data)} bytes, and a {name} has {layout.size}")
        return layout.unpack(data)[0]

    return parse


def _boolean(data: bytes) -> bool:
    if data not in (b"\0", b"\1"):
        raise ValueError("no boolean: it is one byte, 0 or 1")
    return data == b"\1"


def _uuid(data: bytes) -> str:
    return str(UUID(data.decode()))


def parse_json(data: bytes, parse_float: Callable[[str], float] = float) -> Any:
    """Parse JSON, in UTF-8. Names that come twice, and NaN, are refused: one of them would be lost."""
    return json.loads(
        data.decode(), object_pairs_hook=distinct_members, parse_constant=_no_constant, parse_float=parse_float
    )


class _WrittenFloat(float):
    """A number of JSON with its text, as a decimal has more digits than a double."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> _WrittenFloat:
        own = super().__new__(cls, text)
        own.text = text
        return own


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def parser(name: str) -> tuple[Parse, pa.DataType | None]:
    """Return how a format is parsed, and its type; None where that depends on the values."""
    if name in _NUMBERS:
        return _number(name), _NUMBERS[name][1]
    known: dict[str, tuple[Parse, pa.DataType | None]] = {
        "bytes": (_bytes, pa.binary()),
        "string": (bytes.decode, pa.string()),
        "boolean": (_boolean, pa.bool_()),
        "uuid": (_uuid, pa.string()),
        "json": (parse_json, None),
        "connect-json": (connect_value, None),
    }
    return known[name]


def windowed(prefix: str, type_: pa.DataType) -> pa.DataType:
    """Return the type of a windowed key. A time window's end is not in the bytes: only its size gives it."""
    end = [pa.field("end", TIMESTAMP_MS)] if prefix == "session-windowed:" else []
    return pa.struct([pa.field("key", type_), pa.field("start", TIMESTAMP_MS), *end])


def is_connect(value: Any) -> bool:
    """Return whether a JSON value has the two members of Connect's ``JsonConverter`` with ``schemas.enable``."""
    return isinstance(value, dict) and cast("dict[str, Any]", value).keys() == {"schema", "payload"}


def connect_value(data: bytes) -> Any:
    """Return the payload of Connect's JSON, by its schema: bytes from base64, decimals from base64 or
    (``decimal.format`` NUMERIC, KIP-481) numbers, ``"NaN"`` and ``"Infinity"``, timestamps as milliseconds."""
    found = parse_json(data, _WrittenFloat)
    if not is_connect(found):
        raise ValueError("no object with 'schema' and 'payload', as Connect's JsonConverter writes")
    return _connect(found["schema"], found["payload"])


_CONNECT = {"int8": pa.int32(), "int16": pa.int32(), "int32": pa.int32(), "int64": pa.int64(), "float": pa.float32(),
            "double": pa.float64(), "boolean": pa.bool_(), "string": pa.string(), "bytes": pa.binary()}  # fmt: skip
CONNECT_TIMES = {
    "org.apache.kafka.connect.data.Date": pa.date32(),
    "org.apache.kafka.connect.data.Time": pa.time32("ms"),
    "org.apache.kafka.connect.data.Timestamp": TIMESTAMP_MS,
}
"""The names of Connect's logical times, and what they are in Arrow."""
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")
"""The text that Connect writes for them; its own reader takes each for 0.0."""


def connect_type(schema: Any) -> pa.DataType:
    """Return the Arrow type of a Connect schema (``ConnectSchema``, as JSON). Raises ValueError for what is none."""
    if schema is None:
        return pa.null()
    if not isinstance(schema, dict):
        raise ValueError("a Connect schema is no object")
    own = cast("dict[str, Any]", schema)
    kind, name = own.get("type"), own.get("name")
    if name in CONNECT_TIMES:
        return CONNECT_TIMES[name]
    if name == _DECIMAL:
        return pa.decimal128(38, int(own.get("parameters", {}).get("scale", 0)))
    if kind == "struct":
        return pa.struct([pa.field(str(each["field"]), connect_type(each)) for each in own.get("fields", [])])
    if kind == "array":
        return pa.list_(connect_type(own.get("items")))
    if kind == "map":
        return pa.map_(connect_type(own.get("keys")), connect_type(own.get("values")))
    if kind not in _CONNECT:
        raise ValueError(f"a Connect schema has no type {kind!r}")
    return _CONNECT[kind]


def _connect(schema: Any, value: Any) -> Any:
    if value is None or schema is None:
        return value
    kind = schema.get("type")
    if schema.get("name") == _DECIMAL and isinstance(value, _WrittenFloat):
        return Decimal(value.text)
    if schema.get("name") == _DECIMAL and isinstance(value, str):
        number = int.from_bytes(base64.b64decode(value, validate=True), "big", signed=True)
        return decimal_of(number, int(schema.get("parameters", {}).get("scale", 0)))
    if schema.get("name") in CONNECT_TIMES and type(value) is int:
        return Moment(value, CONNECT_TIMES[schema["name"]])
    if kind in ("float", "double") and value in _NO_NUMBERS:
        return float(value)
    if kind == "float" and isinstance(value, float):
        return c_float(value).value  # Java writes the shortest text of it
    if kind == "bytes" and isinstance(value, str):
        return base64.b64decode(value, validate=True)
    if kind == "struct" and isinstance(value, dict):
        fields = {each["field"]: each for each in schema.get("fields", [])}
        return {name: _connect(fields.get(name), each) for name, each in cast("dict[str, Any]", value).items()}
    if kind == "array" and isinstance(value, list):
        return [_connect(schema.get("items"), each) for each in cast("list[Any]", value)]
    if kind == "map":
        pairs = value.items() if isinstance(value, dict) else value
        return {_connect(schema.get("keys"), key): _connect(schema.get("values"), each) for key, each in pairs}
    return value


def infer(value: Any) -> pa.DataType:
    """Return the Arrow type of a JSON value: objects are structs, whole numbers int64, others float64."""
    if value is None:
        return pa.null()
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        return pa.int64() if -(1 << 63) <= value < 1 << 63 else pa.string()
    if isinstance(value, float):
        return pa.float64()
    if isinstance(value, str):
        return pa.string()
    if isinstance(value, Mapping):
        own = cast("Mapping[str, Any]", value)
        return pa.struct([pa.field(name, infer(each)) for name, each in own.items()])
    return pa.list_(merge_types(infer(each) for each in cast("list[Any]", value)))
