"""What others compressed is inflated byte for byte, what is damaged is an error, and the limit holds."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from collections.abc import Callable

import cramjam
import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.format.codecs.payloads import CODECS, NOISE, SAMPLES, TEXT, inflate, lz4_frame, xerial, zstd_stream
from tests.format.twin import COMPRESS

from brokerless.format.codecs.decompression import Inflater, find_payloads
from brokerless.format.codecs.decompression_buffer import CodecError, LimitError
from brokerless.format.layouts import GZIP, LZ4, SNAPPY, ZSTD


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("codec", CODECS)
def test_what_another_client_compressed(codec: str, sample: str) -> None:
    assert inflate(CODECS[codec], COMPRESS[codec](SAMPLES[sample])) == SAMPLES[sample]


@pytest.mark.parametrize("sample", SAMPLES)
def test_other_compressors_and_settings(sample: str) -> None:
    data = SAMPLES[sample]
    for level in (0, 1, 9):
        assert inflate(GZIP, gzip.compress(data, level)) == data
    assert inflate(GZIP, bytes(cramjam.gzip.compress(data))) == data
    assert inflate(SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data
    for size in (1000, 32768, 1 << 20):
        assert inflate(SNAPPY, xerial(data, size)) == data
    for flags in (0x60, 0x64, 0x68, 0x70, 0x7C):
        assert inflate(LZ4, lz4_frame(data, flags=flags)) == data
    assert inflate(LZ4, lz4_frame(data, 4 << 20, size_id=7)) == data
    for level in (-5, 1, 12):
        assert inflate(ZSTD, zstandard.ZstdCompressor(level, write_checksum=True).compress(data)) == data
        assert inflate(ZSTD, zstd_stream(data, level=level)) == data


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_errors(codec: int) -> None:
    with pytest.raises(CodecError, match=f"unknown compression type id {codec}"):
        inflate(codec, b"data")


@pytest.mark.parametrize("codec", CODECS)
def test_an_empty_payload_is_an_error_except_for_zstd(codec: str) -> None:
    if codec == "zstd":  # no frame at all: Kafka reads an empty stream
        assert inflate(ZSTD, b"") == b""
    else:
        with pytest.raises(CodecError):
            inflate(CODECS[codec], b"")


@pytest.mark.parametrize("codec", CODECS)
def test_every_cut_stream_is_an_error_or_a_prefix(codec: str) -> None:
    data = TEXT[:3000] + NOISE[:100]
    payload = COMPRESS[codec](data)
    for end in range(len(payload)):
        try:
            found = inflate(CODECS[codec], payload[:end])
        except CodecError:
            continue
        # xerial's blocks may end anywhere between them; so may zstd's frames, of which here is one
        assert codec == "snappy" or end == 0
        assert data.startswith(found)
        assert len(found) < len(data)


@pytest.mark.parametrize("codec", CODECS)
@examples(150)
@given(
    edits=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=4),
    head=st.booleans(),
    cut=st.floats(0.5, 1),
)
def test_damaged_streams_never_crash_and_never_grow_past_the_limit(
    codec: str, edits: list[tuple[float, int]], head: bool, cut: float
) -> None:
    payload = bytearray(COMPRESS[codec](TEXT[:5000]))
    for place, byte in edits:
        payload[int(place * (20 if head else len(payload)))] = byte
    inflater = Inflater(20_000)
    start, end, error = inflater.inflate(CODECS[codec], 2, memoryview(payload)[: int(cut * len(payload))])
    assert error is None or isinstance(error, CodecError)
    assert 0 <= end - start <= 20_000
    assert len(inflater.buffer) == 1 << 20


@pytest.mark.parametrize("codec", CODECS)
@examples(150)
@given(payload=st.binary(max_size=200), head=st.integers(0, 25))
def test_garbage_never_crashes(codec: str, payload: bytes, head: int) -> None:
    start = {"gzip": gzip.compress(b"data"), "snappy": xerial(b"data", 9), "lz4": lz4_frame(b"data")}
    first = start.get(codec, zstd_stream(b"data"))[:head]
    for magic in (0, 1, 2):
        inflater = Inflater(1 << 16)
        inflater.inflate(CODECS[codec], magic, memoryview(first + payload))
        inflater.check_header(CODECS[codec], magic, memoryview(first + payload))


@pytest.mark.parametrize("codec", CODECS)
@examples(150)
@given(
    given=st.lists(
        st.tuples(
            st.integers(0, 9000),
            st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=2),
            st.sampled_from(["whole", "cut", "twice", "garbage behind", "wrong head", "wrong trailer"]),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_many_at_a_call_are_what_each_is_by_itself(
    codec: str, given: list[tuple[int, list[tuple[float, int]], str]]
) -> None:
    payloads: list[bytes] = []
    for size, edits, kind in given:
        payload = bytearray(COMPRESS[codec](TEXT[size : 2 * size]))
        for place, byte in edits:
            payload[int(place * len(payload))] = byte
        match kind:
            case "cut":
                del payload[-(1 + size % 9) :]
            case "twice":
                payload *= 2
            case "garbage behind":
                payload += bytes([size % 3, 7])
            case "wrong head":
                payload[size % min(12, len(payload))] ^= 1 << size % 8
            case "wrong trailer":
                payload[-1 - size % 8] ^= 1 << size % 8
        payloads.append(bytes(payload))
    ends = np.cumsum([len(payload) for payload in payloads])
    starts = ends - [len(payload) for payload in payloads]
    ids = np.full(len(payloads), CODECS[codec], np.int8)
    found = find_payloads(
        np.frombuffer(b"".join(payloads) + bytes(8), np.uint8), starts, ends, ids, np.full(len(ids), 2, np.int8)
    )
    for limit in (20_000, 4 << 20):  # with the first, zstd's kernel has no room
        many, each = Inflater(limit), Inflater(limit)
        firsts, lasts, errors = many.inflate_many(found, 0, 1 << 30)
        for row, payload in enumerate(payloads):
            start, end, error = each.inflate(CODECS[codec], 2, memoryview(payload))
            assert many.buffer[firsts[row] : lasts[row]].tobytes() == each.buffer[start:end].tobytes()
            assert str(errors.get(row)) == str(error)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("is_exported", [True, False], ids=["exported", "not exported"])
def test_a_library_without_exported_functions_is_called_payload_by_payload(
    codec: str, is_exported: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_exported:
        monkeypatch.setattr("brokerless.format.codecs.decompression.codec_function", lambda codec, owner: None)
    texts = [TEXT[start : start + 70_000] for start in (0, 5, 9)]
    compress = lz4_frame if codec == "lz4" else COMPRESS[codec]
    payloads = [compress(text) for text in texts]
    ends = np.cumsum([len(payload) for payload in payloads])
    ids, magics = np.full(3, CODECS[codec], np.int8), np.full(3, 2, np.int8)
    buffer = np.frombuffer(b"".join(payloads), np.uint8)
    found = find_payloads(buffer, ends - [len(payload) for payload in payloads], ends, ids, magics)
    inflater = Inflater()
    one_by_one: list[int] = []
    monkeypatch.setattr(
        inflater, "inflate", lambda codec, *rest: one_by_one.append(codec) or Inflater.inflate(inflater, codec, *rest)
    )
    firsts, lasts, errors = inflater.inflate_many(found, 0, 1 << 30)
    assert [inflater.buffer[first:last].tobytes() for first, last in zip(firsts, lasts, strict=True)] == texts
    assert not errors
    assert len(one_by_one) == (0 if is_exported else 3)


MEBIBYTE = bytes(1 << 20)
BOMBS: dict[str, Callable[[], tuple[int, bytes]]] = {
    "gzip": lambda: (GZIP, gzip.compress(bytes(100 << 20))),
    "gzip members": lambda: (GZIP, gzip.compress(MEBIBYTE) * 200),
    "zstd": lambda: (ZSTD, zstandard.ZstdCompressor().compress(bytes(1 << 30))),
    "zstd stream": lambda: (ZSTD, zstd_stream(bytes(100 << 20))),
    "zstd frames": lambda: (ZSTD, zstandard.ZstdCompressor().compress(MEBIBYTE) * 2000),
    "lz4": lambda: (LZ4, lz4_frame(bytes(100 << 20), 4 << 20, size_id=7)),
    "lz4 blocks": lambda: (LZ4, lz4_frame(b"", 1)[:7] + lz4_frame(bytes(65536))[7:-4] * 2000),
    "snappy blocks": lambda: (SNAPPY, xerial(b"", 1) + xerial(MEBIBYTE, 1 << 20)[16:] * 100),
    "snappy claim": lambda: (SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(100)),
    "xerial claim": lambda: (SNAPPY, xerial(b"", 1) + struct.pack(">i", 100) + b"\xff\xff\xff\xff\x07" + bytes(95)),
}
"""Payloads of a few hundred kilobytes at most that hold gigabytes, or say so; made when they are asked for."""


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_an_error_that_takes_little_memory(bomb: str) -> None:
    codec, payload = BOMBS[bomb]()
    tracemalloc.start()
    try:
        inflater = Inflater(1 << 22)
        start, end, error = inflater.inflate(codec, 2, memoryview(payload))
        assert isinstance(error, CodecError if "claim" in bomb else LimitError), error
        assert end - start <= 1 << 22
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_what_came_before_an_error_and_after_it_is_kept() -> None:
    inflater = Inflater()
    first = inflater.inflate(GZIP, 2, memoryview(gzip.compress(TEXT)))
    broken = inflater.inflate(ZSTD, 2, memoryview(zstd_stream(NOISE)[:150_000]))
    last = inflater.inflate(SNAPPY, 2, memoryview(xerial(TEXT, 100)))
    assert (first[2], last[2]) == (None, None)
    assert isinstance(broken[2], CodecError)
    assert inflater.buffer[first[0] : first[1]].tobytes() == inflater.buffer[last[0] : last[1]].tobytes() == TEXT
    assert NOISE.startswith(inflater.buffer[broken[0] : broken[1]].tobytes())


def test_the_buffer_that_a_huge_payload_needed_is_given_back() -> None:
    inflater = Inflater()
    assert inflater.inflate(ZSTD, 2, memoryview(zstd_stream(bytes(80 << 20))))[2] is None
    assert len(inflater.buffer) >= 80 << 20
    inflater.clear()
    assert (inflater.used, len(inflater.buffer)) == (0, 1 << 20)
