"""Reads the records of one partition in a range of offsets or timestamps, across its segments.

What a range does not need is left out by batch headers before anything is inflated, but only by those whose checksums
are right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import Finding
from brokerless.format import layouts
from brokerless.format.codecs.decompression import DEFAULT_MAX_BATCH_BYTES
from brokerless.format.read.batch_headers import Batches, read_headers
from brokerless.format.read.decoder import Damage, DecodedRecords, Decoder
from brokerless.log.directory import PartitionPath
from brokerless.log.live_segments import open_segments
from brokerless.log.offset_checks import RepeatedOffsets, SeenOffsets, all_misplaced
from brokerless.log.offset_gaps import check_end, check_following, check_head
from brokerless.log.positions import position_of_offset
from brokerless.log.producer.transactions import Transactions, find_transactions
from brokerless.log.ranges import EVERYTHING, Range, Span
from brokerless.log.seek import position_of_timestamp
from brokerless.log.segment import SHRUNK, Chunk, Report, check_checksums, ignore, scan, within_log
from brokerless.log.storage.paths import File, StorageOptions


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """Decoded records of one file; ``rows``: those asked for, None for all."""

    path: str
    decoded: DecodedRecords
    rows: NDArray[np.bool_] | None


@dataclass(frozen=True, slots=True)
class Reading:
    """How records are read. ``keys``, ``values``, ``headers``: whether they are kept. ``control``: control records are
    given as well. ``transactions``: given to leave out aborted data and what is not yet stable (read_committed).
    ``max_batch_bytes``: bytes that one batch may inflate to. ``watch`` is shown each chunk, and which of its batches
    are what was written, before any of their records are given. ``span``: a batch outside of it is reported, and not
    passed over. ``match``: which of some decoded records are given (bool, shape ``(rows,)``); ``any_of``: byte strings
    of which such a record has at least one, so that batches without any need not be decoded.
    """

    range: Range = EVERYTHING
    keys: bool = True
    values: bool = True
    headers: bool = True
    control: bool = False
    transactions: Transactions | None = None
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    watch: Callable[[str, Chunk, NDArray[np.bool_]], object] | None = None
    span: Span | None = None
    match: Callable[[DecodedRecords], NDArray[np.bool_]] | None = None
    any_of: tuple[bytes, ...] = ()


def read_partition(
    partition: PartitionPath, reading: Reading, report: Report, storage_options: StorageOptions | None = None
) -> Iterator[DecodedRows]:
    """A partition's records in the order of its segments; one that cannot be opened is reported."""
    requested = stable_range(reading)
    check_head(partition, report, storage_options, requested)
    seen = SeenOffsets()
    for each in open_segments(partition, report, reading.range, storage_options):
        start = each.start
        if reading.range.start_offset is not None:
            start = max(start, position_of_offset(each.file, each.segment, reading.range.start_offset, storage_options))
        if reading.range.start_timestamp is not None:
            since = reading.range.start_timestamp
            start = max(start, position_of_timestamp(each.file, each.segment, since, storage_options))
        seen.begin(each.segment.base_offset)
        graded = report if each.is_last else within_log(report)
        yield from read_file(each.file, reading, graded, start, seen=seen)
        check_following(each.partition, each.segment, each.file, report, storage_options, requested)
    check_end(partition, report, storage_options, requested)


def read_file(
    file: File,
    reading: Reading,
    report: Report,
    start: int = 0,
    end: int | None = None,
    seen: RepeatedOffsets | None = None,
) -> Iterator[DecodedRows]:
    """The records of the batches of a file that begin in ``[start, end)``, without those that ``seen`` passes over.

    What is damaged is reported after the records before it were given."""
    decoder = Decoder(reading.keys, reading.values, reading.headers, reading.max_batch_bytes, any_of=reading.any_of)
    requested = stable_range(reading)
    findings: list[Finding] = []

    def advance(until: int | None) -> None:
        findings.sort(key=lambda each: each.position or 0)
        while findings and (until is None or (findings[0].position or 0) <= until):
            report(findings.pop(0))

    def selected_rows(decoded: DecodedRecords) -> Iterator[DecodedRows]:
        findings.extend(damage_finding(file.path, damage) for damage in decoded.damages)
        rows = None if requested.is_everything else requested.rows(decoded.columns)
        new = None if seen is None else seen.rows(decoded.columns.offset[: decoded.columns.rows])
        if new is not None:
            rows = new if rows is None else rows & new
        if reading.match is not None and decoded.columns.rows:
            matches = reading.match(decoded)
            rows = matches if rows is None else rows & matches
        is_selected = decoded.columns.rows and (rows is None or rows.any())
        last = int(decoded.positions[-1]) if len(decoded.positions) else 0
        rows_read = [DecodedRows(file.path, decoded, rows)] if is_selected else []
        del decoded  # a huge one is not to stay here when the caller is done with it
        if rows_read:
            yield rows_read.pop()
        advance(last - 1)

    for chunk in scan(file, findings.append, start, end):
        if reading.span is None and is_past(chunk.batches, requested):
            break
        # Checked before anything is left out by its header: one flipped bit there would hide records without a word.
        valid = check_checksums(chunk, file.path, findings.append)
        if reading.watch is not None:
            reading.watch(file.path, chunk, valid)
        if reading.span is not None:
            findings.extend(all_misplaced(file.path, chunk, valid, reading.span))
        valid_batches = chunk.take(valid).batches
        repeated = None if seen is None else seen.repeated(valid_batches)
        if seen is not None and repeated is not None:
            at = int(np.argmax(repeated))
            finding = seen.finding(
                file.path, chunk.base + int(valid_batches.positions[at]), int(valid_batches.entry_offset[at])
            )
            findings += [] if finding is None else [finding]
            valid_batches = valid_batches.take(~repeated)
        chosen = valid_batches.take(_chosen(valid_batches, reading, requested))
        for given in map(selected_rows, decoder.decode(chunk.buffer, chosen, chunk.base)):
            yield from given
        if reading.match is not None and (few := decoder.flush()) is not None:  # or the first would wait for the last
            yield from selected_rows(few)
            del few
        if reading.span is None and reaches_end(valid_batches, requested) and is_followed(file, chunk):
            break
    rest = decoder.flush()
    if rest is not None:
        given = selected_rows(rest)
        del rest
        yield from given
    advance(None)


def stable_range(reading: Reading) -> Range:
    """The range that is asked for, and with read_committed nothing that is not decided."""
    stable = None if reading.transactions is None else reading.transactions.decided_until
    if stable is None:
        return reading.range
    return reading.range.narrow(Range(end_offset=stable))


def is_past(batches: Batches, requested: Range) -> bool:
    """Whether all batches, and so all after them, begin after the range."""
    if requested.end_offset is None or not len(batches):
        return False
    return bool((batches.entry_offset >= requested.end_offset).all()) and not bool((batches.is_legacy).any())


def reaches_end(batches: Batches, requested: Range) -> bool:
    """Whether the last of some batches ends where the range does, or after it, so that nothing is read to see that the
    next one is past it. Not of messages: those of v0 and v1 may begin far before."""
    if requested.end_offset is None or not len(batches):
        return False
    return int(batches.last_offset[-1]) + 1 >= requested.end_offset and not bool(batches.is_legacy.any())


def is_followed(file: File, chunk: Chunk) -> bool:
    """Whether another batch begins where a chunk ends, by its header; where none does, what is there instead is still
    to be reported."""
    position, last = int(chunk.positions[-1] + chunk.batches.sizes[-1]), int(chunk.batches.last_offset[-1])
    head = file.read(position, layouts.BATCH_V2_SIZE)
    if len(head) < layouts.BATCH_V2_SIZE:
        return False
    following = read_headers(head, np.zeros(1, np.int64))
    size = int(following.sizes[0])
    is_whole = size >= layouts.BATCH_V2_SIZE and position + size <= min(file.size, file.size_now())
    return is_whole and int(following.magic[0]) == layouts.MAGIC_V2 and int(following.entry_offset[0]) > last


def damage_finding(path: str, damage: Damage) -> Finding:
    return Finding("error", damage.kind, path, damage.position, damage.base_offset, damage.message, None, damage.found)


def _chosen(batches: Batches, reading: Reading, requested: Range) -> NDArray[np.bool_]:
    chosen = requested.batches(batches)
    if not reading.control:
        chosen &= ~batches.is_control
    if reading.transactions is not None:
        chosen &= ~reading.transactions.aborted(batches)
    return chosen


def transactions_of(
    partition: PartitionPath, storage_options: StorageOptions | None = None, report: Report = ignore
) -> Transactions:
    """The transactions of a partition's whole log. Damaged data and markers of transactions are reported: without its
    marker, a transaction looks open, and what is after it unstable; so does a file that became shorter meanwhile."""
    end_offset = 0

    def chunks() -> Iterator[tuple[str, Chunk]]:
        nonlocal end_offset
        for each in open_segments(partition, ignore, storage_options=storage_options):
            advance: Report = lambda finding: report(finding) if finding.kind == SHRUNK else None  # noqa: E731
            for chunk in scan(each.file, advance, each.start):
                end_offset = max(end_offset, int(chunk.batches.last_offset.max()) + 1)
                yield each.file.path, chunk

    transactions = find_transactions(chunks(), report)
    transactions.end_offset = end_offset
    return transactions
