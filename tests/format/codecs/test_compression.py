"""Compressed payloads are in Kafka's framings: other libraries read them, and fixed bytes are Kafka's."""

from __future__ import annotations

import gzip
import random

import lz4.frame
import pytest
import zstandard
from aiokafka.codec import snappy_decode
from hypothesis import given
from hypothesis import strategies as st

from brokerless.format.codecs.compression import LEVELS, make_compressor

DECOMPRESS = {
    "gzip": gzip.decompress,
    "snappy": snappy_decode,
    "lz4": lz4.frame.decompress,
    "zstd": lambda data: zstandard.ZstdDecompressor().decompress(data),
}


def compress(codec: str, data: bytes, level: int | None = None, magic: int = 2) -> bytes:
    return make_compressor(codec, magic, level)(memoryview(data))


@pytest.mark.parametrize("codec", DECOMPRESS)
@pytest.mark.parametrize("size", [1, 100, 32 << 10, (32 << 10) + 1, 64 << 10, (64 << 10) + 1, 1 << 20])
def test_other_libraries_read_it(codec: str, size: int) -> None:
    for data in (random.Random(size).randbytes(size), b"the same again, " * (size // 16) + b"x" * (size % 16)):
        assert DECOMPRESS[codec](compress(codec, data)) == data


@pytest.mark.parametrize("codec", DECOMPRESS)
@given(data=st.binary(min_size=1, max_size=2000))
def test_any_bytes(codec: str, data: bytes) -> None:
    assert DECOMPRESS[codec](compress(codec, data)) == data


@pytest.mark.parametrize(("codec", "level"), [(codec, level) for codec in LEVELS for level in LEVELS[codec][:2]])
def test_levels(codec: str, level: int) -> None:
    data = b"".join(random.Random(5).choices([b"alpha", b"beta", b"gamma ray", b"delta 9"], k=5000))
    assert DECOMPRESS[codec](compress(codec, data, level)) == data
    if level == LEVELS[codec][1]:
        assert len(compress(codec, data, level)) < len(compress(codec, data))
