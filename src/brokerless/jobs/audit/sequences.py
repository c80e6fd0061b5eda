"""Checks the sequences and epochs of idempotent producers (KIP-98): gaps, repetitions, batches of an old epoch.

A broker refuses all of these when they are produced (``ProducerAppendInfo``, 4.1.1), so in a log they mean that
batches were lost, came twice, or come from elsewhere. What compaction took away is no gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from brokerless.findings import Finding, Kind
from brokerless.format import layouts
from brokerless.format.arrays import Int64s
from brokerless.log.segment import Chunk

_SEQUENCES = 1 << 31
"""After 2^31 - 1 comes 0."""
_UNKNOWN = -2


@dataclass(slots=True)
class SequenceCheck:
    """Follows a partition's intact batches. What is known of each producer: epoch, last sequence, and the number of
    absent before that batch."""

    _known: dict[int, tuple[int, int, int]] = field(default_factory=dict[int, tuple[int, int, int]])

    def follow(self, chunk: Chunk, path: str, absent: Int64s) -> Iterator[Finding]:
        """Yield findings about the sequences of a chunk's batches. ``absent`` is the number of offsets missing before
        each batch."""
        batches = chunk.batches
        rows = np.flatnonzero((batches.producer_id > layouts.NO_PRODUCER_ID) & (batches.base_sequence >= 0))
        if not len(rows):
            return
        ids = batches.producer_id[rows]
        order = np.argsort(ids, kind="stable")
        rows, ids = rows[order], ids[order]
        epochs, firsts, lasts, absent = (
            column[rows].astype(np.int64)
            for column in (batches.producer_epoch, batches.base_sequence, batches.last_sequence, absent)
        )
        before = [np.roll(column, 1) for column in (epochs, lasts, absent)]
        starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
        for row in starts.tolist():
            for column, value in zip(before, self._known.get(int(ids[row]), (_UNKNOWN, 0, 0)), strict=True):
                column[row] = value
        for row in np.append(starts[1:], len(ids)).tolist():
            self._known[int(ids[row - 1])] = int(epochs[row - 1]), int(lasts[row - 1]), int(absent[row - 1])
        epochs_before, lasts_before, absent_before = before
        known = epochs_before != _UNKNOWN
        is_old = known & (epochs < epochs_before)
        # A new epoch begins at sequence 0 (ProducerAppendInfo.checkSequence).
        expected = np.where(epochs == epochs_before, (lasts_before + 1) % _SEQUENCES, 0)
        missing = (firsts - expected) % _SEQUENCES
        is_unexpected = known & ~is_old & (missing > 0)
        is_repeated = is_unexpected & (missing >= _SEQUENCES // 2)
        is_gap = is_unexpected & ~is_repeated & (missing > absent - absent_before)
        for row in np.sort(order.argsort()[np.sort(order[is_old | is_repeated | is_gap])]).tolist():
            kind, text = _SAID[0 if is_old[row] else 1 if is_repeated[row] else 2]
            position, offset = int(chunk.positions[rows[row]]), int(batches.entry_offset[rows[row]])
            required = f"epoch {epochs_before[row]} or more" if is_old[row] else f"sequence {expected[row]}"
            found = f"epoch {epochs[row]}" if is_old[row] else f"sequence {firsts[row]}"
            producer = f"{text} (producer {ids[row]})"
            yield kind.at(
                path, producer, severity="warning", position=position, offset=offset, expected=required, found=found
            )


_SAID = (
    (Kind.PRODUCER_EPOCH_ORDER, "a batch of an epoch before the last one of its producer"),
    (Kind.SEQUENCE_REPEATED, "a batch whose sequences its producer has used before"),
    (Kind.SEQUENCE_GAP, "sequences of its producer are missing before this batch"),
)
