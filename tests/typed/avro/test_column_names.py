"""Fields have the columns that aliases of all versions give them, as Java renames them, and each column has one."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from tests.typed.avro.alias_seeds import campaign

from brokerless.typed.avro.column_names import of_same_records, with_columns
from brokerless.typed.avro.schema import parse_schema
from brokerless.typed.registry import Schema

Versions = list[Any]


def field(name: str, *aliases: str, kind: Any = "int") -> dict[str, Any]:
    return {"name": name, "type": kind} | ({"aliases": list(aliases)} if aliases else {})


def record(*fields: dict[str, Any], name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, **more, "fields": list(fields)}


def history(*versions: dict[str, Any]) -> list[Schema]:
    return [Schema("t-value", at, at, "AVRO", json.dumps(each)) for at, each in enumerate(versions, 1)]


def columns(named: list[Schema]) -> list[dict[str, str]]:
    """The columns of each version's fields."""
    return [{each.written: each.name for each in parse_schema(schema).fields} for schema in named]


V1, SHIFTED = record(field("a"), field("b")), record(field("b", "a"), field("c", "b"))
CASES: dict[str, tuple[Versions, list[dict[str, str]]]] = {
    "renamed": ([record(field("a")), record(field("b", "a"))], [{"a": "b"}, {"b": "b"}]),
    "renamed, and the name is another field's": (
        [record(field("a")), record(field("b", "a"), field("a"))], [{"a": "b"}, {"b": "b", "a": "a"}],
    ),
    "shifted": ([V1, SHIFTED], [{"a": "b", "b": "c"}, {"b": "b", "c": "c"}]),
    "swapped": ([V1, record(field("b", "a"), field("a", "b"))], [{"a": "b", "b": "a"}, {"b": "b", "a": "a"}]),
    "renamed twice, each alias only once": (
        [record(field("a")), record(field("b", "a")), record(field("c", "b"))], [{"a": "c"}, {"b": "c"}, {"c": "c"}],
    ),
    "the alias is taken away, and the name is another field's": (
        [record(field("a")), record(field("b", "a")), record(field("b"), field("a"))],
        [{"a": "b"}, {"b": "b"}, {"b": "b", "a": "a"}],
    ),
    "an alias that stays when the name is another field's": (
        [record(field("a")), record(field("b", "a"), field("a")), record(field("b", "a"), field("a"), field("c"))],
        [{"a": "b"}, {"b": "b", "a": "a"}, {"b": "b", "a": "a", "c": "c"}],
    ),
    "an alias of an earlier field": (
        [record(field("a")), record(field("b")), record(field("b", "a"))], [{"a": "b"}, {"b": "b"}, {"b": "b"}],
    ),
    "both were fields of one version, which Java cannot read": (
        [V1, record(field("b", "a"))], [{"a": "a", "b": "b"}, {"b": "b"}],
    ),
    "a field gets its first name again from one that was dropped": (
        [record(field("a")), record(field("b", "a"), field("a")), record(field("a", "b"))],
        [{"a": "a"}, {"b": "a", "a": "a_2"}, {"a": "a"}],
    ),
    "each was in a version without the other, where Java reads both by one name": (
        [record(field("a")), record(field("b", "a"), field("a")), record(field("a")), record(field("a", "b"))],
        [{"a": "a"}, {"b": "b", "a": "a"}, {"a": "a"}, {"a": "a"}],
    ),
    "an alias after one by which Java could not read the version any more": (
        [V1, record(field("d", "a", "b"), field("e")), record(field("e")), record(field("d", "e"))],
        [{"a": "d_2", "b": "b"}, {"d": "d_2", "e": "d"}, {"e": "d"}, {"d": "d"}],
    ),
    "a field gets the name of one that was dropped, and that one keeps its values": (
        [V1, record(field("a")), record(field("b", "a"))], [{"a": "b", "b": "b_2"}, {"a": "b"}, {"b": "b"}],
    ),
    "another record": ([record(field("a")), record(field("b", "a"), name="Q")], [{"a": "a"}, {"b": "b"}]),
    "a record that has another name, with an alias": (
        [record(field("a"), namespace="n"), record(field("b", "a"), name="Q", namespace="n", aliases=["R"])],
        [{"a": "b"}, {"b": "b"}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_fields_are_renamed_by_the_aliases_of_each_version_in_turn(case: str) -> None:
    versions, wanted = CASES[case]
    named, _ = with_columns(history(*versions), (), None)
    assert columns(named) == wanted


def test_columns_of_a_table_stay_and_another_field_of_the_name_gets_one_with_a_number() -> None:
    versions = history(record(field("a")), record(field("b", "a")), record(field("b", "a"), field("a")))
    known = pa.struct([pa.field("a", pa.int32())])
    for named_by in ((1,), ()):
        named, named_by_now = with_columns(versions, named_by, known)
        assert columns(named) == [{"a": "a"}, {"b": "a"}, {"b": "a", "a": "a_2"}]
        assert named_by_now == ((1, 3) if named_by else (1, 2, 3))
    named, _ = with_columns(versions, (), pa.struct([pa.field("b", pa.int32()), pa.field("a", pa.int32())]))
    assert columns(named) == [{"a": "b"}, {"b": "b"}, {"b": "b", "a": "a"}]  # of one run
    named, _ = with_columns(versions, (2,), pa.struct([pa.field("b", pa.int32())]))
    assert columns(named) == [{"a": "b"}, {"b": "b"}, {"b": "b", "a": "a"}]
    named, _ = with_columns(
        history(V1, SHIFTED), (1,), pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.int32())])
    )
    assert columns(named) == [{"a": "a", "b": "b"}, {"b": "a", "c": "b"}]


def test_columns_that_were_two_before_an_alias_said_that_they_are_one_stay_two_and_get_no_default() -> None:
    versions = history(record(field("a")), record(field("b")), record(field("b", "a")))
    named, _ = with_columns(versions, (1, 2), pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.int32())]))
    assert columns(named) == [{"a": "a"}, {"b": "b"}, {"b": "b"}]
    assert parse_schema(named[0]).elsewhere == ("b",)


def test_records_within_others_and_imported_ones_have_their_own() -> None:
    def version(name: str, *aliases: str) -> dict[str, Any]:
        inner = record(field(name, *aliases), name="In")
        lists = {"type": "array", "items": ["null", inner]}
        return record(field("lines", kind=lists), field("other", kind={"type": "map", "values": "In"}))

    named, _ = with_columns(history(version("old"), version("new", "old")), (), None)
    inner = parse_schema(named[0]).fields[0].type.items
    assert inner is not None
    assert [(each.written, each.name) for each in inner.others[0].fields] == [("old", "new")]
    imported = Schema("in", 1, 1, "AVRO", json.dumps(record(field("old"), name="In")))
    using = Schema("t-value", 1, 2, "AVRO", json.dumps(record(field("in", kind="In"))), imports=(("In", imported),))
    newer = Schema(
        "t-value", 2, 3, "AVRO", json.dumps(record(field("in", kind=record(field("new", "old"), name="In"))))
    )
    named, _ = with_columns([using, newer], (), None)
    assert [each.name for each in parse_schema(named[0]).fields[0].type.fields] == ["new"]


def test_what_is_no_schema_has_no_columns_and_the_others_have() -> None:
    deep = Schema("t-value", 9, 9, "AVRO", '{"aliases":' + '{"type":' * 50_000)
    wrong = [Schema("t-value", at, at, "AVRO", text) for at, text in enumerate(('"aliases"', '{"aliases"'), 7)]
    own = history(record(field("a")), record(field("b", "a")))
    named, _ = with_columns([*own, *wrong, deep], (), pa.string())
    assert columns(named[:2]) == [{"a": "b"}, {"b": "b"}]
    assert named[2:] == [*wrong, deep]
    assert with_columns(own[:1], (5,), pa.string()) == (own[:1], (5,))  # without aliases, nothing is looked at


def test_files_of_the_same_records_are_versions_of_each_other() -> None:
    one, two, three, other = (
        Schema(name, 1, at, "AVRO", json.dumps(each))
        for at, (name, each) in enumerate({
            "1": record(field("a"), name="A"), "2": record(field("a"), name="B", aliases=["A"]),
            "3": record(field("a"), name="C", aliases=["B"]), "4": record(field("a"), name="D"),
        }.items())
    )  # fmt: skip
    assert set(of_same_records([one], [one, two, three, other])) == {one, two, three}


def test_random_schemas_of_many_nights_are_read_as_java_reads_them() -> None:
    """More of them: ``python -m tests.typed.avro.alias_seeds 500``."""
    counts, wrong = campaign([*range(4), 2026, 2147])
    assert not wrong
    assert counts["as Java reads"] > 50
