"""Values as confluent-kafka's serializers write them, with its mock registry, and the ``_schemas`` records for them."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.schema_registry_client import Schema as ConfluentSchema

from brokerless.typed.registry import Registry, read_registry


def client() -> Any:
    """A registry of its own, in memory."""
    return SchemaRegistryClient.new_client({"url": "mock://"})


def registry_records(found: Any) -> list[tuple[bytes, bytes]]:
    """The records that a registry would have in ``_schemas`` for what a client knows; older clients know no GUID."""
    records: list[tuple[bytes, bytes]] = []
    for subject in found.get_subjects():
        for version in found.get_versions(subject):
            each = found.get_version(subject, version)
            records.append(schema_record(subject, version, each.schema_id, each.schema, getattr(each, "guid", None)))
    return records


def schema_record(
    subject: str, version: int, schema_id: int, schema: ConfluentSchema, guid: str | None = None
) -> tuple[bytes, bytes]:
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    value: dict[str, Any] = {"subject": subject, "version": version, "id": schema_id}
    if guid is not None:
        value["guid"] = guid
    if schema.schema_type != "AVRO":
        value["schemaType"] = schema.schema_type
    if schema.references:
        value["references"] = [
            {"name": each.name, "subject": each.subject, "version": each.version} for each in schema.references
        ]
    value |= {"schema": schema.schema_str, "deleted": False}
    return json.dumps(key).encode(), json.dumps(value).encode()


def registry_of(found: Any) -> Registry:
    return read_registry(registry_records(found))
