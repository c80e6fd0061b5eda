"""Reads a segment whose object is made of compressed or encrypted chunks: of any range, only the chunks that it is in.

A chunk that cannot be decoded is read as zeros, so that what is before and after it is found at its positions; it is
among the findings, with its place in the object.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from threading import Lock, local

import zstandard

from brokerless.findings import Finding, Kind
from brokerless.log.storage.files import File, RemoteFile
from brokerless.log.tiered.decryption import DecryptionError, Decryptor
from brokerless.log.tiered.manifest import ENCRYPTED, Manifest

_CACHED = 24 << 20
"""Bytes of chunks that are kept, of which a part was read: what is next to it may be read as well."""
_FETCHED = 32 << 20
"""Bytes of an object that are requested at once."""
_WINDOWS = 6
"""Threads that may decode at a time, about."""


@dataclass(frozen=True, slots=True)
class _ChunkDamage:
    chunk: int
    reason: str


class ChunkFile:
    """A segment by its chunks, for :class:`RemoteFile`, read by any threads. ``size``: bytes that can be read, fewer
    than the segment has where the object is cut. ``path``: where the segment is found, for findings."""

    def __init__(self, path: str, file: File, manifest: Manifest, decrypt: Decryptor | None, size: int) -> None:
        self._path, self._file, self._manifest, self._decrypt, self.size = path, file, manifest, decrypt, size
        self._lock, self._own = Lock(), local()
        self._chunks: OrderedDict[int, memoryview] = OrderedDict()
        file.expect_windows(_WINDOWS)
        self._findings: list[Finding] = []
        self._reported: set[int] = set()

    @property
    def is_far(self) -> bool:
        """Whether its object is in a store."""
        return isinstance(self._file, RemoteFile) and self._file.is_far

    @property
    def chunk_size(self) -> int:
        """Bytes of a chunk but the last."""
        return self._manifest.chunks.chunk_size

    def read_into(self, position: int, memory: memoryview) -> int:
        """Reads the bytes from a position on into memory; returns how many they were. Raises :class:`UnreadableError`
        where the storage fails."""
        length = min(len(memory), self.size - position)
        if length <= 0:
            return 0
        size, parts = self.chunk_size, dict[int, tuple[memoryview, int]]()
        for chunk in range(position // size, (position + length - 1) // size + 1):
            begin, end = max(position, chunk * size), min(position + length, (chunk + 1) * size)
            parts[chunk] = memory[begin - position : end - position], begin - chunk * size
        with self._lock:
            known = {chunk: self._chunks[chunk] for chunk in parts if chunk in self._chunks}
        for chunk, data in known.items():
            part, start = parts[chunk]
            part[:] = data[start : start + len(part)]
        for first, last in self._runs([chunk for chunk in parts if chunk not in known]):
            self._load(first, last, parts)
        return length

    def kept_after(self, position: int) -> int:
        """Return how many bytes from a position on are in a chunk that is kept."""
        chunk = position // self.chunk_size
        with self._lock:
            data = self._chunks.get(chunk)
        return 0 if data is None else max(0, chunk * self.chunk_size + len(data) - position)

    def take_findings(self) -> list[Finding]:
        """Return the findings about chunks that could not be decoded since the last call."""
        with self._lock:
            taken, self._findings = self._findings, []
            return taken

    def close(self) -> None:
        with self._lock:
            self._chunks.clear()
        self._file.close()

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

    def _load(self, first: int, last: int, parts: Mapping[int, tuple[memoryview, int]]) -> None:
        """Requests chunks that follow one another, and decodes each into its part of memory; one of which a part is
        needed alone is kept. What two threads need at a time is requested twice."""
        index = self._manifest.chunks
        start, end = index.range(first, last)
        stored, damaged = self._file.read(start, end - start).data, list[_ChunkDamage]()
        for chunk in range(first, last + 1):
            begin, stop = index.range(chunk, chunk)
            part, offset = parts[chunk]
            is_whole = len(part) == index.size_of(chunk)
            memory = part if is_whole else memoryview(bytearray(index.size_of(chunk)))
            reason = self._decode(stored[begin - start : stop - start], stop - begin, memory)
            if reason is not None:
                damaged.append(_ChunkDamage(chunk, reason))
                memory[:] = bytes(len(memory))
            if not is_whole:
                part[:] = memory[offset : offset + len(part)]
                self._keep(chunk, memory)
        with self._lock:
            self._report(damaged)

    def _keep(self, chunk: int, data: memoryview) -> None:
        with self._lock:
            self._chunks[chunk] = data
            held = sum(map(len, self._chunks.values()))
            while held > _CACHED and len(self._chunks) > 2:
                held -= len(self._chunks.popitem(last=False)[1])

    def _decode(self, stored: memoryview, expected: int, memory: memoryview) -> str | None:
        """Decodes a chunk, which has as many bytes as ``memory``; returns why it cannot be decoded."""
        if len(stored) < expected:
            return "the object ends before it does"
        try:
            if self._decrypt is None:
                return _decompress(stored, memory)
            if not self._manifest.is_compressed:
                return _wrong_size(len(stored) - ENCRYPTED, memory) or self._decrypt.into(stored, memory)
            plain = self._scratch(max(0, len(stored) - ENCRYPTED))
            return self._decrypt.into(stored, plain) or _decompress(plain, memory)
        except DecryptionError as error:
            return str(error)

    def _scratch(self, size: int) -> memoryview:
        """Memory of this thread, used again for each chunk: new memory costs more than decryption."""
        room: bytearray = getattr(self._own, "room", bytearray())
        if len(room) < size:
            room = self._own.room = bytearray(size)
        return memoryview(room)[:size]

    def _report(self, damaged: list[_ChunkDamage]) -> None:
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
            self._findings.append(Kind.REMOTE_CHUNK_INVALID.at(self._path, text, position=position))


def _decompress(stored: memoryview, memory: memoryview) -> str | None:
    """Decompresses a frame into memory of its size; returns why that cannot be done."""
    size, done = len(memory), 0
    try:
        if zstandard.frame_content_size(stored) != size:
            return f"it is no zstd frame of {size} bytes"
        # Of a whole frame and memory for all of it, libzstd makes one call, as it does to decompress at once.
        with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(stored, len(stored) or 1) as reader:
            while done < size and (more := reader.readinto(memory[done:])):
                done += more
            done += len(reader.read(1))
    except zstandard.ZstdError as error:
        return f"it cannot be decompressed: {error}"
    return _wrong_size(done, memory)


def _wrong_size(found: int, memory: memoryview) -> str | None:
    size = len(memory)
    return None if found == size else f"it has {found} bytes, and not the {size} of its place"


def readable_size(manifest: Manifest, stored: int) -> int:
    """Return how many bytes of a segment can be read of an object with ``stored`` bytes: all, unless it is cut."""
    index = manifest.chunks
    if manifest.is_plain or stored >= index.stored_size:
        return min(stored, index.size) if manifest.is_plain else index.size
    if index.ends is not None:
        whole = int((index.ends <= stored).sum())
    else:
        whole = min(stored // index.stored, index.count - 1)
    return whole * index.chunk_size
