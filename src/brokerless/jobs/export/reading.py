"""Reads the records of an offset range, and tracks which offsets were read, damaged or missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless import arrow
from brokerless.findings import NOT_OPENED, Finding, Kind
from brokerless.format.layouts import NO_TIMESTAMP
from brokerless.format.read.batch_headers import Batches, read_headers
from brokerless.log.directory import PartitionPath
from brokerless.log.live_segments import OpenSegment, open_segments
from brokerless.log.offset_gaps import missing_offsets, missing_segment
from brokerless.log.offsets_once.findings import misplaced, not_above
from brokerless.log.partition import DecodedRows, Reading, read_partition
from brokerless.log.producer.recorded_aborts import RecordedAborts
from brokerless.log.producer.transactions import Transactions, follow
from brokerless.log.ranges import EVERYTHING, Range
from brokerless.log.segment import Chunk, scan, scan_headers
from brokerless.log.walk import start_of
from brokerless.offset_spans import Span
from brokerless.progress import Done, ignore
from brokerless.table_formats.export_state import LeftOutOffsets
from brokerless.table_formats.parquet_files import SCHEMA
from brokerless.tables.record_batches import record_batches

if TYPE_CHECKING:
    from brokerless.format.columns import Damage

FilePosition = tuple[str, int | None]

NOT_PASSED = (Kind.UNREADABLE_DIRECTORY, *NOT_OPENED, Kind.LIMIT_EXCEEDED, Kind.FILE_SHRUNK)
"""What may be read another time: nothing after it is exported before it was."""


_CHAIN_ENDS = (Kind.BATCH_SIZE_INVALID, Kind.NO_BATCHES, Kind.ZERO_TAIL)


class NotReadableError(Exception):
    """Ends a task of which nothing is to be kept."""


@dataclass
class ExportReader:
    """The records of ``[start, end)`` of a partition; what is said of them is known when all were taken."""

    @property
    def is_decided(self) -> bool:
        """Whether no transaction is open in the range."""
        return self._stable >= self.end

    source: PartitionPath
    start: int
    end: int
    committed: bool
    max_batch_bytes: int
    is_last: bool
    """Whether what lies after ``end`` is for another run; else no batch of these segments may be there."""
    is_live: bool
    done: Done
    whole: PartitionPath | None = None
    """All of the partition, where the range lies before the end of another run, and so all of its transactions
    decide."""
    next_offset: int = field(init=False)
    """The offset after the last intact batch, where the next run goes on."""
    findings: list[Finding] = field(init=False, default_factory=list[Finding])
    left_out: list[LeftOutOffsets] = field(init=False, default_factory=list[LeftOutOffsets])
    """The offsets of what was damaged, as far as the batches around it show them (in a compacted log, some of them were
    not there before)."""
    missing: list[Span] = field(init=False, default_factory=list[Span])
    """Offsets between segments that are not there."""

    def __post_init__(self) -> None:
        self.next_offset = self.start
        self._stable = self._decided = self.end
        self._is_broken = False
        self._read_until: FilePosition = ("", None)
        self._highest = -1
        self._ahead: list[tuple[FilePosition, int, int]] = []
        self._known_until: FilePosition = ("", None)
        self._given: dict[int, int] = {}
        self._gaps: dict[int, list[tuple[int, int]]] = {}
        self._wrong: dict[tuple[str, int], int] = {}

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Raises :class:`NotReadableError` for what is not to be passed over."""
        self._check_beginnings()
        pending: dict[FilePosition, Finding] = {}
        transactions = None
        if self.committed:
            transactions = self._transactions(pending)
            stable = transactions.last_stable_offset
            self._stable = self._stable if stable is None else min(self._stable, stable)
        reading = Reading(
            Range(self.start, self._decided),
            transactions=transactions, max_batch_bytes=self.max_batch_bytes, watch=self._watch,
        )  # fmt: skip

        def record(finding: Finding) -> None:
            if finding.position is None or not self._is_elsewhere(finding.file, finding.position):
                pending.pop((finding.file, finding.position), None)
                self._take_finding(finding)

        decoded_rows = self._recorded(read_partition(self.source, reading, record))
        yield from self._timed(record_batches(decoded_rows, self.source.topic, self.source.partition, SCHEMA))
        # What made a transaction look open lies where a committed reader does not come.
        for finding in pending.values():
            self.findings.append(finding)
        if self._is_broken:
            self.left_out.append((self.next_offset, None))

    def _timed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Count the records that Kafka's own writers, and a load, refuse for their timestamps."""
        count, first = 0, 0
        for batch in batches:
            early = np.flatnonzero(arrow.numbers(batch.column("timestamp"), np.int64) < NO_TIMESTAMP)
            if len(early) and not count:
                first = int(arrow.numbers(batch.column("offset"), np.int64)[early[0]])
            count += len(early)
            yield batch
        if count:
            text = f"{count:,} records have timestamps before 1970: load refuses them, as Kafka's own writers do"
            self.findings.append(Kind.TIMESTAMP_BEFORE_1970.at(self.source.path, text, offset=first))

    def _check_beginnings(self) -> None:
        """Files that do not begin where their names say, of which reading a range may never see a batch."""
        listed, last_of = None, dict[int, int]()
        for each in open_segments(self.source, ignore, Range(self.start, self.end)):
            if each.partition is not listed:  # a broker may have merged some since it was listed before
                listed = each.partition
                last_of = {one.base_offset: two.base_offset - 1 for one, two in pairwise(listed.segments)}
            file = each.file
            chunk = next(scan_headers(file, ignore), None)
            if chunk is None or each.start:
                continue
            base, first = each.segment.base_offset, int(chunk.batches.entry_offset[0])
            last = last_of.get(base)
            if first < base or (last is not None and first > last):
                text = (
                    "the file begins at an offset that its name does not have; what is outside of this run is left out"
                )
                expected = f"an offset from {base} on" if last is None else f"an offset from {base} to {last}"
                self.findings.append(
                    Kind.OFFSET_MISPLACED.at(
                        file.path, text, severity="error", position=0, offset=first, expected=expected, found=str(first)
                    )
                )

    def _recorded(self, decoded_rows: Iterator[DecodedRows]) -> Iterator[DecodedRows]:
        """Yield the rows, and record how far batches that are broken inside gave records."""
        for rows_read in decoded_rows:
            for damage in rows_read.decoded.damages:
                self._record_damage(rows_read, damage)
            one = [rows_read]
            del rows_read
            yield one.pop()

    def _record_damage(self, rows_read: DecodedRows, damage: Damage) -> None:
        decoded = rows_read.decoded
        rows = np.flatnonzero(decoded.positions == damage.position)
        if len(rows) and decoded.given[rows[-1]]:
            end = int(decoded.given[: rows[-1] + 1].sum())
            offsets = decoded.columns.offset[end - int(decoded.given[rows[-1]]) : end]
            self._given[damage.position] = int(offsets[-1])
            if damage.kind == Kind.MESSAGE_CHECKSUM_MISMATCH:  # single messages in a wrapper were left out
                rows = np.flatnonzero(np.diff(offsets) > 1)
                gaps = list(zip((offsets[rows] + 1).tolist(), (offsets[rows + 1] - 1).tolist(), strict=True))
                is_leading = not gaps and offsets[-1] >= damage.base_offset  # a wrapper's own offset is its last one
                before = int(offsets[0]) - 1
                self._gaps[damage.position] = [(before, before)] if is_leading else gaps

    def _take_finding(self, finding: Finding) -> None:
        is_cut = finding.kind == Kind.TRUNCATED_BATCH
        if is_cut and self.is_live and finding.severity != "error":
            return  # where the log ends, a broker may be about to write the rest
        if finding.kind == Kind.OFFSET_OVERLAP:  # says more than that it is out of order
            place = finding.file, finding.position
            order = [
                each for each in self.findings if each.kind == Kind.OFFSET_ORDER and (each.file, each.position) == place
            ]
            self.findings = [each for each in self.findings if each not in order]
        if finding.kind == Kind.OFFSET_ORDER and finding.severity != "error":
            return  # what goes back is followed here, and said of the batch that is ahead
        if finding.kind == Kind.OFFSET_ORDER:
            self.findings.append(finding)
            return
        self.findings.append(finding)
        if finding.kind == Kind.MISSING_SEGMENT:
            missing = missing_offsets(finding)
            self.missing.append((max(missing.start, self.start), missing.stop))
            return
        if finding.kind in NOT_PASSED:
            raise NotReadableError
        if (finding.file, finding.position) in self._wrong:
            return
        if is_cut or finding.kind in _CHAIN_ENDS:
            path, end = self._read_until  # where it is not read on
            self._is_broken = self._is_broken or path != finding.file or (finding.position or 0) >= (end or 0)
        elif finding.severity == "error" and finding.offset is not None and finding.position is not None:
            self._leave_out_rest(finding)  # without a position it is of a file as a whole, a missing one say

    def _is_elsewhere(self, file: str, position: int) -> bool:
        """Return whether it was passed by the run before, or is for the next one."""
        old, before = self._known_until
        new, after = self._ahead[0][0] if self._ahead else ("", None)
        is_old = file == old and before is not None and position < before
        return is_old or (file == new and after is not None and position >= after)

    def _leave_out_rest(self, finding: Finding) -> None:
        """Leaves out what follows the records that could be read of a batch whose header is intact."""
        position = finding.position or 0
        self.left_out += self._gaps.get(position, [])
        if position in self._gaps and self._given[position] >= (finding.offset or 0):
            return
        with self.source.location.at(finding.file).open() as file:
            header = read_headers(file.read(position, 1 << 10), np.zeros(1, np.int64))
        last = int(header.last_offset[0])
        first = self._given[position] + 1 if position in self._given else finding.offset
        self.left_out.append((min(last, first if first is not None and first >= 0 else last), last))

    def _watch(self, path: str, chunk: Chunk, valid: NDArray[np.bool_]) -> None:
        """Follows where intact batches are."""
        batches = chunk.batches
        self.done(int(batches.sizes.sum()))
        skipped = (path, int(chunk.positions[0])) != self._read_until and self._read_until[0] == path
        self._is_broken = self._is_broken or skipped
        self._read_until = path, chunk.base + int(batches.ends[-1])
        if not valid.all() or not self._goes_on(batches):
            self._follow_each(path, chunk, valid)
            return
        if self._is_broken:
            self._passed(batches, 0)
        self._highest = int(batches.end_of_records[-1])
        self.next_offset = max(self.next_offset, self._highest + 1)

    def _goes_on(self, batches: Batches) -> bool:
        """Return whether all of them are what comes next, one after the other, and none is for another run."""
        before = np.concatenate([[max(self._highest, self.start - 1)], batches.end_of_records[:-1]])
        is_up = bool((batches.entry_offset > np.maximum.accumulate(before)).all())
        return is_up and not self._ahead and int(batches.end_of_records[-1]) < self._stable

    def _follow_each(self, path: str, chunk: Chunk, valid: NDArray[np.bool_]) -> None:
        batches = chunk.batches
        for row in range(len(batches)):
            place = path, int(chunk.positions[row])
            first, last = int(batches.entry_offset[row]), int(batches.end_of_records[row])
            if not valid[row]:
                if not self._ahead:
                    self._is_broken = True
                    self._wrong[place] = last
            elif last < self.start:
                self._follow_old(place, first, last)
            elif first < self._stable:
                self._follow_new(place, batches, row)
            elif self.is_last:
                self._ahead.append((place, first, last))
            else:
                self._misplaced(place, first, last)
                self._is_broken = True

    def _follow_old(self, place: FilePosition, first: int, last: int) -> None:
        """A batch that the run before has passed, unless its file does not begin before this run."""
        if self._highest >= 0 or self.start <= self.source.segments[0].base_offset:
            self._misplaced(place, first, last)
        else:
            self._known_until = place
            self._ahead, self._is_broken = [], False

    def _follow_new(self, place: FilePosition, batches: Batches, row: int) -> None:
        """A batch of this run. Where others are before it that looked as if they were for the next one, those are at
        offsets that cannot be."""
        for each in self._ahead:
            self._misplaced(*each)
            self._is_broken = True
        self._ahead = []
        first, last = int(batches.entry_offset[row]), int(batches.end_of_records[row])
        if first <= self._highest:
            path, position = place
            self.findings.append(not_above(path, position or 0, first, self._highest))
        if self._is_broken:
            self._passed(batches, row)
        if last >= self._stable and not batches.is_control[row]:
            self._misplaced(place, first, last)  # what it has from there on is not read
            last = self._stable - 1
        self._highest = max(self._highest, last)
        self.next_offset = max(self.next_offset, last + 1)

    def _misplaced(self, place: FilePosition, first: int, last: int) -> None:
        path, position = place
        self.findings.append(misplaced(path, position or 0, first, last=last, start=self.start, end=self._stable))

    def _passed(self, batches: Batches, row: int) -> None:
        """An intact batch follows what was broken: what is between is left out."""
        first = int(batches.entry_offset[row])
        if first >= self._stable:
            return
        self._is_broken = False
        last = first - 1
        if batches.is_wrapper[row]:  # its offset is its last one
            last = min(last, max(self._wrong.values(), default=last))
        if int(batches.end_of_records[row]) >= self.start and last >= self.next_offset:
            self.left_out.append((self.next_offset, last))

    def _transactions(self, pending: dict[FilePosition, Finding]) -> Transactions:
        """Those of the range alone: what begins before it was decided when the last run ended there, and what ends
        after it is open, whatever a broker has written meanwhile. Or those of all the partition.

        What is open where a segment is missing is not decided, as the marker may be missing, and a later one may be of
        another transaction: reading ends before it, until the segment is there."""
        limits = Range(self.start, self.end) if self.whole is None else EVERYTHING
        source, transactions = self.whole or self.source, Transactions()
        recorded = RecordedAborts(limits.segments(source.segments))

        def record_last(finding: Finding) -> None:
            pending[finding.file, finding.position] = finding

        for each in open_segments(source, ignore, limits):
            follow(transactions, self._chunks(each, limits), record_last, recorded)
            missing = missing_segment(each)
            if missing is not None and (undecided := transactions.last_stable_offset) is not None:
                self._stable = self._decided = min(self.end, undecided)
                if undecided <= missing_offsets(missing).start < self.end:
                    self.findings.append(missing)  # where reading does not come
                break
        return transactions

    def _chunks(self, each: OpenSegment, limits: Range) -> Iterator[tuple[str, Chunk]]:
        for chunk in scan(each.file, ignore, start_of(each, limits)):
            rows = limits.batches(chunk.batches)
            if rows.any():
                yield each.file.path, chunk.take(rows)
