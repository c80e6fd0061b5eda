"""Writes a segment as three objects: its log as batches come, then its indexes, then the manifest. Readers take objects
without a manifest for an interrupted upload.

Source: ``RemoteStorageManager.copyLogSegmentData`` of Aiven's tiered-storage-for-apache-kafka.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Literal

import numpy as np
import xxhash
from numpy.typing import NDArray

from brokerless import clock
from brokerless.errors import UnwritableError
from brokerless.format.read.batch_headers import read_headers
from brokerless.log.checkpoint.topic_ids import random_id
from brokerless.log.storage.location import Location
from brokerless.log.storage.object_store import new_object
from brokerless.log.storage.write_errors import storage_errors
from brokerless.log.tiered.chunk_index import ChunkIndex
from brokerless.log.tiered.manifest import INDEXES, IndexName, Manifest, dump_manifest
from brokerless.log.tiered.object_names import ObjectKind, object_name, segment_directory
from brokerless.log.tiered.writing.chunks import ChunkWriter
from brokerless.log.tiered.writing.encryption import DataKey, Encryptor

DEFAULT_CHUNK_SIZE = 4 << 20

Compression = Literal["none", "all", "heuristic"]
"""Which segments are compressed. ``heuristic``: those whose first batch is not compressed."""


@dataclass(frozen=True, slots=True)
class ObjectFormat:
    """The form in which segments are stored."""

    chunk_size: int = DEFAULT_CHUNK_SIZE
    """Bytes of a chunk; each chunk is compressed and encrypted on its own."""
    compression: Compression = "none"
    data_key: DataKey | None = None
    """The key that encrypts them, None where they are not encrypted."""


@dataclass(frozen=True, slots=True)
class UploadPlace:
    """The place where the segments of a partition are written."""

    bucket: Location
    """The directory or URL that has the topics."""
    topic: str
    topic_id: str
    partition: int
    broker_id: int = -1
    """The broker whose log they are, -1 for none."""

    @property
    def directory(self) -> Location:
        return segment_directory(self.bucket, self.topic, self.topic_id, self.partition)


@dataclass(frozen=True, slots=True)
class SegmentEnd:
    """A segment's end: what is known of the segment when its last batch was written."""

    end_offset: int
    max_timestamp: int
    """The highest timestamp (ms)."""
    epochs: tuple[tuple[int, int], ...]
    """The leader epochs in the segment, each with its first offset in it."""
    indexes: Mapping[IndexName, bytes]
    """The content of each index; without ``transaction`` where nothing was aborted."""


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """A segment that was written."""

    segment_id: str
    start_offset: int
    end_offset: int
    """The segment's last offset."""
    max_timestamp: int
    size: int
    """Bytes of its log."""
    sha256: str
    """The SHA-256 of its log."""
    objects: Mapping[ObjectKind, tuple[int, str]]
    """The size (bytes) and XXH3-128 of each object that was made of it."""
    producers: bytes = b""
    """The producers after it, as in a snapshot of producers."""


class SegmentUpload:
    """A segment that is being written. What is left when :meth:`finish` was not called is no object, or one that
    readers pass over."""

    def __init__(self, place: UploadPlace, start_offset: int, how: ObjectFormat) -> None:
        self._place, self._start, self._how = place, start_offset, how
        self._id = random_id()
        self._sha256, self._xxh3 = hashlib.sha256(), xxhash.xxh3_128()
        self._stored = 0
        self._chunks: ChunkWriter | None = None
        self._encrypt = None if how.data_key is None else Encryptor(how.data_key)
        self._is_compressed = False
        self._open = ExitStack()

    def write(self, data: NDArray[np.uint8]) -> None:
        """Takes whole batches. Raises :class:`UnwritableError`."""
        if self._chunks is None:
            self._begin(data)
        assert self._chunks is not None
        self._sha256.update(data.data)
        self._chunks.add(data.data)

    def finish(self, end: SegmentEnd) -> StoredSegment:
        """Completes the log's object, and writes the others. Raises :class:`UnwritableError`."""
        assert self._chunks is not None
        chunks = self._chunks.finish()
        self._open.close()
        indexes, places = self._indexes(end.indexes)
        manifest = dump_manifest(self._manifest(chunks, end, places))
        objects: dict[ObjectKind, tuple[int, str]] = {"log": (self._stored, self._xxh3.hexdigest())}
        contents: dict[ObjectKind, bytes] = {"indexes": indexes, "rsm-manifest": manifest}
        for kind, data in contents.items():
            self._put(kind, data)
            objects[kind] = len(data), xxhash.xxh3_128(data).hexdigest()
        return StoredSegment(
            self._id, self._start, end.end_offset, max_timestamp=end.max_timestamp, size=chunks.size,
            sha256=self._sha256.hexdigest(), objects=objects,
            producers=end.indexes.get("producerSnapshot", b""),
        )  # fmt: skip

    def abandon(self) -> None:
        """Drops what was written of it, as far as it is no object yet."""
        with suppress(UnwritableError, InterruptedError):
            self._open.__exit__(InterruptedError, InterruptedError(), None)

    def _begin(self, first: NDArray[np.uint8]) -> None:
        self._is_compressed = self._how.compression == "all" or (
            self._how.compression == "heuristic" and not read_headers(first, np.zeros(1, np.int64)).codec[0]
        )
        location = self._location("log")
        sink = self._open.enter_context(new_object(location))

        def write(data: bytes | memoryview) -> None:
            self._xxh3.update(data)
            self._stored += len(data)
            with storage_errors(location.path):
                sink.write(data)

        self._chunks = ChunkWriter(write, self._how.chunk_size, self._encrypt, is_compressed=self._is_compressed)

    def _indexes(self, indexes: Mapping[IndexName, bytes]) -> tuple[bytes, dict[IndexName, tuple[int, int]]]:
        """Return the object of all indexes, and where each lies in it: position and size (bytes)."""
        content, places = b"", dict[IndexName, tuple[int, int]]()
        for name in INDEXES:
            if name in indexes:
                data = indexes[name]
                stored = data if self._encrypt is None or not data else self._encrypt(data)
                places[name] = len(content), len(stored)
                content += stored
        return content, places

    def _manifest(self, chunks: ChunkIndex, end: SegmentEnd, places: Mapping[IndexName, tuple[int, int]]) -> Manifest:
        place = self._place
        return Manifest(
            place.topic, place.topic_id, place.partition, segment_id=self._id, start_offset=self._start,
            end_offset=end.end_offset, event_timestamp=clock.now(), epochs=end.epochs, chunks=chunks, indexes=places,
            is_compressed=self._is_compressed, encryption=None if self._encrypt is None else self._encrypt.encryption,
            max_timestamp=end.max_timestamp, broker_id=place.broker_id,
        )  # fmt: skip

    def _put(self, kind: ObjectKind, data: bytes) -> None:
        with new_object(self._location(kind)) as sink:
            sink.write(data)

    def _location(self, kind: ObjectKind) -> Location:
        return self._place.directory / object_name(self._start, self._id, kind)
