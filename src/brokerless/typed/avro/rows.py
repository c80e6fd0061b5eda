"""Decodes Avro row by row, for what the kernel does not take: types within themselves, and values in another form."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pyarrow as pa

from brokerless.format.plain_varint import decode_unsigned, undo_zigzag
from brokerless.typed.avro.kernels import SPARE_ITEMS
from brokerless.typed.avro.schema import (
    AvroType,
    arrow_type,
    branch_names,
    default_bytes,
    is_wrapped,
    missing_fields,
    reader_branch,
    reader_field,
)
from brokerless.typed.merge import UnfitError, decimal_of, json_text
from brokerless.typed.reasons import unfit_reason
from brokerless.typed.times import Moment

MAX_DEPTH = 200


@dataclass(slots=True)
class AvroReader:
    """A place in one payload. What it claims is checked against its end, as in the kernel."""

    data: bytes
    at: int = 0
    budget: int = 0

    def varint(self) -> int:
        found = decode_unsigned(self.data, self.at, len(self.data), 10)
        if found is None and len(self.data) - self.at < 10:
            raise ValueError("the payload is cut off")
        if found is None or found[0] >> 64:
            raise ValueError("a number of more than 64 bits")
        self.at = found[1]
        return undo_zigzag(found[0])

    def take(self, length: int) -> bytes:
        if length < 0 or length > len(self.data) - self.at:
            raise ValueError("a length that goes past the payload's end" if length != 1 else "the payload is cut off")
        self.at += length
        return self.data[self.at - length : self.at]

    def items(self) -> Any:
        """Yields once for each item of an array or a map."""
        while count := self.varint():
            if count < 0:
                count = -count
                if not 0 <= self.varint() <= len(self.data) - self.at:
                    raise ValueError("a length that goes past the payload's end")
            self.budget -= count
            if self.budget < 0:
                raise ValueError("more items than its bytes can hold")
            for _ in range(count):
                yield


def read_row(data: bytes, type_: AvroType, target: pa.DataType, reader: AvroType | None) -> Any:
    """Return a payload's value, as :func:`merge.conform` takes it for ``target``. Raises ValueError for what is
    none."""
    source = AvroReader(data, 0, len(data) + SPARE_ITEMS)
    value = _value(source, type_, target, reader=reader, depth=0)
    if source.at != len(data):
        raise ValueError("bytes are left after the value")
    return value


def _value(source: AvroReader, type_: AvroType, target: Any, reader: AvroType | None, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    t = pa.types
    is_text = t.is_string(target) or t.is_null(target)
    kind = type_.kind
    if kind == "union":
        return _union(source, type_, target, reader=reader, depth=depth)
    if is_wrapped(type_, reader) and t.is_struct(target) and not is_text:
        inner = _inner(target, type_.label)
        return {type_.label: _value(source, type_, inner, reader=reader_branch(reader, type_), depth=depth + 1)}
    if kind == "record":
        return _record(source, type_, target, reader=reader, depth=depth, is_text=is_text)
    if kind in ("array", "map"):
        assert type_.items is not None
        if not is_text and not (t.is_list if kind == "array" else t.is_map)(target):
            raise UnfitError(unfit_reason("an array" if kind == "array" else "a map", target))
        other = reader_branch(reader, type_)
        inner_reader = None if other is None else other.items
        if kind == "array":
            item = pa.string() if is_text else target.value_type
            found: Any = [
                _value(source, type_.items, item, reader=inner_reader, depth=depth + 1) for _ in source.items()
            ]
        else:
            item = pa.string() if is_text else target.item_type
            found = {}
            for _ in source.items():
                key = source.take(source.varint()).decode()
                found[key] = _value(source, type_.items, item, reader=inner_reader, depth=depth + 1)
        return _Text(found) if is_text else found
    return _leaf(source, type_, target)


class _Text(dict[Any, Any]):
    """A value that is part of JSON text: it is written only once, with all around it."""

    def __init__(self, value: Any) -> None:
        super().__init__(value if isinstance(value, dict) else {})
        self.value = value


def as_text(value: Any) -> Any:
    """Return what is inside of text, without marks."""
    if isinstance(value, _Text):
        value = value.value
    if isinstance(value, dict):
        return {name: as_text(each) for name, each in value.items()}
    return [as_text(each) for each in value] if isinstance(value, list) else value


def finish(value: Any) -> Any:
    """Return a value of :func:`read_row` with its parts that are text written as JSON."""
    if isinstance(value, _Text):
        return json_text(as_text(value))
    if isinstance(value, dict):
        return {name: finish(each) for name, each in value.items()}
    return [finish(each) for each in value] if isinstance(value, list) else value


def _inner(target: Any, name: str) -> Any:
    """The type of a struct's field. Raises ValueError if it is none, or has no field of this name."""
    if not pa.types.is_struct(target):
        raise UnfitError(unfit_reason("a record", target))
    at = target.get_field_index(name)
    if at < 0:
        raise ValueError(f"the topic's type has no field {name}")
    return target.field(at).type


def _union(source: AvroReader, type_: AvroType, target: Any, reader: AvroType | None, depth: int) -> Any:
    index = source.varint()
    if not 0 <= index < len(type_.branches):
        raise ValueError("a union has no such branch")
    branch = type_.branches[index]
    if branch.kind == "null":
        return None
    if len(type_.others) == 1 or not pa.types.is_struct(target):
        return _value(source, branch, target, reader=reader, depth=depth + 1)
    name = branch_names(type_)[type_.others.index(branch)]
    return {name: _value(source, branch, _inner(target, name), reader=reader_branch(reader, branch), depth=depth + 1)}


def _record(
    source: AvroReader, type_: AvroType, target: Any, reader: AvroType | None, depth: int, is_text: bool
) -> Any:
    if not is_text and not pa.types.is_struct(target):
        raise UnfitError(unfit_reason("a record", target))
    found: dict[str, Any] = {}
    for each in type_.fields:
        name = each.name
        is_lacking = not is_text and pa.types.is_struct(target) and target.get_field_index(name) < 0
        inner = pa.string() if is_text or is_lacking else _inner(target, name)
        try:
            found[name] = _value(source, each.type, inner, reader=reader_field(reader, type_, name), depth=depth + 1)
        except UnfitError as error:
            raise error.within(name) from None
    if is_text:
        return _Text(found)
    for each in missing_fields(type_, reader):
        data = default_bytes(each)
        if data is not None:
            inner = AvroReader(data, 0, len(data) + SPARE_ITEMS)
            found[each.name] = _value(inner, each.type, _inner(target, each.name), reader=each.type, depth=depth + 1)
    return found


def _leaf(source: AvroReader, type_: AvroType, target: Any) -> Any:
    kind = type_.kind
    if kind == "null":
        return None
    if kind == "boolean":
        byte = source.take(1)[0]
        if byte > 1:
            raise ValueError("a boolean that is neither 0 nor 1")
        return byte == 1
    if kind in ("int", "long"):
        return _number(source.varint(), type_)
    if kind in ("float", "double"):
        size = 4 if kind == "float" else 8
        return struct.unpack("<f" if kind == "float" else "<d", source.take(size))[0]
    if kind == "enum":
        index = source.varint()
        if not 0 <= index < len(type_.symbols):
            raise ValueError("an enum has no such symbol")
        return type_.symbols[index]
    data = source.take(type_.size if kind == "fixed" else source.varint())
    if type_.logical == "decimal":
        number = int.from_bytes(data, "big", signed=True)
        if abs(number) >= 10**type_.precision:
            raise ValueError("a decimal of more digits than its precision")
        return decimal_of(number, type_.scale)
    if type_.logical == "uuid" and kind == "fixed":
        return str(UUID(bytes=data))
    return data.decode() if kind == "string" else data


def _number(number: int, type_: AvroType) -> int | Moment:
    if type_.kind == "int" and not -(1 << 31) <= number < 1 << 31:
        raise ValueError("an int of more than 32 bits")
    own = arrow_type(type_, None, (), [0])
    return Moment(number, own) if pa.types.is_temporal(own) else number
