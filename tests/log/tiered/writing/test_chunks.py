"""Chunks are the same however the bytes come; ``test_remote_log`` compares them with the plugin's."""

from __future__ import annotations

import numpy as np
import pytest
import zstandard
from tests.log.upload.test_remote_log import public_key

from brokerless.log.tiered.chunk_index import ChunkIndex
from brokerless.log.tiered.writing.chunks import ChunkWriter
from brokerless.log.tiered.writing.encryption import Encryptor, new_data_key

DATA = np.random.default_rng(1).integers(0, 4, 10_000, np.uint8).tobytes()


def written(
    parts: list[int], *, is_compressed: bool = False, encrypt: Encryptor | None = None
) -> tuple[list[bytes], ChunkIndex]:
    """What is written when the bytes come in parts of these sizes."""
    stored: list[bytes] = []
    chunks, at = ChunkWriter(lambda data: stored.append(bytes(data)), 4096, encrypt, is_compressed=is_compressed), 0
    for size in parts:
        chunks.add(memoryview(DATA)[at : at + size])
        at += size
    return stored, chunks.finish()


@pytest.mark.parametrize("parts", [[10_000], [1, 9_999], [4096, 4096, 1808], [4095, 2, 5903], [100] * 100])
def test_compressed_chunks_do_not_depend_on_how_bytes_come(parts: list[int]) -> None:
    stored, index = written(parts, is_compressed=True)
    data = b"".join(stored)
    places = [index.range(each, each) for each in range(index.count)]
    found = [zstandard.ZstdDecompressor().decompress(data[first:end]) for first, end in places]
    assert found == [DATA[:4096], DATA[4096:8192], DATA[8192:]]


def test_plain_bytes_go_through_and_encrypted_ones_are_longer() -> None:
    stored, index = written([5_000, 5_000])
    assert b"".join(stored) == DATA
    assert (index.stored, index.stored_last, index.stored_size) == (4096, 1808, 10_000)
    stored, index = written([10_000], encrypt=Encryptor(new_data_key([public_key("key1")])))
    assert [len(each) for each in stored] == [4124, 4124, 1836]
    assert index.stored_size == sum(map(len, stored))
