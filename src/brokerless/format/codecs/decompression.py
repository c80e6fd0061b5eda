"""Inflates the payloads of many batches, of any codec, one after another into one reused buffer.

What is accepted and refused is what Kafka's reader accepts and refuses (3.9.1 and 4.1.1, pinned by the golden cases
``framing/*`` and ``damaged/stream-*``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from brokerless.format import layouts
from brokerless.format.codecs import gzip, lz4, snappy, zstd
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES, CodecError, InflateBuffer, LimitError
from brokerless.format.layouts import GZIP, LZ4, SNAPPY, ZSTD

__all__ = ["DEFAULT_MAX_BATCH_BYTES", "CodecError", "Inflater", "LimitError", "Payloads", "find_payloads"]

Int64s = NDArray[np.int64]

_BLOCK_ERRORS = (gzip.BlockError, snappy.BlockError, lz4.BlockError, zstd.BlockError)


@dataclass(frozen=True, slots=True)
class Payloads:
    """Compressed payloads ``view[starts[i]:ends[i]]``, one of each batch.

    ``common_codec``: the codec of all, or 0 if they differ. ``blocks``, ``block_ends`` and ``capacities``: of payloads
    of exactly one plain block, where it is and the bytes that it may inflate to; of others, the capacity is 0.
    """

    view: memoryview
    starts: list[int]
    ends: list[int]
    codecs: list[int]
    magics: list[int]
    common_codec: int
    blocks: list[int]
    block_ends: list[int]
    capacities: list[int]


def find_payloads(
    buffer: NDArray[np.uint8], starts: Int64s, ends: Int64s, codecs: NDArray[np.int8], magics: NDArray[np.int8]
) -> Payloads:
    """The payloads ``buffer[starts[i]:ends[i]]``, and which of them are one plain block."""
    from brokerless.format.codecs.single_block_kernels import find_single_blocks

    blocks, capacities = np.zeros(len(starts), np.int64), np.zeros(len(starts), np.int64)
    codec = int(codecs[0]) if len(codecs) and (codecs == codecs[0]).all() else 0
    if codec:
        first = buffer[starts[0] : ends[0]].data
        header = lz4.read_plain_header(first, int(magics.max())) if codec == LZ4 else 0
        find_single_blocks(buffer, codec, starts, ends, header, blocks, capacities)
    block_ends = ends - 4 if codec == LZ4 else ends
    return Payloads(
        buffer.data, starts.tolist(), ends.tolist(), codecs.tolist(), magics.tolist(),
        codec, blocks.tolist(), block_ends.tolist(), capacities.tolist(),
    )  # fmt: skip


class Inflater:
    """Inflates payloads one after another into one growing buffer that is reused.

    ``buffer`` (uint8) holds the results since :meth:`clear`; :meth:`inflate` returns where one is. One Inflater belongs
    to one thread. ``limit``: bytes that one payload may inflate to (see :class:`InflateBuffer`).
    """

    def __init__(self, limit: int = DEFAULT_MAX_BATCH_BYTES) -> None:
        self._output = InflateBuffer(limit)
        self._zstd = zstd.make_decompressor()

    @property
    def buffer(self) -> NDArray[np.uint8]:
        return self._output.buffer

    @property
    def used(self) -> int:
        """Bytes of the results."""
        return self._output.used

    def clear(self) -> None:
        """Drops all results, and the memory that one huge batch has taken."""
        self._output.clear()

    def inflate(self, codec: int, magic: int, payload: memoryview) -> tuple[int, int, CodecError | None]:
        """Appends a payload's bytes; returns where they start and end, and what stopped them early, if anything did."""
        output = self._output
        start = output.begin()
        error: CodecError | None = None
        try:
            if codec == LZ4:
                lz4.read(payload, magic, output)
            elif codec == SNAPPY:
                snappy.read(payload, output)
            elif codec == ZSTD:
                zstd.read(self._zstd, payload, output)
            elif codec == GZIP:
                gzip.read(payload, output)
            else:
                raise CodecError(f"unknown compression type id {codec}")
        except CodecError as caught:
            error = caught
        if output.used - start > output.large:
            output.count_large()
        return start, output.used, error

    def inflate_many(self, payloads: Payloads, first: int, enough: int) -> tuple[Int64s, Int64s, dict[int, CodecError]]:
        """Appends payload ``first`` and those after it until there are ``enough`` bytes; returns where each starts and
        ends, and what stopped some of them early, by their place among these."""
        output = self._output
        ends = [output.used]
        errors: dict[int, CodecError] = {}
        view, blocks, block_ends, capacities = payloads.view, payloads.blocks, payloads.block_ends, payloads.capacities
        read_block = self._single_block_reader(payloads.common_codec)
        row, total, used = first, len(capacities), output.used
        while row < total and used < enough:
            capacity = capacities[row]
            size = -1
            if read_block is not None and 0 < capacity <= output.limit and used + capacity <= len(output.view):
                try:
                    size = read_block(view[blocks[row] : block_ends[row]], output.view[used : used + capacity])
                except _BLOCK_ERRORS:
                    size = -1  # parsing the frame finds what is wrong
            if size >= 0:
                used += size
                if size > output.large:
                    output.count_large()
            else:
                output.used = used
                payload = view[payloads.starts[row] : payloads.ends[row]]
                error = self.inflate(payloads.codecs[row], payloads.magics[row], payload)[2]
                if error is not None:
                    errors[row - first] = error
                used = output.used
            ends.append(used)
            row += 1
        output.used = used
        positions = np.array(ends, np.int64)
        return positions[:-1], positions[1:], errors

    def _single_block_reader(self, codec: int) -> Callable[[memoryview, memoryview], int] | None:
        """What inflates one plain block of a codec into a target; it returns -1 where the frame must be parsed."""
        match codec:
            case layouts.GZIP:
                return gzip.read_single_block
            case layouts.SNAPPY:
                return snappy.read_single_block
            case layouts.LZ4:
                return lz4.read_single_block
            case layouts.ZSTD:
                return partial(zstd.read_single_block, self._zstd)
            case _:
                return None

    def check_header(self, codec: int, magic: int, payload: memoryview) -> CodecError | None:
        """What keeps a payload's stream from being opened, if anything: all that Kafka checks where a compressed batch
        declares no record."""
        try:
            if codec == LZ4:
                lz4.read_header(payload, magic)
            elif codec == GZIP:
                gzip.read_header(payload)
            elif codec == SNAPPY and not snappy.has_header(payload):
                return self.inflate(codec, magic, payload)[2]
            elif codec > ZSTD:
                return CodecError(f"unknown compression type id {codec}")
        except CodecError as error:
            return error
        return None
