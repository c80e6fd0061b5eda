"""Produced batches become what Kafka's broker makes of them, or are refused for its reason.

Truth: the golden cases ``append/*``, and Kafka's ``LogValidator`` itself over a few hundred seeded requests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.golden import Case, cases

from brokerless.format.appending import AppendConfig, Appended, Refusal
from brokerless.format.batches import read_headers, walk
from brokerless.format.compression import Inflater
from brokerless.format.validate import validate


def array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def given(golden: Case) -> tuple[AppendConfig, tuple[Any, ...]]:
    """A case's settings, and the other arguments."""
    c = golden.case_json()
    config = AppendConfig(
        c["toMagic"],
        c["targetCompression"],
        timestamp_type=c["timestampType"],
        timestamp_before_max_ms=c["timestampBeforeMaxMs"],
        timestamp_after_max_ms=c["timestampAfterMaxMs"],
        compacted=c["compactedTopic"],
    )
    return config, (c["firstOffset"], c["partitionLeaderEpoch"], c["nowMs"], c["origin"].lower())


def comparable(data: bytes) -> list[Any]:
    """Batches with all that has to be the same, whoever compresses: headers but for sizes and checksums, and payloads
    as they were before."""
    buffer = array(data)
    batches = read_headers(buffer, walk(buffer).positions)
    found: list[Any] = []
    for row, (start, end) in enumerate(zip(batches.positions.tolist(), batches.ends.tolist(), strict=True)):
        magic, codec, raw = int(batches.magic[row]), int(batches.codec[row]), data[start:end]
        if codec == 0:
            found.append(raw)
            continue
        payload = 61 if magic == 2 else 34 if magic == 1 else 26
        header = raw[:8] + raw[12:17] + raw[21:61] if magic == 2 else raw[:8] + raw[16 : payload - 4]
        inflater = Inflater()
        begin, end, error = inflater.inflate(codec, magic, buffer[start + payload : end].data)
        assert error is None
        found.append((header, inflater.buffer[begin:end].tobytes()))
    return found


@pytest.mark.parametrize("golden", cases("append"), ids=str)
def test_what_kafka_makes_of_it_is_made_of_it(golden: Case) -> None:
    expected = golden.case_json()
    config, rest = given(golden)
    found = validate(array((golden.path / "input.bin").read_bytes()), config, *rest)
    if expected["outcome"] == "ok":
        assert isinstance(found, Appended)
        assert (found.next_offset, found.max_timestamp) == (expected["nextOffset"], expected["maxTimestampMs"])
        assert (found.in_place, found.records_converted) == (expected["inPlace"], expected["recordsConverted"])
        theirs = (golden.path / "output.bin").read_bytes()
        if found.in_place or config.codec == "none":
            assert found.buffer.tobytes() == theirs
        assert comparable(found.buffer.tobytes()) == comparable(theirs)
    else:
        assert isinstance(found, Refusal)
        assert expected["error"]["class"].rpartition(".")[2] == found.error
        cause = expected.get("invalidException", {}).get("class")
        assert (cause and cause.rpartition(".")[2]) == found.cause
        assert [error["batchIndex"] for error in expected.get("recordErrors", [])] == list(found.record_errors)
