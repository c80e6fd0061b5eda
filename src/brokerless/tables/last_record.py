"""Identifies the last record that was read of a partition, so that the next run knows whether the log is the same.

A topic that is deleted and made again, and a log that is cut back and written again, have other records at offsets that
were read. A topic ID shows the first, where it is known, and leader epochs the second; the record itself shows both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from brokerless.arrow import time_text
from brokerless.errors import UnreadableError
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.format.read.batch_headers import Batches, checksums_match
from brokerless.log.checkpoint.leader_epochs import load_leader_epochs
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.positions import position_of_offset
from brokerless.log.segment import Chunk, all_decoded, scan_headers
from brokerless.log.storage.files import File
from brokerless.progress import ignore

_NO_TIMESTAMP = -1
_NEAR = 1 << 16
"""Bytes of headers at once, as an index leads close to the batch."""


class LastRecord(NamedTuple):
    """A record as it was read."""

    offset: int
    timestamp: int
    """In ms, -1 for none."""
    checksum: int
    """The checksum of the record's batch."""
    epoch: int = -1
    """The leader epoch that the batch was written in, -1 for none."""


@dataclass(frozen=True, slots=True)
class OtherRecord:
    """A record that is at the offset of another one, which was read."""

    known: LastRecord
    found: LastRecord
    cut_at: int | None
    """Where the log was cut back to since, by its leader epochs; None where they do not say that it was."""

    @property
    def reason(self) -> str:
        """What was read, what is there, and what has happened."""
        then, now = (_described(each) for each in (self.known, self.found))
        text = f"at offset {self.known.offset} was a record {then} when it was read, and is another one now, {now}: "
        if self.cut_at is not None:
            return f"{text}the log was cut back to offset {self.cut_at}, and written again from there"
        return f"{text}the topic was deleted and made again, or its log was cut back and written again"


def last_record(
    partition: PartitionPath, before: int, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
) -> LastRecord | None:
    """Return the last intact record below an offset; None where there is none, or it cannot be read."""
    for segment in reversed([each for each in partition.segments if each.base_offset < before]):
        with suppress(UnreadableError), segment.log.location.open() as file:
            for batch in _batches_down(file, segment, before):
                found = _last_of(batch, before, max_batch_bytes)
                if found is not None:
                    return found
    return None


def other_record(
    partition: PartitionPath, known: LastRecord, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
) -> OtherRecord | None:
    """Return what a partition has instead of a record that was read; None where that is there, or nothing is.

    Compaction, ``convert`` and ``erase`` write a batch again, with another checksum: a record keeps its timestamp then.
    """
    segments = [each for each in partition.segments if each.base_offset <= known.offset]
    if not segments or known.offset < (partition.start_offset or 0):
        return None
    with suppress(UnreadableError), segments[-1].log.location.open() as file:
        for batch in _batches_down(file, segments[-1], known.offset + 1):
            if int(batch.batches.checksum[0]) == known.checksum:
                return None
            found = _last_of(batch, known.offset + 1, max_batch_bytes)
            if found is None or found.offset != known.offset or _may_be_same(known, found, batch.batches):
                return None
            return OtherRecord(known, found, _cut_at(partition, known))
    return None


def _may_be_same(known: LastRecord, found: LastRecord, batch: Batches) -> bool:
    if _NO_TIMESTAMP not in (known.timestamp, found.timestamp):
        return known.timestamp == found.timestamp
    # A message of v0 that is in no wrapper is never written again; one that lost its timestamp was converted.
    is_same_format = known.timestamp == found.timestamp and bool(batch.is_legacy[0]) and not batch.is_wrapper[0]
    return not is_same_format


def _cut_at(partition: PartitionPath, known: LastRecord) -> int | None:
    """Return where the epoch of a record ends in the log, if that is at or below the record (KIP-320)."""
    checkpoint = partition.leader_epoch_checkpoint
    if known.epoch < 0 or checkpoint is None:
        return None
    with suppress(UnreadableError):
        epochs = load_leader_epochs(checkpoint.location)
        later = epochs.start_offsets[epochs.epochs > known.epoch]
        if len(later) and (epochs.epochs <= known.epoch).any() and int(later[0]) <= known.offset:
            return max(int(later[0]), partition.start_offset or 0)
    return None


def _batches_down(file: File, segment: SegmentPaths, before: int) -> Iterator[Chunk]:
    """The intact batches that begin below an offset, each in a chunk of its own, from the last one down; of those that
    are far from it, the ones of the first chunk that has any."""
    starts = {position_of_offset(file, segment, before - 1): None, 0: None}
    for start in starts:
        last = None
        for chunk in scan_headers(file, ignore, start, step=_NEAR if start else 1 << 22):
            rows = chunk.batches.entry_offset < before
            if rows.any():
                last = chunk.take(rows)
            if not rows.all():
                break
        if last is None:
            continue
        for row in range(len(last.batches) - 1, -1, -1):
            for one in last.take(np.arange(len(last.batches)) == row).load(ignore):
                if len(one.batches) and checksums_match(one.buffer, one.batches)[0]:
                    yield one


def _last_of(batch: Chunk, before: int, max_batch_bytes: int) -> LastRecord | None:
    from brokerless.format.read.decoder import Decoder  # it imports kernels

    decoder = Decoder(keys=False, values=False, headers=False, max_batch_bytes=max_batch_bytes)
    found = None
    for decoded in all_decoded(decoder, batch, batch.batches):
        columns = decoded.columns
        rows = np.flatnonzero(columns.offset[: columns.rows] < before)
        if len(rows):
            row, header = rows[-1], batch.batches
            epoch = -1 if header.is_legacy[0] else int(header.partition_leader_epoch[0])
            found = LastRecord(
                int(columns.offset[row]), int(columns.timestamp[row]), checksum=int(header.checksum[0]), epoch=epoch
            )
    return found


def _described(record: LastRecord) -> str:
    if record.timestamp == _NO_TIMESTAMP:
        return f"without a timestamp and with the checksum {record.checksum:#010x}"
    return f"of {time_text(record.timestamp, pa.timestamp('ms', 'UTC'))}"
