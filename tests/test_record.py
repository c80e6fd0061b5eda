"""Record views show what real Kafka wrote, as plain Python values."""

from __future__ import annotations

import base64

import pytest

import brokerless
from brokerless import record_views
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
