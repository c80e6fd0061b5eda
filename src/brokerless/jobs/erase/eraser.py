"""Erases selected records from batches: touched batches are rebuilt, all others stay byte-identical."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokerless.findings import Kind
from brokerless.format import layouts
from brokerless.format.arrays import Int64s
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.format.columns import Damage
from brokerless.format.convert import ConversionTotals, ConvertedBatches
from brokerless.format.filter import BatchFilter, WholeBatches
from brokerless.format.read.batch_headers import Batches
from brokerless.format.read.batch_scan import scan_batches
from brokerless.format.read.decoder import Decoder, decode_whole
from brokerless.format.write.column_slices import concat_buffers, slice_rows
from brokerless.jobs.erase.blanking import Blanking, RecordEdits, blank_values
from brokerless.jobs.erase.digests import OutputHashes, digest_kept
from brokerless.jobs.erase.field_counts import FieldCount
from brokerless.jobs.erase.selection import RecordMatcher

_FEW_RUNS = 64
"""Of batches between touched ones; more of them are written at once, as are those of v0 and v1, each of which makes the
log forget leader epochs that are assigned before."""


@dataclass(frozen=True, slots=True)
class TouchedBatch:
    """A batch that lost records, or values of records."""

    base_offset: int
    last_offset: int
    offsets: Int64s
    """The offsets of the selected records, int64."""
    records: tuple[int, int]
    """How many records it has before and after."""
    size: tuple[int, int]
    """Its bytes before and after; the latter are 0 for a batch of v0 or v1 that is not there any more."""
    digest: str
    """The digest of what stays (:func:`brokerless.jobs.erase.digests.digest_kept`), the same before and after; empty
    without a manifest."""
    edits: tuple[RecordEdits, ...] | None = None
    """Where fields were blanked, what changed of the value of each selected record."""

    def as_dict(self) -> dict[str, Any]:
        """Return the object that a manifest has."""
        return {
            "baseOffset": self.base_offset,
            "lastOffset": self.last_offset,
            "offsets": self.offsets.tolist(),
            "recordsBefore": self.records[0],
            "recordsAfter": self.records[1],
            "sizeBefore": self.size[0],
            "sizeAfter": self.size[1],
            "keptSha256": self.digest,
            **({} if self.edits is None else {"edits": self.edits}),
        }


@dataclass(slots=True)
class ErasureTotals(ConversionTotals):
    """The counts of an erasure in one partition, and each touched batch."""

    selected: int = 0
    """How many records were removed or blanked."""
    touched: list[TouchedBatch] = field(default_factory=list[TouchedBatch])
    """The touched batches, by offset."""
    unchanged: int = 0
    """How many selected records have a value in which there was nothing to blank, so that it stayed."""
    fields: list[FieldCount] = field(default_factory=list[FieldCount])
    """What selected values had of each field that is blanked."""


class Eraser:
    """Removes or blanks the records that a matcher selects; belongs to one thread. ``totals`` grows.

    A batch of v2 that has none left stays as an empty batch with its offsets, producer and sequences, as the cleaner
    leaves a producer's last one: so the log has no gap between batches, and producer snapshots, transaction indexes and
    leader epochs stay true. Those of v0 and v1 are left out, for these formats have no empty batches.
    """

    def __init__(
        self, matcher: RecordMatcher, blanking: Blanking | None = None, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        *, topic: str = "", needs: tuple[bool, bool, bool] = (True, True, True), hashes: OutputHashes | None = None,
    ) -> None:  # fmt: skip
        """Make an eraser of what ``matcher`` selects. ``topic`` is the one whose values are blanked. ``needs`` says
        whether the matcher reads keys, values and headers. ``max_batch_bytes`` are the bytes that one batch may inflate
        to. ``hashes`` are those of a manifest, which get what is written."""
        keys, values, headers = needs
        self.totals = ErasureTotals()
        self.legacy_until = self.read_until = 0
        """The offset after the last touched batch of v0 or v1, and after the last batch."""
        self.blanker = None
        if blanking is not None and blanking.fields:
            self.blanker = blanking.blanker(topic)
            self.totals.fields = [FieldCount(each) for each in blanking.fields]
        self._matcher, self._blanking, self._hashes = matcher, blanking, hashes
        self._decoder = Decoder(keys=keys, values=values, headers=headers, max_batch_bytes=max_batch_bytes)
        self._filter = BatchFilter(max_batch_bytes)

    def convert(self, buffer: NDArray[np.uint8], batches: Batches, base: int = 0) -> Iterator[ConvertedBatches]:
        """Yield the batches of a chunk (whose checksums the caller has checked), in log order, as one buffer; before
        it, the damage in them. ``base``: the position of the buffer's first byte in its file."""
        totals = self.totals
        selected, records, damages = self._select(buffer, batches, base)
        if damages:
            yield ConvertedBatches(_NOTHING, damages)
            return
        rows = np.array(sorted(selected), np.int64)
        self.read_until = max(self.read_until, int(batches.last_offset.max(initial=-1)) + 1)
        totals.batches_in += len(batches)
        totals.records_in += records
        totals.bytes_in += int(batches.sizes.sum())
        rebuilt: dict[int, NDArray[np.uint8]] = {}
        for row, data, touched in self._rebuild(buffer, batches, rows, selected=selected, base=base):
            if isinstance(data, Damage) or touched is None:
                yield ConvertedBatches(_NOTHING, [data] if isinstance(data, Damage) else [])
                return
            rebuilt[row] = data
            totals.touched.append(touched)
            totals.selected += len(touched.offsets)
            totals.converted += touched.records[1]
            if batches.is_legacy[row]:
                self.legacy_until = max(self.legacy_until, touched.last_offset + 1)
        runs = list(_among(buffer, batches, rows, rebuilt))
        totals.batches_out += len(batches) - sum(not len(data) for data in rebuilt.values())
        totals.records_out += records - (0 if self._blanking else sum(map(len, selected.values())))
        totals.bytes_out += sum(len(each.buffer) for each in runs)
        if len(runs) > _FEW_RUNS or not batches.all_v2:
            runs = [ConvertedBatches(concat_buffers([each.buffer for each in runs]))]
        if self._hashes is None or not len(batches):
            yield from runs
            return
        self._hashes.begin(buffer, batches, base, rows, [each.buffer for each in runs])
        yield from runs
        self._hashes.wait()

    def flush(self) -> Iterator[ConvertedBatches]:
        """Nothing is ever retained for the next chunk."""
        return iter(())

    def _select(
        self, buffer: NDArray[np.uint8], batches: Batches, base: int
    ) -> tuple[dict[int, Int64s], int, list[Damage]]:
        """The offsets of selected records by the batch's row, the number of all records, and damage in the batches."""
        parts: dict[int, list[Int64s]] = {}
        damages: list[Damage] = []
        records = 0
        for decoded in decode_whole(self._decoder, buffer, batches, base):
            damages += decoded.damages
            records += decoded.columns.rows
            found = np.flatnonzero(self._matcher.match(decoded))
            if not len(found):
                continue
            sources = np.repeat(np.searchsorted(batches.positions, decoded.positions - base), decoded.given)[found]
            offsets = decoded.columns.offset[found]
            borders = [0, *(np.flatnonzero(np.diff(sources)) + 1).tolist(), len(found)]
            for start, end in pairwise(borders):
                parts.setdefault(int(sources[start]), []).append(offsets[start:end].copy())
        return {row: np.concatenate(each) for row, each in parts.items()}, records, damages

    def _rebuild(
        self, buffer: NDArray[np.uint8], batches: Batches, rows: Int64s, selected: dict[int, Int64s], base: int
    ) -> Iterator[tuple[int, NDArray[np.uint8] | Damage, TouchedBatch | None]]:
        """The new bytes of each touched batch (none of one that is dropped), and what became of it."""
        first = 0
        for whole in self._filter.read(buffer, batches.take(rows), base) if len(rows) else ():
            part, first = rows[first : first + len(whole.batches)], first + len(whole.batches)
            offsets = np.concatenate([selected[row] for row in part.tolist()])
            chosen = np.isin(whole.columns.offset[: whole.columns.rows], offsets)
            problems = whole.damages
            columns, edits = None, dict[int, RecordEdits]()
            if self._blanking is not None and not problems:
                blanked = blank_values(whole.columns, chosen, self.blanker, self.totals.fields)
                if isinstance(blanked, str):
                    problems = [Damage(Kind.NOT_BLANKED, base + int(whole.batches.positions[0]), -1, blanked)]
                else:
                    columns, edits = blanked
                    is_null = whole.columns.value_null[: whole.columns.rows] != 0
                    nulls = set(whole.columns.offset[: whole.columns.rows][chosen & is_null].tolist())
                    self.totals.unchanged += sum(not edits[each] and each not in nulls for each in edits)
            if problems:
                yield -1, problems[0], None
                return
            every = np.ones(len(whole.batches), np.bool_)
            if columns is None:
                filtered = self._filter.filter(whole, ~chosen, retain_empty=every)
                counts = whole.rows_of(~chosen)
            else:
                kept = np.ones(whole.columns.rows, np.bool_)
                filtered = self._filter.filter(whole, kept, changed=every, columns=columns)
                counts = whole.counts
            positions = scan_batches(filtered.buffer).positions
            starts = np.append(positions, len(filtered.buffer))
            at = 0
            for number, row in enumerate(part.tolist()):
                data = _NOTHING
                if not filtered.dropped[number]:
                    data, at = filtered.buffer[starts[at] : starts[at + 1]], at + 1
                records = int(whole.counts[number]), int(counts[number])
                touched = self._touched(whole, number, chosen, offsets=selected[row], records=records, size=len(data))
                if self.blanker is not None:
                    touched = replace(touched, edits=tuple(edits[offset] for offset in selected[row].tolist()))
                yield row, data, touched

    def _touched(
        self,
        whole: WholeBatches,
        number: int,
        chosen: NDArray[np.bool_],
        offsets: Int64s,
        records: tuple[int, int],
        size: int,
    ) -> TouchedBatch:
        batches, rows = whole.batches, slice(int(whole.starts[number]), int(whole.starts[number + 1]))
        columns = slice_rows(whole.columns, rows.start, rows.stop)
        is_legacy = bool(batches.is_legacy[number])
        first = int(columns.offset[0]) if is_legacy else int(batches.entry_offset[number])
        last = int(batches.last_offset[number])
        sizes = int(batches.sizes[number]), size
        digest = ""
        if self._hashes is not None:
            digest = digest_kept(columns, chosen[rows], is_blanked=self._blanking is not None)
        return TouchedBatch(min(first, last), last, offsets, records=records, size=sizes, digest=digest)


def _among(
    buffer: NDArray[np.uint8], batches: Batches, rows: Int64s, rebuilt: dict[int, NDArray[np.uint8]]
) -> Iterator[ConvertedBatches]:
    """All batches: slices of the buffer with their headers, as few as possible, and rebuilt ones in their places."""
    kept = np.ones(len(batches), np.bool_)
    kept[rows] = False
    apart = batches.positions[1:] != batches.ends[:-1]
    borders = np.flatnonzero(apart | ~kept[1:] | ~kept[:-1]) + 1
    is_known = bool(((batches.magic >= 0) & (batches.magic <= layouts.MAGIC_V2)).all())
    for start, end in pairwise([0, *borders.tolist(), len(batches)]):
        if not kept[start]:
            yield ConvertedBatches(rebuilt[start])
            continue
        first, last = int(batches.positions[start]), int(batches.ends[end - 1])
        own = batches
        if first or end - start < len(batches):
            own = Batches(batches.positions[start:end] - first, batches.raw[start:end], last - first)
        yield ConvertedBatches(buffer[first:last], batches=own if is_known else None)


_NOTHING = np.empty(0, np.uint8)
