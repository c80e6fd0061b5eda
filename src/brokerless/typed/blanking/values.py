"""Blanks fields of values, each by what it is: plain JSON, Connect's JSON, or bytes with a schema."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

from brokerless.errors import UsageError
from brokerless.schemas import HEADERS
from brokerless.typed import framing
from brokerless.typed.blanking.edits import Edit, NotBlankedError, apply_edits
from brokerless.typed.blanking.json_text import json_edits
from brokerless.typed.blanking.paths import FieldPath, NamedFields, Presence
from brokerless.typed.blanking.schemas import RecordedSchemas, SchemaKey, SchemaSource
from brokerless.typed.framing import CONFLUENT, GLUE_ZLIB, UNFRAMED, Frame
from brokerless.typed.payloads import reason_of
from brokerless.typed.plain import is_connect, parse_json
from brokerless.typed.registry import Schema
from brokerless.typed.topic_type import DEPRECATED, OF_SCHEMAS, UNFRAMED_VALUES

FORMATS = ("auto", *OF_SCHEMAS, "json", "connect-json")
"""What values may be: ``auto`` goes by each value's bytes and headers; ``avro``, ``protobuf`` and ``json-schema`` are
values that name no schema and have the only one of their topic."""
RawHeader = tuple[bytes, bytes | None]
_Edits = Callable[[Frame, bytes, NamedFields], list[Edit]]
_MAX_INFLATED = 128 << 20
ParsedT = TypeVar("ParsedT")


@dataclass(frozen=True, slots=True)
class BlankedValue:
    """A value without some of its fields."""

    source: bytes
    """The value itself; or, of one that AWS Glue's serializer compressed, the same with uncompressed bytes."""
    edits: tuple[Edit, ...]
    """The edits of ``source``."""
    presence: tuple[Presence, ...] = ()
    """The presence of each named field before the edits."""

    @property
    def value(self) -> bytes:
        return apply_edits(self.source, self.edits)

    @property
    def parts(self) -> list[bytes]:
        """What was taken away, as it was in the bytes."""
        parts = [self.source[start:end] for each in self.edits for start, end in each.contents if start < end]
        return list(dict.fromkeys([*parts, *(part for each in self.edits for part in each.more)]))


@dataclass(slots=True)
class ValueBlanker:
    """The blanker of the values of one topic."""

    topic: str
    paths: Sequence[FieldPath]
    schemas: SchemaSource
    format: str = "auto"
    used: dict[SchemaKey, tuple[Schema, tuple[Schema, ...]]] = field(
        default_factory=dict[SchemaKey, tuple[Schema, tuple[Schema, ...]]]
    )  # fmt: skip
    """The schemas that were used so far, and their relatives."""
    _edits: dict[SchemaKey, _Edits] = field(default_factory=dict[SchemaKey, _Edits])

    def blank(self, value: bytes, headers: Sequence[RawHeader] = ()) -> BlankedValue:
        """Return a value without its fields; its edits are none where there is nothing to blank. Raises NotBlankedError
        for one that cannot be decoded, and :class:`UsageError` where a library is missing."""
        try:
            found = self._blank(value, headers)
            if found.edits and self._blank(found.value, headers).edits:
                raise NotBlankedError("cannot be read again without these fields")
            return found
        except (NotBlankedError, UsageError):
            raise
        except (ValueError, ArithmeticError, RecursionError, LookupError, TypeError) as error:
            raise NotBlankedError(f"is not as its schema says ({reason_of(error)})") from error

    def recorded(self) -> RecordedSchemas:
        """Return the schemas that were used, with their relatives."""
        return RecordedSchemas(
            {key: schema for key, (schema, _) in self.used.items()},
            {key: relatives for key, (_, relatives) in self.used.items()},
        )

    def _blank(self, value: bytes, headers: Sequence[RawHeader]) -> BlankedValue:
        fields = NamedFields.of(self.paths)
        found = None if self.format in ("json", "connect-json") else _frame(value, headers)
        if found is None and self.format in ("auto", "json", "connect-json"):
            edits = self._of_json(value, fields)
            return BlankedValue(value, tuple(edits), tuple(fields.presence))
        frame, at = found or (Frame(UNFRAMED_VALUES, ""), 0)
        source = value
        if frame.framing == GLUE_ZLIB:
            source = value[:1] + b"\0" + value[2:at] + _inflated(value[at:])
        edits = self._of_schema(frame)(frame, source[at:], fields)
        shifted = tuple(each.shifted(at) for each in edits)
        return BlankedValue(source if edits else value, shifted, tuple(fields.presence))

    def _of_json(self, value: bytes, fields: NamedFields) -> list[Edit]:
        try:
            if self.format != "json":
                document = _envelope(value)
                if document is not None:
                    from brokerless.typed.blanking.connect import connect_edits

                    return connect_edits(value, document, fields)
                if self.format == "connect-json":
                    raise NotBlankedError("is not JSON with its schema, as Connect writes it")
            return json_edits(value, fields)
        except NotBlankedError:
            raise
        except (ValueError, RecursionError) as error:
            raise NotBlankedError("is not JSON") from error

    def _of_schema(self, frame: Frame) -> _Edits:
        key = SchemaKey(self.topic, frame.framing.removesuffix("-zlib"), frame.id)
        if key not in self._edits:
            schema = self.schemas.find(key)
            if schema is None:
                raise NotBlankedError(_unknown(frame))
            relatives = self.schemas.relatives(key)
            self._edits[key] = _compile(schema, relatives, is_unsigned=self.format == DEPRECATED)
            self.used[key] = schema, relatives
        return self._edits[key]


def _compile(schema: Schema, relatives: Sequence[Schema], is_unsigned: bool) -> _Edits:
    try:
        if schema.type == "AVRO":
            from brokerless.typed.avro.schema import parse_schema
            from brokerless.typed.blanking.avro import avro_edits

            own, others = parse_schema(schema), _parsed(relatives, parse_schema)
            return lambda _, data, fields: avro_edits(data, own, others, fields)
        if schema.type == "PROTOBUF":
            return _of_protobuf(schema, relatives, is_unsigned)
        from brokerless.typed.blanking.json_schema import json_schema_edits
        from brokerless.typed.json.schema import JsonValidator

        validator = JsonValidator(schema)
        return lambda _, data, fields: json_schema_edits(data, validator, fields)
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise NotBlankedError(f"has a schema that cannot be used ({reason_of(error)})") from error


def _parsed(schemas: Sequence[Schema], parse: Callable[[Schema], ParsedT]) -> list[ParsedT]:
    """Those that can be parsed: no value here is read by them."""
    found: list[ParsedT] = []
    for each in schemas:
        with suppress(ValueError, LookupError, TypeError, RecursionError):
            found.append(parse(each))
    return found


def _of_protobuf(schema: Schema, relatives: Sequence[Schema], is_unsigned: bool) -> _Edits:
    from google.protobuf.message import DecodeError

    from brokerless.typed.blanking.protobuf import protobuf_edits
    from brokerless.typed.protobuf.files import message_types
    from brokerless.typed.protobuf.indexes import MessageFinder

    types, others = message_types(schema), _parsed(relatives, message_types)
    finder = MessageFinder(types, is_unsigned=is_unsigned)

    def edits(frame: Frame, data: bytes, fields: NamedFields) -> list[Edit]:
        has_indexes = frame.framing == CONFLUENT or bool(frame.message)
        try:
            indexes, at, _ = finder.parse(data, frame.message, has_indexes=has_indexes)
        except DecodeError as error:
            raise ValueError(str(error) or "no message of this type") from error
        descriptor = types.descriptor(indexes)
        same = [each.find(descriptor.full_name) for each in others]
        found = protobuf_edits(data[at:], descriptor, [each for each in same if each is not None], fields)
        return [each.shifted(at) for each in found]

    return edits


def _frame(value: bytes, headers: Sequence[RawHeader]) -> tuple[Frame, int] | None:
    """Return what a value names as its schema, and where its payload begins."""
    if not headers and value[:1] not in (b"\0", b"\3"):
        return None
    own = [{"key": name.decode(errors="replace"), "value": data} for name, data in headers]
    frames = framing.find_frames(pa.array([value], pa.binary()), "value", pa.array([own], HEADERS) if own else None)
    code = int(frames.codes[0])
    return None if code == UNFRAMED else (frames.known[code], int(frames.starts[0]))


def _envelope(value: bytes) -> dict[str, Any] | None:
    """JSON with its schema in it, parsed; None for any other value."""
    if b'"payload"' not in value or b'"schema"' not in value:
        return None
    try:
        found = parse_json(value)
    except (ValueError, RecursionError):
        return None
    return found if is_connect(found) else None


def _inflated(payload: bytes) -> bytes:
    inflate = zlib.decompressobj()
    try:
        data = inflate.decompress(payload, _MAX_INFLATED)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not inflate.eof:
        raise ValueError("zlib data that is cut off, or inflates to more than 128 MiB")
    return data


def _unknown(frame: Frame) -> str:
    if frame.framing == UNFRAMED_VALUES:
        return "names no schema, and its topic has not exactly one: give its schemas as --schemas PATH"
    return f"has a schema that is not known, {frame.framing} id {frame.id}: give it as --schemas PATH"
