from __future__ import annotations

import pytest

from brokerless.printable import readable, show, show_name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"orders-0", "orders-0"),
        (b"a\xffb", r"a\xffb"),
        ("grüße".encode(), "grüße"),
        ("ü".encode() + b"\xc3", r"ü\xc3"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_what_is_no_utf_8_in_a_name_is_escaped_whatever_python_takes_names_for(
    name: bytes, text: str, encoding: str
) -> None:
    assert readable(name.decode(encoding, "surrogateescape")) == text


def test_a_lone_surrogate_that_is_no_byte_is_escaped_too() -> None:
    assert readable("a\ud800b") == r"a\ud800b"


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a b", "a b"), ("a\nb\x1b[31m", r"a\nb\x1b[31m"), ("\u202e", r"\u202e"), ("grüße 🦆", "grüße 🦆")],
)
def test_what_moves_the_cursor_or_does_not_show_is_escaped(text: str, shown: str) -> None:
    assert show(text) == show_name(text) == shown
