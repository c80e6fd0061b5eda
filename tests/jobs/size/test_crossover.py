from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from tests.jobs.size.topics import START

from brokerless.api.loading import load
from brokerless.jobs.size.crossover import smaller_from
from brokerless.jobs.size.places import places_of
from brokerless.jobs.size.sample import Sample, read_sample
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location


def sample_of(to: Path, key: bytes, value: bytes, headers: list[tuple[str, bytes]]) -> Sample:
    count = 300
    of_headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    columns = {
        "topic": pa.array(["t"] * count),
        "partition": pa.array(np.zeros(count, np.int32)),
        "timestamp": pa.array(START + np.arange(count)),
        "key": pa.array([key] * count, pa.binary()),
        "value": pa.array([value] * count, pa.binary()),
        "headers": pa.array([[{"key": name, "value": each} for name, each in headers]] * count, of_headers),
    }
    load([pa.record_batch(columns)], str(to))
    places = places_of(resolve(Location(str(to))).partitions)
    return read_sample(places, sum(place.size for place in places), lambda finding: None)


def test_small_records_are_smaller_in_v2_from_three_or_four_on(tmp_path: Path) -> None:
    """v0 takes 34 bytes for this record and v1 42; a batch of v2 takes 61 and 15 for each (KIP-98)."""
    sample = sample_of(tmp_path, b"key", b"value", [])
    assert smaller_from(sample, 1) == 3
    assert smaller_from(sample, 0) == 4


def test_with_headers_that_older_formats_lose_v2_is_never_smaller(tmp_path: Path) -> None:
    sample = sample_of(tmp_path, b"key", b"value", [("trace", b"0123456789" * 3)])
    assert smaller_from(sample, 1) is None


def test_with_a_codec_batches_are_compared_as_they_are_compressed(tmp_path: Path) -> None:
    sample = sample_of(tmp_path, b"key", b"value", [])
    found = smaller_from(sample, 1, "lz4")
    assert found is not None
    assert 1 < found < 60
