from __future__ import annotations

import json

from tests.views.rows import batch_of, record

from brokerless.interchange import jsonl_writer
from brokerless.views import text
from brokerless.views.records.redaction import as_json, as_text, redact

ROWS = [
    record(key=b"secret", value=b"other", headers=[{"key": "trace", "value": b"secret"}, {"key": "x", "value": None}]),
    record(key=None, value=b"", headers=[]),
    record(key=b"other", value=None, headers=[{"key": "trace", "value": b"hidden"}]),
]


def redacted_lines(key: bytes, start: int = 0) -> list[dict[str, object]]:
    redacted = redact(batch_of(ROWS).slice(start), key, as_json)
    return [
        json.loads(line) for line in b"".join(bytes(p) for p in jsonl_writer.records(redacted, "verbatim")).splitlines()
    ]


def test_contents_are_gone_and_lengths_nulls_and_names_stay() -> None:
    first, second, third = redacted_lines(b"key")
    assert "secret" not in json.dumps([first, second, third])
    assert first["key"]["redacted"] == 6
    assert first["headers"][0][0] == "trace"
    assert first["headers"][1] == ["x", None]
    assert (second["key"], second["value"]["redacted"], third["value"]) == (None, 0, None)


def test_equal_bytes_have_equal_hashes_under_one_key_only() -> None:
    first, _, third = redacted_lines(b"key")
    assert first["key"] == first["headers"][0][1] != first["value"] == third["key"]
    assert redacted_lines(b"another")[0]["key"] != first["key"]


def test_a_part_of_a_batch_is_redacted_as_the_whole() -> None:
    assert redacted_lines(b"key", start=1) == redacted_lines(b"key")[1:]


def test_text_may_be_redacted_as_well() -> None:
    line = b"".join(text.records(redact(batch_of(ROWS), b"key", as_text))).splitlines()[0]
    assert line.count(b"<6 bytes, ") == 2
    assert b"secret" not in line
