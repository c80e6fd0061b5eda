"""Only the chunks of a range are fetched, in one request where they follow one another."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.log.tiered import golden, key_pairs

from brokerless.log.storage.files import LocalFile
from brokerless.log.storage.location import Location
from brokerless.log.tiered.chunk_file import ChunkFile, readable_size
from brokerless.log.tiered.decryption import decryptor
from brokerless.log.tiered.manifest import Manifest, parse_manifest

SETS = ("compressed", "encrypted", "compressed-encrypted")


class Counted:
    """A file that counts what is requested of it."""

    def __init__(self, path: Path) -> None:
        opened = Location(str(path)).open()
        assert isinstance(opened, LocalFile)
        self._file, self.path, self.requests = opened, str(path), list[tuple[int, int]]()

    def read(self, position: int, length: int) -> NDArray[np.uint8]:
        self.requests.append((position, length))
        return self._file.read(position, length)

    def expect_windows(self, count: int) -> None:
        self._file.expect_windows(count)

    def close(self) -> None:
        self._file.close()


def open_segment(name: str) -> tuple[ChunkFile, Counted, Manifest, bytes]:
    """And all of its bytes."""
    paths = sorted((golden() / name / "bucket").glob("**/*.rsm-manifest"))
    path = max(paths, key=lambda each: parse_manifest(each.read_bytes()).chunks.count)
    manifest = parse_manifest(path.read_bytes())
    keys = {each: file.read_bytes() for each, file in key_pairs().items()}
    decrypt = None if manifest.encryption is None else decryptor(manifest.encryption, keys)

    def file() -> tuple[ChunkFile, Counted]:
        counted = Counted(path.with_suffix(".log"))
        return ChunkFile("segment", counted, manifest, decrypt, manifest.chunks.size), counted  # type: ignore[arg-type]

    whole, _ = file()
    data = read(whole, 0, manifest.chunks.size + 1)
    whole.close()
    return *file(), manifest, data


def read(file: ChunkFile, position: int, length: int) -> bytes:
    memory = bytearray(length)
    return bytes(memory[: file.read_into(position, memoryview(memory))])


@pytest.mark.parametrize("name", SETS)
def test_any_range(name: str) -> None:
    file, _, manifest, data = open_segment(name)
    assert len(data) == manifest.chunks.size
    randomness = random.Random(1)
    for _ in range(300):
        position, length = randomness.randrange(len(data) + 10), randomness.randrange(len(data))
        assert read(file, position, length) == data[position : position + length]
    assert file.take_findings() == []
    file.close()


@pytest.mark.parametrize("name", SETS)
def test_what_is_requested(name: str) -> None:
    file, counted, manifest, data = open_segment(name)
    chunks, size = manifest.chunks, manifest.chunks.chunk_size
    assert chunks.count >= 3
    assert read(file, size + 5, 10) == data[size + 5 : size + 15]
    start, end = chunks.range(1, 1)
    assert counted.requests == [(start, end - start)]
    read(file, size + 15, 10)
    assert len(counted.requests) == 1
    read(file, 0, len(data))
    start, end = chunks.range(2, chunks.count - 1)
    first = chunks.range(0, 0)[1]
    assert counted.requests[1:] == [(0, first), (start, end - start)]
    file.close()


@pytest.mark.parametrize("name", SETS)
def test_any_threads_read_any_ranges(name: str) -> None:
    file, _, _, data = open_segment(name)

    def is_right(number: int) -> bool:
        randomness = random.Random(number)
        position, length = randomness.randrange(len(data)), randomness.randrange(len(data))
        return read(file, position, length) == data[position : position + length]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(is_right, range(400)))
    file.close()


def test_a_damaged_chunk_is_reported_once(tmp_path: Path) -> None:
    file, counted, manifest, data = open_segment("encrypted")
    file.close()
    start, end = manifest.chunks.range(1, 2)
    stored = bytearray(Path(counted.path).read_bytes())
    stored[start + 40] ^= 1
    stored[end - 1] ^= 1
    path = tmp_path / "object.log"
    path.write_bytes(stored)
    keys = {each: key.read_bytes() for each, key in key_pairs().items()}
    assert manifest.encryption is not None
    damaged = ChunkFile(
        "segment", Location(str(path)).open(), manifest, decryptor(manifest.encryption, keys), len(data)
    )
    size = manifest.chunks.chunk_size
    for _ in range(2):
        assert read(damaged, 0, len(data)) == data[:size] + bytes(2 * size) + data[3 * size :]
    (finding,) = damaged.take_findings()
    assert (finding.file, finding.position) == ("segment", size)
    assert f"chunks 1 to 2 (bytes {start} to {end - 1} of {path})" in finding.message
    damaged.close()


@pytest.mark.parametrize("name", ["plain", *SETS])
def test_what_can_be_read_of_a_cut_object(name: str) -> None:
    path = max(
        (golden() / name / "bucket").glob("**/*.rsm-manifest"), key=lambda each: each.with_suffix(".log").stat().st_size
    )
    manifest = parse_manifest(path.read_bytes())
    chunks = manifest.chunks
    assert readable_size(manifest, chunks.stored_size) == chunks.size
    assert readable_size(manifest, 0) == 0
    second = chunks.range(1, 1)[1]
    assert readable_size(manifest, second) == 2 * chunks.chunk_size
    assert readable_size(manifest, second - 1) == (second - 1 if manifest.is_plain else chunks.chunk_size)
