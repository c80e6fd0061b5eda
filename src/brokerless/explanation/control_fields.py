"""Fields of the values of KRaft's control records, by the structures of ``format/control_messages.py``."""

from __future__ import annotations

import base64

import numpy as np

from brokerless.explanation.builder import FieldBuilder, Said
from brokerless.format.control_messages import Array, Structure, Type
from brokerless.text import java_text

_INTEGERS = {"int16": np.dtype(">i2"), "uint16": np.dtype(">u2"), "int32": np.dtype(">i4"), "int64": np.dtype(">i8")}
_UUID_SIZE, _LONGEST = 16, 0x7FFF


def take_control_message(builder: FieldBuilder, structure: Structure) -> None:
    """Takes a value's fields, and the tagged fields that end each structure (KIP-482)."""
    for name, type_ in structure.fields:
        _take(builder, name, type_)
    count = builder.take_unsigned("tagged_fields", lambda count: "how many tagged fields follow" if count else "none")
    for index in range(count if count < 1 << 31 else 0):
        with builder.group(f"tagged_field[{index}]"):
            builder.take_unsigned("tag", lambda _: "")
            size = builder.take_unsigned("size", lambda _: "")
            builder.take_bytes("data", size, "unknown; Kafka skips it")


def _take(builder: FieldBuilder, name: str, type_: Type) -> None:
    if isinstance(type_, Structure):
        with builder.group(name):
            take_control_message(builder, type_)
    elif isinstance(type_, Array):
        for index in range(_take_length(builder, f"{name}_length", "elements")):
            with builder.group(f"{name}[{index}]"):
                take_control_message(builder, type_.of)
    elif type_ == "string":
        length = _take_length(builder, f"{name}_length", "bytes")
        if length > _LONGEST:
            builder.expect(f"{name} of at most {_LONGEST} bytes")
        if length:
            builder.take(name, length, java_text(builder.data[builder.at : builder.at + length]))
    elif type_ == "uuid":
        if builder.left < _UUID_SIZE:
            builder.expect(f"{name}, {_UUID_SIZE} bytes; {builder.left} left")
        value = base64.urlsafe_b64encode(builder.data[builder.at : builder.at + _UUID_SIZE]).decode().rstrip("=")
        builder.take(name, _UUID_SIZE, value, Said("a UUID in base64"))
    else:
        builder.take_number(name, _INTEGERS[type_], lambda _: Said())


def _take_length(builder: FieldBuilder, name: str, unit: str) -> int:
    """A length that is not null and fits into the bytes that are left."""
    length = (
        builder.take_unsigned(name, lambda raw: f"{raw - 1} {unit}: one is added, 0 is null" if raw else "null") - 1
    )
    if not 0 <= length <= builder.left:
        builder.expect(f"a {name} from 1 to {builder.left + 1}")
    return length
