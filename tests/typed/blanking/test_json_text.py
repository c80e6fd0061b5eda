"""JSON in which only some fields changed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from brokerless.typed.blanking.edits import apply_edits
from brokerless.typed.blanking.json_text import json_edits
from brokerless.typed.blanking.paths import NamedFields, Presence

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.sampled_from(["a", "b", "c", 'quo"te', "\u00e9"])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(), lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner)
)


def blanked(text: bytes, paths: list[tuple[str, ...]]) -> bytes:
    return apply_edits(text, json_edits(text, NamedFields.of(paths)))


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
    assert json.loads(blanked(text, [path])) == expected(value, path)


def test_all_other_bytes_stay() -> None:
    text = b' {"a" : 1.10, "b":{"c" : "x","d":[1,{"e":"s"}, 3]}, "b":{"c":2}, "z":"\\u00e9"}\n'
    found = blanked(text, [("b", "c"), ("b", "d", "e"), ("z",)])
    assert found == b' {"a" : 1.10, "b":{"c" : null,"d":[1,{"e":null}, 3]}, "b":{"c":null}, "z":null}\n'
    assert blanked(text, [("b",), ("b", "c")]).count(b"null") == 2
    assert blanked(text, [("none",)]) == text


@pytest.mark.parametrize(
    ("value", "presence"),
    [
        (b'{"a": {"b": 1}}', Presence.HELD),
        (b'{"a": {"b": null}}', Presence.EMPTY),
        (b'{"a": null, "c": 1}', Presence.EMPTY),
        (b'{"a": []}', Presence.EMPTY),
        (b"{}", Presence.EMPTY),
        (b'{"a": {"B": 1}}', Presence.LACKING),
        (b'{"A": {"b": 1}}', Presence.LACKING),
        (b'{"a": "text"}', Presence.LACKING),
        (b"17", Presence.LACKING),
        (b'{"a": [{"b": 1}, {"c": 2}]}', Presence.HELD | Presence.LACKING),
        (b'{"a": [{"b": null}, null]}', Presence.EMPTY),
        (b'[{"a": {"b": ""}}]', Presence.HELD),
    ],
)
def test_what_a_value_has_of_a_field(value: bytes, presence: Presence) -> None:
    fields = NamedFields.of([("a", "b")])
    json_edits(value, fields)
    assert fields.presence == [presence]


def test_a_field_within_another_one_that_is_named_goes_with_it() -> None:
    fields = NamedFields.of([("a", "b"), ("a",)])
    json_edits(b'{"a": {"c": 1}}', fields)
    assert fields.presence == [Presence.HELD, Presence.HELD]


@pytest.mark.parametrize("value", [b"", b"text", b"{", b'{"a":1} 2', b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_refused(value: bytes) -> None:
    with pytest.raises((ValueError, RecursionError)):
        blanked(value, [("a",)])


def test_the_strings_of_what_is_taken_away_are_named_one_by_one() -> None:
    text = '{"a": {"name": "Ad\u00e0 \\"x\\"", "n" : [1, "two"]}, "b": "\u00e9"}'.encode()
    (first, second) = json_edits(text, NamedFields.of([("a",), ("b",)]))
    assert [text[start:end].decode() for start, end in first.contents] == ['Ad\u00e0 \\"x\\"', "two"]
    assert 'Ad\u00e0 "x"'.encode() in first.more
    assert [text[start:end].decode() for start, end in second.contents] == ["\u00e9"]
    pieces = [(text[start:end], new) for start, end, new in first.split()]
    assert b"".join(new for _, new in pieces) == b"null"
    assert (b"two", b"") in pieces
    assert b"".join(old for old, _ in pieces) == text[first.start : first.end]
