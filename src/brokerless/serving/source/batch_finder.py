"""Finds the ranges of files that hold the next batches of a partition, whole and intact.

A range begins with the batch that has the requested offset or the next one, ends with a whole batch, and lies in
one segment. Checksums are compared when a range is found for the first time; where it is found again, headers are read.
What is damaged is reported, and ends the range before it; a range that would begin with it is damaged itself, unless
damage is skipped. Kafka's own broker sends damaged batches, at which consumers throw (``LogSegment.read``, 4.4.0).
A segment that the system does not read is damaged from the requested offset on. Where another replica has the same
history, its batches are served in the place of damaged ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.live_segments import OpenSegment, ReplacedError, open_listed
from brokerless.log.offset_gaps import check_following
from brokerless.log.offsets_once.records import first_offsets
from brokerless.log.positions import position_of_offset
from brokerless.log.segment import Chunk, check_checksums, graded_within_log, scan, scan_headers
from brokerless.log.storage.files import File
from brokerless.progress import Report, ignore
from brokerless.serving.protocol.writer import FileRange, Piece
from brokerless.serving.source.bad_sectors import readable_batches, readable_start

INLINE = 1 << 16
"""Bytes of a range that are read when it is found; more are sent from the file."""
_MOST_REMOTE = 8 << 20
"""Bytes of a range of a remote file, which is read when it is found."""
_MOST_HINTS = 64
"""Offsets of a partition of which it is remembered where their batches begin: those that consumers ask for next."""
_STEP = 1 << 16


@dataclass(frozen=True, slots=True)
class Found:
    """The batches that were found."""

    pieces: tuple[Piece, ...] = ()
    size: int = 0
    used: int = 0
    """Bytes that a broker would have sent, which cuts batches."""
    next_offset: int | None = None
    """The offset after the last batch of the pieces."""
    is_damaged: bool = False
    """Whether the requested batch is damaged, so that there are no pieces."""


@dataclass(frozen=True, slots=True)
class Want:
    """A request for the batches from ``offset`` on."""

    offset: int
    limit: int
    """The offset before which the batches begin."""
    max_bytes: int
    """Bytes that all batches have at most."""
    at_least_one: bool
    """Whether the first batch is returned even if it is larger."""
    inline: bool = True
    """Whether few bytes are read when they are found, and not sent from the file."""


NOTHING = Found()
DAMAGED = Found(is_damaged=True)


@dataclass(frozen=True, slots=True)
class Spare:
    """Another replica, which has the same history before the offset ``until``."""

    paths: PartitionPath
    until: int


@dataclass(slots=True)
class BatchFinder:
    """The finder of one partition's batches, for one thread at a time."""

    report: Report
    skips_damage: bool = False
    spares: Sequence[Spare] = ()
    """Replicas that have the batches that are damaged here."""
    _hints: OrderedDict[int, tuple[SegmentPaths, int]] = field(
        default_factory=OrderedDict[int, tuple[SegmentPaths, int]]
    )
    _intact: dict[tuple[int, int | str | None], list[tuple[int, int]]] = field(
        default_factory=dict[tuple[int, int | str | None], list[tuple[int, int]]]
    )
    _passed: set[int] = field(default_factory=set[int])

    def find(self, paths: PartitionPath, want: Want) -> Found:
        """Return the next range; :data:`NOTHING` at the end of the log, or where the first batch is too large.

        Raises :class:`UnreadableError`, also as :class:`ReplacedError`.
        """
        segments = paths.segments
        first = max(0, bisect_right([each.base_offset for each in segments], want.offset) - 1)
        for at, segment in enumerate(segments[first:], first):
            is_last = at == len(segments) - 1
            try:
                with open_listed(segment, is_last) as file:
                    found = _InSegment(self, file, segment, is_last=is_last, want=want).find()
                    if found is None and not is_last and segment.base_offset not in self._passed:
                        self._passed.add(segment.base_offset)
                        check_following(OpenSegment(paths, segment, file, is_last), self.report)
            except ReplacedError:
                raise
            except UnreadableError as error:
                following = None if is_last else segments[at + 1].base_offset
                found = self.beside(want, [error.finding(segment.log.path, segment.base_offset)], following)
                if found is None and self.skips_damage:
                    self.report_skipped(segment.log.path, None, want.offset, following)
                elif found is None:
                    found = DAMAGED
            if found is not None:
                return found
        return NOTHING

    def beside(self, want: Want, findings: Sequence[Finding], until: int | None) -> Found | None:
        """Return what another replica has of the batches that are damaged here, before the offset ``until``. Reports
        the damage."""
        for each in self.spares:
            limit = min([want.limit, each.until, *(() if until is None else (until,))])
            if want.offset >= limit:
                continue
            finder = BatchFinder(ignore)
            try:
                found = finder.find(each.paths, replace(want, limit=limit))
            except UnreadableError:
                continue
            if found.pieces:
                for finding in findings:
                    text = f"{finding.message}; what another replica has there is served: {each.paths.path}"
                    self.report(replace(finding, message=text))
                return found
        for finding in findings:
            self.report(finding)
        return None

    def report_skipped(self, path: str, position: int | None, offset: int, next_offset: int | None) -> None:
        """Report that consumers go on after damage."""
        until = "the end of this segment" if next_offset is None else f"offset {max(offset, next_offset)}"
        text = f"damaged batches are not served: consumers go on from offset {offset} at {until}"
        self.report(Kind.DAMAGE_SKIPPED.at(path, text, position=position, offset=offset))

    def position(self, file: File, segment: SegmentPaths, offset: int) -> int:
        """Return where the batch with an offset begins (bytes), or the damage in its place."""
        hint = self._hints.get(offset)
        if hint is not None and hint[0].log.location == segment.log.location:
            if hint[0].log.identity == segment.log.identity:
                self._hints.move_to_end(offset)
                return hint[1]
            del self._hints[offset]
        try:
            start = position_of_offset(file, segment, offset)
            step = _STEP if file.is_local else _MOST_REMOTE
            return _locate(scan_headers(file, ignore, start, step=step), offset, start)
        except UnreadableError:
            start = readable_start(lambda: position_of_offset(file, segment, offset))
            return _locate(readable_batches(file, ignore, start), offset, start)

    def remember(self, offset: int, segment: SegmentPaths, position: int) -> None:
        """A batch with this offset, or a later one, begins at ``position`` (bytes)."""
        self._hints[offset] = segment, position
        self._hints.move_to_end(offset)
        if len(self._hints) > _MOST_HINTS:
            self._hints.popitem(last=False)

    def intact_until(self, segment: SegmentPaths, position: int) -> int:
        """Return the position (bytes) up to which the batches from ``position`` on are known to be intact."""
        spans = self._intact.get((segment.base_offset, segment.log.identity), [])
        at = bisect_right(spans, position, key=lambda span: span[0]) - 1
        return max(position, spans[at][1]) if at >= 0 else position

    def add_intact(self, segment: SegmentPaths, start: int, end: int) -> None:
        """The batches in ``[start, end)`` (bytes) are intact."""
        spans = self._intact.setdefault((segment.base_offset, segment.log.identity), [])
        apart = [span for span in spans if span[1] < start or span[0] > end]
        joined = [span for span in spans if not (span[1] < start or span[0] > end)]
        apart.append((min([start, *(span[0] for span in joined)]), max([end, *(span[1] for span in joined)])))
        spans[:] = sorted(apart)


@dataclass(slots=True)
class _InSegment:
    finder: BatchFinder
    file: File
    segment: SegmentPaths
    is_last: bool
    want: Want

    def find(self) -> Found | None:
        """Return the range in this segment; None where it has no batch with the offset or a later one."""
        start = self.finder.position(self.file, self.segment, self.want.offset)
        found, findings = self._from(start)
        if found is not DAMAGED:
            return found
        finder = self.finder
        if not self.is_last:
            findings = list(map(graded_within_log, findings))
        position, offset = self._next_intact(start) if finder.spares or finder.skips_damage else (None, None)
        found = finder.beside(self.want, findings, offset)
        if found is not None:
            return found
        if not finder.skips_damage:
            return DAMAGED
        finder.report_skipped(self.file.path, start, self.want.offset, offset)
        if position is None:
            return None
        self.finder.remember(self.want.offset, self.segment, position)
        return self._from(position)[0]

    def _from(self, start: int) -> tuple[Found | None, list[Finding]]:
        """The range that begins at ``start`` (bytes), and what is reported of the damage that is there instead."""
        findings: list[Finding] = []
        end, next_offset, stop = start, self.want.offset, "end"
        most = self.want.max_bytes if self.file.is_local else min(self.want.max_bytes, _MOST_REMOTE)
        known = self.finder.intact_until(self.segment, start)
        if known < min(start + most, self.file.size):
            known = start
        for chunk in self._chunks(start, most, known, findings):
            valid = None if known > start else check_checksums(chunk, self.file.path, findings.append)
            count, stop = _count_taken(chunk, valid, self.want, (start, end, most))
            if count:
                end = chunk.base + int(chunk.batches.ends[count - 1])
                next_offset = max(next_offset, int(chunk.batches.end_of_records[:count].max()) + 1)
            if stop != "end":
                break
        if end > start:
            if known == start:
                self.finder.add_intact(self.segment, start, end)
            self.finder.remember(next_offset, self.segment, end)
            size = end - start
            used = max(size, most) if stop == "size" else size
            return Found((self._piece(start, end),), size, used, next_offset), []
        if stop == "damage":
            return DAMAGED, findings
        if stop != "end":
            return NOTHING, []
        is_broken = not self.is_last and any(each.severity != "info" for each in findings)
        return (DAMAGED, findings) if is_broken else (None, [])

    def _chunks(self, start: int, most: int, known: int, findings: list[Finding]) -> Iterator[Chunk]:
        if known > start:
            return scan_headers(self.file, ignore, start, min(known, start + max(most, 1)))
        return readable_batches(self.file, findings.append, start, start + max(most, 1))

    def _piece(self, start: int, end: int) -> Piece:
        if (self.want.inline and end - start <= INLINE) or not self.file.is_local:
            return self.file.read(start, end - start).tobytes()
        return FileRange(self.segment, self.is_last, start, end - start)

    def _next_intact(self, start: int) -> tuple[int | None, int | None]:
        """The position and first offset of the next intact batch with the offset or a later one."""
        for chunk in scan(self.file, ignore, start):
            valid = check_checksums(chunk, self.file.path, ignore)
            rows = np.flatnonzero(valid & (chunk.batches.end_of_records >= self.want.offset))
            if len(rows):
                return int(chunk.positions[rows[0]]), int(chunk.batches.entry_offset[rows[0]])
        return None, None


def _count_taken(
    chunk: Chunk, valid: NDArray[np.bool_] | None, want: Want, place: tuple[int, int, int]
) -> tuple[int, str]:
    """Return how many of a chunk's batches go on with a range, and why no more do. ``place``: where the range starts
    and ends so far, and how long it may be (bytes)."""
    start, end, most = place
    batches, ends = chunk.batches, chunk.base + chunk.batches.ends
    follows = chunk.positions == np.concatenate([[end], ends[:-1]])
    is_damaged = ~follows if valid is None else ~(follows & valid)
    is_past = batches.entry_offset >= want.limit
    is_large = ends - start > most
    if want.at_least_one and start == end:
        is_large[0] = False
    stops = is_damaged | is_past | is_large
    if not stops.any():
        return len(batches), "end"
    row = int(np.argmax(stops))
    if is_damaged[row] and not (is_past[row] and follows[row]):
        return row, "damage"
    return row, "limit" if is_past[row] else "size"


def _locate(chunks: Iterable[Chunk], offset: int, end: int) -> int:
    """The position (bytes) of the batch with an offset, or of the next one; where damage lies between it and the one
    before, and the batch begins after ``offset``, that of the damage. ``chunks``: from a batch before it on, which
    is at ``end`` (bytes).

    Where batches overlap, it is the one that a broker finds, as else a consumer could get the same for ever: the first
    that begins there, or the one before the first that begins later (``FileRecords.searchForOffsetFromPosition``,
    4.4.0).
    """
    before, last = end, -1  # where the batch before begins, and its last offset
    for chunk in chunks:
        batches, firsts = chunk.batches, first_offsets(chunk)
        rows = np.flatnonzero(firsts >= offset)
        if len(rows):
            row = int(rows[0])
            if row:
                before, last = int(chunk.positions[row - 1]), int(batches.last_offset[row - 1])
                end = chunk.base + int(batches.ends[row - 1])
            if int(firsts[row]) > offset:
                return before if last >= offset else end
            return int(chunk.positions[row])
        before, last = int(chunk.positions[-1]), int(batches.last_offset[-1])
        end = chunk.base + int(batches.ends[-1])
    return before if last >= offset else end
