"""Leaves records out of batches, or changes their values; the bytes of all other batches stay unchanged.

A batch that loses records is built again in its format and codec (at Kafka's default level), and keeps what its header
says: in v2 the base and last offsets (and so the sequence numbers), leader epoch, producer, transaction and control
bits; the largest timestamp is that of the records that are left. A v0 or v1 wrapper gets the offset of its last message
that is left. A v2 batch without any records left is dropped, or retained as a header alone. On request, v0 and v1
become v2, as Kafka does since 4.0.

Sources: ``MemoryRecords.filterTo``, ``MemoryRecordsBuilder`` and ``DefaultRecordBatch.writeEmptyHeader`` (4.4.0);
KIP-98, KIP-534.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from brokerless.findings import Kind
from brokerless.format import layouts
from brokerless.format.arrays import Bools, Int64s
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.format.columns import Damage, RecordColumns, empty_columns
from brokerless.format.read.batch_headers import Batches
from brokerless.format.read.batch_scan import scan_batches
from brokerless.format.read.decoder import Decoder, decode_whole
from brokerless.format.write.column_slices import (
    MOST_BYTES,
    concat_buffers,
    concat_columns,
    data_size,
    filter_rows,
    slice_rows,
)
from brokerless.format.write.encoder import Encoder, build_headers


@dataclass(frozen=True, slots=True)
class WholeBatches:
    """``n`` consecutive batches of a buffer, each with all of its records."""

    buffer: NDArray[np.uint8]
    batches: Batches
    columns: RecordColumns
    """The records; batch ``i`` has the rows ``starts[i]`` to ``starts[i + 1]``."""
    starts: Int64s
    """int64, shape ``(n + 1,)``."""
    damages: list[Damage] = field(default_factory=list[Damage])
    """The damage in the batches; then some of their rows are missing."""

    @property
    def counts(self) -> Int64s:
        """How many rows each batch has: int64, shape ``(n,)``."""
        return np.diff(self.starts)

    def rows_of(self, rows: Bools) -> Int64s:
        """Return how many of ``rows`` (bool, one for each row) are true in each batch: int64, shape ``(n,)``."""
        sums = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(rows, out=sums[1:])
        return sums[self.starts[1:]] - sums[self.starts[:-1]]


@dataclass(frozen=True, slots=True)
class FilteredBatches:
    """Whole batches, one after another in ``buffer``."""

    buffer: NDArray[np.uint8]
    unchanged: Bools
    """Which input batches are unchanged copies (bool, shape ``(n,)``)."""
    dropped: Bools
    """Which input batches were dropped (bool, shape ``(n,)``). All others were built again, or are headers alone."""


class BatchFilter:
    """Reads batches whole, and writes them with some records left out; owns the decoder and the encoders, so one
    belongs to one thread. ``max_batch_bytes``: bytes that one batch may inflate to."""

    def __init__(self, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES) -> None:
        self._decoder = Decoder(max_batch_bytes=max_batch_bytes)
        self._encoders: dict[tuple[int, int], Encoder] = {}

    def read(self, buffer: NDArray[np.uint8], batches: Batches, base: int = 0) -> Iterator[WholeBatches]:
        """Return all of ``batches`` (whose checksums the caller has checked), some at a time, in order; batches without
        records are among them. ``base``: the position of the buffer's first byte in its file; damage has positions in
        the file."""
        return read_whole_batches(self._decoder, buffer, batches, base)

    def filter(
        self,
        whole: WholeBatches,
        keep: Bools,
        *,
        retain_empty: Bools | None = None,
        delete_horizons: Int64s | None = None,
        changed: Bools | None = None,
        columns: RecordColumns | None = None,
        upgrade: bool = False,
    ) -> FilteredBatches:
        """Return the batches with the rows where ``keep`` (bool, one for each row) is true. What follows has one value
        for each batch.

        ``retain_empty`` (bool): v2 batches that stay as a header alone if no record is left; by default they are
        dropped. ``delete_horizons`` (int64, ms): those that v2 batches get (KIP-534), -1 for none: then a batch keeps
        its own. ``changed`` (bool): batches that are built again in any case, as they have other values in ``columns``
        (by default, those of ``whole``), which has the same rows. A batch that never had records is unchanged where
        it is retained, unless it is ``changed``. ``upgrade``: v0 and v1 become v2, those that lose no record too.

        Raises :class:`UsageError` for a batch that would be 2 GiB or larger.
        """
        batches, counts = whole.batches, whole.counts
        kept = whole.rows_of(keep)
        horizons = np.full(len(batches), -1, np.int64) if delete_horizons is None else delete_horizons
        retained = (kept > 0) if retain_empty is None else (kept > 0) | (retain_empty & ~batches.is_legacy)
        rebuilt = retained & ((kept < counts) | (horizons >= 0))
        if changed is not None:
            rebuilt |= retained & changed
        if upgrade:
            rebuilt |= retained & batches.is_legacy
        unchanged = retained & ~rebuilt
        if unchanged.all():
            start = int(batches.positions[0]) if len(batches) else 0
            end = int(batches.ends[-1]) if len(batches) else 0
            if end - start == int(batches.sizes.sum()):
                return FilteredBatches(whole.buffer[start:end], unchanged, ~retained)
        ranges = _BatchRanges(len(batches))
        ranges.put(np.flatnonzero(unchanged), whole.buffer, batches.positions[unchanged], batches.ends[unchanged])
        for chosen, magic, codec in _kinds(batches, rebuilt & (kept > 0), upgrade):
            encoder = self._encoder(magic, codec)
            ranges.put(
                *_rebuild(
                    whole, columns or whole.columns, chosen, keep=keep, kept=kept, horizons=horizons, encoder=encoder
                )
            )
        emptied = np.flatnonzero(rebuilt & (kept == 0))
        if len(emptied):
            ranges.put(emptied, *_header_alone(batches.take(emptied), self._encoder(layouts.MAGIC_V2, 0)))
        return FilteredBatches(ranges.joined(), unchanged, ~retained)

    def _encoder(self, magic: int, codec: int) -> Encoder:
        if (magic, codec) not in self._encoders:
            self._encoders[magic, codec] = Encoder(magic, layouts.CODECS[codec])
        return self._encoders[magic, codec]


def read_whole_batches(
    decoder: Decoder, buffer: NDArray[np.uint8], batches: Batches, base: int = 0
) -> Iterator[WholeBatches]:
    """Read as :meth:`BatchFilter.read` does, with a decoder that may leave out columns."""
    counts, first = np.zeros(len(batches), np.int64), 0
    waiting: list[RecordColumns] = []
    damages: list[Damage] = []
    for decoded in decode_whole(decoder, buffer, batches, base):
        ordinals = np.searchsorted(batches.positions, decoded.positions - base)
        np.add.at(counts, ordinals, decoded.given)
        damages += decoded.damages
        columns = decoded.columns
        del decoded
        last = int(ordinals[-1]) if len(ordinals) else first
        if len(ordinals) and (batches.is_legacy[last] or counts[last] >= batches.count[last]):
            last += 1
        if sum(map(data_size, waiting)) + data_size(columns) > MOST_BYTES:
            text = "the records of a batch would take more than 2 GiB"
            damages.append(Damage(Kind.LIMIT_EXCEEDED, int(batches.positions[last]) + base, -1, text))
            waiting = []
            counts[last] = 0
            continue
        waiting.append(columns)
        del columns
        if last == first:
            continue
        joined = concat_columns(waiting)
        ready = int(counts[first:last].sum())
        waiting = [slice_rows(joined, ready, joined.rows)] if ready < joined.rows else []
        yield _whole(
            buffer, batches, first, last=last, columns=slice_rows(joined, 0, ready), counts=counts, damages=damages
        )
        del joined
        first, damages = last, []
    if first < len(batches) or damages:
        rest = concat_columns(waiting) if waiting else empty_columns()
        yield _whole(buffer, batches, first, last=len(batches), columns=rest, counts=counts, damages=damages)


def _whole(
    buffer: NDArray[np.uint8],
    batches: Batches,
    first: int,
    last: int,
    columns: RecordColumns,
    counts: Int64s,
    damages: list[Damage],
) -> WholeBatches:
    starts = np.zeros(last - first + 1, np.int64)
    np.cumsum(counts[first:last], out=starts[1:])
    return WholeBatches(buffer, batches.take(slice(first, last)), columns, starts=starts, damages=damages)


def _kinds(batches: Batches, rows: Bools, upgrade: bool) -> Iterator[tuple[Int64s, int, int]]:
    """Batches of each format and codec to write among some of them."""
    magic = np.clip(batches.magic, layouts.MAGIC_V2 if upgrade else layouts.MAGIC_V0, layouts.MAGIC_V2)
    kinds = magic.astype(np.int64) * 8 + batches.codec
    for kind in np.unique(kinds[rows]).tolist():
        yield np.flatnonzero(rows & (kinds == kind)), kind // 8, kind % 8


def _rebuild(
    whole: WholeBatches,
    columns: RecordColumns,
    chosen: Int64s,
    keep: Bools,
    kept: Int64s,
    horizons: Int64s,
    encoder: Encoder,
) -> tuple[Int64s, NDArray[np.uint8], Int64s, Int64s]:
    """Builds batches of one format and codec again, with the rows that are left: which batches, a buffer, and where
    each begins and ends in it."""
    among = np.zeros(len(whole.batches), np.bool_)
    among[chosen] = True
    rows = filter_rows(columns, keep & np.repeat(among, whole.counts))
    starts = np.zeros(len(chosen) + 1, np.int64)
    np.cumsum(kept[chosen], out=starts[1:])
    headers = _headers(whole.batches.take(chosen), rows, starts, horizons=horizons[chosen], magic=encoder.magic)
    buffer = encoder.encode(rows, starts, headers)
    positions = scan_batches(buffer).positions
    if len(positions) != len(chosen):  # messages without a codec: each row is an entry
        positions = positions[starts[:-1]]
    return chosen, buffer, positions, np.append(positions[1:], len(buffer))


def _headers(batches: Batches, rows: RecordColumns, starts: Int64s, horizons: Int64s, magic: int) -> NDArray[np.void]:
    """The headers of batches with fewer rows, in the format ``magic``; for v0 and v1, what an encoder takes of them."""
    firsts, is_legacy = starts[:-1], batches.is_legacy
    headers = build_headers(rows, starts)
    headers[~is_legacy] = batches.v2[~is_legacy]
    timestamps = rows.timestamp[: rows.rows]
    is_append_time = batches.timestamp_type == layouts.LOG_APPEND_TIME
    most = np.maximum(np.maximum.reduceat(timestamps, firsts), layouts.NO_TIMESTAMP)
    has_horizon = (magic >= layouts.MAGIC_V2) & ((horizons >= 0) | batches.has_delete_horizon)
    horizon = np.where(horizons >= 0, horizons, batches.base_timestamp)
    headers["max_timestamp"] = np.where(is_append_time, batches.max_timestamp, most)
    headers["base_timestamp"] = np.where(has_horizon, horizon, timestamps[firsts])
    headers["count"] = np.diff(starts)
    flags = batches.attributes.astype(np.int16) & ~(layouts.DELETE_HORIZON_BIT | layouts.CODEC_MASK)
    flags = np.where(is_legacy, flags & layouts.TIMESTAMP_TYPE_BIT * (batches.magic != layouts.MAGIC_V0), flags)
    headers["attributes"] = flags | np.where(has_horizon, layouts.DELETE_HORIZON_BIT, 0)
    return headers


def _header_alone(batches: Batches, encoder: Encoder) -> tuple[NDArray[np.uint8], Int64s, Int64s]:
    """The batches without records: a buffer, and where each begins and ends in it."""
    headers = batches.v2.copy()
    flags = batches.attributes.astype(np.int16) & ~(layouts.DELETE_HORIZON_BIT | layouts.CODEC_MASK)
    headers["attributes"], headers["base_timestamp"], headers["count"] = flags, layouts.NO_TIMESTAMP, 0
    buffer = encoder.encode(empty_columns(), np.zeros(len(batches) + 1, np.int64), headers)
    starts = np.arange(len(batches)) * layouts.BATCH_V2_SIZE
    return buffer, starts, starts + layouts.BATCH_V2_SIZE


class _BatchRanges:
    """Where the bytes of each batch are, among some buffers."""

    def __init__(self, count: int) -> None:
        self._buffers: list[NDArray[np.uint8]] = []
        self._buffer = np.full(count, -1, np.int64)
        self._starts, self._ends = np.zeros(count, np.int64), np.zeros(count, np.int64)

    def put(self, batches: Int64s, buffer: NDArray[np.uint8], starts: Int64s, ends: Int64s) -> None:
        self._buffer[batches], self._starts[batches], self._ends[batches] = len(self._buffers), starts, ends
        self._buffers.append(buffer)

    def joined(self) -> NDArray[np.uint8]:
        """Return the bytes of all batches that have any, in order."""
        chosen = np.flatnonzero(self._buffer >= 0)
        if not len(chosen):
            return np.empty(0, np.uint8)
        buffers, starts, ends = self._buffer[chosen], self._starts[chosen], self._ends[chosen]
        begins = np.ones(len(chosen), np.bool_)
        begins[1:] = (buffers[1:] != buffers[:-1]) | (starts[1:] != ends[:-1])
        firsts = np.flatnonzero(begins)
        lasts = np.append(firsts[1:], len(chosen)) - 1
        runs = zip(buffers[firsts].tolist(), starts[firsts].tolist(), ends[lasts].tolist(), strict=True)
        return concat_buffers([self._buffers[each][start:end] for each, start, end in runs])
