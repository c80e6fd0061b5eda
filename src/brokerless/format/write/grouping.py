"""Groups decoded records that may share a batch, and makes the headers of the new batches.

Records may share a batch if the header fields that hold for a whole batch are the same in the batches they come from:
timestamp type (and the timestamp itself where it is the log's), producer and consecutive sequences, transaction, leader
epoch, delete horizon (KIP-98, KIP-101, KIP-534).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT32
from brokerless.findings import Kind
from brokerless.format import layouts
from brokerless.format.arrays import Int64s
from brokerless.format.columns import Damage, RecordColumns
from brokerless.format.read.batch_headers import Batches, increment_sequence
from brokerless.format.read.decoder import BatchDecoder, DecodedRecords, decode_whole
from brokerless.format.write.column_slices import concat_columns, filter_rows, slice_rows
from brokerless.format.write.encoder import build_headers


@dataclass(frozen=True)
class BatchGroup:
    """Rows, and the ``n`` batches that they come from, each of which has one row at least."""

    columns: RecordColumns
    batches: Batches
    magic: NDArray[np.int8]
    """The format that each batch is to get."""
    codec: NDArray[np.int8]
    """The codec that each batch is to get."""
    ordinals: Int64s
    """The number of each batch among those that are converted at a time."""
    given: Int64s
    """How many rows each batch has."""
    before: int = 0
    """How many rows of the first batch came before."""

    def _of(
        self, columns: RecordColumns, some: slice | NDArray[np.bool_], given: Int64s, before: int = 0
    ) -> BatchGroup:
        """Other rows of some of the batches."""
        batches = self.batches.take(some)
        return BatchGroup(
            columns,
            batches,
            self.magic[some],
            codec=self.codec[some],
            ordinals=self.ordinals[some],
            given=given,
            before=before,
        )

    @cached_property
    def firsts(self) -> Int64s:
        """The first row of each batch."""
        return np.cumsum(self.given) - self.given

    @cached_property
    def is_complete(self) -> bool:
        """Whether all rows of the last batch are here."""
        if not len(self.batches) or self.batches.is_legacy[-1]:
            return True
        before = self.before if len(self.given) == 1 else 0
        return before + int(self.given[-1]) >= int(self.batches.count[-1])

    def source_of(self, rows: Int64s) -> Int64s:
        """Return the batch, by its place here, that each of some rows comes from."""
        return np.searchsorted(self.firsts, rows, side="right") - 1

    def between(self, first: int, last: int) -> BatchGroup:
        """Return the batches from ``first`` on and before ``last``."""
        if last - first == len(self.given):
            return self
        start = int(self.firsts[first])
        stop = int(self.firsts[last - 1] + self.given[last - 1])
        chosen = slice(first, last)
        columns = slice_rows(self.columns, start, stop)
        return self._of(columns, chosen, self.given[chosen], 0 if first else self.before)

    def after(self, row: int) -> BatchGroup:
        """Return the rows from ``row`` on."""
        (source,) = self.source_of(np.array([row])).tolist()
        gone = row - int(self.firsts[source])
        given = self.given[source:].copy()
        given[0] -= gone
        before = gone + (self.before if source == 0 else 0)
        return self._of(slice_rows(self.columns, row, self.columns.rows), slice(source, None), given, before)

    def from_offset(self, offset: int) -> BatchGroup:
        """Return the same without records below ``offset`` that are of batches without a codec."""
        rows = (self.columns.offset[: self.columns.rows] >= offset) | np.repeat(self.batches.codec != 0, self.given)
        if rows.all():
            return self
        given = np.add.reduceat(rows.astype(np.int64), self.firsts)
        return self._of(filter_rows(self.columns, rows), given > 0, given[given > 0])

    def moved(self, by: int) -> BatchGroup:
        """Return the same with other ordinals."""
        return replace(self, ordinals=self.ordinals + by)

    def damages(self, base: int) -> list[Damage]:
        """Damage: batches whose offsets do not increase, or do not fit into a batch; ``base`` as in
        :meth:`Decoder.decode`."""
        offset = self.columns.offset[: self.columns.rows]
        first, last = offset[self.firsts], offset[self.firsts + self.given - 1]
        least = np.where(self.batches.is_legacy, np.maximum(first, 0), self.batches.entry_offset)
        wrong = (first < least) | (last - least > MAX_INT32)
        falls = offset[1:] <= offset[:-1]
        falls[self.firsts[1:] - 1] = False
        wrong[self.source_of(np.flatnonzero(falls) + 1)] = True
        text = "the offsets of the batch's records do not increase, or are too far apart"
        positions, offsets = self.batches.positions[wrong] + base, self.batches.entry_offset[wrong]
        return [
            Damage(Kind.RECORD_INVALID, position, offset, text)
            for position, offset in zip(positions.tolist(), offsets.tolist(), strict=True)
        ]

    def breaks(self) -> NDArray[np.bool_]:
        """Return the rows (bool) with which a batch must begin; all have one target format and codec."""
        batches = self.batches
        append_time = np.where(batches.timestamp_type == layouts.LOG_APPEND_TIME, batches.max_timestamp, -1)
        same = [self.ordinals - np.arange(len(self.ordinals)), batches.timestamp_type, append_time]
        first, last = self._ranges
        together = np.ones(len(self.given), np.bool_)
        together[1:] &= first[1:] > last[:-1]
        if self.magic[0] == layouts.MAGIC_V2:
            horizon = np.where(batches.has_delete_horizon, batches.base_timestamp, -1)
            same += [horizon, batches.partition_leader_epoch, batches.producer_id, batches.producer_epoch]
            same += [batches.is_transactional]
            one = np.ones(len(batches) - 1, np.int32)
            follows = batches.base_sequence[1:] == increment_sequence(batches.last_sequence[:-1], one)
            follows &= first[1:] == last[:-1] + 1
            together[1:] &= (batches.producer_id[1:] == layouts.NO_PRODUCER_ID) | follows
        for each in same:
            together[1:] &= each[1:] == each[:-1]
        together[:1] = False
        breaks = np.zeros(self.columns.rows, np.bool_)
        breaks[self.firsts[~together]] = True
        return breaks

    @cached_property
    def _ranges(self) -> tuple[Int64s, Int64s]:
        """The base and last offset of each batch: by the header of v2, by the rows' offsets otherwise."""
        offset = self.columns.offset
        first, last = offset[self.firsts], offset[self.firsts + self.given - 1]
        whole = ~self.batches.is_legacy
        whole[:1] &= self.before == 0
        return np.where(whole, self.batches.entry_offset, first), np.maximum(last, self.batches.last_offset)

    def headers(self, starts: Int64s) -> NDArray[np.void]:
        """Return headers (:data:`layouts.BATCH_V2`) for batches of the rows ``starts[i]`` to ``starts[i + 1]``. A batch
        of exactly the rows of one v2 batch gets its header (but the base timestamp of LogAppendTime is that time, as in
        Kafka's builder)."""
        headers = build_headers(self.columns, starts)
        if self.magic[0] < layouts.MAGIC_V2 or self.batches.is_legacy.all():
            return headers
        batches, offset = self.batches, self.columns.offset
        first, last = self.source_of(starts[:-1]), self.source_of(starts[1:] - 1)
        begins = self.firsts[first] == starts[:-1]
        begins[:1] &= (self.before == 0) | (first[:1] > 0)
        ends = self.firsts[last] + self.given[last] == starts[1:]
        bases = np.where(begins, self._ranges[0][first], offset[starts[:-1]])
        lasts = np.where(ends, self._ranges[1][last], offset[starts[1:] - 1])
        fits = lasts - bases <= MAX_INT32
        headers["base_offset"] = np.where(fits, bases, offset[starts[:-1]])
        headers["last_offset_delta"] = np.where(fits, lasts - bases, headers["last_offset_delta"])
        flags = np.where(batches.is_transactional[first], layouts.TRANSACTIONAL_BIT, 0)
        flags |= np.where(batches.has_delete_horizon[first], layouts.DELETE_HORIZON_BIT, 0)
        headers["attributes"] |= flags.astype(np.int16)
        horizons = np.where(batches.has_delete_horizon[first], batches.base_timestamp[first], headers["base_timestamp"])
        headers["base_timestamp"] = horizons
        headers["partition_leader_epoch"] = batches.partition_leader_epoch[first]
        headers["producer_id"] = batches.producer_id[first]
        headers["producer_epoch"] = batches.producer_epoch[first]
        sequences = np.where(begins & fits, batches.base_sequence[first], self.columns.sequence[starts[:-1]])
        headers["base_sequence"] = np.where(
            batches.producer_id[first] == layouts.NO_PRODUCER_ID, layouts.NO_SEQUENCE, sequences
        )
        same = begins & ends & (first == last) & ~batches.is_legacy[first]
        headers[same] = batches.v2[first[same]]
        is_append_time = (batches.timestamp_type[first] == layouts.LOG_APPEND_TIME) & ~batches.has_delete_horizon[first]
        headers["base_timestamp"][is_append_time] = headers["max_timestamp"][is_append_time]
        return headers


def join_groups(one: BatchGroup, other: BatchGroup) -> BatchGroup:
    """Return the rows of one and then those of the other; the last batch of the one may continue in the other."""
    if not len(other.given):
        return one
    columns = concat_columns([one.columns, other.columns])
    continues = one.ordinals[-1] == other.ordinals[0]
    given = np.concatenate([one.given, other.given])
    if continues:
        given[len(one.given)] += given[len(one.given) - 1]
        given = np.delete(given, len(one.given) - 1)
    kept = one.batches.take(slice(0, -1)) if continues else one.batches
    batches = Batches(
        np.concatenate([kept.positions, other.batches.positions]),
        np.concatenate([kept.raw, other.batches.raw]),
        other.batches.buffer_size,
    )
    magic = np.concatenate([one.magic[: len(kept)], other.magic])
    codec = np.concatenate([one.codec[: len(kept)], other.codec])
    ordinals = np.concatenate([one.ordinals[: len(kept)], other.ordinals])
    return BatchGroup(columns, batches, magic, codec=codec, ordinals=ordinals, given=given, before=one.before)


def decode_groups(
    decoder: BatchDecoder,
    buffer: NDArray[np.uint8],
    batches: Batches,
    rows: Int64s,
    magic: NDArray[np.int8],
    codec: NDArray[np.int8],
    base: int = 0,
) -> Iterator[tuple[BatchGroup, list[Damage], Int64s]]:
    """Decodes those of ``batches`` that are in ``rows``, in groups; with each, the damage in its batches, and which of
    ``batches`` these are, those without records included. ``magic``, ``codec``: as :func:`group_batches` takes them.
    ``base``: the position of the buffer's first byte in its file."""
    chosen = batches.take(rows)
    for decoded in decode_whole(decoder, buffer, chosen, base):
        ordinals = rows[np.searchsorted(chosen.positions, decoded.positions - base)]
        group = group_batches(decoded, batches, magic, codec=codec, ordinals=ordinals)
        damages = [*decoded.damages, *group.damages(base)]
        del decoded
        yield group, damages, ordinals
        del group  # free it before the next allocation


def group_batches(
    decoded: DecodedRecords, batches: Batches, magic: NDArray[np.int8], codec: NDArray[np.int8], ordinals: Int64s
) -> BatchGroup:
    """Group decoded rows by their batches. ``ordinals``: the place among ``batches`` of each of ``decoded``'s;
    ``magic`` and ``codec``: what all of ``batches`` are to become."""
    some = ordinals[decoded.given > 0]
    given = decoded.given[decoded.given > 0].astype(np.int64)
    return BatchGroup(decoded.columns, batches.take(some), magic[some], codec=codec[some], ordinals=some, given=given)
