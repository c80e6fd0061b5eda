"""Encodes record columns as batches of any format.

Without a codec, records are written directly to their position after the reserved header; with one, to a scratch
buffer, some batches at a time, and compressed to their position. Then headers are filled in, and checksums last.
"""

# Kernels take all columns as positional arguments, which the checker cannot count.
# pyright: reportCallIssue=false

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT32, check_arguments
from brokerless.errors import UsageError
from brokerless.format import layouts
from brokerless.format.arrays import Int64s
from brokerless.format.codecs.compression import make_compressor
from brokerless.format.columns import SLACK, RecordColumns, allocate_array, empty_columns

_GROUP = 1 << 18
"""Bytes of records that are written at once before they are compressed: few enough to stay in the cache."""
LARGEST = MAX_INT32
_RECORD_OVERHEAD, _HEADER_OVERHEAD = 36, 10
"""Bytes of varints and attributes that a v2 record, and a header of it, have at most."""

ScratchRows = tuple[NDArray[np.uint8], Int64s]
"""A buffer that begins with some batches' records, and where those of each batch end."""


@check_arguments
def cut_batches(
    columns: RecordColumns,
    batch_size: int,
    ratio: float | None = None,
    breaks: NDArray[np.bool_] | None = None,
    magic: int = layouts.MAGIC_V2,
    first: int = 0,
    most: int | None = None,
) -> Int64s:
    """Cut rows into batches as Kafka's producer does (``MemoryRecordsBuilder.hasRoomFor`` and ``isFull``, 4.1.1).

    Parameters
    ----------
    columns
        The rows.
    batch_size
        Bytes, as ``batch.size``. A batch is full when its header and records reach so many bytes, or would with the
        next record. One record always fits.
    ratio
        The estimated compression ratio (:class:`CompressionRatioEstimator`); None without a codec.
    breaks
        A flag for each row of ``columns`` (bool): where a batch must begin. One also begins where offsets would be more
        than 2^31 - 1 apart.
    magic
        The message format.
    first
        The first row.
    most
        How many batches at most.

    Returns
    -------
    numpy.ndarray
        int64: the row at which each batch begins, and the one at which the last batch ends.
    """
    from brokerless.format.write.record_kernels import cut_rows

    rows = columns.rows
    starts = np.empty(min(rows - first, rows if most is None else most) + 1, np.int64)
    flags = np.empty(0, np.uint8) if breaks is None else breaks.view(np.uint8)
    factor = np.float32(0 if ratio is None else ratio)
    batches = cut_rows(first, rows, magic, batch_size, factor, flags, *columns.contents(), starts)
    return starts[: batches + 1]


def cut_by_count(
    columns: RecordColumns, records: int, breaks: NDArray[np.bool_] | None = None, first: int = 0
) -> Int64s:
    """Cuts the rows from ``first`` on into batches of ``records`` rows, or fewer before a row with which a batch must
    begin: those of ``breaks``, and by the distance of offsets, as in :func:`cut_batches`; int64, where each begins, and
    where the last one ends."""
    rows, offset = np.arange(first, columns.rows), columns.offset[first : columns.rows]
    begins = np.zeros(len(rows), np.bool_) if breaks is None else breaks[first : columns.rows].copy()
    while True:
        since = rows - np.maximum.accumulate(np.where(begins, rows, first))
        starts = np.flatnonzero(since % records == 0)
        of = np.repeat(starts, np.diff(starts, append=len(rows)))
        far = np.flatnonzero(offset - offset[of] > LARGEST)
        if not len(far):
            return np.append(starts + first, columns.rows)
        begins[far[np.unique(of[far], return_index=True)[1]]] = True


@check_arguments
def build_headers(columns: RecordColumns, starts: Int64s) -> NDArray[np.void]:
    """Make headers for batches of given rows, without a producer or leader epoch.

    Parameters
    ----------
    columns
        The rows.
    starts
        int64, shape ``(n + 1,)``: batch ``i`` has the rows from ``starts[i]`` to ``starts[i + 1]``, at least one.

    Returns
    -------
    numpy.ndarray
        :data:`layouts.BATCH_V2`, shape ``(n,)``. The timestamp type is that of a batch's first row.
    """
    firsts, lasts = starts[:-1], starts[1:] - 1
    headers = build_blank_headers(len(firsts))
    offset, timestamp = columns.offset, columns.timestamp
    headers["base_offset"] = offset[firsts]
    headers["last_offset_delta"] = offset[lasts] - offset[firsts]
    headers["base_timestamp"] = timestamp[firsts]
    if len(firsts):
        headers["max_timestamp"] = np.maximum.reduceat(timestamp[: starts[-1]], firsts)
    is_append_time = columns.timestamp_type[firsts] == layouts.LOG_APPEND_TIME
    headers["attributes"] = np.where(is_append_time, layouts.TIMESTAMP_TYPE_BIT, 0)
    headers["count"] = lasts + 1 - firsts
    return headers


def build_blank_headers(count: int) -> NDArray[np.void]:
    """Return headers without a producer or leader epoch, and nothing else in them."""
    headers = np.zeros(count, layouts.BATCH_V2)
    headers["partition_leader_epoch"] = layouts.NO_PARTITION_LEADER_EPOCH
    headers["producer_id"] = layouts.NO_PRODUCER_ID
    headers["producer_epoch"] = layouts.NO_PRODUCER_EPOCH
    headers["base_sequence"] = layouts.NO_SEQUENCE
    return headers


def encode_empty_batch(offset: int, leader_epoch: int) -> NDArray[np.uint8]:
    """Return a v2 batch without records, timestamp and producer that takes one offset, as compaction leaves batches
    (``DefaultRecordBatch.writeEmptyHeader``, 4.1.1)."""
    header = build_blank_headers(1)
    header["base_offset"] = offset
    header["partition_leader_epoch"] = leader_epoch
    header["base_timestamp"] = header["max_timestamp"] = layouts.NO_TIMESTAMP
    return Encoder().encode(empty_columns(), np.zeros(2, np.int64), header)


class Encoder:
    """Writes batches of one format and codec. Use one in each thread: it has the codec's state.

    Parameters
    ----------
    magic
        The message format: 0, 1 or 2.
    codec
        none, gzip, snappy, lz4 or zstd.
    level
        As ``compression.gzip.level`` and so on; None for Kafka's default.
    with_zlib
        Compress gzip to the sizes that Kafka writes, in twice the time.

    Raises
    ------
    UsageError
        For an unknown format, codec or level.
    """

    @check_arguments
    def __init__(
        self, magic: int = layouts.MAGIC_V2, codec: str = "none", level: int | None = None, *, with_zlib: bool = False
    ) -> None:
        layouts.check_magic(magic)
        if codec == "none" and level is not None:
            raise UsageError("without a codec there are no levels")
        self.magic = magic
        self._compress = None if codec == "none" else make_compressor(codec, magic, level, with_zlib=with_zlib)
        self._codec = layouts.CODECS.index(codec)
        self.uncompressed: Int64s = np.empty(0, np.int64)
        """Bytes of the records of each batch that was last encoded, before they were compressed."""
        self.payloads: Int64s = np.empty(0, np.int64)
        """The same after compressing."""

    @check_arguments
    def encode(self, columns: RecordColumns, starts: Int64s, headers: NDArray[np.void]) -> NDArray[np.uint8]:
        """Encode batches.

        v2: size, magic, crc and codec of the headers are filled in, all else is taken unchanged. (The base timestamp of
        a batch with a delete horizon is the horizon.) A batch without rows is written without a codec, as Kafka does.

        v0 and v1: each batch is a wrapper message, with relative offsets in v1; without a codec, each row is a message.
        Base offset, max timestamp and timestamp type are those of the header. Headers of records are not written.

        Parameters
        ----------
        columns
            The rows.
        starts
            int64, shape ``(n + 1,)``: batch ``i`` has the rows from ``starts[i]`` to ``starts[i + 1]``.
        headers
            :data:`layouts.BATCH_V2`, shape ``(n,)``, for every format; fields that a format does not have are ignored.

        Returns
        -------
        numpy.ndarray
            uint8: the batches, one after the other.

        Raises
        ------
        UsageError
            For a batch of 2 GiB or more, and one with offsets before its base offset or 2^31 after it.
        """
        starts = np.ascontiguousarray(starts, np.int64)
        self._check_offsets(columns, starts, headers)
        if self.magic == layouts.MAGIC_V2:
            return self._encode_v2(columns, starts, headers)
        return self._encode_messages(columns, starts, headers)

    def _check_offsets(self, columns: RecordColumns, starts: Int64s, headers: NDArray[np.void]) -> None:
        filled = np.flatnonzero(starts[1:] > starts[:-1])
        if not len(filled) or (self.magic < layouts.MAGIC_V2 and self._compress is None):
            return
        base = headers["base_offset"][filled].astype(np.int64)
        first, last = columns.offset[starts[filled]], columns.offset[starts[filled + 1] - 1]
        wrong = (first < base) | (last - base > LARGEST) | (last < first)
        if wrong.any():
            at = int(np.argmax(wrong))
            raise UsageError(f"offsets {first[at]} to {last[at]} do not fit into a batch from offset {base[at]} on")

    def _encode_v2(self, columns: RecordColumns, starts: Int64s, headers: NDArray[np.void]) -> NDArray[np.uint8]:
        from brokerless.format.write.record_kernels import write_records

        headers = headers.copy()
        bases = headers["base_offset"].astype(np.int64), headers["base_timestamp"].astype(np.int64)
        written = starts, *bases, *columns.contents()
        if self._compress is None:
            buffer = allocate_array(
                max_encoded_size(columns, int(starts[0]), int(starts[-1]), len(headers)) + SLACK, np.uint8
            )
            ends = np.empty(len(headers), np.int64)
            write_records(0, layouts.BATCH_V2_SIZE, *written, buffer, ends)
            positions = np.concatenate([np.zeros(1, np.int64), ends])[:-1]
            payloads = self.payloads = self.uncompressed = ends - positions - layouts.BATCH_V2_SIZE
        else:

            def scratches() -> Iterator[ScratchRows]:
                scratch, ends, batch = allocate_array(_GROUP, np.uint8), np.empty(len(headers), np.int64), 0
                while batch < len(headers):
                    reached = write_records(batch, 0, *written, scratch, ends)
                    if reached > batch:
                        yield scratch, ends[batch:reached]
                    elif len(scratch) > LARGEST:
                        raise too_large_error(len(scratch))
                    else:
                        scratch = allocate_array(2 * len(scratch), np.uint8)
                    batch = reached

            buffer, positions, payloads, ends = self._compressed(scratches(), layouts.BATCH_V2_SIZE)
        headers["attributes"] = headers["attributes"].astype(np.int16) & ~layouts.CODEC_MASK
        headers["attributes"] |= np.where(payloads > 0, self._codec, 0)
        complete_headers(buffer, headers, positions, ends)
        return buffer[: int(ends[-1]) if len(ends) else 0]

    def _encode_messages(self, columns: RecordColumns, starts: Int64s, headers: NDArray[np.void]) -> NDArray[np.uint8]:
        from brokerless.format.write.record_kernels import size_messages, write_messages

        filled = starts[1:] > starts[:-1]
        if not filled.all():  # these formats have no empty batches
            headers, starts = headers[filled], np.append(starts[:-1][filled], starts[-1])
        if not len(headers):
            self.payloads = self.uncompressed = np.empty(0, np.int64)
            return np.empty(0, np.uint8)
        first, last = int(starts[0]), int(starts[-1])
        sizes = np.empty(last - first, np.int64)
        size_messages(first, last, self.magic, *columns.contents(), sizes)
        _check_sizes(sizes)
        rows = starts - first
        totals = np.add.reduceat(sizes, rows[:-1])
        timestamp_types = headers["attributes"].astype(np.int64) & layouts.TIMESTAMP_TYPE_BIT
        flags = timestamp_types * self.magic
        append_times = np.where(flags, headers["max_timestamp"].astype(np.int64), 0)
        is_relative = self.magic == layouts.MAGIC_V1 and self._compress is not None
        bases = headers["base_offset"].astype(np.int64) * is_relative
        contents = columns.contents()

        def write(begin: int, end: int, buffer: NDArray[np.uint8]) -> None:
            """Batches ``begin`` to ``end``, one after the other."""
            positions = np.cumsum(sizes[rows[begin] : rows[end]]) - sizes[rows[begin] : rows[end]]
            for run in _runs(begin, end, flags, append_times, bases):
                part = positions[rows[run.start] - rows[begin] : rows[run.stop] - rows[begin]]
                own = flags[run.start], append_times[run.start], bases[run.start]
                write_messages(starts[run.start], starts[run.stop], self.magic, *own, *contents, part, buffer)
            _put_crc32(buffer, positions, positions + sizes[rows[begin] : rows[end]])

        if self._compress is None:
            self.payloads = self.uncompressed = totals
            end = int(totals.sum())
            buffer = allocate_array(end + SLACK, np.uint8)
            write(0, len(headers), buffer)
            return buffer[:end]

        def scratches() -> Iterator[ScratchRows]:
            groups = np.flatnonzero(np.diff(np.cumsum(totals) // _GROUP, prepend=-1))
            for begin, end in pairwise([*groups.tolist(), len(totals)]):
                ends = np.cumsum(totals[begin:end])
                scratch = allocate_array(int(ends[-1]) + SLACK, np.uint8)
                write(begin, end, scratch)
                yield scratch, ends

        layout = layouts.MESSAGE_V1 if self.magic else layouts.MESSAGE_V0
        header_size = layout.itemsize + 4
        buffer, positions, payloads, ends = self._compressed(scratches(), header_size)
        _check_sizes(payloads + header_size)
        wrappers = np.zeros(len(headers), [("message", layout), ("value_length", ">i4")])
        message = wrappers["message"]
        message["offset"] = columns.offset[starts[1:] - 1]
        message["size"] = payloads + header_size - layouts.LOG_ENTRY_SIZE
        message["magic"] = self.magic
        message["attributes"] = flags | self._codec
        if self.magic:
            message["timestamp"] = headers["max_timestamp"]
        message["key_length"] = -1
        wrappers["value_length"] = payloads
        _put(buffer, positions, wrappers)
        _put_crc32(buffer, positions, ends)
        return buffer[: int(ends[-1])]

    def _compressed(
        self, scratches: Iterator[ScratchRows], header_size: int
    ) -> tuple[NDArray[np.uint8], Int64s, Int64s, Int64s]:
        """Batches with compressed payloads after the reserved headers: the buffer, their positions, the
        payloads' sizes, and where each ends."""
        assert self._compress is not None
        compress = self._compress
        compressed: list[bytes | bytearray] = []
        plain: list[Int64s] = []
        for scratch, row_ends in scratches:
            view, start = scratch.data, 0
            for end in row_ends.tolist():
                compressed.append(compress(view[start:end]) if end > start else b"")
                start = end
            plain.append(np.diff(row_ends, prepend=0))
        self.uncompressed = np.concatenate(plain) if plain else np.empty(0, np.int64)
        payloads = self.payloads = np.array([len(data) for data in compressed], np.int64)
        ends = np.cumsum(payloads + header_size)
        places = ends - payloads
        buffer = allocate_array((int(ends[-1]) if len(ends) else 0) + SLACK, np.uint8)
        view = buffer.data
        for start, end, data in zip(places.tolist(), ends.tolist(), compressed, strict=True):
            view[start:end] = data
        return buffer, places - header_size, payloads, ends


def complete_headers(buffer: NDArray[np.uint8], headers: NDArray[np.void], positions: Int64s, ends: Int64s) -> None:
    """Writes the headers of v2 batches to their places before the records that are there. Of ``headers``
    (:data:`layouts.BATCH_V2`, shape ``(n,)``), size, magic and crc are filled in; ``positions``, ``ends``: where each
    batch begins and ends.

    Raises :class:`UsageError` for a batch of 2 GiB or more.
    """
    from brokerless.format.crc.kernels import crc32c_ranges

    sizes = ends - positions
    _check_sizes(sizes)
    headers["size"] = sizes - layouts.LOG_ENTRY_SIZE
    headers["magic"] = layouts.MAGIC_V2
    _put(buffer, positions, headers)
    checksums = np.empty(len(headers), np.uint32)
    crc32c_ranges(buffer, positions + layouts.BATCH_CRC_START, ends, checksums)
    _put(buffer, positions + layouts.position_of(layouts.BATCH_V2, "crc"), checksums.astype(">u4"))


def max_encoded_size(columns: RecordColumns, first: int, last: int, batches: int) -> int:
    """Return how many bytes the rows ``first`` to ``last`` take at most in so many v2 batches without a codec."""
    headers = columns.header_ends[first], columns.header_ends[last]
    rows = (columns.key_ends, first, last), (columns.value_ends, first, last)
    of_headers = (columns.header_key_ends, *headers), (columns.header_value_ends, *headers)
    data = sum(int(ends[end]) - int(ends[start]) for ends, start, end in (*rows, *of_headers))
    overhead = _RECORD_OVERHEAD * (last - first) + _HEADER_OVERHEAD * (int(headers[1]) - int(headers[0]))
    return data + overhead + layouts.BATCH_V2_SIZE * batches


def _runs(begin: int, end: int, *values: Int64s) -> list[slice]:
    """The runs of batches for which all these values are the same."""
    changes = np.zeros(end - begin, np.bool_)
    for each in values:
        changes[1:] |= np.diff(each[begin:end]) != 0
    borders = [begin, *(np.flatnonzero(changes) + begin).tolist(), end]
    return [slice(start, stop) for start, stop in pairwise(borders)]


def _put(buffer: NDArray[np.uint8], positions: Int64s, items: NDArray[Any]) -> None:
    """Writes items of a fixed size at any positions."""
    size = items.dtype.itemsize
    if len(items):
        at_every_byte = np.ndarray((len(buffer) - size + 1,), f"V{size}", buffer, strides=(1,))
        at_every_byte[positions] = np.ascontiguousarray(items).view(f"V{size}")


def _put_crc32(buffer: NDArray[np.uint8], positions: Int64s, ends: Int64s) -> None:
    from brokerless.format.crc.kernels import crc32_ranges

    checksums = np.empty(len(positions), np.uint32)
    crc32_ranges(buffer, positions + layouts.MESSAGE_CRC_START, ends, checksums)
    _put(buffer, positions + layouts.LOG_ENTRY_SIZE, checksums.astype(">u4"))


def _check_sizes(sizes: Int64s) -> None:
    if len(sizes) and int(sizes.max()) > LARGEST:
        raise too_large_error(int(sizes.max()))


def too_large_error(size: int) -> UsageError:
    return UsageError(f"a batch of {size} bytes: Kafka's batches are smaller than 2 GiB; set a smaller batch size")
