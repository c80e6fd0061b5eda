from __future__ import annotations

from typing import Any

import pytest
from tests.views.rows import batch_of, record

from brokerless.views import text


def lines(*rows: dict[str, Any], controls: list[Any] | None = None) -> list[str]:
    return b"".join(text.records(batch_of(rows), controls)).decode().split("\n")


def test_a_record_is_its_place_offset_time_key_and_value() -> None:
    row = record(topic="a-b", partition=3, offset=42, timestamp=1600000000123, key=b"k", value="grüße".encode())
    assert lines(row) == ["a-b-3\t42\t2020-09-13T12:26:40.123Z\tk\tgrüße", ""]


def test_what_is_not_there_is_left_out_or_null() -> None:
    assert lines(record(timestamp=-1)) == ["0\t-\tnull\tnull", ""]


def test_headers_follow_where_there_are_some() -> None:
    headers = [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]
    assert lines(record(key=b"", value=b"", headers=headers))[0].endswith("Z\t\t\ta=1,b=null")


def test_nothing_moves_the_terminals_cursor_or_breaks_the_line() -> None:
    value = "a\n\r\t\x1b[31m\x7f\x9b \u202e\u2028".encode() + b"\xff\xc3"
    assert lines(record(value=value))[0].split("\t", 3)[3] == (r"a\n\r\t\x1b[31m\x7f\x9b \u202e\u2028\xff\xc3")


def test_control_records_say_what_they_control() -> None:
    rows = [record(key=b"1"), record(key=b"\0\0\0\1", isControl=True)]
    assert lines(*rows, controls=[None, {"type": "COMMIT"}])[1].endswith('Z\t{"type":"COMMIT"}')


def test_a_large_value_is_the_same_line_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    value = "ü€\n".encode() * 100 + b"\xff"
    headers = [{"key": "a", "value": value}, {"key": "b", "value": None}]
    row = record(topic="t", partition=0, key=value, value=value, headers=headers)
    at_once = lines(row, row, controls=[None, "x"])
    monkeypatch.setattr(text, "_LARGE", 0)
    monkeypatch.setattr(text, "_SLICE", 7)
    assert lines(row, row, controls=[None, "x"]) == at_once


def test_far_off_times_are_still_times() -> None:
    for timestamp in (-(2**63), -(2**62), 2**63 - 1):
        assert lines(record(timestamp=timestamp))[0].count("\t") == 3
