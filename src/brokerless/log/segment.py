"""One segment's log file, from any position on: its batches chunk by chunk, and how it ends.

A chunk is a buffer and the batches that lie in it as a whole. Local files are mapped, so that a chunk's buffer is the
rest of the file; of others a window is read at a time. Whatever is odd is told to ``report`` as a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import Finding, UnreadableError
from brokerless.format import layouts
from brokerless.format.batches import Batches, Stop, Walk, compute_checksums, read_headers, walk
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.headers import HeaderReader, header_reader
from brokerless.log.storage import File, MappedFile, StorageOptions, open_file

Report = Callable[[Finding], None]

STEP = 8 << 20
"""Bytes of whole batches in one chunk: many to a call, yet few enough to stay in a cache until they are decoded."""
WINDOW = 8 << 20
"""Bytes that are read at once of a file that is not mapped; a larger batch is read as a whole."""
LARGEST_WINDOW = 256 << 20
"""The largest batch of such a file that is held in memory."""
HEADERS_STEP = 32 << 20
"""The same where nothing but headers is read."""
_KEEP = 32 << 20
"""Bytes of a mapped file that stay mapped in while it is scanned."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole batches of one file. ``batches.positions`` count from the buffer's start, which is at ``base`` (bytes)."""

    buffer: NDArray[np.uint8]
    base: int
    batches: Batches

    @property
    def positions(self) -> NDArray[np.int64]:
        """Of the batches in the file: int64, bytes."""
        return self.batches.positions + self.base

    def take(self, rows: NDArray[np.bool_]) -> Chunk:
        return self if rows.all() else Chunk(self.buffer, self.base, self.batches.take(rows))


def scan(file: File, report: Report, start: int = 0, end: int | None = None, step: int = STEP) -> Iterator[Chunk]:
    """The batches that begin in ``[start, end)``, following the chain of sizes from ``start``, as Kafka's reader does
    (``FileLogInputStream``, 3.9.1); ``start`` must be where a batch starts. Reports how the chain ends, if oddly."""
    return _scan(file, report, start, end, step, None)


def scan_headers(
    file: File, report: Report, start: int = 0, end: int | None = None, step: int = HEADERS_STEP
) -> Iterator[Chunk]:
    """The same for who looks at headers, and seldom at what is between them: of large local files, little else is read.

    Raises :class:`UnreadableError` where the system does not read."""
    read = header_reader(file) if isinstance(file, MappedFile) and file.size - start > HEADERS_STEP else None
    return _scan(file, report, start, end, step, read)


def _scan(
    file: File, report: Report, start: int, end: int | None, step: int, read: HeaderReader | None
) -> Iterator[Chunk]:
    at, end = start, file.size if end is None else min(end, file.size)
    released = start
    window = WINDOW
    while at < end:
        buffer = file.read(at, file.size - at if file.mapped else window)
        until, batches = min(step, end - at), None
        if read is None:
            walked = walk(buffer, max_bytes=until)
        else:
            walked, batches = read(at, at + until, at + len(buffer))
        # By the window, not by the file, nor by a broker that shortened it meanwhile.
        is_cut = walked.stop == Stop.END and not file.mapped and at + len(buffer) < file.size
        if is_cut:
            walked = _whole_headers(walked, len(buffer))
        if is_cut and not len(walked.positions):
            size = layouts.LOG_ENTRY_SIZE + int.from_bytes(buffer[8:12].tobytes(), "big", signed=True)
            if at + size <= file.size and size <= LARGEST_WINDOW:
                window = size + layouts.BATCH_V2_SIZE
                continue
            if at + size <= file.size:
                text = "a batch larger than what is read at once of a remote file"
                found, limit = f"{size} bytes", f"at most {LARGEST_WINDOW} bytes"
                report(Finding("error", "limit-exceeded", file.path, at, None, text, limit, found))
                at += size
                continue
            walked, is_cut = walk(buffer[:0]), False
        if len(walked.positions):
            yield Chunk(buffer, at, read_headers(buffer, walked.positions) if batches is None else batches)
            at += walked.stopped_at
            window = WINDOW
        if at - released > _KEEP:
            file.release(released, at - released)
            released = at
        if walked.stop == Stop.SIZE_TOO_SMALL or (walked.stop == Stop.END and not is_cut):
            finding = describe_end(file, at)
            if finding is not None:
                report(finding)
            return


def _whole_headers(walked: Walk, size: int) -> Walk:
    """A walk without a last batch so short that what a header may take reaches past the window."""
    positions = walked.positions
    if len(positions) < 2 or positions[-1] + layouts.BATCH_V2_SIZE <= size:
        return walked
    return Walk(positions[:-1], int(positions[-1]), walked.stop)


def open_segments(
    partition: PartitionPath,
    report: Report,
    segments: Sequence[SegmentPaths] | None = None,
    storage_options: StorageOptions | None = None,
) -> Iterator[tuple[SegmentPaths, File]]:
    """Each segment with its log, opened; all of the partition's unless told which. What cannot be opened is reported
    and passed over; raises :class:`UnreadableError` only if it is the very path that was asked for."""
    for finding in partition.findings:
        report(finding)
    for segment in partition.segments if segments is None else segments:
        path = segment.log.path
        try:
            file = open_file(path, storage_options)
        except UnreadableError as error:
            if path == partition.path:
                raise
            reason = str(error).removeprefix(f"{path}: ")
            report(Finding("error", "unreadable-file", path, None, segment.base_offset, reason))
            continue
        with file:
            yield segment, file


def graded_within_log(finding: Finding) -> Finding:
    """In a segment that another one follows, a batch that is cut off is damage, as nobody is about to write the rest,
    and what follows is read."""
    return replace(finding, severity="error") if finding.kind == "truncated-batch" else finding


def within_log(report: Report) -> Report:
    """A report for such a segment."""
    return lambda finding: report(graded_within_log(finding))


def describe_end(file: File, position: int) -> Finding | None:
    """What is wrong with the end of a chain of batches at ``position``, if anything."""
    left = file.size - position
    if file.mapped and left > 0:
        left = len(file.read(position, left))  # a broker may have shortened it
    if left <= 0:
        return None
    head = file.read(position, layouts.HEADER_SIZE_UP_TO_MAGIC)
    offset = int.from_bytes(head[:8].tobytes(), "big", signed=True) if left >= layouts.LOG_ENTRY_SIZE else None
    if left <= layouts.HEADER_SIZE_UP_TO_MAGIC:
        if not head.any():
            text = "zero bytes at the end, too few for a batch; Kafka's reader takes no notice of them"
            return Finding("info", "trailing-zeros", file.path, position, None, text, "the end", f"{left} bytes")
        text = "the file ends within the header of a batch: it was not written to its end, or was cut off"
        return Finding("warning", "truncated-batch", file.path, position, None, text, "a whole batch", f"{left} bytes")
    size = int.from_bytes(head[8:12].tobytes(), "big", signed=True)
    if size >= layouts.MESSAGE_V0_OVERHEAD:
        text = "the file ends within a batch: it was not written to its end, or its size is wrong"
        whole = f"{size + layouts.LOG_ENTRY_SIZE} bytes"
        return Finding("warning", "truncated-batch", file.path, position, offset, text, whole, f"{left} bytes")
    if is_zero(file, position):
        text = (
            "nothing but zeros from here on: a preallocated file whose end was not trimmed, or lost pages; "
            "Kafka's reader refuses them"
        )
        return Finding("error", "zero-tail", file.path, position, None, text, "a batch", f"{left} zero bytes")
    text = "the chain of batches breaks: the next batch's size is less than the smallest message takes"
    expected = f"a size of at least {layouts.MESSAGE_V0_OVERHEAD}"
    return Finding("error", "batch-size-invalid", file.path, position, offset, text, expected, str(size))


def is_zero(file: File, position: int) -> bool:
    """Whether a file has nothing but zero bytes from ``position`` on."""
    while position < file.size:
        piece = file.read(position, WINDOW)
        if not len(piece) or piece.any():
            return False
        position += len(piece)
    return True


def check(chunk: Chunk, valid: NDArray[np.bool_], computed: NDArray[np.int64], path: str) -> Iterator[Finding]:
    """A finding for each batch whose checksum is not that of its bytes."""
    batches = chunk.batches
    for row in np.flatnonzero(~valid).tolist():
        position, offset = int(chunk.positions[row]), int(batches.entry_offset[row])
        if batches.too_small[row]:
            text = "a batch whose size is less than its own header takes; its records were not read"
            expected = f"at least {layouts.BATCH_V2_SIZE} bytes"
            found = f"{int(batches.sizes[row])} bytes"
            yield Finding("error", "batch-size-invalid", path, position, offset, text, expected, found)
        else:
            text = "the checksum of the batch does not match; its records were not read"
            expected, found = f"{int(computed[row]):#010x}", f"{int(batches.checksum[row]):#010x}"
            yield Finding("error", "checksum-mismatch", path, position, offset, text, expected, found)


def check_checksums(chunk: Chunk, path: str, report: Report) -> NDArray[np.bool_]:
    """Which batches are what was written (bool, shape ``(n,)``); the others are reported."""
    computed = compute_checksums(chunk.buffer, chunk.batches)
    valid = computed == chunk.batches.checksum
    if not valid.all():
        for finding in check(chunk, valid, computed, path):
            report(finding)
    return valid


def ignore(finding: Finding) -> None:
    """A report that nobody wants."""
