"""Templates: what kcat's documentation of ``-f`` says each letter is."""

from __future__ import annotations

from typing import Any

import pytest
from tests.views.rows import batch_of, record

from brokerless.errors import UsageError
from brokerless.views.records import template


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


@pytest.mark.parametrize("size", [0, 9 << 20])
def test_what_a_terminal_may_obey_is_escaped_for_one_and_for_nobody_else(size: int) -> None:
    parsed = template.parse(r"\x1b[1m%t %k|%s|%h|%R\n")
    headers = [{"key": "h\u202e", "value": b"\x1b]0;"}]
    row = record(topic="t\x9b", key=b"\xffk\n", value=b"v\x1b[2J\xc2\x9b" + b"x" * size, headers=headers)
    batch = batch_of([row], parsed.columns)
    length = (len(row["value"])).to_bytes(4, "big")
    raw = b"\x1b[1mt\xc2\x9b \xffk\n|" + row["value"] + b"|h\xe2\x80\xae=\x1b]0;|" + length + b"\n"
    assert b"".join(template.render(batch, parsed)) == raw
    shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}" for byte in length)
    shown = shown.replace("\\x09", "\\t").replace("\\x0a", "\\n")
    expected = r"t\x9b \xffk\n|v\x1b[2J\x9b" + "x" * size + r"|h\u202e=\x1b]0;|" + shown
    found = b"".join(template.render(batch, parsed, to_terminal=True)).decode()
    assert found == "\x1b[1m" + expected + "\n"


@pytest.mark.parametrize("text", ["%q", "100%", r"\y", "\\", r"\xg0"])
def test_what_means_nothing_is_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(UsageError, match=r"%t topic"):
        template.parse(text)
