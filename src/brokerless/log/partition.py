"""Reads the records of one partition in a range of offsets or timestamps, across its segments.

What a range does not need is left out by batch headers before anything is inflated, but only by those whose checksums
are right.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from brokerless.findings import Finding, Kind
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.format.read.batch_headers import Batches
from brokerless.format.read.decoder import DecodedRecords, Decoder, load_decoding_kernels
from brokerless.format.read.one_pass import LARGEST, OnePass
from brokerless.format.read.resync import find_next_batch
from brokerless.log import segment
from brokerless.log.directory import PartitionPath
from brokerless.log.index.header_times import PASSED_OVER, HeaderTimes
from brokerless.log.live_segments import open_segments
from brokerless.log.offsets_once.findings import all_misplaced, report_past_last
from brokerless.log.offsets_once.in_file import FileOverlaps
from brokerless.log.offsets_once.segments import FirstSegmentWins, RepeatedOffsets
from brokerless.log.positions import check_in_range, highest_before
from brokerless.log.producer.recorded_aborts import RecordedAborts
from brokerless.log.producer.transactions import Transactions, find_transactions
from brokerless.log.ranges import EVERYTHING, Countdown, FileSpan, Range, both
from brokerless.log.segment import (
    NO_BATCHES,
    Chunk,
    all_decoded,
    damage_finding,
    decode_chunk,
    last_batches,
    read_in_one_pass,
    scan,
    scan_further,
    scan_in_one_pass,
)
from brokerless.log.storage.files import File, LocalFile
from brokerless.log.storage.read_ahead import HEADROOM, ReadAhead, Window
from brokerless.log.walk import start_of, walk
from brokerless.ordered_threads import OrderedStep, in_order, turns
from brokerless.progress import Report, ignore

THREADS_FROM = 4 << 20
"""Bytes of a file for which it may pay to decode in threads."""
_WINDOW_OF_THREADS, _PART_OF_THREADS = 4 << 20, 8 << 20
"""Bytes of a local file that a thread takes at once, by windows, and at most in one pass."""
_WAITING = 32 << 20
"""Bytes of decoded records of one chunk that wait for their turn, and at most one array of columns beside them: what a
chunk usually inflates to, lest its thread pause while others are waited for."""

_NO_ROWS = np.zeros(0, np.bool_)

TaskT = TypeVar("TaskT")
Match = Callable[[DecodedRecords], NDArray[np.bool_]]
"""Return which of some decoded records are selected: bool, shape ``(rows,)``."""


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """Decoded records of one file."""

    path: str
    decoded: DecodedRecords
    rows: NDArray[np.bool_] | None
    """Which of them are requested, None for all."""
    prepared: Any = None
    """The result of :attr:`Reading.prepare` for these rows."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Options by which records are read."""

    range: Range = EVERYTHING
    keys: bool = True
    """Whether keys are read, as ``values`` and ``headers`` are."""
    values: bool = True
    headers: bool = True
    control: bool = False
    """Whether control records are yielded as well."""
    transactions: Transactions | None = None
    """For read_committed: leaves out aborted data and what is not yet stable."""
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    """Bytes that one batch may inflate to."""
    watch: Callable[[str, Chunk, NDArray[np.bool_]], object] | None = None
    """Is shown each chunk and which of its batches are what was written, before their records are yielded."""
    span: FileSpan | None = None
    """A batch outside of it is reported, and not passed over."""
    matcher: Callable[[], Match] | None = None
    """Makes, for one thread, the function that selects decoded records (bool, shape ``(rows,)``)."""
    any_of: tuple[bytes, ...] = ()
    """Each selected record has one of these byte strings, so batches without any need not be decoded."""
    threads: int = 1
    """How many decode in parallel."""
    prepare: Callable[[DecodedRows], Any] | None = None
    """Makes what is yielded as ``prepared``, in the thread that decoded the rows."""
    taken: Countdown | None = None
    """Counts rows; reading ends once so many are taken."""

    def decoder(self, every: bool = False) -> Decoder:
        """Return a decoder. ``every``: batches without any of the byte strings are decoded too."""
        # Times that are above those of their headers are to be found, as batches are passed over by these.
        any_of = () if every or self.range.pruned_from is not None else self.any_of
        return Decoder(self.keys, self.values, self.headers, self.max_batch_bytes, any_of=any_of)

    def make_match(self) -> Match | None:
        return None if self.matcher is None else self.matcher()


def read_partition(partition: PartitionPath, reading: Reading, report: Report) -> Iterator[DecodedRows]:
    """A partition's records in the order of its segments; one that cannot be opened is reported."""
    requested = stable_range(reading)
    seen = FirstSegmentWins()
    for each in walk(partition, report, reading.range, requested):
        start = start_of(each, reading.range)
        seen.begin(each)
        highest = highest_before(each.file, each.segment, start)
        yield from read_file(each.file, reading, each.graded(report), start, seen=seen, highest=highest)
        seen.end(each)


def read_file(
    file: File,
    reading: Reading,
    report: Report,
    start: int = 0,
    end: int | None = None,
    seen: RepeatedOffsets | None = None,
    highest: int = -1,
) -> Iterator[DecodedRows]:
    """The records of the batches of a file that begin in ``[start, end)``, each offset once, without those that
    ``seen`` passes over. ``highest``: the highest offset of the batches before ``start``. What is damaged is reported
    after the records before it were yielded."""
    reader = FileReader(file, reading, report, seen=seen, highest=highest)
    if reading.threads > 1 and file.size - start > THREADS_FROM:
        yield from reader.read_side_by_side(start, end)
    else:
        yield from reader.read(start, end)


class FileReader:
    """Reads one file: what :func:`read_file` does. What is here keeps the order of rows and findings."""

    def __init__(
        self, file: File, reading: Reading, report: Report, seen: RepeatedOffsets | None, highest: int = -1
    ) -> None:
        self.file, self.reading, self.report, self.seen = file, reading, report, seen
        self.requested = stable_range(reading)
        self._ends_at = self.requested.end_offset if reading.span is None else None
        self.findings = list[Finding]()
        self.overlaps = FileOverlaps(file, highest)
        self.times = None if self.requested.pruned_from is None else HeaderTimes(file.path, PASSED_OVER)
        self.decoder, self.match = reading.decoder(), reading.make_match()

    def read(self, start: int, end: int | None) -> Iterator[DecodedRows]:
        """One chunk after the other."""
        is_requested = isinstance(self.file, LocalFile)  # of others, a few rows wait for no further request
        for chunk in scan_in_one_pass(self.file, self.findings.append, self._one_pass(), start=start, end=end):
            if chunk.passed is None:
                load_decoding_kernels(chunk.batches)
            chunk, valid, is_last_chunk = check_in_range(self.file, chunk, self._ends_at, self.findings.append)
            if not len(chunk.batches):
                break
            batches, _, is_overlapping = self._new_batches(chunk, valid)
            # With a match, the first would wait for the last.
            is_last = self.match is not None or not is_requested
            yield from self._decode(chunk, batches, is_last=is_last, is_overlapping=is_overlapping)
            is_requested = True
            if is_last_chunk:
                break
        if (rest := self.decoder.flush()) is not None:
            given = self._selected(rest)
            del rest
            yield from given
        self._advance(None)

    def _one_pass(self) -> OnePass | None:
        """Return what decodes batches as they are read, where nothing but their range decides which are."""
        reading = self.reading
        if reading.transactions is not None or self.requested.pruned_from is not None:
            return None
        return OnePass(self.decoder, control=reading.control)

    def read_side_by_side(self, start: int, end: int | None) -> Iterator[DecodedRows]:
        """Chunks are read, checked, decoded and matched in threads; here, what they give is put in order."""
        before, is_done = NO_BATCHES, False
        if isinstance(self.file, LocalFile) and self._one_pass() is not None:
            parts = _PassedParts(self.file, start, end, self.reading.threads)
            work = functools.partial(self._pass, parts)
            is_done = yield from self._put_in_order(parts.tasks(), work, parts.is_next)
            start, before = parts.stopped_at, parts.before
        if not is_done and start < (self.file.size if end is None else min(end, self.file.size)):
            chunks = _Chunks(self.file, start, end, self.reading.threads, before)
            yield from self._put_in_order(chunks.tasks(), lambda task, local: self._read(chunks, *task, local))
        self._advance(None)

    def _put_in_order(
        self,
        tasks: Iterator[TaskT],
        work: Callable[[TaskT, threading.local], Iterator[_Decoded]],
        is_next: Callable[[Chunk], bool] = lambda _: True,
    ) -> Generator[DecodedRows, None, bool]:
        """The rows of chunks that threads read, in order, up to one that is not ``is_next``; returns whether nothing
        that is requested can follow."""
        local, is_last = threading.local(), False

        def work_of(task: TaskT) -> Iterator[_Decoded]:
            if not hasattr(local, "decoder"):
                local.decoder, local.match = self.reading.decoder(), self.reading.make_match()
                local.one_pass = OnePass(local.decoder, control=self.reading.control)
            return work(task, local)

        with closing(in_order(tasks, work_of, self.reading.threads, waiting=_WAITING, size=_Decoded.size)) as results:
            for _, values in results:
                is_decoded_again = False
                for each in values:
                    if each.decoded is not None:
                        found = [each]
                        del each
                        if not is_decoded_again:
                            yield from self._selected(found[0].decoded, found.pop())
                        continue
                    if is_last:
                        return True
                    self.findings += each.findings
                    if each.chunk is None or not is_next(each.chunk):
                        return False
                    if each.is_last and not len(each.chunk.batches):
                        return True
                    batches, is_repeated, is_overlapping = self._new_batches(each.chunk, each.valid)
                    is_last = each.is_last
                    is_decoded_again = is_repeated or is_overlapping  # which was not known when it was decoded
                    if is_decoded_again:
                        yield from self._decode(each.chunk, batches, is_last=True, is_overlapping=is_overlapping)
                if is_last:
                    return True
        return False

    def _read(
        self, chunks: _Chunks, turn: OrderedStep, window: Window | None, local: threading.local
    ) -> Iterator[_Decoded]:
        """Yield what a thread makes of the next chunk."""
        chunk, findings = chunks.take(turn, window)
        if chunk is None:
            yield _Decoded(None, _NO_ROWS, findings)
        else:
            load_decoding_kernels(chunk.batches)
            yield from self.work(chunk, findings, local.decoder, local.match)

    def _pass(self, parts: _PassedParts, part: tuple[int, int], local: threading.local) -> Iterator[_Decoded]:
        """Yield what a thread makes of a part of the file, in one pass, up to a batch that is for others."""
        at, until = parts.find_first(*part), part[1]
        while at < until and (chunk := read_in_one_pass(self.file, local.one_pass, at, until)) is not None:
            if (yield from self.work(chunk, [], local.decoder, local.match)):
                return
            at = chunk.base + int(chunk.batches.ends[-1])
        if at < until:
            yield _Decoded(None, _NO_ROWS, [])

    def work(
        self, chunk: Chunk, findings: list[Finding], decoder: Decoder, match: Match | None
    ) -> Generator[_Decoded, None, bool]:
        """Yield what is done of a chunk in a thread: first its checksums, then what its records are. Return whether
        reading ends with it."""
        chunk, valid, is_last = check_in_range(self.file, chunk, self._ends_at, findings.append)
        yield _Decoded(chunk, valid, findings, is_last=is_last)
        batches = chunk.take(valid).batches
        chosen = batches.take(_chosen(batches, self.reading, self.requested))
        for decoded in all_decoded(decoder, chunk, chosen):
            rows = self._rows(decoded, match)
            prepared = None
            if self.reading.prepare is not None and decoded.columns.rows and (rows is None or rows.any()):
                prepared = self.reading.prepare(DecodedRows(self.file.path, decoded, rows))
            yield _Decoded(chunk, valid, findings, decoded=decoded, rows=rows, prepared=prepared)
            del decoded
        return is_last

    def _rows(self, decoded: DecodedRecords, match: Match | None) -> NDArray[np.bool_] | None:
        rows = None if self.requested.is_everything else self.requested.rows(decoded.columns)
        if match is not None and decoded.columns.rows:
            matches = match(decoded)
            rows = matches if rows is None else rows & matches
        return rows

    def _decode(self, chunk: Chunk, batches: Batches, is_last: bool, is_overlapping: bool) -> Iterator[DecodedRows]:
        chosen = batches.take(_chosen(batches, self.reading, self.requested))
        decoder = self.reading.decoder(every=True) if is_overlapping else self.decoder
        decode = all_decoded if is_last or is_overlapping else decode_chunk
        decoded = decode(decoder, chunk, chosen, self.findings.append)
        for given in map(self._selected, decoded):
            yield from given

    def _selected(self, decoded: DecodedRecords, known: _Decoded | None = None) -> Iterator[DecodedRows]:
        """Yield the selected rows. ``known``: which rows a thread has found, and what it made of them."""
        self.findings.extend(damage_finding(self.file.path, damage) for damage in decoded.damages)
        rows = self._rows(decoded, self.match) if known is None else known.rows
        new, overlapping = self.overlaps.rows(decoded)
        self.findings += overlapping
        if self.times is not None and (later := self.times.compare(decoded)) is not None:
            self.findings.append(later)
        if self.seen is not None and (unseen := self._unseen(self.seen, decoded)) is not None:
            new = both(new, unseen)
        rows = both(rows, new)
        is_selected = decoded.columns.rows and (rows is None or rows.any())
        last = int(decoded.positions[-1]) if len(decoded.positions) else 0
        prepared = None if known is None or new is not None else known.prepared
        rows_read = [DecodedRows(self.file.path, decoded, rows, prepared)] if is_selected else []
        if is_selected and self.reading.taken is not None:
            self._advance(self.reading.taken.end_of_reading(rows, decoded.given, decoded.positions))
        del decoded, known  # freed as soon as the caller is done with it
        if rows_read:
            yield rows_read.pop()
        self._advance(last - 1)

    def _unseen(self, seen: RepeatedOffsets, decoded: DecodedRecords) -> NDArray[np.bool_] | None:
        """Return which decoded records ``seen`` does not pass over, None for all; report the first of the others."""
        offsets = decoded.columns.offset[: decoded.columns.rows]
        unseen = seen.rows(offsets)
        if unseen is not None:
            row = int(np.argmin(unseen))
            batch = int(np.searchsorted(np.cumsum(decoded.given), row, "right"))
            finding = seen.finding(self.file.path, int(decoded.positions[batch]), int(offsets[row]))
            self.findings += [] if finding is None else [finding]
        return unseen

    def _new_batches(self, chunk: Chunk, valid: NDArray[np.bool_]) -> tuple[Batches, bool, bool]:
        """The valid batches of a chunk that earlier segments do not have, whether there are others, and whether all of
        them are to be decoded because some overlap those before them, which their records say."""
        reading, path = self.reading, self.file.path
        if reading.watch is not None:
            reading.watch(path, chunk, valid)
        if reading.span is not None:
            self.findings.extend(all_misplaced(path, chunk, valid, reading.span))
        batches = chunk.take(valid).batches
        if batches.goes_past_last_offset.any():
            report_past_last(chunk.take(valid), path, self.findings.append)
        is_overlapping = self.overlaps.follow(batches, chunk.base)
        is_overlapping |= self.seen is not None and self.seen.overlapping(batches) is not None
        is_overlapping &= len(reading.any_of) > 0
        if self.times is not None:
            self.times.follow(batches, chunk.base)
        repeated = None if self.seen is None else self.seen.repeated(batches)
        if self.seen is None or repeated is None:
            return batches, False, is_overlapping
        at = int(np.argmax(repeated))
        finding = self.seen.finding(path, chunk.base + int(batches.positions[at]), int(batches.entry_offset[at]))
        self.findings += [] if finding is None else [finding]
        return batches.take(~repeated), True, is_overlapping

    def _advance(self, until: int | None) -> None:
        """Reports what was found up to a position (bytes), after the rows before it."""
        self.findings += self.file.take_findings()
        self.findings.sort(key=lambda each: each.position or 0)
        while self.findings and (until is None or (self.findings[0].position or 0) <= until):
            self.report(self.findings.pop(0))


class _PassedParts:
    """Parts of a local file that threads read in one pass, each from the first intact batch that begins in it. A part
    counts if its first batch begins where those before it end, as that may lie in a record's value. ``stopped_at``: how
    far (bytes) chunks were yielded in order, and ``before``: the last batches of these."""

    def __init__(self, file: LocalFile, start: int, end: int | None, threads: int) -> None:
        self.stopped_at, self.before, self._threads = start, NO_BATCHES, threads
        self._file, self._start, self._end = file, start, file.size if end is None else min(end, file.size)

    def tasks(self) -> Iterator[tuple[int, int]]:
        """Yield where each part begins and ends (bytes); the first are small, as reading may end soon, and the last, so
        that no thread is idle for long."""
        at, size = self._start, min(segment.FIRST_WINDOW, _PART_OF_THREADS)
        while at < self._end:
            yield at, (after := min(at + size, self._end))
            most = max(_WINDOW_OF_THREADS, (self._end - after) // (2 * self._threads))
            at, size = after, min(8 * size, most, _PART_OF_THREADS)

    def find_first(self, start: int, until: int) -> int:
        """Return where the first batch of a part begins (bytes), ``until`` for none."""
        if start == self._start:
            return start
        found = find_next_batch(self._file.read, self._file.size, start, until, largest=LARGEST)
        return until if found is None else found

    def is_next(self, chunk: Chunk) -> bool:
        """Return whether a chunk is the one whose turn it is, and counts it as given then."""
        if chunk.base != self.stopped_at:
            return False
        self.before = last_batches(self.before, chunk.batches, chunk.base, self._file.size)
        self.stopped_at = chunk.base + int(chunk.batches.sizes.sum())
        return True


class _Chunks:
    """The chunks of one file, which threads take in turn: each reads its own part of the file before its turn comes."""

    def __init__(self, file: File, start: int, end: int | None, threads: int, before: Batches) -> None:
        self._ahead: ReadAhead | None = None
        self._findings: list[Finding] = []
        windows, step = None, segment.STEP
        if isinstance(file, LocalFile):
            most = min(segment.WINDOW, _WINDOW_OF_THREADS)
            until = file.size if end is None else min(end, file.size)
            file.expect_windows(threads + 4)
            self._ahead = ReadAhead(file, start, until, first=segment.FIRST_WINDOW, most=most)
            windows, step = self._ahead.read, most + HEADROOM
        self._chunks = scan_further(file, self._findings.append, start, end, before=before, step=step, windows=windows)

    def tasks(self) -> Iterator[tuple[OrderedStep, Window | None]]:
        """Without end: those after the last chunk find nothing."""
        for turn in turns():
            yield turn, None if self._ahead is None else self._ahead.plan()

    def take(self, turn: OrderedStep, window: Window | None) -> tuple[Chunk | None, list[Finding]]:
        """The next chunk, and what was found on the way to it; None at the end."""
        if self._ahead is not None and window is not None:
            self._ahead.fetch(window)
        with turn.taken():
            chunk = next(self._chunks, None)
            found = self._findings.copy()
            self._findings.clear()
            return chunk, found


@dataclass(frozen=True, slots=True)
class _Decoded:
    """What a thread made of a chunk, None after the last: first which batches have the right checksum, then records."""

    chunk: Chunk | None
    valid: NDArray[np.bool_]
    findings: list[Finding]
    is_last: bool = False
    """Whether reading ends with this chunk."""
    decoded: Any = None
    rows: NDArray[np.bool_] | None = None
    prepared: Any = None

    def size(self) -> int:
        """Bytes, about."""
        return 0 if self.decoded is None else self.decoded.columns.size


def stable_range(reading: Reading) -> Range:
    """The requested range, and with read_committed nothing that is not decided."""
    stable = None if reading.transactions is None else reading.transactions.decided_until
    if stable is None:
        return reading.range
    return reading.range.narrow(Range(end_offset=stable))


def _chosen(batches: Batches, reading: Reading, requested: Range) -> NDArray[np.bool_]:
    chosen = requested.batches(batches)
    if not reading.control:
        chosen &= ~batches.is_control
    if reading.transactions is not None:
        chosen &= ~reading.transactions.aborted(batches)
    return chosen


def transactions_of(
    partition: PartitionPath,
    report: Report = ignore,
    is_all_read: bool = False,
    recorded: RecordedAborts | None = None,
) -> Transactions:
    """The transactions of a partition's whole log. Damaged data and markers of transactions are reported: without its
    marker, a transaction looks open, and what is after it unstable; so does a file that became shorter meanwhile.
    ``is_all_read``: what else cannot be read is reported as well, for callers that read nothing but this. ``recorded``:
    other transaction indexes than those of its segments."""
    end_offset = 0

    def chunks() -> Iterator[tuple[str, Chunk]]:
        nonlocal end_offset
        on_unreadable = report if is_all_read else ignore
        shrunk: Report = lambda finding: report(finding) if finding.kind == Kind.FILE_SHRUNK else None  # noqa: E731
        for each in open_segments(partition, on_unreadable):
            for chunk in scan(each.file, each.graded(report) if is_all_read else shrunk, each.start):
                end_offset = max(end_offset, int(chunk.batches.end_of_records.max()) + 1)
                yield each.file.path, chunk

    indexes = RecordedAborts(partition.segments) if recorded is None else recorded
    transactions = find_transactions(chunks(), report, indexes)
    transactions.end_offset = end_offset
    return transactions
