"""The schemas by which values are blanked: from a registry, or as a manifest has them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, cast

from brokerless.typed.avro.schema import full_name
from brokerless.typed.framing import CONFLUENT
from brokerless.typed.registry import Registry, Schema
from brokerless.typed.topic_type import UNFRAMED_VALUES, SchemaId
from brokerless.values import Int64, LenientValue, WrongJsonError, from_members

_MAX_DEPTH = 32
_PACKAGE = re.compile(r"^\s*package\s+([\w.]+)\s*;", re.MULTILINE)
_MESSAGE = re.compile(r"^message\s+(\w+)", re.MULTILINE)


class SchemaKey(NamedTuple):
    """The key of a schema, as values of a topic name it."""

    topic: str
    framing: str
    """As :mod:`brokerless.typed.framing` has it, or ``unframed``, with an empty ``id``."""
    id: SchemaId


class SchemaSource(Protocol):
    """Where the schemas of values are."""

    def find(self, key: SchemaKey) -> Schema | None: ...

    def relatives(self, key: SchemaKey) -> tuple[Schema, ...]:
        """Return other schemas of the same values, by whose names of fields, and aliases, those of this one are
        known."""
        ...


@dataclass(frozen=True, slots=True)
class RegistrySchemas:
    """Those of a registry. Relatives are all versions of the topic's subject and of the schema's own one, and all
    schemas whose record or message has the same full name, or that name as an alias."""

    registry: Registry
    _names: dict[tuple[str, int], frozenset[str]] = field(
        default_factory=dict[tuple[str, int], frozenset[str]], repr=False, compare=False
    )

    def find(self, key: SchemaKey) -> Schema | None:
        context, versions = self.registry.of_topic(key.topic, "value")
        if key.framing == UNFRAMED_VALUES:
            return self.registry.complete(versions[0]) if len(versions) == 1 else None
        is_own = key.framing == CONFLUENT or not self.registry.is_topic
        return self.registry.find(key.id, context, f"{key.topic}-value") if is_own else None

    def relatives(self, key: SchemaKey) -> tuple[Schema, ...]:
        schema = self.find(key)
        if schema is None:
            return ()
        own = schema.subject, schema.version
        subjects = {schema.subject, *(each.subject for each in self.registry.of_topic(key.topic, "value")[1])}
        names = self._names_of(schema)
        every = {(each.subject, each.version): each for each in self.registry.by_id.values()} | self.registry.versions
        found = [
            each
            for at, each in sorted(every.items())
            if at != own
            and each.type == schema.type
            and (each.subject in subjects or not names.isdisjoint(self._names_of(each)))
        ]  # fmt: skip
        return tuple(map(self.registry.complete, found))

    def _names_of(self, schema: Schema) -> frozenset[str]:
        at = schema.subject, schema.version
        if at not in self._names:
            self._names[at] = frozenset(_top_names(schema))
        return self._names[at]


def _top_names(schema: Schema) -> Iterator[str]:
    """The full names, and aliases, of what a schema is of."""
    if schema.type == "PROTOBUF":
        package = _PACKAGE.search(schema.text)
        for each in _MESSAGE.findall(schema.text):
            yield f"{package[1]}.{each}" if package is not None else each
    elif schema.type == "AVRO":
        try:
            parsed: Any = json.loads(schema.text)
        except (ValueError, RecursionError):
            return
        for each in cast("list[Any]", parsed) if isinstance(parsed, list) else [parsed]:
            own = cast("dict[str, Any]", each) if isinstance(each, dict) else {}
            name, space = str(own.get("name") or ""), str(own.get("namespace") or "")
            space = name.rpartition(".")[0] or space
            aliases = own.get("aliases")
            for one in (name, *map(str, cast("list[Any]", aliases) if isinstance(aliases, list) else ())):
                if one:
                    yield full_name(one, space)


@dataclass(frozen=True, slots=True)
class RecordedSchemas:
    """Those that were used, as they were then, with the relatives of each."""

    used: Mapping[SchemaKey, Schema] = field(default_factory=dict[SchemaKey, Schema])
    relatives_of: Mapping[SchemaKey, tuple[Schema, ...]] = field(
        default_factory=dict[SchemaKey, tuple[Schema, ...]]
    )  # fmt: skip

    def find(self, key: SchemaKey) -> Schema | None:
        return self.used.get(key)

    def relatives(self, key: SchemaKey) -> tuple[Schema, ...]:
        return self.relatives_of.get(key, ())

    def as_list(self) -> list[dict[str, Any]]:
        """Return the schemas as a manifest lists them: first those that were used, with the places of their relatives
        in the list."""
        used = sorted(self.used, key=lambda each: (each.topic, each.framing, str(each.id)))
        found = [
            {"topic": key.topic, "framing": key.framing, "id": key.id, **_described(self.used[key])} for key in used
        ]
        places = {self.used[key]: at for at, key in enumerate(used)}
        for key, each in zip(used, list(found), strict=True):
            own: list[int] = []
            for relative in self.relatives(key):
                if relative not in places:
                    places[relative] = len(found)
                    found.append(_described(relative))
                own.append(places[relative])
            each["relatives"] = own
        return found


def join(sources: Iterable[RecordedSchemas]) -> RecordedSchemas:
    """Return all schemas of several runs or tasks; an earlier one stays."""
    used: dict[SchemaKey, Schema] = {}
    relatives: dict[SchemaKey, tuple[Schema, ...]] = {}
    for each in sources:
        used = {**each.used, **used}
        relatives = {**each.relatives_of, **relatives}
    return RecordedSchemas(used, relatives)


class _ManifestSchema(LenientValue, frozen=True):
    subject: str
    version: Int64
    type: Literal["AVRO", "JSON", "PROTOBUF"]
    schema: str
    imports: tuple[_Import, ...]


class _Import(_ManifestSchema, frozen=True):
    name: str


class _ListedSchema(_ManifestSchema, frozen=True):
    """A schema of a manifest. One that is only a relative of others has none of these members."""

    topic: str | None = None
    framing: str | None = None
    id: str | Int64 | None = None
    relatives: tuple[Int64, ...] | None = None
    """The places of its relatives in the list."""

    def key(self) -> SchemaKey | None:
        """Raises :class:`WrongJsonError` where a part of it is missing."""
        if self.framing is None:
            return None
        if self.topic is None or self.id is None or self.relatives is None:
            raise WrongJsonError("it has no topic, id or relatives")
        return SchemaKey(self.topic, self.framing, self.id)


def parse_recorded(value: Any) -> RecordedSchemas:
    """Return the schemas of a manifest. Raises :class:`WrongJsonError`."""
    used: dict[SchemaKey, Schema] = {}
    relatives: dict[SchemaKey, tuple[Schema, ...]] = {}
    entries = from_members(value, tuple[_ListedSchema, ...])
    schemas = [_complete(each, 0) for each in entries]
    for schema, each in zip(schemas, entries, strict=True):
        key = each.key()
        if key is not None:
            numbers = each.relatives or ()
            if any(number >= len(schemas) for number in numbers):
                raise WrongJsonError("relatives: there are not as many schemas")
            used[key], relatives[key] = schema, tuple(schemas[number] for number in numbers)
    return RecordedSchemas(used, relatives)


def _described(schema: Schema) -> dict[str, Any]:
    """A schema with all that it imports."""
    return {
        "subject": schema.subject,
        "version": schema.version,
        "type": schema.type,
        "schema": schema.text,
        "imports": [{"name": name, **_described(each)} for name, each in schema.imports],
    }


def _complete(found: _ManifestSchema, depth: int) -> Schema:
    """Return a schema with all that it imports."""
    if depth > _MAX_DEPTH:
        raise WrongJsonError("imports: nested too deeply")
    imports = tuple((each.name, _complete(each, depth + 1)) for each in found.imports)
    return Schema(found.subject, found.version, "", type=found.type, text=found.schema, imports=imports)
