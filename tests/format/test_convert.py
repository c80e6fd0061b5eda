"""Conversion between formats: as Kafka answers old clients, and whole logs, whose records stay what they are."""

from __future__ import annotations

import numpy as np
import pytest
from tests.format.test_decode import rows
from tests.golden import Case, cases, of_type

from brokerless.errors import UsageError
from brokerless.format.batches import checksums_match, read_headers, walk
from brokerless.format.convert import DownConverted, down_convert
from brokerless.format.decode import Decoder


def buffer_of(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def records(buffer: np.ndarray) -> list[dict[str, object]]:
    batches = read_headers(buffer, walk(buffer).positions)
    assert checksums_match(buffer, batches).all()
    decoder = Decoder()
    decoded = [*decoder.decode(buffer, batches), decoder.flush()]
    return [row for each in decoded if each is not None for row in rows(each.columns)]


def answered(case: Case) -> DownConverted:
    asked = case.case_json()
    return down_convert(buffer_of((case.path / "input.bin").read_bytes()), asked["toMagic"], asked["firstOffset"])


@pytest.mark.parametrize("case", cases("downconvert"), ids=str)
def test_a_fetch_in_an_older_format_is_answered_as_kafka_does(case: Case) -> None:
    asked = case.case_json()
    if asked["outcome"] != "ok":
        with pytest.raises(UsageError, match="zstd"):
            answered(case)
        return
    given = answered(case)
    assert not given.damages
    assert given.records == asked["recordsConverted"]
    kafka = buffer_of((case.path / "output.bin").read_bytes())
    theirs, ours = (read_headers(each, walk(each).positions) for each in (kafka, given.buffer))
    for name in ("magic", "codec", "entry_offset", "timestamp_type", "max_timestamp"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), name)
    expected = [
        {name: line[name] for name in line if name not in ("type", "file", "batchPosition")}
        for line in of_type(case.expected(), "record")
    ]
    assert records(given.buffer) == expected
    if not theirs.codec.any():
        assert given.buffer.tobytes() == kafka.tobytes()
