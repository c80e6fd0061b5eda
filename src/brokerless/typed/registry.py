"""The schemas of a registry, from its topic ``_schemas``: subjects, versions, references, deleted ones.

The records are those of Confluent's ``io.confluent.kafka.schemaregistry.storage`` (``SchemaKey``, ``SchemaValue``,
``ConfigValue``, ``ModeValue``, ``DeleteSubjectValue``, ``ClearSubjectValue``), which Karapace writes as well: keys and
values are JSON objects. A schema that was deleted, softly or for good, still decodes what was written with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Literal, cast

SchemaType = Literal["AVRO", "PROTOBUF", "JSON"]
TYPES = ("AVRO", "PROTOBUF", "JSON")
DEFAULT_CONTEXT = "."


KeyForm = tuple[tuple[str, ...], str]
"""The names of a key's members in their order, and its magic: Kafka compacts by bytes."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one imports by ``name``: a version of a subject."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class AvroColumns:
    """The columns of a record of Avro."""

    record: str
    """The record's full name."""
    fields: tuple[tuple[str, str], ...]
    """The fields whose columns have other names, with these names."""
    elsewhere: tuple[str, ...] = ()
    """The columns that other versions have for a field of this record."""


@dataclass(frozen=True, slots=True)
class Schema:
    """One version of a subject."""

    subject: str
    version: int
    id: int | str
    type: SchemaType
    text: str
    references: tuple[Reference, ...] = ()
    """The schemas that ``text`` names."""
    is_deleted: bool = False
    guid: str | None = None
    imports: tuple[tuple[str, Schema], ...] = ()
    """These schemas by the names in ``text``, each with all that it needs itself."""
    columns: tuple[AvroColumns, ...] = ()
    """The columns of a topic's Avro records, where aliases give them other names."""


def age(schema: Schema) -> int:
    """Return a number by which a later schema is larger: its id, or its version where ids are no numbers."""
    return schema.id if isinstance(schema.id, int) else schema.version


@dataclass(slots=True)
class Registry:
    """All that is known of schemas."""

    source: str | None = None
    is_topic: bool = True
    """Whether its ids are those of a ``_schemas``."""
    is_empty: bool = True
    """Whether there was no record of a registry, not even one that deletes a schema."""
    versions: dict[tuple[str, int], Schema] = field(default_factory=dict[tuple[str, int], Schema])
    by_id: dict[tuple[str, int | str], Schema] = field(default_factory=dict[tuple[str, "int | str"], Schema])
    """The first version with an id of a context."""
    sharing: dict[tuple[str, int | str], dict[tuple[str, int], Schema]] = field(
        default_factory=dict[tuple[str, "int | str"], "dict[tuple[str, int], Schema]"]
    )
    """All versions with an id of a context."""
    by_guid: dict[str, Schema] = field(default_factory=dict[str, Schema])
    settings: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """What CONFIG and MODE records say of a subject (``""``: of all)."""
    problems: list[str] = field(default_factory=list[str])
    """Why records were passed over."""
    forms: dict[tuple[str, int], dict[KeyForm, bool]] = field(
        default_factory=dict[tuple[str, int], "dict[KeyForm, bool]"]
    )
    """Of each version, the forms of its records' keys in their order, and whether the last record of that form has a
    value."""
    form: KeyForm | None = None
    """The form of the newest key."""

    def returning(self) -> list[tuple[str, int]]:
        """Return the versions that were deleted for good by a key of another form than their own: compaction takes the
        two for different keys, so that a registry has them again once the deletion is cleaned away."""
        return [at for at, forms in self.forms.items() if not list(forms.values())[-1] and any(forms.values())]

    def undeletable(self) -> list[tuple[str, int]]:
        """Return the versions whose key has another form than the newest key: a registry that writes that form cannot
        delete them for good, and where it did they are back."""
        return [at for at, forms in self.forms.items() if all(forms.values()) and self.form not in forms]

    def subjects(self) -> dict[str, list[Schema]]:
        """Return the versions of each subject, in order, deleted ones as well."""
        found: dict[str, list[Schema]] = {}
        for (subject, _), schema in sorted(self.versions.items()):
            found.setdefault(subject, []).append(schema)
        return found

    def of_subject(self, subject: str) -> list[Schema]:
        """Return a subject's versions, in order; those of the subject that it is an alias of, if it has none itself."""
        known = self.subjects()
        alias = self.settings.get(subject, {}).get("alias")
        return known.get(subject) or (known.get(alias, []) if isinstance(alias, str) else [])

    def of_topic(self, topic: str, side: str) -> tuple[str, list[Schema]]:
        """Return the versions of the subject that ``TopicNameStrategy`` gives a topic's keys or values (``side``), and
        the context that it is in; by the default context first."""
        name = f"{topic}-{side}"
        found = self.of_subject(name)
        if found:
            return DEFAULT_CONTEXT, found
        for subject in sorted({subject for subject, _ in self.versions} | set(self.settings)):
            context, inner = context_of(subject)
            if inner == name and context != DEFAULT_CONTEXT:
                found = self.of_subject(subject)
                if found:
                    return context, found
        return DEFAULT_CONTEXT, []

    def find(self, schema_id: int | str, context: str = DEFAULT_CONTEXT, subject: str = "") -> Schema | None:
        """Return the schema with an id or a GUID, with all that it imports. An id is one schema of a context, unless
        two registries wrote the topic: then that of ``subject``, or else of a subject of the same topic, comes
        first."""
        if isinstance(schema_id, str) and schema_id in self.by_guid:
            return self.complete(self.by_guid[schema_id])
        schema = self.by_id.get((context, schema_id))
        if subject and schema is not None:
            of_topic = f"{subject.rpartition('-')[0]}-"
            for each in self.sharing.get((context, schema_id), {}).values():
                name = context_of(each.subject)[1]
                if name == subject or (name.startswith(of_topic) and context_of(schema.subject)[1] != subject):
                    schema = each if not each.is_deleted or context_of(schema.subject)[1] != name else schema
        return None if schema is None else self.complete(schema)

    def others(self, schema: Schema) -> list[Schema]:
        """Return other schemas that have the id of this one, which one registry gives to one schema only."""
        sharing = self.sharing.get((context_of(schema.subject)[0], schema.id), {}).values()
        return [each for each in sharing if (each.type, _content(each.text)) != (schema.type, _content(schema.text))]

    def complete(self, schema: Schema, above: tuple[tuple[str, int], ...] = ()) -> Schema:
        """Return a schema with the schemas that it imports; those that are not there, or lead back to it, are left
        out."""
        if not schema.references:
            return schema
        here = (*above, (schema.subject, schema.version))
        found: list[tuple[str, Schema]] = []
        for each in schema.references:
            subject = each.subject
            context, _ = context_of(schema.subject)
            versions = [self.versions.get((subject, each.version))]
            if context != DEFAULT_CONTEXT:
                versions.insert(0, self.versions.get((f":{context}:{subject}", each.version)))
            other = next((version for version in versions if version is not None), None)
            if other is not None and (other.subject, other.version) not in here and len(here) < 32:
                found.append((each.name, self.complete(other, here)))
        return replace(schema, imports=tuple(found))


def is_same_schema(one: Schema, other: Schema) -> bool:
    """Return whether two complete schemas (:meth:`Registry.complete`) say the same, with all that they import: of JSON
    however it is spaced and ordered. One that lacks an import is the same as none."""
    if one.type != other.type or _content(one.text) != _content(other.text):
        return False
    imports = [sorted(each.imports, key=itemgetter(0)) for each in (one, other)]
    if any(len(each.references) != len(each.imports) for each in (one, other)) or len(imports[0]) != len(imports[1]):
        return False
    return all(
        name == its_name and is_same_schema(each, its) for (name, each), (its_name, its) in zip(*imports, strict=True)
    )


def context_of(subject: str) -> tuple[str, str]:
    """``:.staging:orders-value`` is ``orders-value`` in the context ``.staging``."""
    if subject.startswith(":."):
        context, colon, name = subject[1:].partition(":")
        if colon:
            return context, name
    return DEFAULT_CONTEXT, subject


def read_registry(records: Iterable[tuple[bytes | None, bytes | None]], source: str | None = None) -> Registry:
    """Return a registry from the keys and values of its topic's records, in their order. Never raises for their
    bytes."""
    registry = Registry(source)
    for key, value in records:
        try:
            _apply(registry, _object(key), None if value is None else _object(value))
            registry.is_empty = False
        except (ValueError, RecursionError) as error:
            registry.problems.append(f"a record that is none of a schema registry: {error}")
    return registry


def _object(data: bytes | None) -> Mapping[str, Any]:
    found = json.loads(data or b"")
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")
    return cast("dict[str, Any]", found)


def _apply(registry: Registry, key: Mapping[str, Any], value: Mapping[str, Any] | None) -> None:
    kind = key.get("keytype")
    if kind == "SCHEMA":
        subject, version = _text(key, "subject"), _number(key, "version")
        registry.form = form = tuple(key), str(key.get("magic"))
        forms = registry.forms.setdefault((subject, version), {})
        forms.pop(form, None)
        forms[form] = value is not None
        if value is None:  # deleted for good; its id is used for nothing else
            gone = registry.versions.pop((subject, version), None)
            if gone is not None:
                _keep(registry, replace(gone, is_deleted=True))
            return
        schema = _schema(subject, version, value)
        registry.versions[subject, version] = schema
        _keep(registry, schema)
    elif kind in ("CONFIG", "MODE"):
        subject = key.get("subject")
        own = registry.settings.setdefault(subject if isinstance(subject, str) else "", {})
        for name in ("compatibilityLevel", "compatibilityGroup", "alias", "normalize", "mode"):
            if kind == "MODE" and name != "mode":
                continue
            if value is None or value.get(name) is None:
                if (kind == "MODE") == (name == "mode"):
                    own.pop(name, None)
            else:
                own[name] = value[name]
    elif kind in ("DELETE_SUBJECT", "CLEAR_SUBJECT"):
        if value is None:
            return
        subject = _text(value, "subject")
        last = _number(value, "version") if kind == "DELETE_SUBJECT" else None
        for at in [each for each in registry.versions if each[0] == subject and (last is None or each[1] <= last)]:
            schema = replace(registry.versions[at], is_deleted=True)
            _keep(registry, schema)
            if kind == "DELETE_SUBJECT":
                registry.versions[at] = schema
            else:
                del registry.versions[at]
    elif kind not in ("NOOP", "CONTEXT"):
        raise ValueError(f"keytype {kind!r}")


def _keep(registry: Registry, schema: Schema) -> None:
    """Ids go to the first version that is there: several subjects may share one."""
    at = (context_of(schema.subject)[0], schema.id)
    registry.sharing.setdefault(at, {})[schema.subject, schema.version] = schema
    known = registry.by_id.get(at)
    if known is None or known.is_deleted or (known.subject, known.version) == (schema.subject, schema.version):
        registry.by_id[at] = schema
        if schema.guid is not None:
            registry.by_guid[schema.guid] = schema


def _schema(subject: str, version: int, value: Mapping[str, Any]) -> Schema:
    kind = value.get("schemaType") or "AVRO"
    if kind not in TYPES:
        raise ValueError(f"schemaType {kind!r}")
    guid = value.get("guid")
    return Schema(
        subject, version, _number(value, "id"), type=kind, text=_text(value, "schema"),
        references=tuple(_references(value.get("references") or ())), is_deleted=value.get("deleted") is True,
        guid=guid.lower() if isinstance(guid, str) else None,
    )  # fmt: skip


def _content(text: str) -> Any:
    """Return what a schema's text says, however it is spaced."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return " ".join(text.split())


def _references(found: Any) -> Iterator[Reference]:
    if not isinstance(found, (list, tuple)):
        raise ValueError("references are no list")
    for each in cast("list[Any]", found):
        if not isinstance(each, dict):
            raise ValueError("a reference is no object")
        own = cast("dict[str, Any]", each)
        yield Reference(_text(own, "name"), _text(own, "subject"), _number(own, "version"))


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} is no text")
    return value


def _number(found: Mapping[str, Any], name: str) -> int:
    value = found.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} is no number")
    return value
