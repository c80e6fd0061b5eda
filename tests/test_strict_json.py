"""Untrusted JSON is an object of the expected types, or an error that names the member."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerless.strict_json import WrongJsonError, as_flag, as_integer, as_list, as_text, member, optional, parse_object


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"1", b"{", b'{"a":1,"a":2}', b'{"a":NaN}', b'{"a":Infinity}', b'{"a":1e999}', b'{"a":"\xff"}']
)
def test_anything_but_one_strict_object_is_refused(data: bytes) -> None:
    with pytest.raises(WrongJsonError):
        parse_object(data)


@given(st.binary(max_size=40) | st.text(alphabet='{}[]",:0123456789truefalsn\\', max_size=40).map(str.encode))
def test_any_bytes_are_an_object_or_refused(data: bytes) -> None:
    try:
        found = parse_object(data)
    except WrongJsonError:
        return
    assert isinstance(found, dict)


def test_nesting_beyond_pythons_recursion_is_refused() -> None:
    with pytest.raises(WrongJsonError):
        parse_object(b'{"a":' * 100_000)


def test_members_have_their_types() -> None:
    found = parse_object(b'{"a":[1,2],"b":true,"c":"text","d":null}')
    assert as_list(member(found, "a"), "a", as_integer) == (1, 2)
    assert as_flag(member(found, "b"), "b") is True
    assert as_text(member(found, "c"), "c") == "text"
    assert optional(member(found, "d"), "d", as_text) is None
    for check, name in ((as_integer, "b"), (as_flag, "c"), (as_text, "a")):
        with pytest.raises(WrongJsonError, match=f"^{name} "):
            check(found[name], name)
    with pytest.raises(WrongJsonError, match=r"a\[1\]"):
        as_list(found["a"], "a", lambda value, name: as_integer(value, name, most=1))
    with pytest.raises(WrongJsonError, match="missing"):
        member(found, "missing")
