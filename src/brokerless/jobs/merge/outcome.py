"""Summarizes a merge: what each replica contributed, divergences, the committed offset, losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokerless.jobs.merge.agreement import Agreement, MergedReplica
from brokerless.jobs.merge.replica_merge import MergedBatches
from brokerless.jobs.recovered.damaged_regions import Region
from brokerless.jobs.recovered.losses import TO_THE_END, Loss
from brokerless.jobs.recovered.writing import cut
from brokerless.offset_spans import Span


@dataclass(frozen=True, slots=True)
class Contribution:
    """Adjacent batches in the merged log that are from one replica (its number)."""

    replica: int
    first_offset: int
    last_offset: int
    batches: int
    records: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Divergence:
    """The end of a replica that is not of the history that counts: its batches from ``offset`` on, as replication would
    cut them off."""

    replica: int
    offset: int
    last_offset: int
    epoch: int | None
    """The last leader epoch that is the same; None if there is none."""
    epochs: tuple[int, ...]
    """The leader epochs of the batches."""
    batches: int
    records: int
    bytes: int
    committed: int
    """How many of the offsets were committed once, by the replica's high watermark; only an unclean election makes that
    void."""


def contributions(filled: MergedBatches) -> tuple[Contribution, ...]:
    """Return which replica gave what, by offset."""
    batches, givers = filled.batches, filled.givers
    if not len(batches):
        return ()
    starts = np.flatnonzero(np.append(True, givers[1:] != givers[:-1])).tolist()
    return tuple(
        Contribution(
            int(givers[start]),
            int(batches["first"][start]),
            int(batches["last"][end - 1]),
            batches=end - start,
            records=int(batches["records"][start:end].sum()),
            bytes=int(batches["size"][start:end].sum()),
        )
        for start, end in zip(starts, [*starts[1:], len(batches)], strict=True)
    )


def divergences(replicas: Sequence[MergedReplica], agreements: Sequence[Agreement]) -> tuple[Divergence, ...]:
    """Return what is left out of each replica as another history."""
    found: list[Divergence] = []
    for number, (replica, agreement) in enumerate(zip(replicas, agreements, strict=True)):
        batches = replica.batches[agreement.left_out(replica)]
        if not len(batches):
            continue
        end = int(batches["last"][-1]) + 1
        found.append(
            Divergence(
                number,
                agreement.until,
                end - 1,
                epoch=agreement.epoch,
                epochs=tuple(np.unique(batches["epoch"]).tolist()),
                batches=len(batches),
                records=int(batches["records"].sum()),
                bytes=int(batches["size"].sum()),
                committed=max(0, min(replica.high_watermark or 0, end) - agreement.until),
            )
        )
    return tuple(found)


def committed_until(replicas: Sequence[MergedReplica], agreements: Sequence[Agreement]) -> int | None:
    """Return the offset before which all is known to be committed: by the high watermark that any replica records, or
    because more than half of the replicas have got it, if there are several. None if nothing is known."""
    both = list(zip(replicas, agreements, strict=True))
    known = [min(replica.high_watermark, each.until) for replica, each in both if replica.high_watermark is not None]
    if len(replicas) > 1:
        reached = sorted((min(replica.reach, each.until) for replica, each in both), reverse=True)
        known.append(reached[len(replicas) // 2])
    return max(known, default=None)


def losses(
    filled: MergedBatches,
    replicas: Sequence[MergedReplica],
    agreements: Sequence[Agreement],
    leading: int,
    start: int,
    end: int,
) -> list[Loss]:
    """Return what is in no replica of ``[start, end)``, and what no one knows the end of."""
    batches = filled.batches
    found: list[Loss] = []
    for first, last in _bounded(filled.gaps, replicas, leading, start=start, end=end):
        before = int(np.searchsorted(batches["first"], first))
        overlapping = [
            loss
            for replica, agreement in zip(replicas, agreements, strict=True)
            for loss in replica.losses
            if first < agreement.until or replica is replicas[leading]
            if loss.first_offset < (TO_THE_END if last is None else last + 1)
            if loss.last_offset is None or loss.last_offset >= first
        ]
        regions: tuple[Region, ...] = tuple(dict.fromkeys(each for loss in overlapping for each in loss.regions))
        after = int(batches["max_timestamp"][before - 1]) if before else None
        timestamp_after = int(batches["base_timestamp"][before]) if before < len(batches) else None
        found.append(
            Loss(
                first,
                last,
                after,
                before=timestamp_after,
                regions=regions,
                upper_bound=any(loss.upper_bound for loss in overlapping),
            )
        )
    return found


def _bounded(
    gaps: Sequence[Span], replicas: Sequence[MergedReplica], leading: int, start: int, end: int
) -> list[tuple[int, int | None]]:
    """Gaps as first and last offsets, without what is before or after the log."""
    found: list[tuple[int, int | None]] = []
    for first, until in gaps:
        last = min(until, end) - 1
        if last >= max(first, start):
            found.append((max(first, start), last))
    # A replica of the same history that ends there undamaged would be the leading one.
    is_open = any(loss.last_offset is None for loss in replicas[leading].losses)
    if is_open and end >= replicas[leading].reach:
        found.append((end, None))
    return found


def cut_off(filled: MergedBatches, end: int) -> MergedBatches:
    """Return the batches up to an offset."""
    kept: NDArray[np.bool_] = filled.batches["last"] < end
    return MergedBatches(filled.batches[kept], filled.givers[kept], _holes_before(filled, end), filled.misfits)


def cut_within(filled: MergedBatches, end: int) -> MergedBatches:
    """Return the batches up to an offset that may be within a batch, which :func:`cut` writes again."""
    givers = filled.givers[filled.batches["first"] < end]
    return MergedBatches(cut(filled.batches, end), givers, _holes_before(filled, end), filled.misfits)


def _holes_before(filled: MergedBatches, end: int) -> tuple[tuple[int, int], ...]:
    return tuple((first, min(last, end)) for first, last in filled.gaps if first < end)
