"""Recovers one segment: finds where its valid batches end, and rebuilds its indexes.

Nothing is written here: the result says how many bytes stay and what the indexes are to hold.

Source: ``LogSegment.recover`` (4.1.1). It checks sizes, checksums, offsets and transaction markers, not into records.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from brokerless.bounds import MAX_INT32
from brokerless.errors import Finding, UnreadableError
from brokerless.format import layouts
from brokerless.log.checkpoint.leader_epochs import Epochs, recover_batches
from brokerless.log.config import LogConfig
from brokerless.log.producer.state import ProducerState, aborted_entry
from brokerless.log.segment import Chunk, check_checksums, scan
from brokerless.log.storage.paths import File
from brokerless.log.write.active_segment import Placement, SegmentState, no_limits

_OUT_OF_ORDER = "offset-not-increasing"


@dataclass(frozen=True, slots=True)
class SegmentRecovery:
    """A segment after recovery. ``state.size`` bytes of its log stay; ``next_offset`` follows the last batch in them.

    ``size`` is what the log has now; ``stop`` says why the rest of it goes, None if all stays.
    """

    size: int
    state: SegmentState
    next_offset: int
    offset_index: bytes
    time_index: bytes
    transaction_index: bytes
    stop: Finding | None = None

    @property
    def is_dropped(self) -> bool:
        """Whether nothing at all stays, because the order of its offsets is wrong."""
        return self.stop is not None and self.stop.kind == _OUT_OF_ORDER

    @property
    def is_cut(self) -> bool:
        return self.state.size < self.size


def recover_segment(
    file: File, base_offset: int, config: LogConfig, producers: ProducerState, epochs: Epochs
) -> tuple[SegmentRecovery, Epochs]:
    """Follows a segment's batches to its end or to the first incomplete one; returns the log's leader epochs as they
    are then. ``producers`` is the state at the base offset, and is updated.

    Raises :class:`UnreadableError` for what keeps Kafka from loading a log: an offset too far from the base offset, and
    data that its producer wrote outside of its open transaction.
    """
    placement = Placement(SegmentState(base_offset), no_limits(config))
    offset_index, time_index, aborted = bytearray(), bytearray(), bytearray()
    stops: list[Finding] = []
    next_offset = base_offset
    for chunk in scan(file, stops.append, chain_only=True):
        batches = _valid_part(chunk, base_offset, file.path, stops).batches
        update = producers.update(batches, chunk.buffer)
        if update.refused is not None:
            row = update.refused.row
            position = chunk.base + int(batches.positions[row])
            finding = Finding(
                "error", "recovery-stops", file.path, position, update.refused.offset, update.refused.message
            )
            if update.refused.exception not in ("InvalidRecordException", "CorruptRecordException"):
                raise UnreadableError(f"{finding}; Kafka refuses to load this log")
            # Kafka has counted the batch by then: it stays, and what follows goes.
            batches = batches.take(slice(0, row + 1))
            stops.append(finding)
        aborted += b"".join(aborted_entry(each) for each in update.completed if each.is_aborted)
        if len(batches):
            placed = placement.place(batches)
            offset_index += placed.offset_index
            time_index += placed.time_index
            epochs = recover_batches(epochs, batches)
            next_offset = int(batches.last_offset[-1]) + 1
        if len(batches) < len(chunk.batches):
            break
    if _is_out_of_order(offset_index, layouts.OFFSET_INDEX_ENTRY, 1) or _is_out_of_order(
        time_index, layouts.TIME_INDEX_ENTRY, 0
    ):
        text = "offsets do not grow from one index entry to the next: recovery drops the whole segment"
        stop = Finding("error", _OUT_OF_ORDER, file.path, 0, base_offset, text)
        return SegmentRecovery(file.size, SegmentState(base_offset), base_offset, b"", b"", b"", stop), epochs
    time_index += placement.finish()
    # Kafka counts again from here to the next index entry.
    state = replace(placement.state, since_entry=0)
    stop = stops[0] if stops and state.size < file.size else None
    return SegmentRecovery(
        file.size, state, next_offset, bytes(offset_index), bytes(time_index), bytes(aborted), stop
    ), epochs


def _valid_part(chunk: Chunk, base_offset: int, path: str, stops: list[Finding]) -> Chunk:
    """The batches of a chunk up to the first whose checksum is wrong."""
    found: list[Finding] = []
    valid = check_checksums(chunk, path, found.append)
    count = len(valid) if valid.all() else int(np.argmin(valid))
    stops += found[:1]
    intact = Chunk(chunk.buffer, chunk.base, chunk.batches.take(slice(0, count)))
    relative = intact.batches.last_offset - base_offset
    far = np.flatnonzero((relative < 0) | (relative > MAX_INT32))
    if len(far):
        row = int(far[0])
        offset = int(intact.batches.last_offset[row])
        text = (
            "an offset that is too far from the segment's base offset for its indexes; Kafka refuses to load this log"
        )
        raise UnreadableError(
            str(
                Finding(
                    "error",
                    "offset-overflow",
                    path,
                    int(intact.positions[row]),
                    offset,
                    text,
                    f"{base_offset} to {base_offset + MAX_INT32}",
                    str(offset),
                )
            )
        )
    return intact


def _is_out_of_order(entries: bytearray, layout: np.dtype[np.void], least_step: int) -> bool:
    offsets = np.frombuffer(entries, layout)["relative_offset"].astype(np.int64)
    return bool((np.diff(offsets) < least_step).any())
