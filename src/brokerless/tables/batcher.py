"""Groups the rows of one partition into Kafka batches, filled as a producer fills them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless import arrow
from brokerless.bounds import LAST_OFFSET, MAX_INT32
from brokerless.errors import UsageError
from brokerless.format import layouts
from brokerless.format.arrays import Int64s
from brokerless.format.columns import RecordColumns
from brokerless.format.read.batch_headers import Batches
from brokerless.format.write.compression_ratio import CompressionRatioEstimator
from brokerless.format.write.encoder import Encoder, build_headers, cut_batches
from brokerless.format.write.open_batch import OpenBatch
from brokerless.log.write.follower_append import whole_batches
from brokerless.schemas import RECORDS, TIMESTAMP, TIMESTAMP_TYPES
from brokerless.tables.record_batches import columns_of
from brokerless.tables.rows import RowError, not_rising

BATCH_SIZE = 16384
"""The default of the producer's ``batch.size``."""
_FEW = 64
_AT_ONCE = 32
"""Batches that are cut and encoded at once, if they are compressed: between two reads of the compression estimate."""
_BYTES_AT_ONCE = 4 << 20
"""The same for messages that are not compressed."""
_COLUMNS = ("key", "value", "headers", "offset", "timestamp", "timestampType")
_SCHEMA = pa.schema([RECORDS.field(name) for name in _COLUMNS])


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """How records become batches, by Kafka's names.

    Parameters
    ----------
    compression_type
        none, gzip, snappy, lz4 or zstd.
    compression_level
        As ``compression.gzip.level`` and so on; None for Kafka's default.
    batch_size
        Bytes, as ``batch.size`` of a producer.
    message_format
        0, 1 or 2.
    message_timestamp_type
        CreateTime or LogAppendTime, for records without a type of their own.
    """

    compression_type: str = "none"
    compression_level: int | None = None
    batch_size: int = BATCH_SIZE
    message_format: int = layouts.MAGIC_V2
    message_timestamp_type: str = TIMESTAMP_TYPES[layouts.CREATE_TIME]

    def encoder(self) -> Encoder:
        """Return an encoder with these settings. Raises :class:`UsageError` for an invalid one."""
        types = [name for number, name in TIMESTAMP_TYPES.items() if number >= 0]
        if self.message_timestamp_type not in types:
            raise UsageError(
                f"there is no timestamp type {self.message_timestamp_type!r}; there are {', '.join(types)}"
            )
        if self.message_format == layouts.MAGIC_V0 and self.message_timestamp_type != types[0]:
            raise UsageError("message format v0 has no timestamps, so no LogAppendTime")
        if not 0 <= self.batch_size <= MAX_INT32:
            raise UsageError(f"a batch size is from 0 to {MAX_INT32} bytes, not {self.batch_size}")
        return Encoder(self.message_format, self.compression_type, self.compression_level)

    @property
    def timestamp_type(self) -> int:
        """The number of ``message_timestamp_type``: 0 for CreateTime, 1 for LogAppendTime."""
        return next(number for number, name in TIMESTAMP_TYPES.items() if name == self.message_timestamp_type)


class Cut(NamedTuple):
    """Rows of a partition that are whole batches: what :meth:`Encoder.encode` takes."""

    columns: RecordColumns
    starts: Int64s
    headers: NDArray[np.void]


class Encoded(NamedTuple):
    """The bytes of batches, one after the other, with their headers, the size of each payload, and its size before
    compression."""

    buffer: NDArray[np.uint8]
    batches: Batches
    payloads: Int64s
    uncompressed: Int64s


def encode(encoder: Encoder, cut_batches: Cut) -> Encoded:
    buffer = encoder.encode(cut_batches.columns, cut_batches.starts, cut_batches.headers)
    return Encoded(buffer, whole_batches(buffer, computed=True), encoder.payloads, encoder.uncompressed)


def _whole(buffer: NDArray[np.uint8]) -> Encoded:
    batches = whole_batches(buffer, computed=True)
    payloads = batches.sizes - layouts.BATCH_V2_SIZE
    return Encoded(buffer, batches, payloads, payloads)


def observe(ratio: CompressionRatioEstimator, encoded: Encoded, settings: BatchSettings) -> None:
    """Corrects the estimate by how well these batches were compressed, if they were."""
    if settings.compression_type != "none":
        ratio.observe(encoded.payloads, encoded.uncompressed)


class Batcher:
    """Takes the rows of one partition in their order, and gives those that are whole batches.

    What is left of a batch that is not full waits for more rows, so batches are the same however rows come, but for the
    estimate of how well they compress. ``ratio``: that estimate, shared by the partitions of a topic; who encodes
    corrects it (:func:`observe`), and each cut uses it. ``start_offset``: of the first record, where there are no
    offsets; ``timestamp`` (ms): of records without one.
    """

    def __init__(
        self, settings: BatchSettings, ratio: CompressionRatioEstimator, start_offset: int, timestamp: int
    ) -> None:
        self.records = 0
        self.next_offset = start_offset
        self.settings = settings
        self.ratio = ratio
        self._timestamp = timestamp
        is_plain = (settings.compression_type, settings.message_format) == ("none", layouts.MAGIC_V2)
        self._filler = OpenBatch(settings.batch_size) if is_plain else None
        self._left: pa.RecordBatch | None = None

    @property
    def waiting_bytes(self) -> int:
        if self._filler is not None:
            return self._filler.waiting_bytes
        return 0 if self._left is None else self._left.nbytes

    def add(self, rows: pa.RecordBatch, numbers: Int64s) -> Iterator[Cut | Encoded]:
        """Yield those batches that are full now, some at a time: cut, or encoded already where that takes no longer.
        ``rows``: as :func:`rows.normalize` gives them, one or more; ``numbers``: the number of each in the input, shape
        ``(len(rows),)``, for errors.

        Raises :class:`RowError` if offsets do not rise, or the format cannot hold what a row has.
        """
        batch = self._complete(rows, numbers)
        self.records += batch.num_rows
        if self._filler is not None:
            yield from map(_whole, self._filler.add(columns_of(batch)))
            return
        left, self._left = self._left, None
        if left is not None:
            # Copying all rows after those that are left would take longer than cutting them: enough for a few batches.
            head = min(batch.num_rows, 2 * left.num_rows + self._rows_of_a_batch(batch) + _FEW)
            yield from self._cut(pa.concat_batches([left, batch.slice(0, head)]), is_last=False)
            if head == batch.num_rows:
                return
            left, self._left = self._left, None
            rest = 0 if left is None else left.num_rows
            if left is None or rest <= head:
                batch = batch.slice(head - rest)
            else:
                batch = pa.concat_batches([left, batch.slice(head)])
        yield from self._cut(batch, is_last=False)

    def finish(self) -> Iterator[Cut | Encoded]:
        """Yield the last batch, if there is one."""
        if self._filler is not None:
            yield from map(_whole, self._filler.finish())
        left, self._left = self._left, None
        if left is not None:
            yield from self._cut(left, is_last=True)

    def _rows_of_a_batch(self, rows: pa.RecordBatch) -> int:
        """Return about how many of these rows fill a batch."""
        ratio = 1.0 if self.settings.compression_type == "none" else float(self.ratio.estimate)
        return int(self.settings.batch_size / ratio * rows.num_rows / max(1, rows.nbytes))

    def _complete(self, rows: pa.RecordBatch, numbers: Int64s) -> pa.RecordBatch:
        """Return rows with all columns; offsets and timestamps are assigned where there are none."""
        count, names = rows.num_rows, rows.schema.names
        if "offset" in names:
            offset = rows.column("offset")
            self._check_offsets(arrow.numbers(offset, np.int64), numbers)
            self.next_offset = offset[count - 1].as_py() + 1
        else:
            check_room(count, self.next_offset)
            offset = arrow.column_of_numbers(pa.int64(), np.arange(self.next_offset, self.next_offset + count))
            self.next_offset += count
        magic = self.settings.message_format
        if "timestamp" in names:
            timestamp = rows.column("timestamp")
            if magic == layouts.MAGIC_V0:
                _refuse(arrow.numbers(timestamp, np.int64) != -1, numbers, "timestamp", "format v0 has no timestamps")
        else:
            default = -1 if magic == layouts.MAGIC_V0 else self._timestamp
            timestamp = arrow.column_of_numbers(TIMESTAMP, np.full(count, default, np.int64))
        if "timestampType" in names:
            timestamp_type = rows.column("timestampType")
        else:
            types = np.full(count, self.settings.timestamp_type, np.int32)
            timestamp_type = arrow.column_of_numbers(pa.int32(), types)
        if magic < layouts.MAGIC_V2:
            ends = arrow.ends(rows.column("headers"))
            _refuse(ends[1:] > ends[:-1], numbers, "headers", f"format v{magic} has no headers")
        contents = [rows.column(name) for name in ("key", "value", "headers")]
        return pa.RecordBatch.from_arrays([*contents, offset, timestamp, timestamp_type], schema=_SCHEMA)

    def _check_offsets(self, offsets: Int64s, numbers: Int64s) -> None:
        before = np.concatenate([[self.next_offset - 1], offsets[:-1]])
        wrong = offsets <= before
        if wrong.any():
            at = int(np.argmax(wrong))
            if at == 0 and not self.records:
                reason = f"is {offsets[0]}, below the start offset {self.next_offset}"
                raise RowError(int(numbers[at]), "offset", reason)
            raise not_rising(int(numbers[at]), int(offsets[at]), int(before[at]))

    def _cut(self, batch: pa.RecordBatch, is_last: bool) -> Iterator[Cut]:
        columns = columns_of(batch)
        breaks = _breaks(columns.timestamp_type, columns.timestamp)
        settings = self.settings
        first = 0
        while first < batch.num_rows:
            if settings.compression_type == "none":
                estimate, most = None, max(_AT_ONCE, _BYTES_AT_ONCE // max(1, settings.batch_size))
            else:
                estimate, most = float(self.ratio.estimate), _AT_ONCE
            starts = cut_batches(
                columns,
                settings.batch_size,
                estimate,
                breaks=breaks,
                magic=settings.message_format,
                first=first,
                most=most,
            )
            if not is_last and starts[-1] == batch.num_rows:
                starts = starts[:-1]  # the last one may not be full
            if len(starts) < 2:
                break
            first = int(starts[-1])
            yield Cut(columns, starts, build_headers(columns, starts))
        if first < batch.num_rows:
            # Copied, so that a few rows do not keep all others in memory; taking them by number is seven times slower.
            self._left = pa.concat_batches([batch.slice(first), batch.slice(0, 0)])


def check_room(count: int, next_offset: int) -> None:
    """Raises :class:`UsageError` where so many records cannot have offsets from ``next_offset`` on."""
    if count > LAST_OFFSET + 1 - next_offset:
        raise UsageError(f"{count} records from offset {next_offset} on have no offsets: 2^63 - 2 is the last")


def _breaks(types: NDArray[np.int8], timestamps: Int64s) -> NDArray[np.bool_] | None:
    """Return where a batch has to begin: it has one timestamp type, and with LogAppendTime one timestamp."""
    is_append_time = types == layouts.LOG_APPEND_TIME
    if not is_append_time.any():
        return None
    breaks = np.zeros(len(types), np.bool_)
    breaks[1:] = is_append_time[1:] != is_append_time[:-1]
    breaks[1:] |= is_append_time[1:] & (timestamps[1:] != timestamps[:-1])
    return breaks


def _refuse(wrong: NDArray[np.bool_], numbers: Int64s, column: str, reason: str) -> None:
    if wrong.any():
        at = int(np.argmax(wrong))
        raise RowError(
            int(numbers[at]), column, f"{reason}, and this record has some; leave the column out to drop them"
        )
