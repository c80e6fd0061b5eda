"""Paths of fields as text: one rule for members of JSON, fields, and keys of maps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from brokerless.errors import UsageError
from brokerless.typed.blanking.paths import FieldPath, parse_path, path_text, split_fields


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a", ("a",)),
        ("a.b", ("a", "b")),
        (r"tags.home\.phone", ("tags", "home.phone")),
        (r"a\,b.c", ("a,b", "c")),
        (r"a\\.b", ("a\\", "b")),
        (r"a\\\.b", ("a\\.b",)),
        ("é n", ("é n",)),
    ],
)
def test_a_backslash_takes_a_dot_a_comma_or_itself_into_a_name(text: str, path: FieldPath) -> None:
    assert parse_path(text) == path
    assert parse_path(path_text(path)) == path


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b"])
def test_names_are_not_empty(text: str) -> None:
    with pytest.raises(UsageError, match="write a, or"):
        parse_path(text)


@pytest.mark.parametrize("text", [r"a\b", "a\\", "a.b\\", r"a\\\n"])
def test_a_backslash_before_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="for its backslash"):
        parse_path(text)


def test_spaces_around_fields_of_a_list_are_no_part_of_their_names() -> None:
    fields = split_fields(r"mail , phone,address.zip code, \ odd\ ")
    assert list(map(parse_path, fields)) == [("mail",), ("phone",), ("address", "zip code"), (" odd ",)]


@examples(100)
@given(st.lists(st.lists(st.text(min_size=1), min_size=1).map(tuple), min_size=1))
def test_any_names_can_be_written(paths: list[FieldPath]) -> None:
    fields = split_fields(",".join(map(path_text, paths)))
    assert list(map(parse_path, fields)) == paths
