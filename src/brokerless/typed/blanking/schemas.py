"""The schemas by which values are blanked: from a registry, or as a manifest has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from brokerless.strict_json import (
    WrongJsonError,
    as_flag,
    as_integer,
    as_list,
    as_object,
    as_text,
    member,
)
from brokerless.typed.framing import CONFLUENT
from brokerless.typed.registry import TYPES, Registry, Schema
from brokerless.typed.topic_type import UNFRAMED_VALUES, SchemaId

_MAX_DEPTH = 32


class SchemaKey(NamedTuple):
    """What values of a topic name as their schema. ``framing``: as :mod:`brokerless.typed.framing` has it, or
    ``unframed``, with an empty ``id``."""

    topic: str
    framing: str
    id: SchemaId


class SchemaSource(Protocol):
    """Where the schemas of values are."""

    def find(self, key: SchemaKey) -> Schema | None: ...

    def newest(self, topic: str) -> Schema | None:
        """The newest version for a topic's values, by whose names of fields earlier ones are read."""
        ...


@dataclass(frozen=True, slots=True)
class RegistrySchemas:
    """Those of a registry."""

    registry: Registry

    def find(self, key: SchemaKey) -> Schema | None:
        context, versions = self.registry.of_topic(key.topic, "value")
        if key.framing == UNFRAMED_VALUES:
            return self.registry.complete(versions[0]) if len(versions) == 1 else None
        is_own = key.framing == CONFLUENT or not self.registry.is_topic
        return self.registry.find(key.id, context) if is_own else None

    def newest(self, topic: str) -> Schema | None:
        versions = self.registry.of_topic(topic, "value")[1]
        return self.registry.complete(versions[-1]) if versions else None


@dataclass(frozen=True, slots=True)
class RecordedSchemas:
    """Those that were used, as they were then."""

    used: Mapping[SchemaKey, Schema] = field(default_factory=dict[SchemaKey, Schema])
    newest_of: Mapping[str, Schema] = field(default_factory=dict[str, Schema])

    def find(self, key: SchemaKey) -> Schema | None:
        return self.used.get(key)

    def newest(self, topic: str) -> Schema | None:
        return self.newest_of.get(topic)

    def as_list(self) -> list[dict[str, Any]]:
        """As a manifest has them."""
        found = [
            {"topic": key.topic, "framing": key.framing, "id": key.id, "isNewest": False, **_described(schema)}
            for key, schema in self.used.items()
        ]
        found += [
            {"topic": topic, "framing": "", "id": "", "isNewest": True, **_described(schema)}
            for topic, schema in self.newest_of.items()
        ]
        return sorted(found, key=lambda each: (each["topic"], each["isNewest"], each["framing"], str(each["id"])))


def join(sources: Iterable[RecordedSchemas]) -> RecordedSchemas:
    """All schemas of several runs or tasks; an earlier one stays."""
    used: dict[SchemaKey, Schema] = {}
    newest: dict[str, Schema] = {}
    for each in sources:
        used = {**each.used, **used}
        newest = {**each.newest_of, **newest}
    return RecordedSchemas(used, newest)


def parse_recorded(value: Any, name: str = "schemas") -> RecordedSchemas:
    """The schemas of a manifest. Raises :class:`WrongJsonError`."""
    used: dict[SchemaKey, Schema] = {}
    newest: dict[str, Schema] = {}
    for at, each in enumerate(as_list(value, name, as_object)):
        place = f"{name}[{at}]"
        topic = as_text(member(each, "topic"), f"{place}.topic")
        if as_flag(member(each, "isNewest"), f"{place}.isNewest"):
            newest[topic] = _schema(each, place, 0)
        else:
            framing = as_text(member(each, "framing"), f"{place}.framing")
            used[SchemaKey(topic, framing, _id(member(each, "id"), f"{place}.id"))] = _schema(each, place, 0)
    return RecordedSchemas(used, newest)


def _described(schema: Schema) -> dict[str, Any]:
    """A schema with all that it imports."""
    return {
        "subject": schema.subject,
        "version": schema.version,
        "type": schema.type,
        "schema": schema.text,
        "imports": [{"name": name, **_described(each)} for name, each in schema.imports],
    }


def _schema(value: Mapping[str, Any], name: str, depth: int) -> Schema:
    if depth > _MAX_DEPTH:
        raise WrongJsonError(f"{name}: nested too deeply")
    own = dict(value)
    kind = as_text(member(own, "type"), f"{name}.type")
    if kind not in TYPES:
        raise WrongJsonError(f"{name}.type: {kind!r} is none of {', '.join(TYPES)}")
    imports: list[tuple[str, Schema]] = []
    for at, each in enumerate(as_list(member(own, "imports"), f"{name}.imports", as_object)):
        place = f"{name}.imports[{at}]"
        imports.append((as_text(member(each, "name"), f"{place}.name"), _schema(each, place, depth + 1)))
    return Schema(
        as_text(member(own, "subject"), f"{name}.subject"),
        as_integer(member(own, "version"), f"{name}.version"),
        "",
        kind,
        as_text(member(own, "schema"), f"{name}.schema"),
        imports=tuple(imports),
    )


def _id(value: Any, name: str) -> SchemaId:
    return as_text(value, name) if isinstance(value, str) else as_integer(value, name)
