"""Record views show what real Kafka wrote, as plain Python values."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa
import pytest

import brokerless
from brokerless import Record, record_views
from tests.golden import cases, of_type


@pytest.mark.parametrize("case", cases("articles"), ids=str)
def test_a_view_has_what_kafkas_reader_gives(case) -> None:  # type: ignore[no-untyped-def]
    found = [view for batch in brokerless.open(case.log).records() for view in record_views(batch)]
    expected = list(of_type(case.expected(), "record"))
    assert len(found) == len(expected)
    for view, want in zip(found, expected, strict=True):
        assert view.offset == want["offset"]
        assert view.timestamp == want["timestamp"]
        assert view.timestamp_type == want["timestampType"]
        assert view.key == (None if want["key"] is None else base64.b64decode(want["key"]))
        assert view.value == (None if want["value"] is None else base64.b64decode(want["value"]))
        assert view.headers == [(key, base64.b64decode(value)) for key, value in want["headers"]]
        assert not view.is_control
        assert view.topic is None
        assert view.partition is None
        assert str(want["offset"]) in repr(view)
        if want["timestamp"] >= 0:
            assert view.time is not None
            assert round(view.time.timestamp() * 1000) == want["timestamp"]
        else:
            assert view.time is None


def test_a_column_that_was_not_read_is_an_error() -> None:
    (batch,) = brokerless.open(cases("articles")[0].log).records(["offset"])
    (view, *_) = record_views(batch)
    assert isinstance(view.offset, int)
    with pytest.raises(KeyError):
        _ = view.key


def view(**columns: list[Any]) -> Record:
    return next(record_views(pa.RecordBatch.from_pydict(columns)))


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            {"topic": ["orders"], "partition": [0], "offset": [12], "key": [b"o-12"], "value": [b"x" * 500]},
            f"Record(orders-0 @12, key=b'o-12', value=b'{'x' * 40}'...)",
        ),
        ({"topic": [None], "partition": [None], "offset": [3], "key": [None]}, "Record(@3, key=None)"),
        ({"value": [{"id": 7}]}, "Record(value={'id': 7})"),
        ({"topic": ["t"], "offset": [1]}, "Record(@1)"),
    ],
)
def test_a_repr_is_one_line_with_what_was_read(columns: dict[str, Any], expected: str) -> None:
    assert repr(view(**columns)) == expected
