"""Chunk indexes of remote segments: where each chunk of a segment lies in its object.

A segment is cut into chunks of one size, and each is compressed or encrypted on its own. Source:
``FixedSizeChunkIndex``, ``VariableSizeChunkIndex``, ``ChunkSizesBinaryCodec`` of Aiven's
tiered-storage-for-apache-kafka.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import zstandard
from msgspec import Meta
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT32
from brokerless.values import Int32, LenientValue, WrongJsonError

_MOST_ENCODED = 16 << 20
"""Bytes of the sizes of a segment's chunks, inflated: those of 2 GiB in chunks of 512 bytes."""
_HEAD = 9
_ChunkSize = Annotated[int, Meta(ge=1, le=MAX_INT32)]


@dataclass(frozen=True, slots=True)
class ChunkIndex:
    """A segment's chunks: where each lies in the object."""

    size: int
    """Bytes of the segment."""
    chunk_size: int
    """Bytes of the segment in each chunk but the last."""
    stored: int = 0
    """Bytes that each chunk takes in the object, if they are the same for all but the last."""
    stored_last: int = 0
    """Bytes that the last chunk takes in the object."""
    ends: NDArray[np.int64] | None = field(default=None, compare=False)
    """Where each chunk ends in the object, if their sizes vary."""

    @property
    def count(self) -> int:
        return -(-self.size // self.chunk_size)

    @property
    def stored_size(self) -> int:
        """Bytes of the object."""
        if self.ends is not None:
            return int(self.ends[-1]) if len(self.ends) else 0
        return (self.count - 1) * self.stored + self.stored_last if self.count else 0

    def range(self, first: int, last: int) -> tuple[int, int]:
        """Return where chunks, the last one included, begin and end in the object (bytes)."""
        if self.ends is not None:
            return 0 if first == 0 else int(self.ends[first - 1]), int(self.ends[last])
        end = self.stored_size if last == self.count - 1 else (last + 1) * self.stored
        return first * self.stored, end

    def size_of(self, chunk: int) -> int:
        """Return how many bytes of the segment are in a chunk."""
        return min(self.chunk_size, self.size - chunk * self.chunk_size)

    def members(self) -> dict[str, Any]:
        """Return what a manifest has of it."""
        sizes = {"originalChunkSize": self.chunk_size, "originalFileSize": self.size}
        if self.ends is not None:
            stored = np.diff(self.ends, prepend=0)
            return {"type": "variable", **sizes, "transformedChunks": encode_sizes(stored)}
        stored_sizes = {"transformedChunkSize": self.stored, "finalTransformedChunkSize": self.stored_last}
        return {"type": "fixed", **sizes, **stored_sizes}


class FixedChunks(LenientValue, frozen=True, tag="fixed"):
    """All chunks but the last take one size in the object."""

    original_chunk_size: _ChunkSize
    original_file_size: Int32
    transformed_chunk_size: _ChunkSize
    final_transformed_chunk_size: Int32

    def index(self) -> ChunkIndex:
        stored = self.transformed_chunk_size, self.final_transformed_chunk_size
        return ChunkIndex(self.original_file_size, self.original_chunk_size, *stored)


class VariableChunks(LenientValue, frozen=True, tag="variable"):
    """Each chunk has a size of its own in the object: :func:`decode_sizes`."""

    original_chunk_size: _ChunkSize
    original_file_size: Int32
    transformed_chunks: str

    def index(self) -> ChunkIndex:
        """Raises :class:`WrongJsonError`."""
        sizes = decode_sizes(self.transformed_chunks)
        index = ChunkIndex(self.original_file_size, self.original_chunk_size, ends=np.cumsum(sizes))
        if len(sizes) != index.count:
            raise WrongJsonError(f"transformedChunks has {len(sizes)} chunks; the segment's size makes {index.count}")
        return index


def decode_sizes(text: str) -> NDArray[np.int64]:
    """Return what each chunk takes in the object (bytes). Raises :class:`WrongJsonError`."""
    try:
        packed = base64.b64decode(text, validate=True)
        most = zstandard.frame_content_size(packed)
        if not 0 <= most <= _MOST_ENCODED:
            raise WrongJsonError("transformedChunks has no size, or a larger one than is read")
        data = zstandard.ZstdDecompressor(max_window_size=1 << 25).decompress(packed, max_output_size=_MOST_ENCODED)
    except (binascii.Error, ValueError, zstandard.ZstdError) as error:
        reason = str(error) if isinstance(error, WrongJsonError) else "transformedChunks is not Base64 of zstd"
        raise WrongJsonError(reason) from error
    sizes = _unpack(data)
    if len(sizes) and int(sizes.min()) <= 0:
        raise WrongJsonError("transformedChunks has a chunk without bytes")
    return sizes


def encode_sizes(sizes: NDArray[np.int64]) -> str:
    """Return what :func:`decode_sizes` reads: what each chunk takes in the object (bytes)."""
    return base64.b64encode(zstandard.ZstdCompressor().compress(_pack(sizes))).decode()


def _pack(sizes: NDArray[np.int64]) -> bytes:
    count = len(sizes)
    if count < 2:
        return count.to_bytes(4, "big") + b"".join(int(each).to_bytes(4, "big") for each in sizes)
    base = int(sizes[:-1].min())
    width = max(1, (int(sizes[:-1].max() - base).bit_length() + 7) // 8)
    digits = (sizes[:-1] - base).astype(">i8").view(np.uint8).reshape(-1, 8)[:, 8 - width :]
    last = int(sizes[-1]).to_bytes(4, "big")
    return count.to_bytes(4, "big") + base.to_bytes(4, "big") + bytes([width]) + digits.tobytes() + last


def _unpack(data: bytes) -> NDArray[np.int64]:
    count = int.from_bytes(data[:4], "big", signed=True)
    if len(data) == 4 and count == 0:
        return np.zeros(0, np.int64)
    if len(data) == 8 and count == 1:
        return np.array([int.from_bytes(data[4:], "big", signed=True)], np.int64)
    width = data[8] if len(data) > _HEAD else 0
    if count < 2 or not 1 <= width <= 4 or len(data) != _HEAD + (count - 1) * width + 4:
        raise WrongJsonError("transformedChunks is not a list of sizes")
    base = int.from_bytes(data[4:8], "big", signed=True)
    digits = np.frombuffer(data, np.uint8, (count - 1) * width, _HEAD).reshape(-1, width)
    sizes = np.full(count, base, np.int64)
    for place in range(width):
        sizes[:-1] += digits[:, place].astype(np.int64) << (8 * (width - 1 - place))
    sizes[-1] = int.from_bytes(data[-4:], "big", signed=True)
    return sizes
