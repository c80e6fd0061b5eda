"""Cuts a segment into chunks that are compressed and encrypted, each on its own, as its bytes come.

Source: ``SegmentTransformation`` (``BaseTransformChunkEnumeration``, ``CompressionChunkEnumeration``,
``EncryptionChunkEnumeration``, ``TransformFinisher``) of Aiven's tiered-storage-for-apache-kafka.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import zstandard

from brokerless.log.tiered.chunk_index import ChunkIndex
from brokerless.log.tiered.manifest import ENCRYPTED
from brokerless.log.tiered.writing.encryption import Encryptor


class ChunkWriter:
    """Takes the bytes of a segment, and gives those of its object to ``write``. ``chunk_size``: bytes of a chunk."""

    def __init__(
        self,
        write: Callable[[bytes | memoryview], object],
        chunk_size: int,
        encrypt: Encryptor | None,
        *,
        is_compressed: bool,
    ) -> None:
        self._write, self._chunk_size, self._encrypt = write, chunk_size, encrypt
        self._compress = zstandard.ZstdCompressor().compress if is_compressed else None
        self._started = bytearray()
        self._stored: list[int] = []
        self.size = 0

    def add(self, data: memoryview) -> None:
        """Takes bytes that come next."""
        self.size += len(data)
        if self._compress is None and self._encrypt is None:
            self._write(data)
            return
        if self._started:
            lacking = self._chunk_size - len(self._started)
            self._started += data[:lacking]
            data = data[lacking:]
            if len(self._started) < self._chunk_size:
                return
            self._store(bytes(self._started))
            self._started.clear()
        whole = len(data) // self._chunk_size * self._chunk_size
        for start in range(0, whole, self._chunk_size):
            self._store(data[start : start + self._chunk_size])
        self._started += data[whole:]

    def finish(self) -> ChunkIndex:
        """Writes the last chunk, and returns where each of them is."""
        if self._started:
            self._store(bytes(self._started))
        if self._compress is not None:
            return ChunkIndex(self.size, self._chunk_size, ends=np.cumsum(np.array(self._stored, np.int64)))
        more = 0 if self._encrypt is None else ENCRYPTED
        last = (self.size - 1) % self._chunk_size + 1
        return ChunkIndex(self.size, self._chunk_size, self._chunk_size + more, last + more)

    def _store(self, chunk: bytes | memoryview) -> None:
        stored = chunk if self._compress is None else self._compress(chunk)
        stored = stored if self._encrypt is None else self._encrypt(stored)
        self._stored.append(len(stored))
        self._write(stored)
