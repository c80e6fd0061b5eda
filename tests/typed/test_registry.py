"""What a registry's topic says: contexts, aliases, deletions, settings, and records that are none of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.schema_registry_client import Schema
from tests.typed.registries import client, schema_record
from tests.typed.test_decode import V1, V2, VALUE, decoded

from brokerless.typed.registry import Reference, Registry, is_same_schema, read_registry
from brokerless.typed.registry import Schema as OwnSchema


def pair(key: dict[str, Any], value: dict[str, Any] | None) -> tuple[bytes, bytes | None]:
    return json.dumps(key).encode(), None if value is None else json.dumps(value).encode()


def version(subject: str, number: int, schema_id: int, text: str) -> tuple[bytes, bytes | None]:
    return schema_record(subject, number, schema_id, Schema(text, "AVRO"))


def versions(registry: Registry, topic: str) -> list[tuple[str, int, bool]]:
    return [(each.subject, each.version, each.is_deleted) for each in registry.of_topic(topic, "value")[1]]


def test_deleted_versions_are_marked_and_still_decode() -> None:
    soft = pair(
        {"keytype": "DELETE_SUBJECT", "subject": "orders-value", "magic": 0}, {"subject": "orders-value", "version": 1}
    )
    registry = read_registry([version("orders-value", 1, 7, V1), version("orders-value", 2, 8, V2), soft])
    assert versions(registry, "orders") == [("orders-value", 1, True), ("orders-value", 2, False)]
    hard = pair({"keytype": "SCHEMA", "subject": "orders-value", "version": 1, "magic": 1}, None)
    registry = read_registry([version("orders-value", 1, 7, V1), version("orders-value", 2, 8, V2), soft, hard])
    assert versions(registry, "orders") == [("orders-value", 2, False)]
    value = AvroSerializer(client(), V1)({"id": 1, "user": "ann", "old": b""}, VALUE)
    assert value is not None
    _, found = decoded([b"\0\0\0\0\7" + value[5:]], registry)
    assert found[0]["value"]["user"] == "ann"


def test_a_subject_that_was_cleared_has_no_version() -> None:
    clear = pair({"keytype": "CLEAR_SUBJECT", "subject": "orders-value", "magic": 0}, {"subject": "orders-value"})
    registry = read_registry([version("orders-value", 1, 7, V1), clear])
    assert versions(registry, "orders") == []
    assert registry.find(7) is not None


def test_ids_are_unique_within_a_context() -> None:
    registry = read_registry([version("orders-value", 1, 7, V1), version(":.staging:orders-value", 1, 7, V2)])
    assert registry.find(7) != registry.find(7, ".staging")
    assert versions(registry, "orders") == [("orders-value", 1, False)]
    only = read_registry([version(":.staging:orders-value", 1, 7, V1)])
    assert only.of_topic("orders", "value")[0] == ".staging"
    assert versions(only, "orders") == [(":.staging:orders-value", 1, False)]


def test_a_topic_in_a_context_is_decoded_by_its_ids() -> None:
    value = AvroSerializer(client(), V1)({"id": 1, "user": "ann", "old": b""}, VALUE)
    assert value is not None
    _, found = decoded([b"\0\0\0\0\7" + value[5:]], read_registry([version(":.staging:orders-value", 1, 7, V1)]))
    assert found[0]["value"]["user"] == "ann"


def test_an_alias_stands_for_a_subject() -> None:
    alias = pair({"keytype": "CONFIG", "subject": "sales-value", "magic": 0}, {"alias": "orders-value"})
    registry = read_registry([version("orders-value", 1, 7, V1), alias])
    assert versions(registry, "sales") == [("orders-value", 1, False)]
    to_itself = pair({"keytype": "CONFIG", "subject": "x-value", "magic": 0}, {"alias": "x-value"})
    assert versions(read_registry([to_itself]), "x") == []
    ended = pair({"keytype": "CONFIG", "subject": "sales-value", "magic": 0}, None)
    assert versions(read_registry([version("orders-value", 1, 7, V1), alias, ended]), "sales") == []


def test_settings_of_subjects_and_of_all() -> None:
    registry = read_registry([
        pair({"keytype": "CONFIG", "subject": None, "magic": 0}, {"compatibilityLevel": "BACKWARD"}),
        pair({"keytype": "CONFIG", "subject": "orders-value", "magic": 0}, {"compatibilityLevel": "FULL_TRANSITIVE"}),
        pair({"keytype": "MODE", "subject": "orders-value", "magic": 0}, {"mode": "READONLY"}),
    ])  # fmt: skip
    assert registry.settings == {
        "": {"compatibilityLevel": "BACKWARD"},
        "orders-value": {"compatibilityLevel": "FULL_TRANSITIVE", "mode": "READONLY"},
    }


def test_records_that_are_none_of_a_registry_are_counted() -> None:
    deep = b'{"keytype":' + b"[" * 100_000
    wrong: list[tuple[bytes | None, bytes | None]] = [
        (None, None), (b"", b""), (b"[]", b"{}"), (b"\xff", b"{}"), (deep, b"{}"), (b'{"keytype": "NEW"}', b"{}"),
        (b'{"keytype": "SCHEMA", "subject": 7, "version": 1}', b"{}"),
        (b'{"keytype": "SCHEMA", "subject": "s", "version": 1}', b'{"id": 1, "schema": 5}'),
        (b'{"keytype": "SCHEMA", "subject": "s", "version": 1}', b'{"id": 1, "schema": "", "schemaType": "XML"}'),
    ]  # fmt: skip
    registry = read_registry([*wrong, version("orders-value", 1, 7, V1)])
    assert len(registry.problems) == len(wrong)
    assert versions(registry, "orders") == [("orders-value", 1, False)]


def test_schemas_that_import_each_other_end() -> None:
    def importing(subject: str, schema_id: int, other: str) -> tuple[bytes, bytes]:
        key = {"keytype": "SCHEMA", "subject": subject, "version": 1, "magic": 1}
        references = [{"name": other, "subject": other, "version": 1}]
        value = {"subject": subject, "version": 1, "id": schema_id, "schema": '"long"', "references": references}
        return json.dumps(key).encode(), json.dumps(value).encode()

    schema = read_registry([importing("a", 1, "b"), importing("b", 2, "a")]).find(1)
    assert schema is not None
    assert [name for name, _ in schema.imports] == ["b"]
    assert schema.imports[0][1].imports == ()


OLD_KEYS: tuple[dict[str, Any], ...] = (
    {"subject": "orders-value", "version": 1, "magic": 1, "keytype": "SCHEMA"},
    {"magic": 0, "keytype": "SCHEMA", "subject": "orders-value", "version": 1},
    {"keytype": "SCHEMA", "subject": "orders-value", "version": 1, "magic": 0},
    {"keytype": "SCHEMA", "subject": "orders-value", "version": 1},
)
"""As Confluent's older registries wrote them (its issues 2961 and 4420), and Karapace (347)."""


@pytest.mark.parametrize("key", OLD_KEYS)
def test_a_schema_under_an_older_key_comes_back_when_it_was_deleted(key: dict[str, Any]) -> None:
    (new, value), tombstone = version("orders-value", 1, 7, V1), None
    old = json.dumps(key).encode(), value
    registry = read_registry([old, (new, value), (new, tombstone), version("users-value", 1, 8, V2)])
    assert versions(registry, "orders") == []
    assert registry.returning() == [("orders-value", 1)]
    assert registry.undeletable() == []
    compacted = read_registry([old, version("users-value", 1, 8, V2)])  # and then the tombstone is cleaned away
    assert versions(compacted, "orders") == [("orders-value", 1, False)]
    assert compacted.returning() == []
    assert compacted.undeletable() == [("orders-value", 1)]
    ended = read_registry([old, (new, value), (new, None), (old[0], None), version("users-value", 1, 8, V2)])
    assert (ended.returning(), ended.undeletable()) == ([], [])
    found = compacted.find(7)
    assert found is not None
    assert found.text == V1


def test_keys_of_one_form_are_no_trouble() -> None:
    for key in OLD_KEYS:
        own = json.dumps(key).encode()
        registry = read_registry([(own, version("orders-value", 1, 7, V1)[1])])
        assert (registry.returning(), registry.undeletable()) == ([], [])
        registry = read_registry([(own, version("orders-value", 1, 7, V1)[1]), (own, None)])
        assert (registry.returning(), registry.undeletable()) == ([], [])


def test_schemas_are_the_same_with_all_that_they_import() -> None:
    part, other = (OwnSchema("part", 1, 1, "AVRO", f'{{"type": "enum", "name": "{each}"}}') for each in "ab")
    whole = OwnSchema("whole", 1, 2, "AVRO", '{"a": 1, "b": 2}', (Reference("E", "part", 1),), imports=(("E", part),))
    again = replace(whole, id=9, subject="other", text='{ "b": 2,\n"a": 1 }')
    assert is_same_schema(whole, again)
    assert not is_same_schema(whole, replace(again, imports=(("E", other),)))
    assert not is_same_schema(whole, replace(again, type="JSON"))
    assert not is_same_schema(whole, replace(again, text='{"a": 1}'))
    assert not is_same_schema(replace(whole, imports=()), replace(again, imports=())), "what it imports is not known"
