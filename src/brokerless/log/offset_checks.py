"""Detects batches with impossible base offsets, which no checksum covers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT64, MIN_INT64
from brokerless.findings import Finding, Kind
from brokerless.format.read.batch_headers import Batches
from brokerless.log.ranges import Span
from brokerless.log.segment import Chunk, all_decoded, check_checksums, scan
from brokerless.log.storage.files import File
from brokerless.offset_spans import Span as Offsets
from brokerless.offset_spans import add, touching, union, without
from brokerless.progress import Report, ignore

if TYPE_CHECKING:  # it imports kernels
    from brokerless.format.read.decoder import DecodedRecords


def not_above(path: str, position: int | None, first: int, highest: int, text: str | None = None) -> Finding:
    """A batch, or a segment of which only that is known, that begins at or below an offset that was there before.
    Kafka's reader gives its records all the same."""
    text = text or "offsets do not go up: a batch begins at or below an offset that was there before"
    expected = f"an offset above {highest}"
    return Kind.OFFSET_ORDER.at(
        path, text, severity="warning", position=position, offset=first, expected=expected, found=str(first)
    )


def misplaced(path: str, position: int, first: int, last: int, start: int, end: int) -> Finding:
    """A batch whose offsets, which no checksum covers, are outside of ``[start, end)``, those that can be here."""
    text = "left out: the offsets of this batch cannot be here (brokerless salvage may find where they belong)"
    expected = f"offsets from {start} to {end - 1}"
    return Kind.OFFSET_ORDER.at(
        path, text, severity="error", position=position, offset=first, expected=expected, found=f"{first} to {last}"
    )


def all_misplaced(path: str, chunk: Chunk, valid: NDArray[np.bool_], span: Span) -> Iterator[Finding]:
    """The batches of a chunk that are outside of a span. Where reading begins too early, as such a batch looked like
    the first of the span, what comes before it was reported with the span before."""
    batches, is_within = chunk.batches, span.range.batches(chunk.batches)
    known = 0
    if len(batches) and chunk.positions[0] == span.start:
        rows = np.flatnonzero(is_within & valid)
        leading = slice(0, int(rows[0]) if len(rows) else len(batches))
        passed = np.flatnonzero(valid[leading] & (batches.last_offset[leading] < span.start_offset))
        known = int(passed[-1]) + 1 if len(passed) else 0
    for row in known + np.flatnonzero((valid & ~is_within)[known:]):
        position, first, last = chunk.positions[row], batches.entry_offset[row], batches.last_offset[row]
        yield misplaced(path, int(position), int(first), last=int(last), start=span.start_offset, end=span.end_offset)


def overlap(
    path: str, position: int, first: int, base_offset: int, expected: str, whose: str = "an earlier segment has"
) -> Finding:
    """A batch that is passed over. A broker refuses a segment that begins below its base offset."""
    text = f"passed over: from this batch on, offsets are repeated that {whose}"
    severity = "error" if first < base_offset else "warning"
    return Kind.OFFSET_OVERLAP.at(
        path, text, severity=severity, position=position, offset=first, expected=expected, found=str(first)
    )


class RepeatedOffsets(Protocol):
    """The part of a segment that is passed over because another segment returns it."""

    def repeated(self, batches: Batches, /) -> NDArray[np.bool_] | None:
        """Return which of the segment's next batches are passed over; None for none."""
        ...

    def overlapping(self, batches: Batches, /) -> NDArray[np.bool_] | None:
        """Return which of some batches have records that are passed over; None for none."""
        ...

    def rows(self, offsets: NDArray[np.int64], /) -> NDArray[np.bool_] | None:
        """Return which of some records are read; None for all."""
        ...

    def finding(self, path: str, position: int, first: int, /) -> Finding | None:
        """Return the finding about the first batch that is passed over; None once it was reported."""
        ...


@dataclass
class SeenOffsets:
    """Offsets that the segments so far have. A consumer goes on after the last offset that it got, so that of segments
    that overlap it gets each offset once: what earlier segments have is passed over in later ones.

    Offsets outside of what a segment spans are still new: its name may be wrong, or an offset damaged.
    """

    highest: int = -1
    _spans: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    _base_offset: int = 0
    _first: int | None = None
    _before: int = -1
    _last: tuple[int, int] = (0, -1)
    _reach: int = -1
    _is_reported: bool = False

    def begin(self, base_offset: int, *, is_merged: bool = False) -> None:
        """Goes on to the segment with this base offset. ``is_merged``: it has taken the place of segments that were
        read, so that nothing is wrong where their offsets come again."""
        if self._first is not None:
            # A damaged offset is most likely that of a single batch, which must not hide the next segment.
            is_beyond = self._first <= self._before < base_offset <= self._last[1]
            spans = [(self._first, self._before), self._last] if is_beyond else [(self._first, self._last[1])]
            self._spans += spans
            self.highest = max(self.highest, *(last for _, last in spans))
        self._base_offset, self._first, self._is_reported = base_offset, None, is_merged

    def end(self, file: File, next_base_offset: int | None) -> None:
        """Ends a segment. Where its headers reach into the next one, it is read again for the offsets that its records
        have: of a batch whose last records a cleaner removed, the header says more."""
        if self._first is None or next_base_offset is None or next_base_offset > self._reach:
            return
        if self._first < next_base_offset:
            self._spans.append((self._first, next_base_offset - 1))
        self._spans += [(first, end - 1) for first, end in offsets_of_records(file, next_base_offset)]
        self.highest = max([self.highest, *(last for _, last in self._spans)])
        self._first = None

    def repeated(self, batches: Batches) -> NDArray[np.bool_] | None:
        """Return which of a segment's next batches are wholly among the offsets of earlier segments; None for none."""
        firsts, lasts = batches.entry_offset, batches.end_of_records
        if not len(batches):
            return None
        is_repeated, lowest = None, int(firsts.min())
        if lowest <= self.highest:
            is_repeated = np.zeros(len(batches), np.bool_)
            for first, last in self._overlapping(lowest, int(lasts.max())):
                is_repeated |= (firsts >= first) & (lasts <= last)
            is_repeated &= ~batches.is_wrapper  # whose own offset is its last one
        if batches.is_wrapper.any():  # whose own offset is its last one
            lowest = min(lowest, self._base_offset)
        before = lowest - 1 if self._first is None else self._last[1]
        self._first = lowest if self._first is None else min(self._first, lowest)
        self._before = int(lasts[-2]) if len(batches) > 1 else before
        self._last = int(firsts[-1]), int(lasts[-1])
        self._reach = max(self._reach, int(lasts.max()))
        return is_repeated if is_repeated is not None and is_repeated.any() else None

    def overlapping(self, batches: Batches) -> NDArray[np.bool_] | None:
        """Return which of some batches reach into the offsets of earlier segments; None for none."""
        firsts, lasts = np.where(batches.is_wrapper, 0, batches.entry_offset), batches.end_of_records
        if not len(batches) or not self._spans or int(firsts.min()) > self.highest:
            return None
        found = np.zeros(len(batches), np.bool_)
        for first, last in self._overlapping(int(firsts.min()), int(lasts.max())):
            found |= (firsts <= last) & (lasts >= first)
        return found

    def rows(self, offsets: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Return which of some records are new; None for all."""
        if not self._spans or not len(offsets) or int(offsets.min()) > self.highest:
            return None
        is_new = np.ones(len(offsets), np.bool_)
        for first, last in self._overlapping(int(offsets.min()), int(offsets.max())):
            is_new &= (offsets < first) | (offsets > last)
        return None if is_new.all() else is_new

    def _overlapping(self, first: int, last: int) -> list[tuple[int, int]]:
        return [each for each in self._spans if each[0] <= last and each[1] >= first]

    def finding(self, path: str, position: int, first: int) -> Finding | None:
        """Return what is reported of a segment's first batch that is passed over."""
        if self._is_reported:
            return None
        self._is_reported = True
        return overlap(path, position, first, base_offset=self._base_offset, expected=f"an offset above {self.highest}")


class FileOverlaps:
    """Finds the records of a file whose offsets an earlier intact batch of the same file has. A consumer gets each
    offset once: of a batch that overlaps those before it, it takes the rest, from the first offset that is missing.

    ``highest``: of the batches before those that are read. The file is read again, once, where batches overlap.
    """

    def __init__(self, file: File, highest: int = -1) -> None:
        self._file, self._highest = file, highest
        self._positions, self._before = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._repeated: dict[int, list[Offsets]] | None = None
        self._reported: set[int] = set()
        self._decoded_to, self._repeats_at = (-1, MIN_INT64), -1  # the last batch and its highest offset: it may go on

    def follow(self, batches: Batches, base: int) -> bool:
        """Adds the intact batches of the next chunk, which begins at ``base`` (bytes), before they are decoded. Returns
        whether the header of one says that it begins at an offset that was there before."""
        if not len(batches):
            return False
        highest = np.maximum.accumulate(np.concatenate([[self._highest], batches.end_of_records]))
        self._positions = np.concatenate([self._positions, batches.positions + base])
        self._before = np.concatenate([self._before, highest[:-1]])
        self._highest = int(highest[-1])
        return bool((batches.entry_offset <= highest[:-1]).any())

    def rows(self, decoded: DecodedRecords) -> tuple[NDArray[np.bool_] | None, list[Finding]]:
        """Return which decoded records are the first at their offsets, None for all; and a finding for each batch of
        which some are not."""
        has_rows = decoded.given > 0
        positions, given = decoded.positions[has_rows], decoded.given[has_rows]
        if not len(positions):
            return None, []
        starts = np.cumsum(given) - given
        firsts = decoded.columns.offset[starts]
        at = np.searchsorted(self._positions, positions)
        highest = self._before[at]
        overlapping = np.flatnonzero(firsts <= highest)
        self._positions, self._before = self._positions[at[-1] :], self._before[at[-1] :]
        offsets = decoded.columns.offset[: decoded.columns.rows]
        before = self._highest_before(positions, starts, offsets)
        falls = np.flatnonzero(offsets[1:] <= offsets[:-1]) + 1
        if not len(falls) and not len(overlapping) and firsts[0] > before:
            return None, []
        new, findings = np.ones(len(offsets), np.bool_), list[Finding]()
        for row in np.unique(np.append(np.searchsorted(starts, falls, "right") - 1, 0)).tolist():
            rows = slice(int(starts[row]), int(starts[row] + given[row]))
            of_batch = offsets[rows]
            is_first, is_lower = is_first_at_offset(of_batch), np.diff(of_batch) < 0
            if not row:
                is_first &= of_batch > before
            if is_first.all() and not is_lower.any():
                continue
            new[rows] = is_first
            if (position := int(positions[row])) != self._repeats_at:
                self._repeats_at = position
                if not is_first.all():
                    findings.append(repeats_within(self._file.path, position, of_batch[~is_first]))
                else:
                    at = int(np.argmax(is_lower))
                    findings.append(falls_within(self._file.path, position, int(of_batch[at]), int(of_batch[at + 1])))
        for row in overlapping.tolist():
            rows = slice(int(starts[row]), int(starts[row] + given[row]))
            finding = self._overlap_of(int(positions[row]), int(highest[row]), offsets[rows], new[rows])
            findings += [] if finding is None else [finding]
        return (None if new.all() else new), findings

    def _highest_before(
        self, positions: NDArray[np.int64], starts: NDArray[np.int64], offsets: NDArray[np.int64]
    ) -> int:
        """The highest offset of the first batch in rows that were given before: a huge one comes in several parts."""
        (position, highest), last = self._decoded_to, int(positions[-1])
        before = highest if position == int(positions[0]) else MIN_INT64
        self._decoded_to = last, max(int(offsets[int(starts[-1]) :].max()), before if last == position else MIN_INT64)
        return before

    def _overlap_of(
        self, position: int, highest: int, offsets: NDArray[np.int64], new: NDArray[np.bool_]
    ) -> Finding | None:
        """Clears in ``new`` the records of a batch that batches before it have; what is reported of it, once.
        ``highest``: the highest offset of those before it."""
        if self._repeated is None:
            self._repeated = repeated_offsets(self._file)
        is_repeated = np.zeros(len(offsets), np.bool_)
        spans = self._repeated.get(position)
        for first, end in spans or ():
            is_repeated |= (offsets >= first) & (offsets < end)
        new &= ~is_repeated
        if position in self._reported:
            return None
        if is_repeated.any():
            self._reported.add(position)
            left_out = offsets[is_repeated]
            return overlaps(self._file.path, position, int(left_out.min()), int(left_out.max()))
        if spans == []:
            self._reported.add(position)
            return not_above(self._file.path, position, int(offsets[0]), highest)
        return None


def overlaps(path: str, position: int, first: int, last: int) -> Finding:
    """A batch that overlaps earlier ones of the same file."""
    text = (
        f"overlaps batches before it: its records at offsets {first} to {last} were left out, as a consumer gets those "
        "before them"
    )
    return Kind.OFFSET_OVERLAP.at(
        path, text, severity="warning", position=position, offset=first, expected="offsets that no batch before has"
    )


def is_first_at_offset(offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which records of one batch are the first of it at their offsets (bool): a consumer gets no other."""
    is_first = np.zeros(len(offsets), np.bool_)
    is_first[np.unique(offsets, return_index=True)[1]] = True
    return is_first


def repeats_within(path: str, position: int, offsets: NDArray[np.int64]) -> Finding:
    """A batch of which some records have ``offsets`` that records before them in it have."""
    first, last = int(offsets.min()), int(offsets.max())
    text = (
        f"records of this batch have the same offset: those at offsets {first} to {last} that follow another one were "
        "left out, as a consumer gets the first of each"
    )
    return Kind.OFFSET_OVERLAP.at(
        path, text, severity="warning", position=position, offset=first, expected="each offset once"
    )


def falls_within(path: str, position: int, before: int, offset: int) -> Finding:
    """A batch with a record at ``offset`` after one at a higher one, ``before``."""
    text = "offsets of this batch's records go back: a consumer passes over those that do"
    expected = f"an offset above {before}"
    return Kind.OFFSET_ORDER.at(
        path, text, severity="warning", position=position, offset=offset, expected=expected, found=str(offset)
    )


def repeated_offsets(file: File, earlier: Sequence[Offsets] = ()) -> dict[int, list[Offsets]]:
    """Return, for each intact batch of a file (by position), the offsets that records before it have too, in the file
    or in ``earlier`` ones. A batch that only begins below those before it has none. What counts is the records that can
    be read: a header may say that its batch goes on after its last record (a cleaner leaves such), and a batch has
    gaps."""
    repeated: dict[int, list[Offsets]] = {}
    seen, highest, crowded = list(earlier), max((end for _, end in earlier), default=0), _crowded_batches(file, earlier)
    for chunk in scan(file, ignore) if crowded else ():
        intact = chunk.take(check_checksums(chunk, file.path, ignore))
        intact = intact.take(np.isin(intact.positions, list(crowded)))
        for position, runs in zip(intact.positions.tolist(), _runs_of_records(intact), strict=True):
            if not runs:
                continue
            first, end = runs[0][0], runs[-1][1]
            if first < highest:
                repeated[position] = without(runs, without(runs, touching(seen, first, end)))
            add(seen, runs)
            highest = max(highest, end)
    return repeated


def _crowded_batches(file: File, earlier: Sequence[Offsets]) -> set[int]:
    """The positions (bytes) of the intact batches of a file that have offsets in common with others, or begin below
    one before them, by their headers."""
    firsts, ends, positions = (np.zeros(0, np.int64) for _ in range(3))
    for chunk in scan(file, ignore):
        intact = chunk.take(check_checksums(chunk, file.path, ignore))
        firsts = np.concatenate([firsts, first_offsets(intact)])
        ends = np.concatenate([ends, intact.batches.end_of_records + 1])
        positions = np.concatenate([positions, intact.positions])
    before = np.maximum.accumulate(np.concatenate([[max((end for _, end in earlier), default=0)], ends]))[:-1]
    after = np.minimum.accumulate(np.concatenate([firsts, [MAX_INT64]])[::-1])[::-1][1:]
    return set(positions[(firsts < before) | (ends > after)].tolist())


def offsets_of_records(file: File, since: int = 0) -> list[Offsets]:
    """The offsets from ``since`` on that the intact batches of a file have."""
    spans: list[Offsets] = []
    for chunk in scan(file, ignore):
        intact = chunk.take(check_checksums(chunk, file.path, ignore) & (chunk.batches.end_of_records >= since))
        for runs in _runs_of_records(intact):
            spans += [(max(first, since), end) for first, end in runs]
    return union(spans)


def runs_of(offsets: NDArray[np.int64]) -> list[Offsets]:
    """The same offsets, of any order, as spans."""
    offsets = np.unique(offsets)
    runs = np.split(offsets, np.flatnonzero(np.diff(offsets) > 1) + 1)
    return [(int(each[0]), int(each[-1]) + 1) for each in runs if len(each)]


def _runs_of_records(chunk: Chunk) -> list[list[Offsets]]:
    """Return the offsets of the records that can be read of each batch, in order."""
    from brokerless.format.read.decoder import Decoder

    found: list[list[Offsets]] = [[] for _ in range(len(chunk.batches))]
    for decoded in all_decoded(Decoder(keys=False, values=False, headers=False), chunk, chunk.batches):
        starts, offsets = np.cumsum(decoded.given) - decoded.given, decoded.columns.offset[: decoded.columns.rows]
        rows = np.searchsorted(chunk.positions, decoded.positions)
        for row, start, given in zip(rows.tolist(), starts.tolist(), decoded.given.tolist(), strict=True):
            found[row] += runs_of(offsets[start : start + given])
        del decoded, offsets  # free it before the next is decoded
    return [union(each) for each in found]


def first_offsets(chunk: Chunk) -> NDArray[np.int64]:
    """The first offset of each batch; wrapper messages, whose own is their last one, are looked into. Of one that does
    not decode, it is the offset after its last one."""
    return first_and_repeated_offsets(chunk)[0]


def first_and_repeated_offsets(chunk: Chunk) -> tuple[NDArray[np.int64], dict[int, NDArray[np.int64]]]:
    """The same, and by row the offsets that a wrapper message has more than once."""
    if not chunk.batches.is_wrapper.any():
        return chunk.batches.entry_offset, {}
    from brokerless.format.read.wrappers import inspect_wrappers

    inside = inspect_wrappers(chunk.buffer, chunk.batches)
    return np.where(inside.has_base_offset, inside.base_offset, chunk.batches.entry_offset + 1), inside.repeats


def report_past_last(chunk: Chunk, path: str, report: Report) -> None:
    """Reports the batches of a chunk that have records at offsets past their last offset."""
    batches = chunk.batches
    for row in np.flatnonzero(batches.goes_past_last_offset).tolist():
        text = (
            "a batch has records past its last offset: its client left lastOffsetDelta too low (KAFKA-6554), and a "
            "broker took offsets by that, so that its base offset is too high"
        )
        first, last, end = (
            int(each[row]) for each in (batches.entry_offset, batches.last_offset, batches.end_of_records)
        )
        report(
            Kind.RECORDS_PAST_LAST_OFFSET.at(
                path,
                text,
                position=int(chunk.positions[row]),
                offset=first,
                expected=f"a last offset of {end}",
                found=str(last),
            )
        )


def repeated_records(file: File, start_offset: int = 0) -> Iterator[tuple[Finding, int]]:
    """The batches of a file that overlap those before them, and how many of their records from ``start_offset`` on are
    left out for that."""
    from brokerless.format.read.decoder import Decoder

    repeated = repeated_offsets(file)
    decoder = Decoder(keys=False, values=False, headers=False)
    for chunk in scan(file, ignore) if repeated else ():
        for row in np.flatnonzero(np.isin(chunk.positions, list(repeated))).tolist():
            one, position = chunk.take(np.arange(len(chunk.batches)) == row), int(chunk.positions[row])
            count, least, most = 0, MAX_INT64, -1
            for decoded in all_decoded(decoder, one, one.batches):
                offsets = decoded.columns.offset[: decoded.columns.rows]
                is_repeated = np.zeros(len(offsets), np.bool_)
                for first, end in repeated[position]:
                    is_repeated |= (offsets >= first) & (offsets < end)
                if is_repeated.any():
                    left_out = np.unique(offsets[is_repeated])
                    least, most = min(least, int(left_out.min())), max(most, int(left_out.max()))
                    count += int((left_out >= start_offset).sum())
                del decoded, offsets
            if least <= most:
                yield overlaps(file.path, position, least, most), 0 if one.batches.is_control[0] else count
