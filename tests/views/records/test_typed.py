"""Typed values as JSON: what JSON has no type for is text, and nothing depends on Python's own limits of times."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

from brokerless.views.records.typed import as_bytes, json_lines, json_values


def test_each_type_has_a_form_in_json() -> None:
    utc = pa.timestamp("ns", tz="UTC")
    type_ = pa.struct([("at", utc), ("map", pa.map_(pa.string(), pa.float64())), ("raw", pa.list_(pa.binary()))])
    value = {"at": 1_500_000_001, "map": [("x", float("nan"))], "raw": [b"a", b"\xff"]}
    assert json_values(pa.array([value, None], type_)) == [
        {"at": "1970-01-01T00:00:01.500000001Z", "map": {"x": "nan"}, "raw": ["a", {"base64": "/w=="}]},
        None,
    ]
    assert json_values(pa.array([Decimal("1.50")], pa.decimal128(9, 2))) == ["1.50"]
    assert json_values(pa.array([1], pa.date32())) == ["1970-01-02"]
    assert json_values(pa.array([1 << 62, -1], pa.timestamp("ms"))) == [1 << 62, "1969-12-31T23:59:59.999"]
    assert json_values(pa.array([61_001], pa.time32("ms"))) == ["00:01:01.001"]


def test_what_could_not_be_decoded_is_its_bytes() -> None:
    columns = {
        "offset": pa.array([1, 2]),
        "value": pa.array([{"a": 1}, None]),
        "valueRaw": pa.array([None, b"\xff"], pa.binary()),
        "valueError": pa.array([None, "why"]),
    }
    decoded = pa.RecordBatch.from_pydict(columns)
    assert b"".join(json_lines(decoded)) == (
        b'{"offset":1,"value":{"a":1}}\n{"offset":2,"value":{"base64":"/w=="},"valueError":"why"}\n'
    )
    assert as_bytes(decoded).to_pydict() == {"offset": [1, 2], "value": [b'{"a":1}', b"\xff"]}
