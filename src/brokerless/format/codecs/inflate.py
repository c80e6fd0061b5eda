"""The codecs, with Kafka's framings and their quirks; the codecs themselves are libraries.

What is accepted and refused is what Kafka's reader accepts and refuses (3.9.1 and 4.1.1, pinned by the golden cases
``framing/*`` and ``damaged/stream-*``):

* gzip: members one after another; what follows the last one and is no member is ignored (``GZIPInputStream``).
* snappy: xerial's framing (``SnappyInputStream``), or one bare block.
* lz4: one frame of independent blocks (``Lz4BlockInputStream``, KAFKA-3160): v0 wrote a wrong header checksum, and only
  v0 may. A content checksum is skipped, a block checksum counts.
* zstd: frames and skippable frames one after another, windows up to 2^27 bytes (KIP-110).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cramjam
import numpy as np
import xxhash
import zstandard
from isal import igzip_lib, isal_zlib
from numpy.typing import NDArray

from brokerless.format.codecs.framings import (
    XERIAL_HEAD,
    XERIAL_LARGEST,
    CodecError,
    LimitError,
    gzip_header,
    is_xerial_header,
    lz4_frame,
)

Int64s = NDArray[np.int64]

DEFAULT_LIMIT = 128 << 20
"""What one batch may inflate to, in bytes, unless the caller says otherwise."""
_MOST_LARGE = 8
"""How many batches an :class:`Inflater` inflates to more than a quarter of its limit: they are rare, unless somebody
made them to keep a processor busy."""

_GZIP, _SNAPPY, _LZ4, _ZSTD = 1, 2, 3, 4
_decompress_lz4 = cramjam.lz4.decompress_block_into
_decompress_snappy, _snappy_length = cramjam.snappy.decompress_raw_into, cramjam.snappy.decompress_raw_len
_PIECE = 1 << 20
"""Bytes that are inflated at once where the size of the whole is not known."""
_FEW = 512
"""Bytes of a payload that are given to a further gzip member at first: the library copies what it leaves unused."""
_IsalError: type[Exception] = isal_zlib.error  # pyright: ignore[reportAssignmentType] - a class, whatever its stub says


@dataclass(frozen=True, slots=True)
class Payloads:
    """Compressed payloads ``view[starts[i]:ends[i]]``, one of each batch.

    ``plain_codec``: the codec of all, or 0 if they differ. ``blocks``, ``block_ends`` and ``rooms``: of those that are
    plain, where their one block is and the bytes that it may inflate to; of others, the room is 0.
    """

    view: memoryview
    starts: list[int]
    ends: list[int]
    codecs: list[int]
    magics: list[int]
    plain_codec: int
    blocks: list[int]
    block_ends: list[int]
    rooms: list[int]


def find_payloads(
    buffer: NDArray[np.uint8], starts: Int64s, ends: Int64s, codecs: NDArray[np.int8], magics: NDArray[np.int8]
) -> Payloads:
    """The payloads ``buffer[starts[i]:ends[i]]``, looked at."""
    from brokerless.format.codecs.single_block_kernels import find_single_blocks

    blocks, rooms = np.zeros(len(starts), np.int64), np.zeros(len(starts), np.int64)
    codec = int(codecs[0]) if len(codecs) and (codecs == codecs[0]).all() else 0
    if codec:
        first = buffer[starts[0] : ends[0]].data
        header = _plain_lz4_header(first, int(magics.max())) if codec == _LZ4 else 0
        find_single_blocks(buffer, codec, starts, ends, header, blocks, rooms)
    block_ends = ends - 4 if codec == _LZ4 else ends
    return Payloads(
        buffer.data, starts.tolist(), ends.tolist(), codecs.tolist(), magics.tolist(),
        codec, blocks.tolist(), block_ends.tolist(), rooms.tolist(),
    )  # fmt: skip


def _plain_lz4_header(payload: memoryview, magic: int) -> int:
    """The 7 bytes of the frame's header, if there is nothing but blocks of up to 64 KB behind; otherwise 0."""
    try:
        at, max_block, block_checksums, content_checksum = lz4_frame(payload, magic)
    except CodecError:
        return 0
    is_plain = at == 7 and max_block == 1 << 16 and not block_checksums and not content_checksum
    return int.from_bytes(payload[:7], "little") if is_plain else 0


class Inflater:
    """Decompresses payloads one after another into one growing buffer that is reused.

    ``buffer`` (uint8) holds the results from :meth:`clear` on; a result's place is what :meth:`inflate` returned. One
    Inflater belongs to one thread. One payload inflates to at most ``limit`` bytes; after eight that inflated to more
    than a quarter of it, only to a quarter (of the default limit, where ``limit`` is less).
    """

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._large = max(limit, DEFAULT_LIMIT) // 4
        self._large_left = _MOST_LARGE
        self.used = 0
        self.buffer: NDArray[np.uint8] = np.empty(1 << 20, dtype=np.uint8)
        self._view = self.buffer.data
        self._zstd = zstandard.ZstdDecompressor(max_window_size=1 << 27)

    def clear(self) -> None:
        """Forgets all results. A buffer that one huge batch has grown is given back."""
        self.used = 0
        if len(self.buffer) > 32 << 20:
            self._grow(1 << 20)

    def inflate(self, codec: int, magic: int, payload: memoryview) -> tuple[int, int, CodecError | None]:
        """Appends a payload's bytes; returns where they start and end, and what stopped them early, if anything did."""
        start = self.used
        error: CodecError | None = None
        try:
            if codec == _LZ4:
                self._lz4(payload, magic)
            elif codec == _SNAPPY:
                self._snappy(payload)
            elif codec == _ZSTD:
                self._zstandard(payload)
            elif codec == _GZIP:
                self._gzip(payload)
            else:
                raise CodecError(f"unknown compression type id {codec}")
        except CodecError as caught:
            error = caught
        if self.used - start > self._large:
            self._count_large()
        return start, self.used, error

    def _count_large(self) -> None:
        self._large_left -= 1
        if not self._large_left:
            self._limit = min(self._limit, self._large)

    def inflate_many(self, payloads: Payloads, first: int, enough: int) -> tuple[Int64s, Int64s, dict[int, CodecError]]:
        """Appends payload ``first`` and those after it until ``enough`` bytes are there; returns where each starts and
        ends, and what stopped some of them early, by their place among these."""
        ends = [self.used]
        errors: dict[int, CodecError] = {}
        view, blocks, block_ends, rooms = payloads.view, payloads.blocks, payloads.block_ends, payloads.rooms
        plain = self._plain(payloads.plain_codec)
        row, total, used = first, len(rooms), self.used
        while row < total and used < enough:
            room = rooms[row]
            size = -1
            if plain is not None and 0 < room <= self._limit and used + room <= len(self._view):
                try:
                    size = plain(view[blocks[row] : block_ends[row]], self._view[used : used + room])
                except (cramjam.DecompressionError, zstandard.ZstdError, _IsalError):
                    size = -1  # the long way says what is wrong
            if size >= 0:
                used += size
                if size > self._large:
                    self._count_large()
            else:
                self.used = used
                payload = view[payloads.starts[row] : payloads.ends[row]]
                error = self.inflate(payloads.codecs[row], payloads.magics[row], payload)[2]
                if error is not None:
                    errors[row - first] = error
                used = self.used
            ends.append(used)
            row += 1
        self.used = used
        places = np.array(ends, np.int64)
        return places[:-1], places[1:], errors

    def _plain(self, codec: int) -> Callable[[memoryview, memoryview], int] | None:
        """What inflates one plain block of a codec into a room."""
        # Not kept in an attribute: a cycle would hold the buffer until Python's collector comes.
        zstd = self._plain_zstd
        return {_GZIP: _plain_gzip, _SNAPPY: _decompress_snappy, _LZ4: _decompress_lz4, _ZSTD: zstd}.get(codec)

    def _plain_zstd(self, block: memoryview, room: memoryview) -> int:
        size = self._zstd.stream_reader(block).readinto(room)
        return size if size < len(room) else -1  # there may be more

    def check_header(self, codec: int, magic: int, payload: memoryview) -> CodecError | None:
        """What keeps a payload's stream from being opened, if anything: all that Kafka looks at where a compressed
        batch declares no record."""
        try:
            if codec == _LZ4:
                lz4_frame(payload, magic)
            elif codec == _GZIP:
                gzip_header(payload)
            elif codec == _SNAPPY and not is_xerial_header(payload[:16]):
                return self.inflate(codec, magic, payload)[2]
            elif codec > _ZSTD:
                return CodecError(f"unknown compression type id {codec}")
        except CodecError as error:
            return error
        return None

    def _grow(self, capacity: int) -> None:
        # In place where the system can: two buffers at a time would double the peak of one huge batch.
        self.buffer.resize(capacity, refcheck=False)
        self._view = self.buffer.data

    def _room(self, size: int, start: int, least: int | None = None) -> memoryview:
        """The next ``size`` free bytes, within the limit for the payload whose result began at ``start``; near the
        limit fewer, if ``least`` are enough."""
        if least is not None:
            size = max(least, min(size, start + self._limit - self.used))
        end = self.used + size
        if end - start > self._limit:
            raise self._past_limit()
        if end > len(self.buffer):
            self._grow(max(end, 2 * len(self.buffer) if end < 32 << 20 else end + (8 << 20)))
        return self._view[self.used : end]

    def _past_limit(self) -> LimitError:
        after = "" if self._large_left > 0 else f", after {_MOST_LARGE} batches that did"
        return LimitError(
            f"the payload inflates past the limit of {self._limit} bytes{after}; --max-batch-bytes raises it"
        )

    def _append(self, data: bytes | memoryview, start: int) -> None:
        self._room(len(data), start)[:] = data
        self.used += len(data)

    def _lz4(self, payload: memoryview, magic: int) -> None:
        start, end = self.used, len(payload)
        at, max_block, block_checksums, content_checksum = lz4_frame(payload, magic)
        while True:
            word = int.from_bytes(payload[at : at + 4], "little")
            block = at + 4
            size = word & 0x7FFFFFFF
            at = block + size
            if block > end:
                raise CodecError("lz4: the stream ends without an end mark")
            if size == 0:
                if content_checksum and end - block < 4:
                    raise CodecError("lz4: the stream ends within its content checksum")
                return
            if size > max_block:
                raise CodecError(f"lz4: a block of {size} bytes in a frame of blocks up to {max_block}")
            if at > end:
                raise CodecError(f"lz4: a block of {size} bytes, of which only {end - block} are there")
            data = payload[block:at]
            if block_checksums:
                if bytes(payload[at : at + 4]) != xxhash.xxh32_intdigest(data).to_bytes(4, "little"):
                    raise CodecError("lz4: a block's checksum does not match")
                at += 4
            if word & 0x80000000:
                self._append(data, start)
                continue
            # A lawful block inflates at most 255 times: no need to have room for more.
            room = self._room(min(max_block, 255 * size + 64), start)
            try:
                self.used += _decompress_lz4(data, room)
            except cramjam.DecompressionError as error:
                raise CodecError(f"lz4: a block does not decompress ({error})") from None

    def _snappy(self, payload: memoryview) -> None:
        start = self.used
        if len(payload) == 0:
            raise CodecError("snappy: an empty stream")
        if not is_xerial_header(payload[:16]):
            self._snappy_block(payload, start)
            return
        at = 16
        while len(payload) - at >= 4:
            size = int.from_bytes(payload[at : at + 4], "big", signed=True)
            at += 4
            if size == XERIAL_HEAD:
                if len(payload) - at < 12:
                    raise CodecError("snappy: a second header is cut off")
                if not is_xerial_header(payload[at - 4 : at + 12]):
                    return
                at += 12
                continue
            if size < 0 or size > XERIAL_LARGEST:
                raise CodecError(f"snappy: a block of {size} bytes")
            block = payload[at : at + size]
            if len(block) < size:
                raise CodecError(f"snappy: a block of {size} bytes, of which only {len(block)} are there")
            at += size
            self._snappy_block(block, start)

    def _snappy_block(self, block: memoryview, start: int) -> None:
        try:
            length = _snappy_length(block)
            if length > 64 * len(block):  # three bytes make at most 64
                raise CodecError(f"snappy: a block of {len(block)} bytes claims to hold {length}")
            room = self._room(length, start)
            self.used += _decompress_snappy(block, room)
        except cramjam.DecompressionError as error:
            raise CodecError(f"snappy: a block does not decompress ({error})") from None

    def _zstandard(self, payload: memoryview) -> None:
        from brokerless.format.codecs.single_block_kernels import zstd_end

        start = self.used
        # The library does not say where a frame ended, and takes a cut-off one for the end of the stream.
        end = zstd_end(np.frombuffer(payload, np.uint8))
        # What inflates further than most takes several reads.
        guess = max(1 << 16, 8 * len(payload))
        try:
            reader = self._zstd.stream_reader(payload, read_across_frames=True)
            while True:
                room = self._room(guess, start, least=1)
                size = reader.readinto(room)
                self.used += size
                if size < len(room):
                    break
                guess = _PIECE
        except zstandard.ZstdError as error:
            raise CodecError(f"zstd: the stream does not decompress ({error})") from None
        if end != len(payload):
            raise CodecError(f"zstd: the stream is cut off, or has garbage, from byte {end} on")

    def _gzip(self, payload: memoryview) -> None:
        start = self.used
        first = at = gzip_header(payload)
        while True:
            member = self.used
            # Members may be empty and many: what the library leaves unused it copies.
            at = self._deflate(payload, at, start, _PIECE if at == first else _FEW)
            if len(payload) - at < 8:
                raise CodecError("gzip: the trailer is cut off")
            checksum = int.from_bytes(payload[at : at + 4], "little")
            length = int.from_bytes(payload[at + 4 : at + 8], "little")
            inflated = self._view[member : self.used]
            if checksum != isal_zlib.crc32(inflated) or length != len(inflated) & 0xFFFFFFFF:
                raise CodecError("gzip: the trailer does not match the data")
            at += 8
            try:
                at += gzip_header(payload[at:])
            except CodecError:
                return

    def _deflate(self, payload: memoryview, at: int, start: int, window: int) -> int:
        """Inflates the deflate stream that starts at ``at``; returns where it ends. ``window``: bytes to begin with."""
        decompressor = isal_zlib.decompressobj(wbits=-15)
        rest: memoryview | bytes = b""
        data = b""
        try:
            while not decompressor.eof:
                if not rest and len(data) < _PIECE:  # after a full piece there may be more without any input
                    rest = payload[at : at + window]
                    at, window = at + len(rest), min(2 * window, _PIECE)
                    if not rest:
                        raise CodecError("gzip: the stream is cut off")
                data = decompressor.decompress(rest, _PIECE)
                self._append(data, start)
                rest = decompressor.unconsumed_tail
        except _IsalError as error:
            raise CodecError(f"gzip: the stream does not decompress ({error})") from None
        return at - len(decompressor.unused_data)


def _plain_gzip(block: memoryview, room: memoryview) -> int:
    decompressor = igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_GZIP)
    data = decompressor.decompress(block, len(room))
    if not decompressor.eof or decompressor.unused_data or len(data) != len(room):
        return -1
    room[:] = data
    return len(data)
