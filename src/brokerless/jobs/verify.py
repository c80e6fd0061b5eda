"""Verify: the checksum and structure of every batch, also of those behind a place where Kafka's reader stops.

The first error is where Kafka's reader first throws; what it takes no notice of (a cut-off end, for instance) is a
warning at most, and so is what is wrong in batches that it would never come to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from brokerless.errors import Finding
from brokerless.format.batches import Batches
from brokerless.format.compression import DEFAULT_LIMIT
from brokerless.format.decode import Decoder
from brokerless.format.search import find_batch
from brokerless.log.directory import PartitionPath, check_names
from brokerless.log.partition import check_checksums, damage_finding
from brokerless.log.segment import WINDOW, Chunk, is_zero, scan
from brokerless.log.storage import File, StorageOptions, open_file

_SEARCH = 8 * WINDOW


def verify_partition(
    partition: PartitionPath, storage_options: StorageOptions | None = None, limit: int = DEFAULT_LIMIT
) -> Iterator[Finding]:
    """What is wrong or odd in a partition's directory: its names, then each segment's log and indexes, in order.

    Raises :class:`UnreadableError` for a file that cannot be opened.
    """
    yield from check_names(partition)
    last_offset: int | None = None
    for segment in partition.segments:
        with open_file(segment.log.path, storage_options) as file:
            order = _Order(segment.base_offset, last_offset)
            yield from verify_file(file, order, limit)
            last_offset = order.last_offset


def verify_file(file: File, order: _Order | None = None, limit: int = DEFAULT_LIMIT) -> Iterator[Finding]:
    """The findings of one log file, by position."""
    start, is_reached = 0, True
    while True:
        findings: list[Finding] = []
        end = start
        decoder = Decoder(keys=False, values=False, headers=False, limit=limit)
        for chunk in scan(file, findings.append, start):
            ends = findings[:]
            findings.clear()
            yield from _soften(is_reached, _verify_chunk(chunk, file.path, decoder, order if is_reached else None))
            findings.extend(ends)
            end = chunk.base + int(chunk.batches.ends[-1])
        yield from _soften(is_reached, findings)
        is_reached = is_reached and all(each.severity == "error" for each in findings)
        found = None if end >= file.size or is_zero(file, end) else find_next_batch(file, end + 1)
        if found is None:
            return
        text = f"{found - end} bytes before this were skipped; batches go on here"
        yield Finding("info", "batches-resume", file.path, found, None, text)
        start = found


def find_next_batch(file: File, position: int) -> int | None:
    """The position (bytes) of the next true batch at or after ``position``, found by structure and checksum."""
    while position < file.size:
        buffer = file.read(position, file.size - position if file.mapped else _SEARCH)
        found = find_batch(buffer)
        if found is not None:
            return position + found
        if position + len(buffer) >= file.size:
            return None
        position += len(buffer) // 2  # a batch may lie across the end of what was read
    return None


def _verify_chunk(chunk: Chunk, path: str, decoder: Decoder, order: _Order | None) -> list[Finding]:
    findings: list[Finding] = []
    valid = check_checksums(chunk, path, findings.append)
    sound = chunk.batches.take(valid)
    for decoded in decoder.decode(chunk.buffer, sound, chunk.base):
        findings.extend(damage_finding(path, damage) for damage in decoded.damages)
    rest = decoder.flush()
    if rest is not None:
        findings.extend(damage_finding(path, damage) for damage in rest.damages)
    if order is not None:
        findings.extend(order.check(sound, chunk.base, path))
    return sorted(findings, key=lambda each: each.position or 0)


def _soften(is_reached: bool, findings: list[Finding]) -> Iterator[Finding]:
    """Behind a place where Kafka's reader silently ends, nothing is an error: it would never come there."""
    for finding in findings:
        yield finding if is_reached or finding.severity != "error" else replace(finding, severity="warning")


@dataclass
class _Order:
    """Offsets go up: within a segment from its base offset on, and from segment to segment."""

    base_offset: int
    last_offset: int | None

    def check(self, batches: Batches, base: int, path: str) -> Iterator[Finding]:
        if not len(batches):
            return
        firsts, lasts = batches.entry_offset, batches.last_offset
        before = np.concatenate([[self.base_offset - 1 if self.last_offset is None else self.last_offset], lasts[:-1]])
        before = np.maximum.accumulate(before)
        for row in np.flatnonzero(firsts <= before).tolist():
            text = "offsets do not go up: a batch begins at or below an offset that was there before"
            position, offset = int(batches.positions[row]) + base, int(firsts[row])
            expected, found = f"an offset above {int(before[row])}", str(offset)
            yield Finding("warning", "offset-order", path, position, offset, text, expected, found)
        self.last_offset = int(max(before[-1], lasts[-1]))
