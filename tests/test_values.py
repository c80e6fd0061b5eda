"""Untrusted JSON is a value of the expected type, or an error that names the member."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerless.values import (
    LONGEST_REASON,
    Int32,
    Int32OrNone,
    Int64,
    Int64OrNone,
    LenientValue,
    Sha256,
    Value,
    WrongJsonError,
    from_json,
    members,
    parse_object,
    to_json,
)


class Part(Value, frozen=True):
    name: str
    files: tuple[tuple[str, Int64], ...] = ()

    def __post_init__(self) -> None:
        if self.name == "../victim":
            raise WrongJsonError("name is no partition's")


class Document(Value, frozen=True):
    base_offset: Int64
    leader_epoch: Int32OrNone = -1
    timestamp: Int64OrNone = -1
    digest: Sha256 | None = None
    parts: tuple[Part, ...] = ()
    by_partition: dict[Int32, Part] = {}  # noqa: RUF012 - a Struct copies it


class Others(LenientValue, frozen=True):
    base_offset: Int64


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
    for inner in (b'{"a":', b"["):
        with pytest.raises(WrongJsonError):
            parse_object(b'{"a":' + inner * 100_000)


def test_a_value_is_what_was_written() -> None:
    value = Document(
        5, 3, 2**63 - 1, "0" * 64, (Part("orders-0", (("0.log", 7),)),), {0: Part("a"), 2**31 - 1: Part("\udcff")}
    )
    assert from_json(to_json(value), Document) == value
    assert to_json(value, indent=1).endswith(b"\n}\n")
    assert list(members(value)) == ["baseOffset", "leaderEpoch", "timestamp", "digest", "parts", "byPartition"]


def test_members_that_are_not_there_are_as_by_default() -> None:
    assert from_json(b'{"baseOffset": 0}', Document) == Document(0)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (b"{}", "`baseOffset`"),
        (b'{"baseOffset": -1}', "baseOffset"),
        (b'{"baseOffset": 9223372036854775808}', "baseOffset"),
        (b'{"baseOffset": 1e2}', "baseOffset"),
        (b'{"baseOffset": 1.0}', "baseOffset"),
        (b'{"baseOffset": "1"}', "baseOffset"),
        (b'{"baseOffset": true}', "baseOffset"),
        (b'{"baseOffset": null}', "baseOffset"),
        (b'{"baseOffset": 1, "base_offset": 1}', "base_offset"),
        (b'{"baseOffset": 1, "leaderEpoch": -2}', "leaderEpoch"),
        (b'{"baseOffset": 1, "leaderEpoch": 2147483648}', "leaderEpoch"),
        (b'{"baseOffset": 1, "timestamp": -2}', "timestamp"),
        (b'{"baseOffset": 1, "digest": "' + b"0" * 63 + b'"}', "digest"),
        (b'{"baseOffset": 1, "digest": "' + b"0" * 64 + b'\\n"}', "digest"),
        (b'{"baseOffset": 1, "digest": "' + b"A" * 64 + b'"}', "digest"),
        (b'{"baseOffset": 1, "parts": {}}', "parts"),
        (b'{"baseOffset": 1, "parts": [{"name": "a", "files": [["b"]]}]}', r"parts\[0\].files\[0\]"),
        (b'{"baseOffset": 1, "parts": [{"name": "a", "files": [["b", -1]]}]}', r"parts\[0\].files\[0\]\[1\]"),
        (b'{"baseOffset": 1, "parts": [{"name": "../victim"}]}', r"no partition's.*parts\[0\]"),
        (b'{"baseOffset": 1, "byPartition": {"00": {"name": "a"}}}', "byPartition"),
        (b'{"baseOffset": 1, "byPartition": {"-1": {"name": "a"}}}', "byPartition"),
        (b'{"baseOffset": 1, "byPartition": {"2147483648": {"name": "a"}}}', "byPartition"),
    ],
)
def test_another_type_bound_or_name_is_refused_with_its_member(wrong: bytes, reason: str) -> None:
    with pytest.raises(WrongJsonError, match=reason):
        from_json(wrong, Document)


def test_a_message_has_nothing_of_the_content() -> None:
    for data in (b'{"baseOffset": "secret"}', b'{"baseOffset": 1, "digest": "secret"}', b'["secret"]', b'"secret'):
        with pytest.raises(WrongJsonError) as caught:
            from_json(data, Document)
        assert "secret" not in str(caught.value)


def test_half_of_a_surrogate_pair_is_no_name_that_there_is() -> None:
    class Kinds(Value, frozen=True):
        kind: Literal["a", "b"]

    with pytest.raises(WrongJsonError, match="surrogate"):
        from_json(b'{"kind": "\\ud800"}', Kinds)


def test_a_message_is_short() -> None:
    with pytest.raises(WrongJsonError) as caught:
        from_json(b'{"baseOffset": 1, "' + b"a" * 100_000 + b'": 2}', Document)
    assert len(str(caught.value)) <= LONGEST_REASON


def test_what_others_write_may_have_more() -> None:
    assert from_json(b'{"baseOffset": 1, "more": [2]}', Others) == Others(1)
    with pytest.raises(WrongJsonError, match="baseOffset"):
        from_json(b'{"more": [2]}', Others)


@given(st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=3))
def test_what_is_no_value_is_written_as_it_is(found: dict[str, Any]) -> None:
    assert parse_object(to_json(found)) == found
