"""Inflates the payloads of many batches, of any codec, one after another into one reused buffer.

What is accepted and refused is what Kafka's reader accepts and refuses (3.9.1 and 4.1.1, pinned by the golden cases
``framing/*`` and ``damaged/stream-*``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokerless.format.arrays import Int64s
from brokerless.format.codecs import gzip, lz4, snappy, zstd
from brokerless.format.codecs.c_functions import CodecFunction, codec_function
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES, CodecError, InflateBuffer, LimitError
from brokerless.format.columns import SLACK
from brokerless.format.layouts import GZIP, LZ4, MAGIC_V2, SNAPPY, ZSTD

__all__ = ["DEFAULT_MAX_BATCH_BYTES", "CodecError", "Inflater", "LimitError", "Payloads", "find_payloads"]


@dataclass(frozen=True, slots=True)
class Payloads:
    """Compressed payloads ``view[starts[i]:ends[i]]``, one of each batch."""

    buffer: NDArray[np.uint8]
    starts: Int64s
    ends: Int64s
    codecs: NDArray[np.int8]
    magics: NDArray[np.int8]
    common_codec: int
    """The codec of all, or 0 if they differ."""
    lz4_header: int
    """The 7 bytes of a plain frame header of lz4, or 0."""


@dataclass(frozen=True, slots=True)
class Inflating:
    """The facts that a kernel needs to inflate payloads of a codec."""

    function: int
    """The address of the codec's function."""
    context: int
    """The function's first argument, or 0."""
    lz4_header: int
    """As in :class:`Payloads`."""
    output: NDArray[np.uint8]
    """The buffer for inflated bytes."""
    largest: int
    """Bytes of the largest payload."""


def find_payloads(
    buffer: NDArray[np.uint8], starts: Int64s, ends: Int64s, codecs: NDArray[np.int8], magics: NDArray[np.int8]
) -> Payloads:
    """The payloads ``buffer[starts[i]:ends[i]]``."""
    codec = int(codecs[0]) if len(codecs) and (codecs == codecs[0]).all() else 0
    first = buffer[starts[0] : ends[0]].data if codec == LZ4 else memoryview(b"")
    header = lz4.read_plain_header(first, int(magics.max())) if codec == LZ4 else 0
    return Payloads(buffer, starts, ends, codecs=codecs, magics=magics, common_codec=codec, lz4_header=header)


class Inflater:
    """Inflates payloads one after another into one growing buffer that is reused.

    ``buffer`` (uint8) holds the results since :meth:`clear`; :meth:`inflate` returns where one is. One Inflater belongs
    to one thread. ``limit``: bytes that one payload may inflate to (see :class:`InflateBuffer`).
    """

    def __init__(self, limit: int = DEFAULT_MAX_BATCH_BYTES) -> None:
        self._output = InflateBuffer(limit)
        self._zstd = zstd.make_decompressor()
        self._functions: dict[int, CodecFunction | None] = {}

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
        from brokerless.format.codecs.payload_kernels import INFLATE

        output = self._output
        bounds, state = np.empty(len(payloads.starts) + 1, np.int64), np.empty(3, np.int64)
        bounds[first] = output.used
        errors: dict[int, CodecError] = {}
        codec, row, total = payloads.common_codec, first, len(payloads.starts)
        function = self._function(codec) if codec else None
        while row < total and output.used < enough:
            if function is not None:
                row = INFLATE[codec](
                    function.address, function.context, payloads.buffer, payloads.starts, payloads.ends,
                    payloads.lz4_header, row, enough, output.buffer, SLACK, min(output.limit, output.large), bounds,
                    state,
                )  # fmt: skip
                output.used = int(bounds[row])
                if row == total or output.used >= enough:
                    break
                if state[0] > 0:
                    output.grow(int(state[0]) + SLACK)
                    continue
            payload = payloads.buffer[payloads.starts[row] : payloads.ends[row]].data
            error = self.inflate(int(payloads.codecs[row]), int(payloads.magics[row]), payload)[2]
            if error is not None:
                errors[row - first] = error
            row += 1
            bounds[row] = output.used
        return bounds[first:row], bounds[first + 1 : row + 1], errors

    def prepare(self, codec: int, first: bytes, room: int) -> Inflating | None:
        """Return what inflates v2 payloads like ``first``, of which these are the first bytes, into ``room`` bytes of
        the buffer, in which nothing is yet; None where they are to be inflated one by one."""
        function = self._function(codec)
        header = lz4.read_plain_header(memoryview(first), MAGIC_V2) if codec == LZ4 else 0
        if function is None or (codec == LZ4 and not header):
            return None
        output = self._output
        output.make_room(room)
        largest = min(output.limit, output.large)
        return Inflating(function.address, function.context, lz4_header=header, output=output.buffer, largest=largest)

    def _function(self, codec: int) -> CodecFunction | None:
        """Return what inflates payloads of a codec without the GIL."""
        if codec not in self._functions:
            self._functions[codec] = codec_function(codec, self)
        return self._functions[codec]

    def check_header(self, codec: int, magic: int, payload: memoryview) -> CodecError | None:
        """Return what keeps a payload's stream from being opened, if anything: all that Kafka checks where a compressed
        batch declares no record."""
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
