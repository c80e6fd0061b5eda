"""Reports schemas and their use: a registry's subjects, and which of them each topic's records name, and how often."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from brokerless import arrow
from brokerless.findings import Finding, Kind
from brokerless.log.directory import PartitionPath
from brokerless.log.names import is_internal
from brokerless.progress import Done, ignore
from brokerless.tables.partition_tables import read_records
from brokerless.tables.read_options import ReadOptions
from brokerless.text import short_html, short_repr
from brokerless.typed.framing import CONFLUENT
from brokerless.typed.records import shared_ids
from brokerless.typed.registry import Registry
from brokerless.typed.resolve import resolve_topic
from brokerless.typed.schema_source import TOPIC, load_registry
from brokerless.typed.topic_type import Decoding, SideType, TopicType, UsedSchema
from brokerless.values import Row

_LOOKED_AT = 1000
_DAY = 86_400_000


@dataclass(frozen=True)
class SchemaReport:
    """The schemas that were found, and their use."""

    source: str | None
    """Where they were found, None for nowhere."""
    registry: Registry
    topics: dict[str | None, TopicType]
    """The types of each topic, by all its records."""
    findings: tuple[Finding, ...] = ()
    """The damage due to which some records are not counted, ids that are several schemas, and schemas that cannot be
    deleted for good."""

    __repr__ = short_repr
    _repr_html_ = short_html

    @property
    def problems(self) -> list[str]:
        """Records of the registry's topic that are none."""
        return self.registry.problems

    def subjects(self) -> list[Row]:
        """Return a row for each version of each subject: ``subject``, ``version``, ``id``, ``type``, ``isDeleted``,
        ``compatibility``, ``references``, ``records`` (how many name it as their schema)."""
        used: dict[tuple[str, int], int] = {}
        for side in self._sides():
            for each in side[2].schemas:
                if each.schema is not None:
                    at = each.schema.subject, each.schema.version
                    used[at] = used.get(at, 0) + each.records
        default = self.registry.settings.get("", {}).get("compatibilityLevel")
        return [
            {
                "subject": subject,
                "version": schema.version,
                "id": schema.id,
                "type": schema.type,
                "isDeleted": schema.is_deleted,
                "compatibility": self.registry.settings.get(subject, {}).get("compatibilityLevel", default),
                "references": [f"{each.subject} {each.version}" for each in schema.references],
                "records": used.get((subject, schema.version), 0),
            }
            for subject, versions in self.registry.subjects().items()
            for schema in versions
        ]

    def uses(self) -> list[Row]:
        """Return a row for each schema that the records of a topic name: ``topic``, ``side`` (key or value), ``id``,
        ``framing``, ``records``, and its ``subject`` and ``version``, null if it is not known."""
        return [
            {"topic": topic, "side": side, **_use(each)}
            for topic, side, found in self._sides()
            for each in found.schemas
            if each.records
        ]

    def types(self) -> list[Row]:
        """Return a row for each topic's keys and values: ``topic``, ``side``, ``format``, ``fields`` (name and Arrow
        type of each, or of the whole), ``framed``, ``unframed`` and ``null`` (how many records are so)."""
        return [
            {
                "topic": topic,
                "side": side,
                "format": found.format,
                "fields": fields_of(found.type),
                **{name: dict(found.counts).get(name, 0) for name in ("framed", "unframed", "null")},
            }
            for topic, side, found in self._sides()
        ]

    def _sides(self) -> Iterator[tuple[str | None, str, SideType]]:
        for topic, found in self.topics.items():
            yield topic, "key", found.key
            yield topic, "value", found.value


def fields_of(type_: pa.DataType) -> list[Row]:
    """Return the fields of a struct with their types; any other type is one field without a name."""
    if pa.types.is_struct(type_):
        return [{"name": field.name, "type": str(field.type)} for field in type_]  # pyright: ignore[reportGeneralTypeIssues]
    return [{"name": None, "type": str(type_)}]


def _use(each: UsedSchema) -> Row:
    schema = each.schema
    return {
        "id": each.id,
        "framing": each.framing,
        "records": each.records,
        "subject": None if schema is None else schema.subject,
        "version": None if schema is None else schema.version,
    }


def report_schemas(
    partitions: Sequence[PartitionPath],
    decoding: Decoding | None = None,
    *,
    max_batch_bytes: int | None = None,
    done: Done = ignore,
) -> SchemaReport:
    """Reads all records of the partitions' topics, but Kafka's and the registry's own, for the schemas that they name.
    ``done`` is called with the bytes of logs that were read."""
    asked = decoding or Decoding()
    registry = load_registry(asked.schemas, partitions)
    topics: dict[str | None, list[PartitionPath]] = {}
    for each in partitions:
        if not is_internal(each.topic) and each.topic != TOPIC:
            topics.setdefault(each.topic, []).append(each)
    found: dict[str | None, TopicType] = {}
    findings = list(_undeletable(registry))
    reading = ReadOptions(max_batch_bytes=max_batch_bytes, on_damage=findings.append)
    for topic, own in topics.items():
        found[topic] = resolve_topic(topic, own, asked, registry, reading=reading)
        if _begin_with_times(found[topic].value, own):
            found[topic] = replace(found[topic], value=_without_ids(found[topic].value))
        findings += shared_ids(found[topic], own[0].path)
        done(sum(each.size for each in own))
    return SchemaReport(registry.source, registry, found, tuple(findings))


def _undeletable(registry: Registry) -> Iterator[Finding]:
    """A warning where keys of schemas have another form than those that the registry writes now."""
    for found, what in (
        (registry.returning(), "was deleted for good by a key of another form than its own"),
        (registry.undeletable(), "has a key of another form than newer ones, which does not go when it is deleted"),
    ):
        if found:
            subject, version = found[0]
            more = f" (one of {len(found)})" if len(found) > 1 else ""
            text = f"the schema {subject} {version}{more} {what}: it is back when the registry starts again"
            advice = f"to delete it, write a record to {TOPIC} with exactly the bytes of its key and without a value"
            yield Kind.SCHEMA_KEY_FORM.at(registry.source or "", f"{text}; {advice}")


def _begin_with_times(side: SideType, partitions: Sequence[PartitionPath]) -> bool:
    """Return whether values are those of Kafka Streams' stores with timestamps: the record's time in 8 bytes, then the
    value. Its first byte is zero, and the next four look like an id."""
    if not side.schemas or any(each.schema is not None or each.framing != CONFLUENT for each in side.schemas):
        return False
    looked_at = 0
    for each in partitions:
        for batch in read_records([each], ReadOptions(["value", "timestamp"], limit=_LOOKED_AT, on_damage=ignore)):
            times = arrow.numbers(batch.column("timestamp"), np.int64).tolist()
            for value, time in zip(arrow.values(batch.column("value")), times, strict=True):
                if value is not None:
                    looked_at += 1
                    if len(value) < 8 or abs(int.from_bytes(value[:8], "big") - time) > _DAY:
                        return False
    return looked_at > 0


def _without_ids(side: SideType) -> SideType:
    counts = dict(side.counts)
    counts["unframed"] = counts.get("unframed", 0) + counts.pop("framed", 0)
    return replace(side, schemas=(), counts=tuple(sorted(counts.items())))
