from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
import zstandard

from brokerless.log.tiered.chunk_index import ChunkIndex, FixedChunks, VariableChunks, decode_sizes, encode_sizes
from brokerless.values import WrongJsonError, from_members


def packed(data: bytes, *, with_size: bool = True) -> str:
    compressor = zstandard.ZstdCompressor(write_content_size=with_size)
    return base64.b64encode(compressor.compress(data)).decode()


def sizes_as_the_plugin_writes_them(sizes: list[int]) -> bytes:
    """``ChunkSizesBinaryCodec``: the last one by itself, as it is less than the others."""
    data = len(sizes).to_bytes(4, "big")
    if len(sizes) < 2:
        return data + b"".join(each.to_bytes(4, "big") for each in sizes)
    base = min(sizes[:-1])
    width = max(1, -(-(max(sizes[:-1]) - base).bit_length() // 8))
    data += base.to_bytes(4, "big") + bytes([width])
    return data + b"".join((each - base).to_bytes(width, "big") for each in sizes[:-1]) + sizes[-1].to_bytes(4, "big")


@pytest.mark.parametrize("sizes", [[], [7], [300, 20], [1000, 1300, 999], [70_000, 9, 1 << 30, 5], [5] * 1000])
def test_sizes(sizes: list[int]) -> None:
    written = packed(sizes_as_the_plugin_writes_them(sizes))
    assert decode_sizes(written).tolist() == sizes
    assert encode_sizes(np.array(sizes, np.int64)) == written


def test_sizes_that_the_plugin_wrote() -> None:
    """Of a segment of 23,315 bytes in chunks of 8,192, compressed and encrypted, of an object of 1,639 bytes."""
    assert decode_sizes("KLUv/SAPeQAAAAAAAwAABwMBAFEAAAY0").tolist() == [1795, 1876, 1588]


@pytest.mark.parametrize(
    "text",
    [
        "!", "", "AAAA", packed(b""), packed(b"\0\0\0\1"), packed(b"\xff" * 9), packed(b"\0" * 13),
        packed(sizes_as_the_plugin_writes_them([300, 20])[:-1]), packed(b"\0\0\0\2\0\0\0\1\5" + bytes(9)),
        packed(b"\x7f\xff\xff\xff\0\0\0\1\1"), packed(bytes(4), with_size=False), packed(bytes(32 << 20)),
        packed(sizes_as_the_plugin_writes_them([3, 0])),
    ],
)  # fmt: skip
def test_what_is_no_list_of_sizes(text: str) -> None:
    with pytest.raises(WrongJsonError, match="transformedChunks"):
        decode_sizes(text)


def parse_chunk_index(members: dict[str, Any]) -> ChunkIndex:
    return from_members(members, FixedChunks | VariableChunks).index()


def test_places_of_chunks() -> None:
    fixed = parse_chunk_index({
        "type": "fixed", "originalChunkSize": 100, "originalFileSize": 250, "transformedChunkSize": 128,
        "finalTransformedChunkSize": 78,
    })  # fmt: skip
    assert (fixed.count, fixed.stored_size) == (3, 334)
    assert [fixed.range(each, each) for each in range(3)] == [(0, 128), (128, 256), (256, 334)]
    assert [fixed.size_of(each) for each in range(3)] == [100, 100, 50]
    variable = parse_chunk_index({
        "type": "variable", "originalChunkSize": 100, "originalFileSize": 250,
        "transformedChunks": packed(sizes_as_the_plugin_writes_them([60, 70, 20])),
    })  # fmt: skip
    assert (variable.count, variable.stored_size) == (3, 150)
    assert [variable.range(0, 0), variable.range(1, 2), variable.range(0, 2)] == [(0, 60), (60, 150), (0, 150)]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"type": "other"}, "Invalid value 'other'"),
        ({"originalChunkSize": 0}, "originalChunkSize"),
        ({"originalChunkSize": 1 << 31}, "originalChunkSize"),
        ({"originalFileSize": -1}, "originalFileSize"),
        ({"originalFileSize": True}, "originalFileSize"),
        ({"transformedChunkSize": "8"}, "transformedChunkSize"),
        ({"type": "variable", "transformedChunks": packed(bytes(4))}, "has 0 chunks; the segment's size makes 3"),
        ({"type": "variable"}, "required field `transformedChunks`"),
    ],
)
def test_what_is_no_chunk_index(wrong: dict[str, Any], reason: str) -> None:
    right = {
        "type": "fixed", "originalChunkSize": 100, "originalFileSize": 250, "transformedChunkSize": 128,
        "finalTransformedChunkSize": 78,
    }  # fmt: skip
    with pytest.raises(WrongJsonError, match=reason):
        parse_chunk_index({**right, **wrong})
