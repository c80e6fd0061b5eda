"""Blanked values: null, or JSON in which only some fields changed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.golden import broker_data

import brokerless
from brokerless.errors import UsageError
from brokerless.jobs.erase.blanking import Blanking, blank_json

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.sampled_from(["a", "b", "c", 'quo"te', "\u00e9"])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(), lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner)
)


def expected(value: object, path: tuple[str, ...]) -> object:
    if isinstance(value, list):
        return [expected(each, path) for each in value]
    if not isinstance(value, dict):
        return value
    last = len(path) == 1
    return {
        name: (None if last else expected(each, path[1:])) if name == path[0] else each for name, each in value.items()
    }


@examples(200)
@given(VALUES, st.lists(NAMES, min_size=1, max_size=3).map(tuple), st.sampled_from([None, 1]), st.booleans())
def test_as_python_would_change_the_parsed_value(
    value: object, path: tuple[str, ...], indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    try:
        text.decode()
    except UnicodeDecodeError:
        return
    assert json.loads(blank_json(text, [path])) == expected(value, path)


def test_all_other_bytes_stay() -> None:
    text = b' {"a" : 1.10, "b":{"c" : "x","d":[1,{"e":"s"}, 3]}, "b":{"c":2}, "z":"\\u00e9"}\n'
    blanked = blank_json(text, [("b", "c"), ("b", "d", "e"), ("z",)])
    assert blanked == b' {"a" : 1.10, "b":{"c" : null,"d":[1,{"e":null}, 3]}, "b":{"c":null}, "z":null}\n'
    assert blank_json(text, [("b",), ("b", "c")]).count(b"null") == 2
    assert blank_json(text, [("none",)]) == text


@pytest.mark.parametrize("value", [b"", b"text", b"{", b'{"a":1} 2', b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_refused(value: bytes) -> None:
    with pytest.raises((ValueError, RecursionError)):
        blank_json(value, [("a",)])


def test_paths_without_a_name_are_refused() -> None:
    with pytest.raises(UsageError, match=r"'a\.' is not the path of a field"):
        Blanking(("a.",))


def test_a_blanked_value_is_null_and_all_else_of_the_record_stays(tmp_path: object) -> None:
    source = brokerless.open(broker_data("old-formats") / "v1-lz4-0")
    source.erase(f"{tmp_path}/to", where='"offset" % 2 = 0', blank=True)
    columns = ["offset", "timestamp", "timestampType", "key", "value", "headers"]
    rows = source.records(columns).read_all().to_pylist()
    for row in rows:
        row["value"] = row["value"] if row["offset"] % 2 else None
    assert brokerless.open(f"{tmp_path}/to").records(columns).read_all().to_pylist() == rows
