"""Merges replicas: the leading one's batches, and those of others where it is damaged or files are missing.

A gap is where bytes are damaged or files are missing, never what compaction left out: there the leading replica is
right. Every batch is taken as a whole, and no offset twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT32
from brokerless.format.arrays import RowNumbers
from brokerless.jobs.merge.agreement import Agreement, MergedReplica
from brokerless.jobs.merge.leader_epochs import has_epoch, is_same
from brokerless.jobs.recovered.losses import TO_THE_END
from brokerless.offset_spans import Span, union, without


@dataclass(frozen=True, slots=True)
class MergedBatches:
    """The batches of the merged log, and what no replica has."""

    batches: NDArray[np.void]
    """The batches (:data:`INTACT_BATCH`), by offset."""
    givers: RowNumbers
    """The replica that each batch is from."""
    gaps: tuple[Span, ...]
    """The offsets that no replica has."""
    misfits: tuple[tuple[int, int], ...]
    """Batches of a replica, as (replica, row), that would fill a gap, but whose epoch cannot be there."""


def fill(
    replicas: Sequence[MergedReplica], order: Sequence[int], agreements: Sequence[Agreement], begin: int
) -> MergedBatches:
    """Merges the replicas; those that come first in ``order`` are asked first. ``begin``: where the log begins."""
    leading = replicas[order[0]]
    batches, givers = leading.batches, np.full(len(leading.batches), order[0], np.int64)
    gaps = union([*_gaps(leading), (begin, leading.begin), (max(leading.reach, begin), TO_THE_END)])
    misfits: list[tuple[int, int]] = []
    used: list[tuple[int, int]] = []
    for number in order[1:]:
        replica, until = replicas[number], agreements[number].until
        rows = np.flatnonzero(replica.batches["last"] < until)
        inside = rows[_are_within(replica.batches[rows], gaps)]
        fits = _fit(replica.batches[inside], batches)
        misfits += [(number, row) for row in inside[~fits].tolist()]
        taken = inside[fits]
        if len(taken):
            used.append((number, int(replica.batches["first"][taken[0]])))
            batches, givers = _together(batches, givers, replica.batches[taken], number)
        unused = np.setdiff1d(rows[_meet(replica.batches[rows], gaps)], taken, assume_unique=True)
        known = [(replica.begin, min(until, replica.reach))]
        gaps = without(gaps, without(known, union([*_gaps(replica), *_spans(replica.batches[unused])])))
    if used and any(replica.is_compacted for replica in replicas):
        for number, first in used:
            batches, givers = _less_compacted(
                batches, givers, replicas[number], number=number, first=first, until=agreements[number].until
            )
    return MergedBatches(batches, givers, tuple(gaps), tuple(misfits))


def differing(replica: MergedReplica, until: int, batches: NDArray[np.void]) -> RowNumbers:
    """Return the batches of a replica before ``until`` that are others than those of the merged log with the same
    offsets, though neither was compacted; rows."""
    if not len(batches) or replica.is_compacted:
        return np.zeros(0, np.int64)
    ours = replica.batches
    rows = np.minimum(np.searchsorted(batches["last"], ours["first"]), len(batches) - 1)
    theirs = batches[rows]
    meets = (theirs["last"] >= ours["first"]) & (theirs["first"] <= ours["last"]) & (ours["last"] < until)
    is_whole = ~ours["compacted"] & ~theirs["compacted"] & ~ours["partial"] & ~theirs["partial"]
    return np.flatnonzero(meets & is_whole & ~is_same(ours, theirs))


def _gaps(replica: MergedReplica) -> list[Span]:
    return union(
        (loss.first_offset, TO_THE_END if loss.last_offset is None else loss.last_offset + 1) for loss in replica.losses
    )


def _spans(batches: NDArray[np.void]) -> list[Span]:
    return list(zip(batches["first"].tolist(), (batches["last"] + 1).tolist(), strict=True))


def _are_within(batches: NDArray[np.void], gaps: Sequence[Span]) -> NDArray[np.bool_]:
    if not gaps:
        return np.zeros(len(batches), np.bool_)
    starts, ends = np.array(gaps, np.int64).T
    at = np.searchsorted(starts, batches["first"], side="right") - 1
    return (at >= 0) & (batches["last"] < ends[np.maximum(at, 0)])


def _meet(batches: NDArray[np.void], gaps: Sequence[Span]) -> NDArray[np.bool_]:
    starts, ends = np.array([*gaps, (TO_THE_END, TO_THE_END)], np.int64).T
    return starts[np.searchsorted(ends, batches["first"], side="right")] <= batches["last"]


def _fit(batches: NDArray[np.void], between: NDArray[np.void]) -> NDArray[np.bool_]:
    """Return whether epochs would not fall if these batches were among those others, by offset."""
    stamped = between[has_epoch(between)]
    if not len(stamped):
        return np.ones(len(batches), np.bool_)
    highest = np.append(-1, np.maximum.accumulate(stamped["epoch"]))
    lowest = np.append(np.minimum.accumulate(stamped["epoch"][::-1])[::-1], MAX_INT32)
    at = np.searchsorted(stamped["first"], batches["first"])
    return ~has_epoch(batches) | ((highest[at] <= batches["epoch"]) & (batches["epoch"] <= lowest[at]))


def _together(
    batches: NDArray[np.void], givers: RowNumbers, more: NDArray[np.void], giver: int
) -> tuple[NDArray[np.void], RowNumbers]:
    everything = np.concatenate([batches, more])
    by_offset = np.argsort(everything["first"], kind="stable")
    return everything[by_offset], np.append(givers, np.full(len(more), giver, np.int64))[by_offset]


def _less_compacted(
    batches: NDArray[np.void], givers: RowNumbers, replica: MergedReplica, number: int, first: int, until: int
) -> tuple[NDArray[np.void], RowNumbers]:
    """A gap in a compacted log was filled with records that a later one made void; from there on, nothing of that
    replica may be missing, for it may be a tombstone that did so, or a marker that the leading replica needs no
    more."""
    rows = np.flatnonzero((replica.batches["first"] >= first) & (replica.batches["last"] < until))
    ours = replica.batches[rows]
    at = np.minimum(np.searchsorted(batches["last"], ours["first"]), len(batches) - 1)
    theirs = batches[at]
    meets = (theirs["last"] >= ours["first"]) & (theirs["first"] <= ours["last"])
    same = (theirs["first"] == ours["first"]) & (theirs["last"] == ours["last"])
    better = meets & same & (ours["records"] > theirs["records"])
    batches, givers = batches.copy(), givers.copy()
    batches[at[better]], givers[at[better]] = ours[better], number
    more = ours[~meets]
    return _together(batches, givers, more[_fit(more, batches)], number)
