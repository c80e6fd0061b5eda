"""The buckets of benchmarks have what the plugin's have: all records of the segments, in every form."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import pytest
from benchmarks.bucket import KEY_ID, Form, encode_sizes, last_offset, write_bucket

import brokerless
from brokerless.log.tiered.chunk_index import decode_sizes
from tests.golden import broker_data
from tests.log.tiered import key_pairs, rows_of

SEGMENTS = broker_data("clean") / "segments-0"
CHUNK = 4096


@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_bucket_has_the_records_of_its_segments(tmp_path: Path, is_compressed: bool, is_encrypted: bool) -> None:
    key = key_pairs()[KEY_ID].read_bytes() if is_encrypted else None
    write_bucket(SEGMENTS, tmp_path, Form(is_compressed, key), CHUNK)
    log = brokerless.open(tmp_path, key_pairs=key_pairs())
    assert rows_of(log) == rows_of(brokerless.open(SEGMENTS))
    assert [each for each in log.verify() if each.severity != "info"] == []
    (objects,) = (sorted(each.suffix for each in tmp_path.glob("*/*/*")),)
    assert objects == sorted([".log", ".indexes", ".rsm-manifest"] * len(list(SEGMENTS.glob("*.log"))))


def test_the_last_offset_is_that_before_the_next_segment() -> None:
    first, second, *_ = sorted(SEGMENTS.glob("*.log"))
    assert last_offset(first) == int(second.stem) - 1


@pytest.mark.parametrize("sizes", [[7], [5, 5], [70_000, 3, 1 << 24, 9], [1 << 30, 2]])
def test_sizes_of_chunks_are_written_as_they_are_read(sizes: list[int]) -> None:
    assert base64.b64decode(encode_sizes(sizes))
    assert decode_sizes(encode_sizes(sizes)).tolist() == sizes
    assert isinstance(decode_sizes(encode_sizes(sizes)), np.ndarray)
