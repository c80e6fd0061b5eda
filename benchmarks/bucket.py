"""Buckets as Aiven's plugin writes them, of a partition that lies on a disk: plain, compressed, encrypted.

Source of the layout: ``SegmentManifestV1``, ``ChunkSizesBinaryCodec`` and ``RsaEncryptionProvider`` of Aiven's
tiered-storage-for-apache-kafka, as :mod:`brokerless.log.tiered` reads it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import zstandard
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from brokerless.format import layouts
from brokerless.log.checkpoint.leader_epochs import Epochs, leader_epoch_checkpoint
from brokerless.log.producer.snapshot import producer_snapshot
from brokerless.log.tiered.lineage import parse_lineage

CHUNK = 4 << 20
"""Bytes of a chunk, as the plugin's documentation has it (``chunk.size``)."""
KEY_ID = "key1"
_HASH = hashlib.sha3_512
_DATA_KEY, _AAD, _IV = 32, 32, 12
_INDEXES = (
    ("offset", "index"),
    ("timestamp", "timeindex"),
    ("transaction", "txnindex"),
)

_NO_PRODUCERS = np.empty(0, layouts.PRODUCER_SNAPSHOT_ENTRY)

Transform = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Form:
    """What becomes of each chunk. ``key``: a private key (PEM) whose public part encrypts; None for none."""

    is_compressed: bool = False
    key: bytes | None = None


def write_bucket(partition: Path, bucket: Path, form: Form, chunk_size: int = CHUNK) -> None:
    """Writes all segments of a partition's directory (``events-0``) as objects. The last one is copied as well."""
    topic, _, number = partition.name.rpartition("-")
    topic_id = _id(topic)
    target = bucket / f"{topic}-{topic_id}" / number
    target.mkdir(parents=True)
    logs = sorted(partition.glob("*.log"))
    checkpoint = partition / "leader-epoch-checkpoint"
    epochs = parse_lineage(checkpoint.read_bytes()) if checkpoint.exists() else [(0, int(logs[0].stem))]
    for log, following in pairwise([*logs, None]):
        assert log is not None
        start_offset = int(log.stem)
        segment_id = _id(f"{partition.name}-{log.stem}")
        end_offset = last_offset(log) if following is None else int(following.stem) - 1
        stem = target / f"{start_offset:020}-{segment_id}"
        manifest: dict[str, Any] = {"version": "1"}
        encryption, encrypt = _encryption(form.key)
        sizes = _write_chunks(log, stem.with_suffix(".log"), form, encrypt, chunk_size)
        manifest["chunkIndex"] = _chunk_index(log.stat().st_size, chunk_size, sizes, form.is_compressed)
        known = [each for each in epochs if each[1] <= end_offset]
        indexes, data = _indexes(log, following, leader_epoch_checkpoint(known), encrypt)
        stem.with_suffix(".indexes").write_bytes(data)
        manifest |= {"segmentIndexes": indexes, "compression": form.is_compressed}
        if encryption is not None:
            manifest["encryption"] = encryption
        of_topic = {"topicId": topic_id, "topicPartition": {"topic": topic, "partition": int(number)}}
        manifest["remoteLogSegmentMetadata"] = {
            "remoteLogSegmentId": {"topicIdPartition": of_topic, "id": segment_id},
            "startOffset": start_offset,
            "endOffset": end_offset,
            "maxTimestampMs": 1,
            "brokerId": 1,
            "eventTimestampMs": 1,
            "segmentLeaderEpochs": _within(known, start_offset),
        }
        stem.with_suffix(".rsm-manifest").write_text(json.dumps(manifest))


def _within(epochs: Epochs, start_offset: int) -> dict[str, int]:
    """The epochs of a segment, of those up to its end, each with its first offset there."""
    before = [epoch for epoch, offset in epochs if offset <= start_offset][-1:]
    later = {epoch: offset for epoch, offset in epochs if offset > start_offset}
    return {str(epoch): offset for epoch, offset in {**dict.fromkeys(before, start_offset), **later}.items()}


def last_offset(log: Path) -> int:
    """The last offset of a segment, by its batches' headers."""
    import brokerless

    lasts = [batch.column("lastOffset") for batch in brokerless.open(log).batches(["lastOffset"])]
    return max(int(each[-1].as_py()) for each in lasts if len(each))


def _id(name: str) -> str:
    """An ID as Kafka's, always the same for a name."""
    return base64.urlsafe_b64encode(hashlib.md5(name.encode()).digest()).decode().rstrip("=")


def _write_chunks(log: Path, target: Path, form: Form, encrypt: Transform, chunk_size: int) -> list[int]:
    compress = zstandard.ZstdCompressor().compress if form.is_compressed else bytes
    sizes: list[int] = []
    with log.open("rb") as source, target.open("wb") as sink:
        while chunk := source.read(chunk_size):
            sizes.append(sink.write(encrypt(compress(chunk))))
    return sizes


def _chunk_index(size: int, chunk_size: int, sizes: Sequence[int], is_variable: bool) -> dict[str, Any]:
    common = {"originalChunkSize": chunk_size, "originalFileSize": size}
    if not is_variable:
        return {"type": "fixed", **common, "transformedChunkSize": sizes[0], "finalTransformedChunkSize": sizes[-1]}
    return {"type": "variable", **common, "transformedChunks": encode_sizes(sizes)}


def encode_sizes(sizes: Sequence[int]) -> str:
    """What each chunk takes in the object (bytes), at least one, as a manifest has it."""
    if len(sizes) == 1:
        packed = b"".join(each.to_bytes(4, "big") for each in (1, sizes[0]))
    else:
        base = min(sizes[:-1])
        width = max(1, (max(sizes[:-1]) - base).bit_length() + 7 >> 3)
        head = len(sizes).to_bytes(4, "big") + base.to_bytes(4, "big") + bytes([width])
        packed = head + b"".join((each - base).to_bytes(width, "big") for each in sizes[:-1])
        packed += sizes[-1].to_bytes(4, "big")
    return base64.b64encode(zstandard.ZstdCompressor().compress(packed)).decode()


def _indexes(log: Path, following: Path | None, epochs: bytes, encrypt: Transform) -> tuple[dict[str, Any], bytes]:
    """Where each index lies in the object of all, and that object. A snapshot of producers is that at the end."""
    found: dict[str, Any] = {}
    data = b""
    own = [(name, log.with_suffix(f".{suffix}")) for name, suffix in _INDEXES]
    parts = [(name, path.read_bytes() if path.exists() else b"") for name, path in own]
    snapshot = None if following is None else following.with_suffix(".snapshot")
    is_there = snapshot is not None and snapshot.exists()
    producers = snapshot.read_bytes() if is_there and snapshot is not None else producer_snapshot(_NO_PRODUCERS)
    parts[2:2] = [("producerSnapshot", bytes(producers)), ("leaderEpoch", epochs)]
    for name, plain in parts:
        stored = encrypt(plain) if plain else b""
        found[name] = None if name == "transaction" and not plain else {"position": len(data), "size": len(stored)}
        data += stored
    return found, data


def _encryption(key: bytes | None) -> tuple[dict[str, str] | None, Transform]:
    """What a manifest has of an encrypted segment, and what encrypts its chunks and indexes."""
    if key is None:
        return None, bytes
    data_key, aad = secrets.token_bytes(_DATA_KEY), secrets.token_bytes(_AAD)
    cipher = AESGCM(data_key)

    def encrypt(plain: bytes) -> bytes:
        vector = secrets.token_bytes(_IV)
        return vector + cipher.encrypt(vector, plain, aad)

    wrapped = base64.b64encode(_wrap(data_key, key)).decode()
    return {"dataKey": f"{KEY_ID}:{wrapped}", "aad": base64.b64encode(aad).decode()}, encrypt


def _wrap(data: bytes, pem: bytes) -> bytes:
    """RSA-OAEP with SHA3-512, which ``cryptography`` refuses (RFC 8017, 7.1.1)."""
    numbers: Any = load_pem_private_key(pem, None).public_key().public_numbers()  # type: ignore[union-attr]
    size, length = (numbers.n.bit_length() + 7) // 8, _HASH().digest_size
    block = _HASH(b"").digest() + bytes(size - len(data) - 2 * length - 2) + b"\1" + data
    seed = secrets.token_bytes(length)
    masked = _xor(block, _mask(seed, len(block)))
    padded = b"\0" + _xor(seed, _mask(masked, length)) + masked
    return pow(int.from_bytes(padded, "big"), numbers.e, numbers.n).to_bytes(size, "big")


def _mask(seed: bytes, length: int) -> bytes:
    blocks: Iterator[bytes] = (
        _HASH(seed + number.to_bytes(4, "big")).digest() for number in range(-(-length // _HASH().digest_size))
    )
    return b"".join(blocks)[:length]


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(left ^ right for left, right in zip(one, other, strict=True))
