"""Manifests of remote segments as Aiven's plugin writes them (``.rsm-manifest``, version 1).

They come from a bucket that others may write to: each member is checked, and what it may be is bounded. Source:
``SegmentManifestV1``, ``SegmentIndexesV1``, ``SegmentEncryptionMetadataV1`` of Aiven's tiered-storage-for-apache-kafka.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from brokerless.bounds import MAX_INT32
from brokerless.log import names
from brokerless.log.tiered.chunk_index import ChunkIndex, parse_chunk_index
from brokerless.strict_json import WrongJsonError, as_flag, as_integer, as_object, as_text, member, parse_object

LIMIT = 4 << 20
"""Bytes of a manifest: what the largest chunk index takes that is read, and the rest."""
IV_SIZE, TAG_SIZE = 12, 16
"""Bytes before and after what AES-GCM encrypts."""
ENCRYPTED = IV_SIZE + TAG_SIZE
_MOST_CHUNK = 256 << 20
"""Bytes of a chunk that is decompressed or decrypted, and so held in memory as a whole."""
_SMALLEST_CHUNK, _MOST_SMALL_CHUNKS = 1 << 10, 1 << 12
"""Bytes of a chunk, and how many chunks may have fewer: each takes a call of its own to decrypt or decompress."""
_MOST_EPOCHS = 100_000
_MOST_OBJECTS = 1000
"""Objects and arrays in a manifest, which has about a dozen: JSON of nothing else takes 60 times its size in memory."""
_KEY_ID = re.compile(r"[^:]{1,200}")
_ID = re.compile(r"[A-Za-z0-9_-]{22}")

IndexName = Literal["offset", "timestamp", "producerSnapshot", "leaderEpoch", "transaction"]
INDEXES: tuple[IndexName, ...] = ("offset", "timestamp", "producerSnapshot", "leaderEpoch", "transaction")


@dataclass(frozen=True, slots=True)
class Encryption:
    """How a segment's data key is encrypted: ``key_id`` names the key pair. ``aad``: what AES-GCM authenticates."""

    key_id: str
    data_key: bytes = field(repr=False)
    aad: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a manifest says of a segment. ``indexes``: where each lies in the index object, its position and size
    (bytes). ``epochs``: the leader epochs of its batches, each with its first offset."""

    topic: str
    topic_id: str
    partition: int
    segment_id: str
    start_offset: int
    end_offset: int
    event_timestamp: int
    epochs: tuple[tuple[int, int], ...]
    chunks: ChunkIndex
    indexes: Mapping[IndexName, tuple[int, int]]
    is_compressed: bool
    encryption: Encryption | None
    max_timestamp: int = -1
    broker_id: int = -1

    @property
    def is_plain(self) -> bool:
        """Whether the object of the log is the segment itself."""
        return not self.is_compressed and self.encryption is None


def parse_manifest(data: bytes) -> Manifest:
    """Raises :class:`WrongJsonError` for what is no manifest, or one of another version."""
    if data.count(b"{") + data.count(b"[") > _MOST_OBJECTS or data.count(b",") > _MOST_EPOCHS + _MOST_OBJECTS:
        raise WrongJsonError("it has more members than a manifest has")
    found = parse_object(data)
    version = as_text(member(found, "version"), "version")
    if version != "1":
        raise WrongJsonError("version is not 1, the only one that is read")
    chunks = parse_chunk_index(as_object(member(found, "chunkIndex"), "chunkIndex"))
    is_compressed = as_flag(member(found, "compression"), "compression")
    encryption = _encryption(found.get("encryption"))
    if (is_compressed or encryption is not None) and min(chunks.chunk_size, chunks.size) > _MOST_CHUNK:
        raise WrongJsonError(f"a chunk has more than {_MOST_CHUNK} bytes, the most that is read")
    is_plain = not is_compressed and encryption is None
    if not is_plain and chunks.chunk_size < _SMALLEST_CHUNK and chunks.count > _MOST_SMALL_CHUNKS:
        text = f"the segment is cut into {chunks.count} chunks of {chunks.chunk_size} bytes"
        raise WrongJsonError(f"{text}; the smallest that are read have {_SMALLEST_CHUNK}")
    if not is_compressed:
        _check_sizes(chunks, 0 if encryption is None else ENCRYPTED)
    segment = as_object(member(found, "remoteLogSegmentMetadata"), "remoteLogSegmentMetadata")
    named = as_object(member(segment, "remoteLogSegmentId"), "remoteLogSegmentId")
    of_partition = as_object(member(named, "topicIdPartition"), "topicIdPartition")
    topic_partition = as_object(member(of_partition, "topicPartition"), "topicPartition")
    topic = as_text(member(topic_partition, "topic"), "topic")
    partition = as_integer(member(topic_partition, "partition"), "partition", 0, MAX_INT32)
    named_so = names.parse_partition_directory(names.partition_directory(topic, partition))
    if named_so is None or named_so.state != "live":
        raise WrongJsonError("topic is no name of a topic")
    start_offset = as_integer(member(segment, "startOffset"), "startOffset")
    return Manifest(
        topic,
        _id(member(of_partition, "topicId"), "topicId"),
        partition,
        _id(member(named, "id"), "id"),
        start_offset,
        as_integer(member(segment, "endOffset"), "endOffset", start_offset),
        as_integer(segment.get("eventTimestampMs", 0), "eventTimestampMs"),
        _epochs(as_object(member(segment, "segmentLeaderEpochs"), "segmentLeaderEpochs")),
        chunks,
        _indexes(as_object(member(found, "segmentIndexes"), "segmentIndexes")),
        is_compressed,
        encryption,
        as_integer(segment.get("maxTimestampMs", -1), "maxTimestampMs", -1),
        as_integer(segment.get("brokerId", -1), "brokerId", -1, MAX_INT32),
    )


def _check_sizes(chunks: ChunkIndex, more: int) -> None:
    """Chunks that are not compressed have their sizes in the object."""
    if chunks.ends is not None:
        if chunks.stored_size != chunks.size + more * chunks.count:
            raise WrongJsonError("the chunks do not have the segment's size")
    elif chunks.count and (
        (chunks.count > 1 and chunks.stored != chunks.chunk_size + more)
        or chunks.stored_last != chunks.size_of(chunks.count - 1) + more
    ):
        raise WrongJsonError("the sizes of chunks do not make the segment's")


def _encryption(value: Any) -> Encryption | None:
    if value is None:
        return None
    found = as_object(value, "encryption")
    key_id, colon, key = as_text(member(found, "dataKey"), "dataKey").partition(":")
    if not colon or not _KEY_ID.fullmatch(key_id) or not key_id.isprintable():
        raise WrongJsonError("dataKey does not begin with the name of a key pair")
    return Encryption(key_id, _bytes(key, "dataKey"), _bytes(as_text(member(found, "aad"), "aad"), "aad"))


def _bytes(text: str, name: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise WrongJsonError(f"{name} is not Base64") from error
    if len(data) > 1 << 13:
        raise WrongJsonError(f"{name} is too long")
    return data


def _id(value: Any, name: str) -> str:
    text = as_text(value, name)
    if not _ID.fullmatch(text):
        raise WrongJsonError(f"{name} is no ID")
    return text


def _epochs(found: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    if not 0 < len(found) <= _MOST_EPOCHS:
        raise WrongJsonError(f"segmentLeaderEpochs has none, or more than {_MOST_EPOCHS}")
    epochs: list[tuple[int, int]] = []
    for epoch, offset in found.items():
        if not re.fullmatch("[0-9]{1,10}", epoch) or int(epoch) > MAX_INT32:
            raise WrongJsonError("segmentLeaderEpochs has what is no leader epoch")
        epochs.append((int(epoch), as_integer(offset, "segmentLeaderEpochs")))
    return tuple(sorted(epochs))


def _indexes(found: Mapping[str, Any]) -> dict[IndexName, tuple[int, int]]:
    indexes: dict[IndexName, tuple[int, int]] = {}
    for name in INDEXES:
        if found.get(name) is None:
            continue
        one = as_object(found[name], name)
        indexes[name] = (
            as_integer(member(one, "position"), f"{name}.position", 0, MAX_INT32),
            as_integer(member(one, "size"), f"{name}.size", 0, MAX_INT32),
        )
    return indexes
