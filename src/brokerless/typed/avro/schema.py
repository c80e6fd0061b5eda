"""Avro schemas: parsed with what they import, and as Arrow types.

The names and rules are those of Avro 1.12's specification. A record is a struct, a nullable union its other branch; a
union of several is a struct with a field for each branch but null, of which one at most is not null. An enum is its
symbol, a fixed is bytes, a UUID is text. A type within itself has no Arrow type: it is text, as JSON.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa

from brokerless.format.plain_varint import encode_zigzag
from brokerless.typed.registry import AvroColumns, Schema

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
MAX_NODES = 4096
"""Types in one schema, each record counted where it is named; a larger one is refused."""
MISSING: Any = object()
_MAX_DEFAULT = 4096
_MAX_DEPTH = 60

_UTC = "UTC"
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", tz=_UTC),
    ("long", "timestamp-micros"): pa.timestamp("us", tz=_UTC),
    ("long", "timestamp-nanos"): pa.timestamp("ns", tz=_UTC),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
_TYPES = {
    "null": pa.null(), "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "bytes": pa.binary(), "string": pa.string(), "enum": pa.string(), "fixed": pa.binary(),
}  # fmt: skip


@dataclass(eq=False, slots=True)
class AvroField:
    """A field of a record."""

    name: str
    """The name of its column."""
    type: AvroType
    default: Any = MISSING
    aliases: tuple[str, ...] = ()
    written: str = ""
    """The name in the schema."""


@dataclass(eq=False, slots=True)
class AvroType:
    """One type of a schema."""

    kind: str
    """A primitive's name, ``record``, ``enum``, ``fixed``, ``array``, ``map`` or ``union``."""
    name: str = ""
    logical: str | None = None
    precision: int = 0
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    fields: list[AvroField] = field(default_factory=list[AvroField])
    items: AvroType | None = None
    """The type of an array's items, or of a map's values."""
    branches: tuple[AvroType, ...] = ()
    declared: str = ""
    """The logical type that the text names."""
    aliases: tuple[str, ...] = ()
    """The aliases of a record, as full names."""
    elsewhere: tuple[str, ...] = ()
    """Columns that have a field of the record in other versions."""

    @property
    def label(self) -> str:
        """What a union's struct names this branch: the type, or the last part of its name."""
        return self.name.rpartition(".")[2] or self.kind

    @property
    def others(self) -> tuple[AvroType, ...]:
        """A union's branches but null."""
        return tuple(each for each in self.branches if each.kind != "null")


def parse_schema(schema: Schema) -> AvroType:
    """Return a schema's type, with its fields named as their columns are. Raises ValueError for what is no Avro
    schema."""
    parser = _SchemaParser({each.record: each for each in schema.columns})
    for text in _texts(schema, set()):
        parsed = parser.parse(json.loads(text) if text.strip()[:1] in '{["' else text.strip(), "")
    return parsed  # pyright: ignore[reportPossiblyUnboundVariable]


def _texts(schema: Schema, seen: set[tuple[str, int]]) -> Iterator[str]:
    """The texts of what a schema imports, each once and after its own imports; then its own."""
    for _, imported in schema.imports:
        if (imported.subject, imported.version) not in seen:
            seen.add((imported.subject, imported.version))
            yield from _texts(imported, seen)
    yield schema.text


def full_name(name: str, namespace: str) -> str:
    """Return the name of a type with its namespace, unless it has one already."""
    return name if "." in name or not namespace else f"{namespace}.{name}"


@dataclass(slots=True)
class _SchemaParser:
    columns: dict[str, AvroColumns]
    names: dict[str, AvroType] = field(default_factory=dict[str, AvroType])

    def parse(self, found: Any, namespace: str) -> AvroType:
        if isinstance(found, str):
            return self._named(found, namespace)
        if isinstance(found, list):
            branches = tuple(self.parse(each, namespace) for each in cast("list[Any]", found))
            if any(each.kind == "union" for each in branches):
                raise ValueError("a union in a union")
            return AvroType("union", branches=branches)
        if not isinstance(found, dict):
            raise ValueError("no Avro schema")
        own = cast("dict[str, Any]", found)
        kind = own.get("type")
        if not isinstance(kind, str):
            return self.parse(kind, namespace)
        if kind in ("record", "error", "enum", "fixed"):
            return self._definition(own, kind, namespace)
        if kind == "array":
            return AvroType("array", items=self.parse(own.get("items"), namespace))
        if kind == "map":
            return AvroType("map", items=self.parse(own.get("values"), namespace))
        if kind not in PRIMITIVES:
            return self._named(kind, namespace)
        return _logical(AvroType(kind), own)

    def _named(self, name: str, namespace: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        for each in (name if "." in name else f"{namespace}.{name}", name):
            if each.lstrip(".") in self.names:
                return self.names[each.lstrip(".")]
        raise ValueError(f"the schema names the type {name}, which is not defined in it or in what it refers to")

    def _definition(self, own: dict[str, Any], kind: str, namespace: str) -> AvroType:
        name = own.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError(f"a {kind} without a name")
        inner = own.get("namespace", namespace)
        if "." in name:
            inner = name.rpartition(".")[0]
        full = full_name(name, inner)
        type_ = AvroType("record" if kind == "error" else kind, full)
        self.names[full] = type_
        if kind == "enum":
            symbols = own.get("symbols")
            if not isinstance(symbols, list) or not all(isinstance(each, str) for each in cast("list[Any]", symbols)):
                raise ValueError(f"the enum {full} has no symbols")
            type_.symbols = tuple(cast("list[str]", symbols))
        elif kind == "fixed":
            size = own.get("size")
            if not isinstance(size, int) or not 0 <= size < 1 << 24:
                raise ValueError(f"the fixed {full} has no size")
            type_.size = size
            _logical(type_, own)
        else:
            fields = own.get("fields")
            if not isinstance(fields, list):
                raise ValueError(f"the record {full} has no fields")
            aliases = [str(each) for each in own.get("aliases", ())]
            type_.aliases = tuple(full_name(each, inner) for each in aliases)
            self._add_fields(type_, cast("list[dict[str, Any]]", fields), inner)
        return type_

    def _add_fields(self, record: AvroType, fields: list[dict[str, Any]], namespace: str) -> None:
        own = self.columns.get(record.name)
        columns = {} if own is None else dict(own.fields)
        record.elsewhere = () if own is None else own.elsewhere
        for each in fields:
            name, aliases = str(each["name"]), tuple(map(str, each.get("aliases", ())))
            type_ = self.parse(each["type"], namespace)
            record.fields.append(
                AvroField(columns.get(name, name), type_, each.get("default", MISSING), aliases, written=name)
            )
        if len({each.written for each in record.fields}) < len(record.fields):
            raise ValueError(f"the record {record.name} has two fields of one name")


def _logical(type_: AvroType, own: dict[str, Any]) -> AvroType:
    """A logical type that is not known, or not right, is ignored, as the specification says."""
    logical = own.get("logicalType")
    type_.declared = logical if isinstance(logical, str) else ""
    if (type_.kind, logical) in _LOGICAL or (logical == "uuid" and type_.kind == "string"):
        type_.logical = cast(str, logical)
    elif logical == "uuid" and type_.kind == "fixed" and type_.size == 16:
        type_.logical = "uuid"
    elif logical == "decimal" and type_.kind in ("bytes", "fixed"):
        precision, scale = own.get("precision"), own.get("scale", 0)
        if isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and 0 < precision <= 38:
            type_.logical, type_.precision, type_.scale = "decimal", precision, scale
    return type_


def avro_arrow_type(schema: Schema, newest: Schema | None) -> pa.DataType:
    """Return the Arrow type of what a schema writes, in the place of what ``newest`` has.

    Raises ValueError for what is no Avro schema, or too large a one."""
    reader = parse_schema(newest) if newest is not None and newest.type == "AVRO" else None
    return arrow_type(parse_schema(schema), reader, (), [0])


def arrow_type(type_: AvroType, reader: AvroType | None, above: tuple[AvroType, ...], nodes: list[int]) -> pa.DataType:
    """Return the Arrow type of an Avro type; ``reader`` is what the newest schema has in its place."""
    nodes[0] += 1
    if nodes[0] > MAX_NODES or len(above) > _MAX_DEPTH:
        raise ValueError(f"the schema has more than {MAX_NODES} types, or is too deep")
    if type_ in above:
        return pa.string()
    if is_wrapped(type_, reader):
        own = arrow_type(type_, reader_branch(reader, type_), above, nodes)
        return pa.struct([pa.field(type_.label, own)])
    if type_.kind == "record":
        inner = (*above, type_)
        fields: list[pa.Field] = []
        for each in type_.fields:
            other = reader_field(reader, type_, each.name)
            fields.append(pa.field(each.name, arrow_type(each.type, other, inner, nodes)))
        return pa.struct(fields)
    if type_.kind in ("array", "map"):
        assert type_.items is not None
        other = reader_branch(reader, type_)
        items = arrow_type(type_.items, None if other is None else other.items, (*above, type_), nodes)
        return pa.list_(items) if type_.kind == "array" else pa.map_(pa.string(), items)
    if type_.kind == "union":
        if len(type_.others) == 1:
            return arrow_type(type_.others[0], reader, above, nodes)
        branches = [
            pa.field(name, arrow_type(each, reader_branch(reader, each), above, nodes))
            for name, each in zip(branch_names(type_), type_.others, strict=True)
        ]
        return pa.struct(branches) if branches else pa.null()
    if type_.logical == "decimal":
        return pa.decimal128(type_.precision, type_.scale)
    if type_.logical == "uuid":
        return pa.string()
    return _LOGICAL.get((type_.kind, type_.logical or "")) or _TYPES[type_.kind]


def branch_names(union: AvroType) -> list[str]:
    """Return the names of a union's struct: full ones where two are the same."""
    labels = [each.label for each in union.others]
    return [
        label if labels.count(label) == 1 else each.name or label
        for label, each in zip(labels, union.others, strict=True)
    ]


def reader_branch(reader: AvroType | None, type_: AvroType) -> AvroType | None:
    """Return what the newest schema has for a type: itself, or the branch of its union that is of the same kind (and
    name)."""
    if reader is None or reader.kind != "union":
        return reader if reader is not None and reader.kind == type_.kind else None
    of_kind = [each for each in reader.branches if each.kind == type_.kind]
    named = [each for each in of_kind if each.label == type_.label]
    return named[0] if named else of_kind[0] if len(of_kind) == 1 else None


def reader_field(reader: AvroType | None, type_: AvroType, name: str) -> AvroType | None:
    """Return the type of a field of the newest schema's record, in place of the record ``type_``."""
    record = reader_branch(reader, type_)
    return next((each.type for each in record.fields if each.name == name), None) if record is not None else None


def is_wrapped(type_: AvroType, reader: AvroType | None) -> bool:
    """Return whether the newest schema made a union of several of what is one type here: then it is a branch of
    that."""
    is_union = reader is not None and reader.kind == "union" and len(reader.others) > 1
    return is_union and type_.kind not in ("union", "null") and reader_branch(reader, type_) is not None


def missing_fields(type_: AvroType, reader: AvroType | None) -> Iterator[AvroField]:
    """Yield the fields of the newest schema's record in place of ``type_`` that this does not have, in any column."""
    record = reader_branch(reader, type_)
    own = {*(each.name for each in type_.fields), *type_.elsewhere}
    yield from () if record is None else (each for each in record.fields if each.name not in own)


def default_bytes(field: AvroField) -> bytes | None:
    """Return a field's default, encoded as Avro; None for null, where it has none, and for one that its type does not
    hold."""
    if field.default is MISSING or field.default is None:
        return None
    try:
        return _encoded(field)
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _encoded(field: AvroField) -> bytes:
    out = bytearray()
    _encode(field.type, field.default, out, 0)
    if len(out) > _MAX_DEFAULT:
        raise ValueError(f"is of more than {_MAX_DEFAULT:,} bytes")
    return bytes(out)


def wrong_defaults(
    type_: AvroType, reader: AvroType | None, above: tuple[AvroType, ...] = ()
) -> Iterator[tuple[str, str]]:
    """Yield each field, as ``RECORD.FIELD``, that a type lacks and for which the newest schema has a default that the
    field's type does not hold, and why; Java refuses such a schema, or fails where it reads by it."""
    if type_ in above or len(above) > _MAX_DEPTH:
        return
    inner = (*above, type_)
    for each in missing_fields(type_, reader) if type_.kind == "record" else ():
        if each.default is not MISSING:
            try:
                _encoded(each)
            except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
                reason = error if isinstance(error, ValueError) else "is not of its type"
                yield f"{type_.name}.{each.written}", str(reason)
    for each in type_.fields:
        yield from wrong_defaults(each.type, reader_field(reader, type_, each.name), inner)
    for each in type_.others:
        yield from wrong_defaults(each, reader_branch(reader, each) if len(type_.others) > 1 else reader, inner)
    if type_.items is not None:
        other = reader_branch(reader, type_)
        yield from wrong_defaults(type_.items, None if other is None else other.items, inner)


def _encode(type_: AvroType, value: Any, out: bytearray, depth: int) -> None:
    if depth > 30 or len(out) > _MAX_DEFAULT:
        raise ValueError(f"is of more than {_MAX_DEFAULT:,} bytes, or nested too deeply")
    kind = type_.kind
    if kind == "union":
        for index, branch in enumerate(type_.branches):
            size = len(out)
            try:
                out += encode_zigzag(index)
                return _encode(branch, value, out, depth + 1)
            except (ValueError, TypeError, AttributeError):
                del out[size:]
        raise ValueError("is of no branch of its union")
    if kind in ("array", "map") and isinstance(value, list if kind == "array" else dict):
        assert type_.items is not None
        if value:
            out += encode_zigzag(len(value))
        for each in value:
            if kind == "map":
                out += encode_zigzag(len(each.encode())) + each.encode()
            _encode(type_.items, value[each] if kind == "map" else each, out, depth + 1)
        out.append(0)
    elif kind == "record" and isinstance(value, dict):
        for each in type_.fields:
            own = cast("dict[str, Any]", value).get(each.written, each.default)
            if own is MISSING:
                raise ValueError("has not all fields")
            _encode(each.type, own, out, depth + 1)
    else:
        out += _encode_scalar(type_, value)


def _encode_scalar(type_: AvroType, value: Any) -> bytes:
    kind = type_.kind
    if kind == "null" and value is None:
        return b""
    if kind == "boolean" and isinstance(value, bool):
        return bytes([value])
    if kind in ("int", "long") and isinstance(value, int) and not isinstance(value, bool):
        limit = 1 << (31 if kind == "int" else 63)
        if -limit <= value < limit:
            return encode_zigzag(value)
    elif kind in ("float", "double") and isinstance(value, (int, float)) and not isinstance(value, bool):
        return struct.pack("<f" if kind == "float" else "<d", value)
    elif kind in ("bytes", "string", "fixed") and isinstance(value, str):
        data = value.encode() if kind == "string" else value.encode("latin-1")
        if kind == "fixed" and len(data) != type_.size:
            raise ValueError("is of another size")
        return data if kind == "fixed" else encode_zigzag(len(data)) + data
    elif kind == "enum" and value in type_.symbols:
        return encode_zigzag(type_.symbols.index(value))
    raise ValueError("is not null" if kind == "null" else "is not of its type")
