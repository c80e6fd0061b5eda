"""Manifests of remote segments as Aiven's plugin writes them (``.rsm-manifest``, version 1).

They come from a bucket that others may write to: each member is checked, and what it may be is bounded. Source:
``SegmentManifestV1``, ``SegmentIndexesV1``, ``SegmentEncryptionMetadataV1`` of Aiven's tiered-storage-for-apache-kafka.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from msgspec import Meta

from brokerless.log import names
from brokerless.log.tiered.chunk_index import ChunkIndex, FixedChunks, VariableChunks
from brokerless.values import Int32, Int32OrNone, Int64, Int64OrNone, LenientValue, Uuid, WrongJsonError, from_json

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

IndexName = Literal["offset", "timestamp", "producerSnapshot", "leaderEpoch", "transaction"]
INDEXES: tuple[IndexName, ...] = ("offset", "timestamp", "producerSnapshot", "leaderEpoch", "transaction")


@dataclass(frozen=True, slots=True)
class Encryption:
    """A segment's encryption: its data key, itself encrypted."""

    key_id: str
    """The name of the key pair by which the data key is encrypted."""
    data_key: bytes = field(repr=False)
    aad: bytes = field(repr=False)
    """The additional data that AES-GCM authenticates."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A segment's manifest."""

    topic: str
    topic_id: str
    partition: int
    segment_id: str
    start_offset: int
    end_offset: int
    event_timestamp: int
    epochs: tuple[tuple[int, int], ...]
    """The leader epochs of the segment's batches, each with its first offset."""
    chunks: ChunkIndex
    indexes: Mapping[IndexName, tuple[int, int]]
    """Where each index lies in the index object: its position and size (bytes)."""
    is_compressed: bool
    encryption: Encryption | None
    max_timestamp: int = -1
    broker_id: int = -1

    @property
    def is_plain(self) -> bool:
        """Whether the object of the log is the segment itself."""
        return not self.is_compressed and self.encryption is None


class _TopicPartitionJson(LenientValue, frozen=True):
    topic: str
    partition: Int32

    def __post_init__(self) -> None:
        if not names.is_partition(self.topic, self.partition):
            raise WrongJsonError("topic is no name of a topic")


class _TopicIdPartitionJson(LenientValue, frozen=True):
    topic_id: Uuid
    topic_partition: _TopicPartitionJson


class _SegmentId(LenientValue, frozen=True):
    topic_id_partition: _TopicIdPartitionJson
    id: Uuid


class _SegmentJson(LenientValue, frozen=True):
    remote_log_segment_id: _SegmentId
    start_offset: Int64
    end_offset: Int64
    segment_leader_epochs: Annotated[dict[Int32, Int64], Meta(min_length=1, max_length=_MOST_EPOCHS)]
    event_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64OrNone = -1
    broker_id: Int32OrNone = -1

    def __post_init__(self) -> None:
        if self.end_offset < self.start_offset:
            raise WrongJsonError("endOffset is below startOffset")


class _Index(LenientValue, frozen=True):
    position: Int32
    size: Int32


class _EncryptionJson(LenientValue, frozen=True):
    data_key: str
    aad: str


class _ManifestJson(LenientValue, frozen=True):
    version: Literal["1"]
    chunk_index: FixedChunks | VariableChunks
    compression: bool
    remote_log_segment_metadata: _SegmentJson
    segment_indexes: dict[str, _Index | None]
    encryption: _EncryptionJson | None = None


def parse_manifest(data: bytes) -> Manifest:
    """Raises :class:`WrongJsonError` for what is no manifest, or one of another version."""
    if data.count(b"{") + data.count(b"[") > _MOST_OBJECTS or data.count(b",") > _MOST_EPOCHS + _MOST_OBJECTS:
        raise WrongJsonError("it has more members than a manifest has")
    found = from_json(data, _ManifestJson)
    chunks, encryption = found.chunk_index.index(), _encryption(found.encryption)
    is_plain = not found.compression and encryption is None
    if not is_plain and min(chunks.chunk_size, chunks.size) > _MOST_CHUNK:
        raise WrongJsonError(f"a chunk has more than {_MOST_CHUNK} bytes, the most that is read")
    if not is_plain and chunks.chunk_size < _SMALLEST_CHUNK and chunks.count > _MOST_SMALL_CHUNKS:
        text = f"the segment is cut into {chunks.count} chunks of {chunks.chunk_size} bytes"
        raise WrongJsonError(f"{text}; the smallest that are read have {_SMALLEST_CHUNK}")
    if not found.compression:
        _check_sizes(chunks, 0 if encryption is None else ENCRYPTED)
    segment = found.remote_log_segment_metadata
    named = segment.remote_log_segment_id.topic_id_partition
    places: dict[IndexName, tuple[int, int]] = {}
    for name in INDEXES:
        if (index := found.segment_indexes.get(name)) is not None:
            places[name] = (index.position, index.size)
    return Manifest(
        named.topic_partition.topic,
        named.topic_id,
        named.topic_partition.partition,
        segment_id=segment.remote_log_segment_id.id,
        start_offset=segment.start_offset,
        end_offset=segment.end_offset,
        event_timestamp=segment.event_timestamp_ms,
        epochs=tuple(sorted(segment.segment_leader_epochs.items())),
        chunks=chunks,
        indexes=places,
        is_compressed=found.compression,
        encryption=encryption,
        max_timestamp=segment.max_timestamp_ms,
        broker_id=segment.broker_id,
    )


def dump_manifest(manifest: Manifest) -> bytes:
    """Return a manifest as the plugin writes it in Kafka 4.4."""
    encryption = manifest.encryption
    place = {"topic": manifest.topic, "partition": manifest.partition}
    segment = {
        "remoteLogSegmentId": {
            "topicIdPartition": {"topicId": manifest.topic_id, "topicPartition": place},
            "id": manifest.segment_id,
        },
        "startOffset": manifest.start_offset,
        "endOffset": manifest.end_offset,
        "maxTimestampMs": manifest.max_timestamp,
        "brokerId": manifest.broker_id,
        "eventTimestampMs": manifest.event_timestamp,
        "segmentLeaderEpochs": dict(manifest.epochs),
        # KIP-1058: a broker asks for no index of a segment without aborted transactions.
        "txnIdxEmpty": "transaction" not in manifest.indexes,
    }
    found = {
        "version": "1",
        "chunkIndex": manifest.chunks.members(),
        "segmentIndexes": {name: _place_members(manifest.indexes.get(name)) for name in INDEXES},
        "compression": manifest.is_compressed,
        **({} if encryption is None else {"encryption": encryption_members(encryption)}),
        "remoteLogSegmentMetadata": segment,
    }
    return json.dumps(found, separators=(",", ":")).encode()


def _place_members(place: tuple[int, int] | None) -> dict[str, int] | None:
    return None if place is None else {"position": place[0], "size": place[1]}


def encryption_members(encryption: Encryption) -> dict[str, str]:
    """Return what a manifest has of the encryption of its segment."""
    key, aad = (base64.b64encode(each).decode() for each in (encryption.data_key, encryption.aad))
    return {"dataKey": f"{encryption.key_id}:{key}", "aad": aad}


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


def parse_encryption(data: bytes) -> Encryption:
    """Parse what :func:`encryption_members` returned, as JSON. Raises :class:`WrongJsonError`."""
    encryption = _encryption(from_json(data, _EncryptionJson))
    assert encryption is not None
    return encryption


def _encryption(found: _EncryptionJson | None) -> Encryption | None:
    if found is None:
        return None
    key_id, colon, key = found.data_key.partition(":")
    if not colon or not _KEY_ID.fullmatch(key_id) or not key_id.isprintable():
        raise WrongJsonError("dataKey does not begin with the name of a key pair")
    return Encryption(key_id, _bytes(key, "dataKey"), _bytes(found.aad, "aad"))


def _bytes(text: str, name: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise WrongJsonError(f"{name} is not Base64") from error
    if len(data) > 1 << 13:
        raise WrongJsonError(f"{name} is too long")
    return data
