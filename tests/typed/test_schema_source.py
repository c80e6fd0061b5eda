"""Schemas are found in a registry's topic, in JSON Lines of it, and in directories of files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from brokerless.errors import UnreadableError
from brokerless.typed.schema_source import load_registry

KEY = {"keytype": "SCHEMA", "subject": "orders-value", "version": 1, "magic": 1}
VALUE = {"subject": "orders-value", "version": 1, "id": 7, "schema": '"long"', "deleted": False}


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({"key": json.dumps(KEY), "value": json.dumps(VALUE)}),
        json.dumps({"key": KEY, "payload": VALUE}),
        f"{json.dumps(KEY)}\t{json.dumps(VALUE)}",
    ],
)
def test_json_lines_of_the_topic_as_several_tools_print_them(tmp_path: Path, line: str) -> None:
    (tmp_path / "schemas.jsonl").write_text(f"{line}\n")
    registry = load_registry(str(tmp_path / "schemas.jsonl"), [])
    assert registry.problems == []
    schema = registry.find(7)
    assert schema is not None
    assert (schema.subject, schema.type, schema.text) == ("orders-value", "AVRO", '"long"')


def test_files_are_named_by_subject_version_or_id(tmp_path: Path) -> None:
    uuid = "b7b4a7f0-9c96-4e4a-a687-fb5cc9ef0c63"
    for name in ("orders-value.avsc", "orders-value.v2.avsc", "17.avsc", f"{uuid}.avsc"):
        (tmp_path / name).write_text('"long"')
    registry = load_registry(str(tmp_path), [])
    assert [each.version for each in registry.of_topic("orders", "value")[1]] == [1, 2]
    assert registry.find(17) is not None
    assert registry.find(uuid) is not None
    assert registry.find(1) is None


def test_files_refer_to_one_another_by_name(tmp_path: Path) -> None:
    (tmp_path / "address.avsc").write_text('{"type": "enum", "name": "shop.Kind", "symbols": ["A"]}')
    (tmp_path / "5.avsc").write_text('{"type": "array", "items": "shop.Kind"}')
    schema = load_registry(str(tmp_path), []).find(5)
    assert schema is not None
    assert [name for name, _ in schema.imports] == ["address.avsc"]


def test_nothing_of_the_kind_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="there are no schemas"):
        load_registry(str(tmp_path), [])
    assert load_registry(None, []).versions == {}


def test_files_of_the_same_record_are_versions_and_import_nothing_of_one_another(tmp_path: Path) -> None:
    for number in range(20):
        schema = {"type": "record", "name": "a.P", "fields": [{"name": f"f{number}", "type": "int"}]}
        (tmp_path / f"{number}.avsc").write_text(json.dumps(schema))
    registry = load_registry(str(tmp_path), ())
    found = registry.find(7)
    assert found is not None
    assert found.imports == ()
