"""Reads a segment whose object is made of compressed or encrypted chunks: of any range, only the chunks that it is in.

A chunk that cannot be decoded is read as zeros, so that what is before and after it is found at its positions; it is
among the findings, with its place in the object.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby

import zstandard

from brokerless.findings import Finding, Kind
from brokerless.log.storage.files import File
from brokerless.log.tiered.decryption import Decrypt, DecryptionError
from brokerless.log.tiered.manifest import Manifest

_CACHED = 24 << 20
"""Bytes of chunks that are kept, besides those of the last read: a batch may begin in one and end in the next."""
_FETCHED = 32 << 20
"""Bytes of an object that are requested at once."""
_THREADS = 4
_PARALLEL_FROM = 1 << 20
"""Bytes of chunks for which threads pay off."""


@dataclass(frozen=True, slots=True)
class _Damage:
    chunk: int
    reason: str


class ChunkFile:
    """A segment by its chunks, for :class:`RemoteFile`: with ``seek``, ``read`` and ``close``. ``size``: bytes that can
    be read, fewer than the segment has where the object is cut. ``path``: where the segment is found, for findings."""

    def __init__(self, path: str, file: File, manifest: Manifest, decrypt: Decrypt | None, size: int) -> None:
        self._path, self._file, self._manifest, self._decrypt, self.size = path, file, manifest, decrypt, size
        self._position = 0
        self._chunks: OrderedDict[int, bytes] = OrderedDict()
        self._findings: list[Finding] = []
        self._reported: set[int] = set()

    def seek(self, position: int) -> None:
        self._position = position

    def read(self, length: int) -> bytes:
        """At most so many bytes from the position on. Raises :class:`UnreadableError` where the storage fails."""
        length = min(length, self.size - self._position)
        if length <= 0:
            return b""
        size = self._manifest.chunks.chunk_size
        first, last = self._position // size, (self._position + length - 1) // size
        chunks = self._load(first, last)
        start = self._position - first * size
        self._position += length
        if first == last:
            return chunks[0][start : start + length]
        chunks[-1] = memoryview(chunks[-1])[: start + length - (last - first) * size]  # type: ignore[assignment]
        chunks[0] = memoryview(chunks[0])[start:]  # type: ignore[assignment]
        return b"".join(chunks)

    def take_findings(self) -> list[Finding]:
        """Chunks that could not be decoded since the last call."""
        taken, self._findings = self._findings, []
        return taken

    def close(self) -> None:
        self._chunks.clear()
        self._file.close()

    def _load(self, first: int, last: int) -> list[bytes]:
        found = {chunk: self._chunks[chunk] for chunk in range(first, last + 1) if chunk in self._chunks}
        missing = [chunk for chunk in range(first, last + 1) if chunk not in found]
        damaged: list[_Damage] = []
        for start, end in self._runs(missing):
            for chunk, result in zip(range(start, end + 1), self._decoded(start, end), strict=True):
                if isinstance(result, _Damage):
                    damaged.append(result)
                    result = bytes(self._manifest.chunks.size_of(chunk))
                found[chunk] = result
        self._report(damaged)
        for chunk in range(first, last + 1):
            self._chunks[chunk] = found[chunk]
            self._chunks.move_to_end(chunk)
        held = sum(map(len, self._chunks.values()))
        while held > _CACHED and len(self._chunks) > 2:
            held -= len(self._chunks.popitem(last=False)[1])
        return [found[chunk] for chunk in range(first, last + 1)]

    def _runs(self, missing: list[int]) -> Iterator[tuple[int, int]]:
        """The first and last of chunks that are requested at once."""
        index, first = self._manifest.chunks, None
        for at, chunk in enumerate(missing):
            first = chunk if first is None else first
            following = missing[at + 1] if at + 1 < len(missing) else None
            start, end = index.range(first, chunk)
            if following != chunk + 1 or end - start >= _FETCHED:
                yield first, chunk
                first = None

    def _decoded(self, first: int, last: int) -> list[bytes | _Damage]:
        index = self._manifest.chunks
        start, end = index.range(first, last)
        data = self._file.read(start, end - start).data

        def decode(chunk: int) -> bytes | _Damage:
            begin, stop = index.range(chunk, chunk)
            return self._decode(chunk, data[begin - start : stop - start], stop - begin)

        chunks = range(first, last + 1)
        if first == last or end - start < _PARALLEL_FROM:
            return [decode(chunk) for chunk in chunks]
        with ThreadPoolExecutor(_THREADS) as pool:
            return list(pool.map(decode, chunks))

    def _decode(self, chunk: int, stored: memoryview, expected: int) -> bytes | _Damage:
        size = self._manifest.chunks.size_of(chunk)
        data: memoryview | bytes = stored
        try:
            if len(stored) < expected:
                return _Damage(chunk, "the object ends before it does")
            if self._decrypt is not None:
                data = self._decrypt(data)
            if self._manifest.is_compressed:
                if zstandard.frame_content_size(data) != size:
                    return _Damage(chunk, f"it is no zstd frame of {size} bytes")
                data = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompress(data, max_output_size=size)
        except DecryptionError as error:
            return _Damage(chunk, str(error))
        except zstandard.ZstdError as error:
            return _Damage(chunk, f"it cannot be decompressed: {error}")
        if len(data) != size:
            return _Damage(chunk, f"it has {len(data)} bytes, and not the {size} of its place")
        return bytes(data)

    def _report(self, damaged: list[_Damage]) -> None:
        new = [each for each in damaged if each.chunk not in self._reported]
        self._reported.update(each.chunk for each in new)
        # Those that follow one another for one reason are one finding.
        for _, group in groupby(enumerate(new), lambda each: (each[1].chunk - each[0], each[1].reason)):
            run = [each for _, each in group]
            first, last = run[0].chunk, run[-1].chunk
            start, end = self._manifest.chunks.range(first, last)
            named = f"chunk {first}" if first == last else f"chunks {first} to {last}"
            text = f"{named} (bytes {start} to {end - 1} of {self._file.path}) cannot be read: {run[0].reason}"
            position = first * self._manifest.chunks.chunk_size
            self._findings.append(Finding("error", Kind.REMOTE_CHUNK_INVALID, self._path, position, None, text))


def readable_size(manifest: Manifest, stored: int) -> int:
    """Bytes of a segment that can be read of an object with ``stored`` bytes: all, unless it is cut."""
    index = manifest.chunks
    if manifest.is_plain or stored >= index.stored_size:
        return min(stored, index.size) if manifest.is_plain else index.size
    if index.ends is not None:
        whole = int((index.ends <= stored).sum())
    else:
        whole = min(stored // index.stored, index.count - 1)
    return whole * index.chunk_size
