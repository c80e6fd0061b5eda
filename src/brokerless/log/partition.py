"""The segments of one partition as one log: which batches a range needs, and their records.

Everything is pruned by batch headers before a checksum is computed or a payload is inflated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import Finding
from brokerless.format.batches import Batches
from brokerless.format.compression import DEFAULT_LIMIT
from brokerless.format.decode import Damage, Decoded, Decoder
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.seek import position_of_offset
from brokerless.log.segment import Chunk, Report, check_checksums, ignore, open_segments, scan
from brokerless.log.storage import File, StorageOptions
from brokerless.log.transactions import Transactions, find_transactions


@dataclass(frozen=True, slots=True)
class Range:
    """Which records are asked for: ``start <= x < end`` for offsets and for timestamps (ms); None is without bound."""

    start_offset: int | None = None
    end_offset: int | None = None
    start_timestamp: int | None = None
    end_timestamp: int | None = None

    @property
    def is_everything(self) -> bool:
        return self == Range()

    def batches(self, batches: Batches) -> NDArray[np.bool_]:
        """Which batches may hold such records, by their headers: bool, shape ``(n,)``."""
        wanted = np.ones(len(batches), np.bool_)
        if self.start_offset is not None:
            wanted &= batches.last_offset >= self.start_offset
        if self.end_offset is not None:
            # A wrapper's offset is its last one: its first may be far before.
            is_wrapper = batches.is_legacy & (batches.codec != 0)
            wanted &= (batches.entry_offset < self.end_offset) | is_wrapper
        if self.start_timestamp is not None:
            wanted &= batches.max_timestamp >= self.start_timestamp
        return wanted

    def rows(self, decoded: Decoded) -> NDArray[np.bool_] | None:
        """Which decoded rows are asked for; None for all."""
        rows = decoded.columns.rows
        wanted = np.ones(rows, np.bool_)
        for values, start, end in (
            (decoded.columns.offset[:rows], self.start_offset, self.end_offset),
            (decoded.columns.timestamp[:rows], self.start_timestamp, self.end_timestamp),
        ):
            if start is not None:
                wanted &= values >= start
            if end is not None:
                wanted &= values < end
        return None if wanted.all() else wanted

    def segments(self, segments: tuple[SegmentPaths, ...]) -> tuple[SegmentPaths, ...]:
        """Which segments may hold such offsets, by their names."""
        chosen: list[SegmentPaths] = []
        for segment, following in zip_longest(segments, segments[1:]):
            if self.end_offset is not None and segment.base_offset >= self.end_offset:
                continue
            if following is not None and self.start_offset is not None and following.base_offset <= self.start_offset:
                continue
            chosen.append(segment)
        return tuple(chosen)


@dataclass(frozen=True, slots=True)
class Piece:
    """Decoded records of one file; ``rows``: those asked for, None for all."""

    path: str
    decoded: Decoded
    rows: NDArray[np.bool_] | None


@dataclass(frozen=True, slots=True)
class Reading:
    """How records are read. ``keys``, ``values``, ``headers``: whether they are kept. ``control``: control records are
    given as well. ``transactions``: given to leave out aborted data and what is not yet stable (read_committed).
    ``limit``: bytes that one batch may inflate to."""

    range: Range = Range()
    keys: bool = True
    values: bool = True
    headers: bool = True
    control: bool = False
    transactions: Transactions | None = None
    limit: int = DEFAULT_LIMIT


def read_partition(
    partition: PartitionPath, reading: Reading, report: Report, storage_options: StorageOptions | None = None
) -> Iterator[Piece]:
    """A partition's records in the order of its segments; one that cannot be opened is reported."""
    segments = reading.range.segments(partition.segments)
    for segment, file in open_segments(partition, report, segments, storage_options):
        start = 0
        if reading.range.start_offset is not None:
            start = position_of_offset(file, segment, reading.range.start_offset, storage_options)
        yield from read_file(file, reading, report, start)


def read_file(file: File, reading: Reading, report: Report, start: int = 0, end: int | None = None) -> Iterator[Piece]:
    """The records of the batches of a file that begin in ``[start, end)``.

    What is damaged is reported after the records before it were given."""
    decoder = Decoder(reading.keys, reading.values, reading.headers, reading.limit)
    wanted = stable_range(reading)
    findings: list[Finding] = []

    def told(until: int | None) -> None:
        findings.sort(key=lambda each: each.position or 0)
        while findings and (until is None or (findings[0].position or 0) <= until):
            report(findings.pop(0))

    def pieces(decoded: Decoded) -> Iterator[Piece]:
        findings.extend(damage_finding(file.path, damage) for damage in decoded.damages)
        rows = None if wanted.is_everything else wanted.rows(decoded)
        is_wanted = decoded.columns.rows and (rows is None or rows.any())
        last = int(decoded.positions[-1]) if len(decoded.positions) else 0
        piece = [Piece(file.path, decoded, rows)] if is_wanted else []
        del decoded  # a huge one is not to stay here when the caller is done with it
        if piece:
            yield piece.pop()
        told(last - 1)

    for chunk in scan(file, findings.append, start, end):
        if is_past(chunk.batches, wanted):
            break
        # Checked before anything is left out by its header: one flipped bit there would hide records without a word.
        valid = check_checksums(chunk, file.path, findings.append)
        sound = chunk.take(valid).batches
        chosen = sound.take(_chosen(sound, reading, wanted))
        for given in map(pieces, decoder.decode(chunk.buffer, chosen, chunk.base)):
            yield from given
    rest = decoder.flush()
    if rest is not None:
        given = pieces(rest)
        del rest
        yield from given
    told(None)


def stable_range(reading: Reading) -> Range:
    """The range that is asked for, and with read_committed nothing from the last stable offset on."""
    stable = None if reading.transactions is None else reading.transactions.last_stable_offset
    if stable is None:
        return reading.range
    end = reading.range.end_offset
    return replace(reading.range, end_offset=stable if end is None else min(end, stable))


def is_past(batches: Batches, wanted: Range) -> bool:
    """Whether all batches, and so all after them, begin behind the range."""
    if wanted.end_offset is None or not len(batches):
        return False
    return bool((batches.entry_offset >= wanted.end_offset).all()) and not bool((batches.is_legacy).any())


def damage_finding(path: str, damage: Damage) -> Finding:
    return Finding("error", damage.kind, path, damage.position, damage.base_offset, damage.message, None, damage.found)


def _chosen(batches: Batches, reading: Reading, wanted: Range) -> NDArray[np.bool_]:
    chosen = wanted.batches(batches)
    if not reading.control:
        chosen &= ~batches.is_control
    if reading.transactions is not None:
        chosen &= ~reading.transactions.aborted(batches)
    return chosen


def transactions_of(
    partition: PartitionPath, storage_options: StorageOptions | None = None, report: Report = ignore
) -> Transactions:
    """The transactions of a partition's whole log. Damaged data and markers of transactions are reported: without its
    marker, a transaction looks open, and what is after it unstable."""

    def chunks() -> Iterator[tuple[str, Chunk]]:
        for _, file in open_segments(partition, ignore, None, storage_options):
            for chunk in scan(file, ignore):
                yield file.path, chunk

    return find_transactions(chunks(), report)
