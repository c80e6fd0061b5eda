"""What was asked of decoding, and the Arrow types that a topic's keys and values have by their schemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa

from brokerless.errors import UsageError
from brokerless.typed.registry import Schema
from brokerless.typed.times import in_microseconds

Scan = Literal["always", "auto", "never"]
SchemaId = int | str
"""A number (Confluent's and Apicurio's registries) or a UUID as text (AWS Glue, Confluent's ids in headers)."""

SCHEMA = "schema"
UNFRAMED_VALUES = "unframed"
"""In place of a framing: the schema of values that name none, where the user says that they have one."""
PLAIN = ("bytes", "string", "json", "connect-json", "long", "int", "short", "double", "float", "boolean", "uuid")
DEPRECATED = "protobuf-deprecated"
"""Protobuf values all of whose message indexes are unsigned (``use.deprecated.format`` of confluent-kafka-python)."""
OF_SCHEMAS = (SCHEMA, "avro", "protobuf", DEPRECATED, "json-schema")
FORMATS = ("auto", *OF_SCHEMAS, *PLAIN)
WINDOWS = ("time-windowed:", "session-windowed:")
"""What a format begins with for the keys of Kafka Streams' windows; the format of the key itself follows."""

COLUMNS = ("keyRaw", "keyError", "valueRaw", "valueError")
"""Added to decoded records: the bytes of what could not be decoded, and why; null otherwise."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """How keys and values are decoded: where their schemas are, and which formats they have.

    Parameters
    ----------
    schemas
        Where schemas are: a log directory with the registry's topic ``_schemas`` (or that partition, or its log), JSON
        Lines of that topic, or a directory of ``.avsc``, ``.proto`` and ``.json`` files. By default the topic
        ``_schemas`` of the same log, if there is one.
    key_format, value_format
        One of :data:`FORMATS`, or ``time-windowed:FORMAT`` and ``session-windowed:FORMAT`` for keys of Kafka Streams.
        ``auto`` goes by the first bytes if these name a known schema; all else is JSON objects, text or bytes, the
        first of these that fits. It never guesses numbers.
    scan
        Which records are read first, for the schemas that they name. ``always``: all of them. ``auto``: all of a topic
        up to 64 MiB; of a larger one whose subjects are known, only those at the beginning of each segment and at the
        end of each partition. ``never``: none; the type is that of the subjects' versions, with the fields of all
        messages of Protobuf files.

    Raises
    ------
    UsageError
        For an unknown format.
    """

    schemas: str | None = None
    key_format: str = "auto"
    value_format: str = "auto"
    scan: Scan = "always"

    def __post_init__(self) -> None:
        for name, given in (("key format", self.key_format), ("value format", self.value_format)):
            inner = given if isinstance(given, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance]
            for prefix in WINDOWS:
                inner = inner.removeprefix(prefix)
            if inner not in FORMATS:
                windows = " and ".join(f"{each}FORMAT" for each in WINDOWS)
                raise UsageError(f"{name}: {given!r} is none of {', '.join(FORMATS)}; of windowed keys, {windows}")


def decoding_of(given: Decoding | str | bool | None) -> Decoding | None:
    """Return what a caller gives as ``decode``: True or ``"auto"``, a format of values, or a :class:`Decoding`."""
    if given is None or given is False:
        return None
    if isinstance(given, Decoding):
        return given
    return Decoding() if given is True else Decoding(value_format=given)


def decoding_of_options(options: Mapping[str, str]) -> Decoding | None:
    """Return what Spark's options say, their names in lower case: ``decode`` (``true``, ``false``, or a format of
    values), ``schemas``, ``keyformat``, ``valueformat`` and ``decodescan``, ``auto`` by default. Raises
    :class:`UsageError`."""
    decode = (options.get("decode") or "").strip()
    rest = [options.get(name) for name in ("schemas", "keyformat", "valueformat")]
    if decode.lower() == "false" and any(rest):
        raise UsageError("options schemas, keyFormat and valueFormat: nothing is decoded with decode=false")
    if decode.lower() == "false" or not (decode or any(rest)):
        return None
    scan = options.get("decodescan", "auto").strip().lower()
    if scan not in ("always", "auto", "never"):
        raise UsageError(f"option decodeScan: {scan!r} is none of always, auto, never")
    schemas, key_format, value_format = rest
    default = "auto" if decode.lower() in ("", "true") else decode
    return Decoding(schemas, key_format or "auto", value_format or default, scan)


@dataclass(frozen=True, slots=True)
class UsedSchema:
    """A schema that a topic's records name, or may name."""

    id: SchemaId
    framing: str
    records: int
    """How many records name it, of those that were read first."""
    schema: Schema | None
    """None if it is not known, or cannot be used."""
    messages: tuple[tuple[int, ...], ...] = ()
    """The Protobuf messages that records are, by their indexes."""
    problem: str | None = None
    """Why the schema is not known, or cannot be used."""
    others: tuple[str, ...] = ()
    """Other schemas that have its id, as ``SUBJECT VERSION``."""


@dataclass(frozen=True, slots=True)
class SideType:
    """The type of keys or of values."""

    format: str
    """How they are decoded, such as ``schema`` or ``string``."""
    type: pa.DataType
    schemas: tuple[UsedSchema, ...] = ()
    counts: tuple[tuple[str, int], ...] = ()
    """How many of the records that were read first looked like ``null``, ``framed`` and ``unframed``."""
    is_partial: bool = False
    """Whether records that were not read may name schemas that are not in ``schemas``."""
    inferred: pa.DataType | None = None
    """For JSON, the type with null for what was null everywhere, where ``type`` has text."""
    named_by: tuple[int, ...] = ()
    """For Avro with aliases, the schemas that were the newest when columns were named (see ``column_names``)."""
    has_unsigned_indexes: bool = False
    """Whether Protobuf's message indexes are unsigned, see :data:`DEPRECATED`."""


@dataclass(frozen=True, slots=True)
class KnownColumn:
    """What a table has for keys or values: the type, and :attr:`SideType.named_by`."""

    type: pa.DataType
    named_by: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicType:
    """One topic's types. Plain data: it may be pickled."""

    topic: str | None
    key: SideType
    value: SideType

    def with_nulls(self) -> TopicType:
        """Return the type with null as the type of what was null everywhere, where that is known."""
        sides = [replace(side, type=side.inferred or side.type) for side in (self.key, self.value)]
        return TopicType(self.topic, *sides)

    def in_microseconds(self) -> TopicType:
        """Return the type with microseconds for nanoseconds, for engines that have none."""
        sides = [replace(side, type=in_microseconds(side.type)) for side in (self.key, self.value)]
        return TopicType(self.topic, *sides)

    def schema(self, records: pa.Schema) -> pa.Schema:
        """Return the schema of decoded records, from that of the records: ``key`` and ``value`` are typed,
        :data:`COLUMNS` of those that are there come at the end."""
        fields: list[pa.Field] = []
        added: list[pa.Field] = []
        for field in records:
            if field.name in ("key", "value"):
                side = self.key if field.name == "key" else self.value
                fields.append(pa.field(field.name, side.type))
                added += [pa.field(f"{field.name}Raw", pa.binary()), pa.field(f"{field.name}Error", pa.string())]
            else:
                fields.append(field)
        return pa.schema([*fields, *added])
