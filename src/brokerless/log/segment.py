"""Scans one segment's log file from any position: its batches chunk by chunk, what of it is damaged, and how it ends.

A chunk is a buffer and the batches that lie in it as a whole: a window of the file, which is read at once. A broker may
write to the file meanwhile: it is read up to the size that it had when it was opened, and if it became shorter than
that, this is a finding. All that is invalid is reported as a finding.

Where the batch scan breaks, Kafka's reader ends. Here, reading goes on at the next intact batch that continues the
log, if there is one: only what predicts or repeats what a broker does follows the chain alone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT64
from brokerless.findings import Finding, Kind
from brokerless.format import layouts
from brokerless.format.read.batch_headers import (
    Batches,
    checksums_match,
    compute_checksums,
    ends_in_v2,
    read_headers,
)
from brokerless.format.read.batch_scan import BatchScan, ScanStop, scan_batches
from brokerless.format.read.resync import MOST_BROKEN, Continuation, find_continuation, find_passed_over, leads_back
from brokerless.log.names import parse_segment_file
from brokerless.log.segment_end import describe_end, describe_shrinking, named_contents, too_small
from brokerless.log.storage.files import File, LocalFile, limit_exceeded
from brokerless.log.storage.header_reader import header_reader, without_cut_header
from brokerless.log.storage.paths import directory_name
from brokerless.log.storage.read_ahead import RemoteWindows
from brokerless.progress import Report, ignore

if TYPE_CHECKING:  # it imports kernels, which headers do without
    from brokerless.format.columns import Damage
    from brokerless.format.read.decoder import DecodedRecords, Decoder
    from brokerless.format.read.one_pass import OnePass, Passed

Windows = Callable[[int, int, int], tuple[NDArray[np.uint8], int]]
"""Reads at a position: the bytes that may be of use, and those that are needed at least. Gives what it has read, which
is less at the end of the file, and how many bytes it had requested."""

STEP = 8 << 20
"""Bytes of whole batches in one chunk: many to a call, yet few enough to stay in a cache until they are decoded."""
WINDOW = 8 << 20
"""Bytes that are read at once; a larger batch is read as a whole."""
LEAST_WINDOW, FIRST_WINDOW = 1 << 16, 1 << 18
"""The same of a local file: where no more is requested, and at first, as reading may end soon."""
LARGEST_WINDOW = 256 << 20
"""The largest batch that is held in memory."""
HEADERS_STEP = 32 << 20
"""Bytes of whole batches in one chunk where nothing but headers is read."""
HEADERS_FROM = 1 << 20
"""Bytes of a local file for which it pays to read headers alone."""
ONE_PASS_FROM = 1 << 20
"""The same for which it pays to check and decode as it is read."""
_NEAR = 1 << 14
"""Bytes between two batches that are read rather than passed over."""
NO_BATCHES = Batches(np.empty(0, np.int64), np.empty((0, layouts.BATCH_V2_SIZE), np.uint8), 0)
_EMPTY = np.empty(0, np.uint8)

_BREAKS = {
    Kind.NO_BATCHES: (
        Kind.NO_BATCHES,
        "nothing here reads as a batch: it was overwritten by something else",
    ),
    Kind.BATCH_SIZE_INVALID: (
        Kind.BATCH_SIZE_INVALID,
        "no batch has this size, which is less than the smallest message takes",
    ),
    Kind.TRUNCATED_BATCH: (
        Kind.BATCH_SIZE_INVALID,
        "the size of this batch is wrong, as it leads past the end of the file",
    ),
}
"""Kinds of findings after which intact batches may follow; and what is reported then."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole batches of one file; one of headers alone has no wrapper message, as those are not known by headers."""

    buffer: NDArray[np.uint8]
    """Empty in a chunk of headers alone."""
    base: int
    """Where the buffer begins in the file (bytes); the positions of ``batches`` count from there."""
    batches: Batches
    file: File | None = None
    """The file of a chunk of headers alone, whose bytes :meth:`load` reads."""
    passed: Passed | None = None
    """Decoded records of such a chunk, all of whose batches are intact."""

    @property
    def positions(self) -> NDArray[np.int64]:
        """The positions of the batches in the file: int64, bytes."""
        return self.batches.positions + self.base

    def take(self, rows: NDArray[np.bool_]) -> Chunk:
        return self if rows.all() else Chunk(self.buffer, self.base, self.batches.take(rows), self.file)

    def load(self, report: Report) -> Iterator[Chunk]:
        """Yield the batches with their bytes, near ones at once; what is too large or gone is reported and left out."""
        if self.file is None:
            yield self
            return
        starts, ends = self.batches.positions.tolist(), self.batches.ends.tolist()
        first = 0
        while first < len(starts):
            start, after = starts[first], first + 1
            while after < len(starts) and ends[after] - start <= WINDOW and starts[after] - ends[after - 1] <= _NEAR:
                after += 1
            end, group = ends[after - 1], self.batches.take(slice(first, after))
            first = after
            if end - start > LARGEST_WINDOW:
                report(_too_large(self.file, self.base + start, end - start))
                continue
            buffer = self.file.read(self.base + start, end - start)
            batches = Batches(group.positions - start, group.raw, len(buffer))
            if len(buffer) < end - start:
                report(describe_shrinking(self.file, self.base + start, self.base + start + len(buffer)))
                batches = batches.take(batches.ends <= len(buffer))
            yield Chunk(buffer, self.base + start, batches)


def scan(
    file: File,
    report: Report,
    start: int = 0,
    end: int | None = None,
    step: int = STEP,
    windows: Windows | None = None,
    *,
    chain_only: bool = False,
) -> Generator[Chunk]:
    """Return the batches that begin in ``[start, end)``, scanning from ``start``, as Kafka's reader does
    (``FileLogInputStream``, 3.9.1); ``start`` must be where a batch starts. Reports where the chain breaks, and how it
    ends, if oddly. ``windows``: reads the file, if something else does so ahead. ``chain_only``: ends where the chain
    breaks, as a broker does.

    Raises :class:`UnreadableError` where the system does not read."""
    return _scan_by_windows(file, report, start, end=end, walk=_Walk(step, windows, chain_only))


def scan_further(
    file: File, report: Report, start: int, end: int | None, before: Batches, step: int, windows: Windows | None
) -> Generator[Chunk]:
    """Scan on for a caller who has read the batches before ``start`` in another way; ``before``: the last of them
    (:func:`last_batches`)."""
    return _scan_by_windows(file, report, start, end=end, walk=_Walk(step, windows, chain_only=False, before=before))


def scan_in_one_pass(
    file: File, report: Report, one_pass: OnePass | None, start: int = 0, end: int | None = None
) -> Generator[Chunk]:
    """Scan on; ``one_pass`` decodes intact batches of a local file as they are read, where that pays. These are given
    without their bytes (:func:`decode_chunk`)."""
    if not isinstance(file, LocalFile) or file.size - start < ONE_PASS_FROM:
        one_pass = None
    walk = _Walk(STEP, None, chain_only=False, one_pass=one_pass)
    return _scan_by_windows(file, report, start, end=end, walk=walk)


def scan_headers(
    file: File,
    report: Report,
    start: int = 0,
    end: int | None = None,
    step: int = HEADERS_STEP,
    *,
    chain_only: bool = False,
) -> Iterator[Chunk]:
    """Scan for callers that read headers, and seldom what is between them: of local files, little else is read, and
    chunks have to be loaded (:meth:`Chunk.load`). Of zeros at the end, one window is read."""
    at, before, resumed = start, NO_BATCHES, start - 1
    if isinstance(file, LocalFile) and file.size - start > HEADERS_FROM:
        read, until = header_reader(file), file.size if end is None else min(end, file.size)
        while at < until:
            walked, batches = read(at, min(at + step, until), file.size)
            if batches.is_wrapper.any():
                break
            if at + walked.stopped_at > (size := file.size_now()):
                batches = batches.take(batches.ends <= size - at)
                walked = BatchScan(batches.positions, int(batches.ends.max(initial=0)), ScanStop.END)
            stop, broken = at + walked.stopped_at, None
            if walked.stop != ScanStop.LIMIT:
                broken = _break(
                    file, last_batches(before, batches, at, file.size), stop, zeros=WINDOW, chain_only=chain_only
                )
            if len(batches):
                yield Chunk(_EMPTY, at, batches, file)
                before, at = last_batches(before, batches, at, file.size), stop
            if broken is not None:
                for finding in broken.findings:
                    report(finding)
                if broken.resume_at is None or broken.resume_at <= resumed:
                    return
                at = resumed = broken.resume_at
        else:
            return
    yield from _scan_by_windows(file, report, at, end=end, walk=_Walk(step, None, chain_only, WINDOW))


def _growing_windows(file: LocalFile) -> Windows:
    usual = min(FIRST_WINDOW, WINDOW)

    def read(position: int, useful: int, needed: int) -> tuple[NDArray[np.uint8], int]:
        nonlocal usual
        window = max(needed, min(usual, max(useful, LEAST_WINDOW)))
        usual = min(8 * usual, WINDOW)
        return file.read(position, window), window

    return read


class _Walk(NamedTuple):
    """Options by which a file is walked."""

    step: int
    """Bytes of a chunk."""
    windows: Windows | None
    """None for those that fit the file."""
    chain_only: bool
    zeros: int | None = None
    """How many zeros at the end are read (bytes), None for all."""
    one_pass: OnePass | None = None
    """Reads what it can of a local file."""
    before: Batches = NO_BATCHES
    """The last batches before the start."""


def _scan_by_windows(file: File, report: Report, start: int, end: int | None, walk: _Walk) -> Generator[Chunk]:
    if walk.windows is not None:
        yield from _scan(file, report, start, end=end, walk=walk, windows=walk.windows)
    elif isinstance(file, LocalFile):
        yield from _scan(file, report, start, end=end, walk=walk, windows=_growing_windows(file))
    else:
        with closing(RemoteWindows(file, file.size if end is None else min(end, file.size), WINDOW)) as ahead:
            yield from _scan(file, report, start, end=end, walk=walk, windows=ahead.read)


def _scan(file: File, report: Report, start: int, end: int | None, walk: _Walk, windows: Windows) -> Generator[Chunk]:
    step, _, chain_only, zeros, one_pass, before = walk
    at, end = start, file.size if end is None else min(end, file.size)
    needed, last, resumed = 0, start - 1, start - 1
    passes = one_pass is not None and ends_in_v2(_headers_at(file, at))
    while at < end:
        until = min(step, end - at)
        if passes and (chunk := read_in_one_pass(file, one_pass, at, end)) is not None:
            passes = chunk.passed is not None and not chunk.passed.is_stopped
            yield chunk
            last = at + int(chunk.batches.positions[-1])
            before, at = last_batches(before, chunk.batches, at, file.size), at + int(chunk.batches.ends[-1])
            continue
        buffer, window = windows(at, until, needed)
        walked = scan_batches(buffer, max_bytes=until)
        ended = at + len(buffer)
        is_short = ended < min(at + window, file.size)
        # By the window, not by the file.
        is_cut = walked.stop == ScanStop.END and not is_short and ended < file.size
        needed, size = 0, 0
        if is_cut:
            walked = without_cut_header(walked, len(buffer))
            size = _size_at(buffer, walked.stopped_at)
            fits = at + walked.stopped_at + size <= file.size
            is_cut = fits or len(walked.positions) > 0
            needed = size + layouts.BATCH_V2_SIZE if fits and size <= LARGEST_WINDOW else 0
        batches, stop, broken = read_headers(buffer, walked.positions), at + walked.stopped_at, None
        if (
            not chain_only
            and zeros is None
            and (passed := _passed_over(file, before, batches, buffer=buffer, base=at)) is not None
            and (passed[1].resume_at or 0) > resumed
        ):
            batches, broken = batches.take(slice(0, passed[0])), passed[1]
            walked, is_cut = BatchScan(batches.positions, walked.stopped_at, ScanStop.LIMIT), False
        if walked.stop == ScanStop.SIZE_TOO_SMALL or (walked.stop == ScanStop.END and not is_cut):
            if is_short:
                broken = _Break((describe_shrinking(file, stop, ended),))
            else:
                broken = _break(
                    file, last_batches(before, batches, at, file.size), stop, zeros=zeros, chain_only=chain_only
                )
        if len(batches):
            passes = one_pass is not None and ends_in_v2(batches) and _ends_intact(buffer, batches)
            yield Chunk(buffer, at, batches)
            last = at + int(batches.positions[-1])
            before, at = last_batches(before, batches, at, file.size), stop
        elif is_cut and size > LARGEST_WINDOW:
            report(_too_large(file, at, size))
            at += size
        if broken is not None:
            for finding in broken.findings:
                report(finding)
            # Never twice from the same place, and back only where this is the file that was read.
            if broken.resume_at is None or broken.resume_at <= resumed:
                return
            if broken.resume_at <= last and not leads_back(file.read, before, broken.resume_at, LARGEST_WINDOW):
                return
            at = resumed = broken.resume_at
        del buffer  # lest its memory be that of the next window but one only


def _headers_at(file: File, position: int) -> Batches:
    head = file.read(position, layouts.BATCH_V2_SIZE)
    return read_headers(head, np.zeros(int(len(head) == layouts.BATCH_V2_SIZE), np.int64))


def _ends_intact(buffer: NDArray[np.uint8], batches: Batches) -> bool:
    return bool(checksums_match(buffer, batches.take(slice(len(batches) - 1, None))).all())


def read_in_one_pass(file: File, one_pass: OnePass | None, start: int, until: int) -> Chunk | None:
    """Return the next batches of a local file that are read in one pass. Where they do not follow those before, one of
    these may be damaged and hide others, but not if they are intact."""
    if one_pass is None or not isinstance(file, LocalFile):
        return None
    passed = one_pass.read(file.descriptor, start, until, file.size)
    return None if passed is None else Chunk(_EMPTY, start, passed.batches, file=file, passed=passed)


def _passed_over(
    file: File, before: Batches, batches: Batches, buffer: NDArray[np.uint8], base: int
) -> tuple[int, _Break] | None:
    """The row of a window, which begins at ``base`` (bytes), before which a wrong size has led over batches, and where
    these are. That is known of a batch that is not intact, at the end or where the next one does not have the very next
    offset. ``before``: the last batches before the window."""
    if not len(batches):
        return None
    positions = np.append(batches.positions + base, base + batches.ends[-1])
    firsts, lasts = batches.entry_offset, batches.last_offset
    rows = np.flatnonzero(firsts[1:] > lasts[:-1] + 1) + 1
    if positions[-1] == file.size:
        rows = np.append(rows, len(batches))
    ends = batches.take(rows - 1)
    rows = rows[compute_checksums(buffer, ends) != ends.checksum].tolist()
    if len(before) and firsts[0] > before.last_offset[-1] + 1:
        rows.insert(0, 0)
    name = parse_segment_file(directory_name(file.path))
    for row in rows:
        known = last_batches(before, batches.take(slice(0, row)), base, file.size)
        below = MAX_INT64 if row == len(batches) else int(firsts[row])
        place = int(positions[row]), below, 0 if name is None else name.offset
        found = find_passed_over(file.read, known, *place, LARGEST_WINDOW)
        if found is not None:
            return row, _Break((_resumes(file, found),), found.position)
    return None


@dataclass(frozen=True, slots=True)
class _Break:
    """A break of the batch scan, and what is reported of it."""

    findings: tuple[Finding, ...]
    resume_at: int | None = None
    """Where the log goes on (bytes), even before the end of batches whose size was wrong; None for nowhere."""


def last_batches(before: Batches, batches: Batches, base: int, size: int) -> Batches:
    """Return the last batches of a file of ``size`` bytes up to those of a window, which begins at ``base``."""
    few = MOST_BROKEN + 2
    positions = np.concatenate([before.positions[-few:], batches.positions[-few:] + base])[-few:]
    return Batches(positions, np.concatenate([before.raw[-few:], batches.raw[-few:]])[-few:], size)


def _break(file: File, before: Batches, stop: int, zeros: int | None, chain_only: bool) -> _Break:
    """Return what follows where the chain breaks at ``stop`` (bytes). ``before``: the last batches before it."""
    finding = describe_end(file, stop, zeros)
    if finding is None or chain_only or finding.kind not in _BREAKS:
        return _Break(() if finding is None else (finding,))
    name = parse_segment_file(directory_name(file.path))
    base_offset = 0 if name is None else name.offset
    found = find_continuation(
        file.read, file.size, before, stop=stop, base_offset=base_offset, largest=LARGEST_WINDOW, skip=file.next_data
    )
    if found is None:
        return _Break((finding,))
    resumes = _resumes(file, found)
    kind, text = _BREAKS[finding.kind]
    if kind == Kind.NO_BATCHES and finding.position == 0:
        named = named_contents(file)
        text = f"nothing here reads as a batch: {named}" if named is not None else text
    if found.position < stop:
        text = f"the wrong size of the batch at position {found.broken_at} leads here, past others, where {text}"
    finding = replace(
        finding, severity="error", kind=kind, message=f"{text}; batches go on at position {found.position}"
    )
    return _Break((finding, resumes), found.position)


def _resumes(file: File, found: Continuation) -> Finding:
    text = f"{found.position - found.broken_at} bytes before this were skipped; batches go on here"
    expected, offset = f"offset {found.after}", f"offset {found.first}"
    return Kind.BATCHES_RESUME.at(
        file.path, text, position=found.position, offset=found.first, expected=expected, found=offset
    )


def _size_at(buffer: NDArray[np.uint8], position: int) -> int:
    """Return the size of the batch at a position, as its header has it; 0 where that is not in the buffer."""
    head = buffer[position : position + layouts.LOG_ENTRY_SIZE]
    if len(head) < layouts.LOG_ENTRY_SIZE:
        return 0
    return layouts.LOG_ENTRY_SIZE + int.from_bytes(head[8:12].tobytes(), "big", signed=True)


def _too_large(file: File, position: int, size: int) -> Finding:
    text = "a batch larger than what is read at once; it was passed over"
    return limit_exceeded(file.path, text, size, LARGEST_WINDOW, position=position)


def graded_within_log(finding: Finding) -> Finding:
    """Return a finding as it is in a segment that another one follows: there, a batch that is cut off is damage, as
    nobody is about to write the rest, and what follows is read."""
    return replace(finding, severity="error") if finding.kind == Kind.TRUNCATED_BATCH else finding


def within_log(report: Report) -> Report:
    """Return a report for such a segment."""
    return lambda finding: report(graded_within_log(finding))


def check(chunk: Chunk, valid: NDArray[np.bool_], computed: NDArray[np.int64], path: str) -> Iterator[Finding]:
    """Yield a finding for each batch whose checksum is not that of its bytes."""
    batches = chunk.batches
    for row in np.flatnonzero(~valid).tolist():
        position, offset = int(chunk.positions[row]), int(batches.entry_offset[row])
        if batches.too_small[row]:
            text = "a batch whose size is less than its own header takes; its records were not read"
            expected, found = f"at least {layouts.BATCH_V2_SIZE} bytes", f"{int(batches.sizes[row])} bytes"
            yield too_small(path, text, (position, offset), expected=expected, found=found)
        else:
            checksums = int(computed[row]), int(batches.checksum[row])
            yield wrong_checksum(path, position, offset, "its records were not read", checksums=checksums)


def wrong_checksum(
    path: str, position: int, offset: int, consequence: str, checksums: tuple[int, int] | None = None
) -> Finding:
    """Return the finding about a batch with a wrong checksum. ``checksums``: that of its bytes, and that which it
    has."""
    expected, found = (None, None) if checksums is None else (f"{each:#010x}" for each in checksums)
    text = f"the checksum of the batch does not match; {consequence}"
    return Kind.CHECKSUM_MISMATCH.at(path, text, position=position, offset=offset, expected=expected, found=found)


def check_checksums(chunk: Chunk, path: str, report: Report) -> NDArray[np.bool_]:
    """Return which batches are what was written (bool, shape ``(n,)``); the others are reported."""
    if chunk.passed is not None:
        return np.ones(len(chunk.batches), np.bool_)
    computed = compute_checksums(chunk.buffer, chunk.batches)
    valid = computed == chunk.batches.checksum
    if not valid.all():
        for finding in check(chunk, valid, computed, path):
            report(finding)
    return valid


def decode_chunk(decoder: Decoder, chunk: Chunk, chosen: Batches, report: Report = ignore) -> Iterator[DecodedRecords]:
    """Yield what a decoder makes of some batches of a chunk, but for what waits for more. Where they were decoded as
    they were read, but others are chosen now, or another decoder is, they are read again, and what changed meanwhile is
    reported and left out."""
    if chunk.file is None:
        yield from decoder.decode(chunk.buffer, chosen, chunk.base)
        return
    known = None if chunk.passed is None else chunk.passed.records(decoder, chosen, chunk.base)
    if known is not None:
        yield from known
        return
    for loaded in Chunk(_EMPTY, chunk.base, chosen, chunk.file).load(report):
        valid = check_checksums(loaded, chunk.file.path, report)
        yield from decoder.decode(loaded.buffer, loaded.batches.take(valid), loaded.base)


def all_decoded(decoder: Decoder, chunk: Chunk, chosen: Batches, report: Report = ignore) -> Iterator[DecodedRecords]:
    """Yield what a decoder makes of some batches of a chunk, to the last record; as :func:`decode_chunk` else."""
    yield from decode_chunk(decoder, chunk, chosen, report)
    if (rest := decoder.flush()) is not None:
        last = [rest]
        del rest
        yield last.pop()


def damage_finding(path: str, damage: Damage) -> Finding:
    """Return the finding about a batch whose records end early."""
    return damage.kind.at(
        path, damage.message, severity="error", position=damage.position, offset=damage.base_offset, found=damage.found
    )


def report_damages(wrappers: Iterable[Damage], path: str, base: int, report: Report) -> None:
    """Reports what is wrong inside wrapper messages of a chunk, which begins at ``base`` (bytes)."""
    for each in wrappers:
        report(damage_finding(path, replace(each, position=base + each.position)))
