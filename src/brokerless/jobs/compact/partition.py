"""Cleans one partition: reads its keys, then its records, and writes those that stay.

As Kafka's cleaner, it reads the dirty segments first, for the last offset of each key, and then all that are cleaned.
Only where the keys take more memory than they may, it reads several times (:mod:`brokerless.jobs.compact.key_offsets`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import RefusedError, UsageError, refused_batch
from brokerless.findings import Finding, Kind
from brokerless.format.arrays import Bools
from brokerless.format.columns import Damage, RecordColumns
from brokerless.format.filter import BatchFilter, WholeBatches, read_whole_batches
from brokerless.format.read.batch_headers import Batches
from brokerless.format.read.decoder import Decoder
from brokerless.jobs.compact.decided_batches import BatchRun, DecidedBatches
from brokerless.jobs.compact.history import Aborts, History, SourceProducers, is_before, read_history
from brokerless.jobs.compact.key_offsets import KeyHasher, LastRows
from brokerless.jobs.compact.row_flags import RowFlags
from brokerless.jobs.compact.rules import CleanerRules
from brokerless.jobs.compact.segments import CleanableRange, SegmentGroup, find_cleanable
from brokerless.jobs.compact.settings import CompactSettings
from brokerless.jobs.compact.totals import CompactTotals, FrequentKey
from brokerless.log.commit.partition_writer import PartitionWriter
from brokerless.log.directory import PartitionPath
from brokerless.log.live_segments import OpenSegment, open_segments
from brokerless.log.offsets_once.batches import OffsetsOnce, earlier_offsets
from brokerless.log.ranges import Range, from_log_start
from brokerless.log.segment import Chunk, check_checksums, damage_finding, scan
from brokerless.log.walk import check_ends, walk_part
from brokerless.log.write.follower_append import whole_batches
from brokerless.offset_spans import Span
from brokerless.progress import Done, Report, ignore

_EVERY_HASH = (0, (1 << 64) - 1)


@dataclass(slots=True)
class CleanedPartition:
    """The state of a partition that is cleaned."""

    history: History
    cleanable: CleanableRange
    rules: CleanerRules
    totals: CompactTotals = field(default_factory=CompactTotals)
    damages: list[Finding] = field(default_factory=list[Finding])
    """The damage that keeps it from being written."""
    frequent: list[FrequentKey] = field(default_factory=list[FrequentKey])


class PartitionCleaner:
    """Cleans a partition into an output, or only counts without one. ``report`` gets all findings."""

    def __init__(
        self, source: PartitionPath, settings: CompactSettings, checkpoint: int | None, report: Report
    ) -> None:
        self._source, self._settings = source, settings
        self._report, self.damages = report, list[Finding]()
        for finding in source.findings:
            self.report(finding)
        history = read_history(source, settings.now_ms, self.report)
        cleanable = find_cleanable(source, history, settings, checkpoint)
        rules = CleanerRules(history, settings)
        self.result = CleanedPartition(history, cleanable, rules, damages=self.damages)
        self._dirty = _dirty(cleanable)
        self._mistaken: Aborts = {}
        if self._dirty:
            self._mistaken = history.mistaken_aborts(self._dirty[0], cleanable.first_dirty)
        # Of rows in the dirty segments, which are numbered from there on, and of those before.
        self._superseded, self._superseded_before = RowFlags(), RowFlags()
        self._rows, self._rows_before = 0, 0
        self._decided, self._batches = DecidedBatches(), 0
        self._has_others, self._is_marked, self._is_copied = False, False, False
        self._hasher, self._keys = KeyHasher(), LastRows(0)
        self._earlier: dict[int, list[Span]] = {}
        self._frequent: dict[int, int] = {}

    @property
    def first_producers(self) -> SourceProducers:
        """For the output: the producers where the log begins; it is then followed by :meth:`clean`."""
        return SourceProducers(self._source)

    def report(self, finding: Finding) -> None:
        """A gap between segments is no reason to leave a log alone: the cleaner goes on, and so does this."""
        if (
            finding.severity == "error" and finding.kind != Kind.MISSING_SEGMENT
        ) or finding.kind == Kind.TRUNCATED_BATCH:
            self.damages.append(finding)
        self._report(finding)

    def clean(self, output: PartitionWriter | None, producers: SourceProducers, done: Done) -> CleanedPartition:
        """Reads everything, and writes what stays. Where there is damage, the output is not complete."""
        source, cleanable, totals = self._source, self.result.cleanable, self.result.totals
        check_ends(source, self.report)
        self._find_keys(done)
        has_begun = False
        for group in (*cleanable.groups, *((each,) for each in cleanable.rest)):
            if self.damages:
                return self.result
            if output is not None:
                if has_begun:
                    output.roll(group[0].base_offset)
                output.keep_modified(group[0].base_offset, group[-1].log.modified)
            has_begun = True
            totals.segments_in += len(group)
            totals.segments_out += 1
            is_cleaned = group[0].base_offset < cleanable.first_uncleanable and bool(cleanable.groups)
            read = self._cleaned if is_cleaned else self._unchanged
            for buffer in read(group, producers, done):
                totals.bytes_out += len(buffer)
                self._append(output, buffer, group)
                if self.damages:
                    break
        if self._is_rolled:
            totals.segments_out += 1
            if output is not None and not self.damages:
                output.roll(self.result.history.end_offset)
                output.keep_modified(self.result.history.end_offset, None)
        self._check_unchanged()
        return self.result

    def _append(self, output: PartitionWriter | None, buffer: NDArray[np.uint8], group: SegmentGroup) -> None:
        if output is None or not len(buffer):
            return
        try:
            output.append(buffer, whole_batches(buffer, computed=True))
        except (RefusedError, UsageError) as error:
            self.report(refused_batch(group[0].log.path, error))

    def copy(self, done: Done) -> CleanedPartition:
        """Reads everything without cleaning any of it."""
        source, result = self._source, self.result
        self._is_copied = True
        check_ends(source, self.report)
        result.cleanable = CleanableRange(
            result.cleanable.first_dirty, result.cleanable.first_dirty, (), rest=(), legacy_horizon_ms=0
        )
        producers, segments = self.first_producers, from_log_start(source).segments(source.segments)
        for each in segments:
            for buffer in self._unchanged((each,), producers, lambda size: done(size // 2)):
                result.totals.bytes_out += len(buffer)
        result.totals.segments_in = result.totals.segments_out = len(segments)
        return result

    @property
    def _is_rolled(self) -> bool:
        """Whether the last segment was cleaned, so that a new one begins after it, as it was not active any more."""
        return bool(self.result.cleanable.groups) and not self.result.cleanable.rest

    def _find_keys(self, done: Done) -> None:
        """Reads the keys of the dirty segments, and marks the records that have a later one of their key."""
        rest: tuple[int, int] | None = _EVERY_HASH
        first = True
        while self.result.cleanable.groups and rest is not None and not self.damages:
            self._keys, start, number = LastRows(self._settings.key_bytes, *rest), 0, 0
            for whole in self._keys_of(self._dirty, done if first else _ignore):
                chosen, others = self._with_keys_to_put(whole)
                self._has_others |= bool(others.any())
                self._keys.put(chosen, self._hasher.hash(whole.columns, chosen), start, self._superseded)
                self._decided.note(number, whole, chosen)
                start, number = start + whole.columns.rows, number + len(whole.batches)
            self.result.totals.keys += self._keys.keys
            self.result.totals.passes += 1
            found = self._keys.most_frequent(self._settings.top_keys)
            self._frequent |= {row: records for row, records in found if records > 1}
            if first and self._keys.rest is None:
                return
            self._mark_others()
            self._is_marked = True
            first, rest = False, self._keys.rest

    def _with_keys_to_put(self, whole: WholeBatches) -> tuple[Bools, Bools]:
        """Return which rows of a dirty segment have keys that supersede others, and which may only be superseded."""
        columns = whole.columns
        may_stay = _with_key(columns)
        is_discarded = whole.batches.is_control | self.result.history.is_aborted(whole.batches)
        if is_discarded.any():
            may_stay &= ~np.repeat(is_discarded, whole.counts)
        chosen = may_stay & (columns.offset[: columns.rows] >= self.result.cleanable.first_dirty)
        if self._mistaken:
            chosen &= ~np.repeat(is_before(whole.batches, self._mistaken), whole.counts)
        return chosen, may_stay & ~chosen

    def _mark_others(self) -> None:
        """Looks up the records whose keys are not put, while one part of the keys is known."""
        start, before = 0, self.result.cleanable.cleaned[: -len(self._dirty) or None]
        for whole in self._keys_of(before, _ignore):
            rows = whole.columns.rows
            found = self._superseded_before.get(start, rows)
            self._look_up(whole.columns, _with_key(whole.columns), -rows, found)
            self._superseded_before.set(start, found)
            start += rows
        start = 0
        for whole in self._keys_of(self._dirty if self._has_others else (), _ignore):
            found = self._superseded.get(start, whole.columns.rows)
            self._look_up(whole.columns, self._with_keys_to_put(whole)[1], start, found)
            self._superseded.set(start, found)
            start += whole.columns.rows

    def _keys_of(self, segments: SegmentGroup, done: Done) -> Iterator[WholeBatches]:
        """Batches with the keys of their records, without values."""
        decoder = Decoder(values=False, headers=False, max_batch_bytes=self._settings.max_batch_bytes)
        for path, chunk in self._chunks(segments):
            for whole in read_whole_batches(decoder, chunk.buffer, chunk.batches, chunk.base):
                self._report_damage(path, whole.damages)
                if self.damages:
                    return
                yield whole
            done(int(chunk.batches.sizes.sum()))

    def _look_up(self, columns: RecordColumns, chosen: Bools, start: int, superseded: Bools) -> None:
        if chosen.any():
            self._keys.find_superseded(chosen, self._hasher.hash(columns, chosen), start, superseded)

    def _cleaned(self, group: SegmentGroup, producers: SourceProducers, done: Done) -> Iterator[NDArray[np.uint8]]:
        batch_filter, totals = BatchFilter(self._settings.max_batch_bytes), self.result.totals
        horizon = self.result.cleanable.legacy_horizon_ms
        modified = {each.log.path: each.log.modified or 0 for each in group}
        dirty = {each.log.path for each in self._dirty}
        for path, chunk in self._chunks(group, is_checked=True):
            self._follow(producers, chunk)
            totals.cleaned_bytes += int(chunk.batches.sizes.sum())
            for run in self._runs(chunk.batches, path in dirty):
                if run.is_intact:
                    yield self._count_unchanged(chunk, run.batches)
                    continue
                at = 0
                for whole in batch_filter.read(chunk.buffer, run.batches, chunk.base):
                    self._report_damage(path, whole.damages)
                    if self.damages:
                        return
                    if run.superseded is None:
                        superseded = self._superseded_rows(whole, path in dirty)
                    else:
                        superseded = run.superseded[at : at + whole.columns.rows]
                    at += whole.columns.rows
                    filtered = self._filtered(
                        batch_filter, whole, superseded, path=path, retains_legacy=modified[path] > horizon
                    )
                    if filtered is None:
                        return
                    yield filtered
            done(int(chunk.batches.sizes.sum()))

    def _filtered(
        self, batch_filter: BatchFilter, whole: WholeBatches, superseded: Bools, path: str, retains_legacy: bool
    ) -> NDArray[np.uint8] | None:
        """The bytes of what stays; None where Kafka would not write it."""
        rules, totals = self.result.rules, self.result.totals
        try:
            retained = rules.decide(whole, superseded, retains_legacy)
            filtered = batch_filter.filter(
                whole, retained.rows, retain_empty=retained.batches, delete_horizons=retained.delete_horizons,
                changed=retained.changed, upgrade=rules.upgrades,
            )  # fmt: skip
        except (RefusedError, UsageError) as error:
            self.report(refused_batch(path, error))
            return None
        totals.batches_in += len(whole.batches)
        totals.records_in += whole.columns.rows
        totals.batches_out += int((~filtered.dropped).sum())
        totals.records_out += int(retained.rows.sum())
        totals.bytes_in += int(whole.batches.sizes.sum())
        return filtered.buffer

    def _runs(self, batches: Batches, is_dirty: bool) -> tuple[BatchRun, ...]:
        """Return the runs of the next batches, with those that have to be decoded."""
        number = self._batches
        if is_dirty:
            self._batches += len(batches)
        if not is_dirty or self._has_others or self._frequent or not batches.all_v2:
            return (BatchRun(batches, False, None),)
        rows = int(batches.count.sum())
        superseded = self._superseded.get(self._rows, rows)
        self._rows += rows
        decided = self._decided.runs(number, batches, superseded, self.result.rules.stays_empty(batches))
        totals = self.result.totals
        totals.batches_in += decided.gone
        totals.records_in += decided.gone_records
        totals.bytes_in += decided.gone_bytes
        if decided.gone:
            self.result.rules.removed["superseded"] += decided.gone_records
        return decided.runs

    def _count_unchanged(self, chunk: Chunk, batches: Batches) -> NDArray[np.uint8]:
        """Neighbours, unchanged."""
        totals = self.result.totals
        totals.batches_in += len(batches)
        totals.batches_out += len(batches)
        records = int(np.where(batches.is_legacy, 1, np.maximum(batches.count, 0)).sum())
        totals.records_in += records
        totals.records_out += records
        totals.bytes_in += int(batches.sizes.sum())
        return chunk.buffer[int(batches.positions[0]) : int(batches.ends[-1])]

    def _superseded_rows(self, whole: WholeBatches, is_dirty: bool) -> Bools:
        """Return which of the next rows are superseded."""
        rows = whole.columns.rows
        if is_dirty:
            start, self._rows = self._rows, self._rows + rows
            found = self._superseded.get(start, rows)
            if self._has_others and not self._is_marked:
                self._look_up(whole.columns, self._with_keys_to_put(whole)[1], start, found)
            self._find_frequent(whole.columns, start)
            return found
        start, self._rows_before = self._rows_before, self._rows_before + rows
        found = self._superseded_before.get(start, rows)
        if not self._is_marked:
            self._look_up(whole.columns, _with_key(whole.columns), -rows, found)
        return found

    def _find_frequent(self, columns: RecordColumns, start: int) -> None:
        for each in sorted(each for each in self._frequent if start <= each < start + columns.rows):
            row = each - start
            key = columns.key_data[columns.key_ends[row] : columns.key_ends[row + 1]].tobytes()
            self.result.frequent.append(FrequentKey(key, self._frequent[each], int(columns.offset[row])))

    def _unchanged(self, group: SegmentGroup, producers: SourceProducers, done: Done) -> Iterator[NDArray[np.uint8]]:
        for _, chunk in self._chunks(group, is_checked=True):
            self._follow(producers, chunk, is_copied=True)
            done(2 * int(chunk.batches.sizes.sum()))
            yield self._count_unchanged(chunk, chunk.batches)

    def _chunks(self, segments: SegmentGroup, *, is_checked: bool = False) -> Iterator[tuple[str, Chunk]]:
        """The chunks of neighbours. ``is_checked``: gaps and the like are reported; else only what keeps keys away."""
        if not segments:
            return
        last = segments[-1].base_offset
        selected = from_log_start(self._source).narrow(Range(segments[0].base_offset, last + 1))
        report = self.report if is_checked else ignore
        opened_segments = walk_part if is_checked else open_segments
        for opened in opened_segments(self._source, report, selected):
            earlier = () if self._is_copied else self._earlier_than(opened)
            limit = self._settings.max_batch_bytes
            once = OffsetsOnce(opened.file, report, limit, earlier=earlier, next_base_offset=opened.next_base_offset)
            for chunk in scan(opened.file, report, opened.start):
                check_checksums(chunk, opened.file.path, self.report)
                if self.damages:
                    return
                found = chunk if self._is_copied else once.take(chunk)
                if len(found.batches):
                    yield opened.file.path, found

    def _earlier_than(self, opened: OpenSegment) -> list[Span]:
        """The offsets of a segment that those before it have; they are looked for once, and segments read thrice."""
        base_offset = opened.segment.base_offset
        if base_offset not in self._earlier:
            self._earlier[base_offset] = earlier_offsets(opened)
        return self._earlier[base_offset]

    def _follow(self, producers: SourceProducers, chunk: Chunk, *, is_copied: bool = False) -> None:
        if producers.has_recorded or (chunk.batches.producer_id >= 0).any():
            producers.follow(chunk.batches, chunk.buffer, is_copied=is_copied)
        else:
            producers.end_offset = int(chunk.batches.last_offset[-1]) + 1

    def _report_damage(self, path: str, damages: list[Damage]) -> None:
        for each in damages:
            self.report(damage_finding(path, each))

    def _check_unchanged(self) -> None:
        """A broker that cleaned or deleted segments meanwhile would make keys vanish that were in them."""
        from brokerless.log.live_segments import is_unchanged

        if self.damages:  # a segment that cannot be opened is no segment that was replaced
            return
        for each in self._source.segments[:-1]:
            if not is_unchanged(each):
                text = "this segment was replaced or deleted while the log was read: is a broker running? Try again"
                self.report(Kind.FILE_CHANGED.at(each.log.path, text, offset=each.base_offset))
                return


def _dirty(cleanable: CleanableRange) -> SegmentGroup:
    """The cleaned segments from the one on that holds the first dirty offset."""
    cleaned = cleanable.cleaned
    first = max((each.base_offset for each in cleaned if each.base_offset <= cleanable.first_dirty), default=0)
    return tuple(each for each in cleaned if each.base_offset >= first)


def _with_key(columns: RecordColumns) -> Bools:
    return columns.key_null[: columns.rows] == 0


def _ignore(_: int) -> None:
    pass
