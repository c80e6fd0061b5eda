"""Decides whether a log is the one that the snapshot before has: by its last batch and leader epochs, where it is
intact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from brokerless.jobs.backup.previous import PreviousPartition
from brokerless.jobs.backup.segments import IntactBatches, StoredLog
from brokerless.jobs.merge.merged_log import MergedLog
from brokerless.jobs.merge.outcome import losses
from brokerless.jobs.recovered.losses import TO_THE_END, Loss, summed
from brokerless.log.backups.snapshot import LastBatch, SnapshotPartition, SnapshotSegment
from brokerless.log.checkpoint.leader_epochs import Epochs, assign, truncate_from_end
from brokerless.offset_spans import Span, union, without


def has_batch(batches: IntactBatches, last: LastBatch) -> bool:
    """Return whether the last batch that was stored is among those of a log."""
    row = int(np.searchsorted(batches["first"], last.first_offset))
    return row < len(batches) and _batch(batches[row]) == last


def _batch(batch: np.void) -> LastBatch:
    first, last, size, checksum = (int(batch[name]) for name in ("first", "last", "size", "checksum"))
    return LastBatch(first, last, size, checksum)


def last_batch_of(batches: IntactBatches, stored: StoredLog, previous: PreviousPartition | None) -> LastBatch | None:
    """Return the last batch of a log: of those of the disks, or where these lack it, that of the snapshot before."""
    found = _batch(batches[-1]) if len(batches) else None
    known = None if previous is None else previous.partition.last_batch
    end = stored.segments[-1].end_offset if stored.segments else -1
    if known is not None and known.last_offset == end and (found is None or found.last_offset < end):
        return known
    return found


def damaged_spans(merged: MergedLog) -> list[Span]:
    """Return the offsets that the log has had, and that no replica has intact: up to the end where that is damaged."""
    leading = merged.replicas[merged.leading]
    is_open = any(loss.last_offset is None for loss in leading.losses)
    limit = TO_THE_END if is_open else merged.end
    return [(first, min(until, limit)) for first, until in merged.filled.gaps if first < limit]


def span_of(segment: SnapshotSegment) -> Span:
    return segment.start_offset, segment.end_offset + 1


def lost_spans(known: SnapshotPartition) -> list[Span]:
    lost = ((each.first_offset, each.last_offset) for each in known.lost)
    return union((first, TO_THE_END if last is None else last + 1) for first, last in lost)


def meets(spans: Sequence[Span], start: int, end: int) -> bool:
    return any(first < end and until > start for first, until in spans)


def reach_of(reach: int, damaged: Sequence[Span], end: int) -> int:
    """Return where a log ends, as far as it matters before ``end``: where its end is damaged, it has gone on."""
    return max([reach, *(min(until, end) for first, until in damaged if first <= reach)])


def lineage_of(before: Epochs, recorded: Epochs, batches: IntactBatches, base: int) -> Epochs:
    """Return the leader epochs of a log: those ``before`` an offset, then what its checkpoint records, or without one,
    what batches are stamped with; messages v0 and v1, which have none, make it forget all."""
    epochs = truncate_from_end(before, base)
    known = epochs[-1][0] if epochs else -1
    if recorded:
        for epoch, offset in recorded:
            epochs = assign(epochs, epoch, offset) if epoch > known else epochs
        return epochs
    stamped = np.where(batches["magic"] < 2, -1, batches["epoch"])
    rows = np.flatnonzero(np.append(True, stamped[1:] != stamped[:-1])[: len(stamped)])
    for epoch, offset in zip(stamped[rows].tolist(), batches["first"][rows].tolist(), strict=True):
        epochs = () if epoch < 0 else assign(epochs, epoch, offset)
    return epochs


def losses_of(merged: MergedLog, refused: IntactBatches, start: int, stored: Sequence[Span] = ()) -> tuple[Loss, ...]:
    """Return what is in no replica from ``start`` on, and what no log takes (``refused``), without what is
    ``stored``."""
    spans = zip(refused["first"].tolist(), (refused["last"] + 1).tolist(), strict=True)
    gaps = without(sorted((*merged.filled.gaps, *spans)), stored)
    filled = replace(merged.filled, gaps=tuple(gaps))
    return summed(losses(filled, merged.replicas, merged.agreements, merged.leading, start=start, end=merged.end))
