"""Templates: what kcat's documentation of ``-f`` says each letter is."""

from __future__ import annotations

from typing import Any

import pytest
from tests.views.rows import batch_of, record

from brokerless.errors import UsageError
from brokerless.views import template


def rendered(text: str, *rows: dict[str, Any]) -> bytes:
    parsed = template.parse(text)
    columns = parsed.columns or ["offset"]
    return b"".join(template.render(batch_of(rows, columns), parsed))


FULL = record(topic="orders", partition=3, offset=42, timestamp=1600000000123, key=b"k\xff", value=b"v\n")
NULLS = record(timestamp=-1)


@pytest.mark.parametrize(
    ("text", "full", "nulls"),
    [
        ("%t", b"orders", b""),
        ("%p", b"3", b""),
        ("%o", b"42", b"0"),
        ("%T", b"1600000000123", b"-1"),
        ("%k", b"k\xff", b""),
        ("%s", b"v\n", b""),
        ("%K %S", b"2 2", b"-1 -1"),
        ("%R", b"\0\0\0\2", b"\xff\xff\xff\xff"),
        ("%%s", b"%s", b"%s"),
        (r"\n\r\t\\\0\x41\x7%s", b"\n\r\t\\\0A\x07v\n", b"\n\r\t\\\0A\x07"),
        ("grüße", "grüße".encode(), "grüße".encode()),
        ("", b"", b""),
    ],
)
def test_each_letter_is_the_field_that_kcat_means(text: str, full: bytes, nulls: bytes) -> None:
    assert rendered(text, FULL) == full
    assert rendered(text, NULLS) == nulls


def test_headers_are_names_and_values_in_order_with_duplicates() -> None:
    headers = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": "b", "value": b""}]
    assert rendered("%h", record(headers=headers)) == b"a=1,a=NULL,b="


def test_records_follow_each_other_with_nothing_between() -> None:
    rows = [record(offset=offset, value=b"%d" % (offset * 2)) for offset in range(3000)]
    assert rendered(r"%o:%s\n", *rows) == b"".join(b"%d:%d\n" % (offset, offset * 2) for offset in range(3000))


def test_large_values_are_not_put_together() -> None:
    value = b"x" * (9 << 20)
    parsed = template.parse(r"%s\n")
    pieces = list(template.render(batch_of([record(value=value)], ["value"]), parsed))
    assert pieces == [value, b"\n"]


@pytest.mark.parametrize("text", ["%q", "100%", r"\y", "\\", r"\xg0"])
def test_what_means_nothing_is_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(UsageError, match=r"%t topic"):
        template.parse(text)
