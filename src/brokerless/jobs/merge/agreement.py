"""Decides which replica has the authoritative history, and where each of the others diverges.

It is what replication does: the log with the greatest leader epoch, and of these the longest, is that of the last
leader; what another one has after the offset up to which they are the same is what it would cut off to follow
(KIP-101, KIP-279; ``AbstractFetcherThread``, 4.1.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from brokerless.jobs.merge.leader_epochs import Starts, earliest, is_same, joined
from brokerless.jobs.recovered.losses import Loss
from brokerless.log.checkpoint import leader_epochs


@dataclass(frozen=True, slots=True)
class MergedReplica:
    """One replica: its intact batches, and where it begins and ends."""

    batches: NDArray[np.void]
    """Its batches (:data:`INTACT_BATCH`), by offset."""
    losses: tuple[Loss, ...]
    """What is missing between the batches."""
    begin: int
    """The offset at which its first segment begins."""
    start: int
    """The offset of its first record."""
    reach: int
    """The offset at which its last batch or segment ends."""
    end: int
    """The offset at which it has ended once, by what is recorded."""
    starts: Starts = ()
    high_watermark: int | None = None
    is_compacted: bool = False

    @property
    def last_epoch(self) -> int:
        """-1 if it has none."""
        return self.starts[-1].epoch if self.starts else -1


@dataclass(frozen=True, slots=True)
class Agreement:
    """A replica's agreement with the history that counts."""

    until: int
    """The replica has the same history before this offset."""
    by: Literal["epochs", "contents", "nothing"]
    """The evidence; ``nothing`` where a compacted log has no epochs, and then agreement is taken for granted."""
    epoch: int | None = None
    """The last leader epoch that began before ``until``; None if there is none."""

    def left_out(self, replica: MergedReplica) -> NDArray[np.bool_]:
        """Return which of a replica's batches are of another history."""
        return replica.batches["last"] >= self.until


def rank(replicas: Sequence[MergedReplica]) -> list[int]:
    """Return the numbers of the replicas, from the one with the history that counts to the one that is last to be
    asked. Those whose last epoch is greater come first, then longer ones, then those with more records: fewer are left
    of one that is damaged, lost a file without a trace, or was compacted again, which takes no key's last record."""

    def key(number: int) -> tuple[tuple[int, int], int]:
        replica = replicas[number]
        return leader_epochs.rank(earliest(replica.starts), replica.reach), int(replica.batches["records"].sum())

    return sorted(range(len(replicas)), key=key, reverse=True)  # of equal ones, the first stays before the others


def agree(replicas: Sequence[MergedReplica], order: Sequence[int]) -> list[Agreement]:
    """Return how far each replica has the history of the first in ``order``, by the replica's number."""
    leading = replicas[order[0]]
    starts = leading.starts
    agreements: dict[int, Agreement] = {}
    for number in order:
        replica = replicas[number]
        end = max([leading.reach, *(start.latest for start in starts[-1:])])
        until = leader_epochs.truncation_offset(earliest(starts), end, earliest(replica.starts), replica.reach)
        if number == order[0]:
            agreements[number] = _agreement(replica, end, "epochs" if starts else "contents")
        elif until is not None:
            agreements[number] = _agreement(replica, until, "epochs")
            starts = joined(starts, replica.starts, until)
        elif not len(replica.batches):
            agreements[number] = _agreement(replica, replica.reach, "epochs")
        elif leading.is_compacted or replica.is_compacted:
            agreements[number] = _agreement(replica, _most(leading, replica), "nothing")
        else:
            agreements[number] = _agreement(replica, _same_until(leading, replica), "contents")
    return [agreements[number] for number in range(len(replicas))]


def _agreement(replica: MergedReplica, until: int, by: Literal["epochs", "contents", "nothing"]) -> Agreement:
    known = [start.epoch for start in replica.starts if start.earliest < until]
    return Agreement(until, by, known[-1] if known else None)


def _most(leading: MergedReplica, replica: MergedReplica) -> int:
    """Up to where a replica without epochs may have the same history: it has no part in what has epochs."""
    return min(replica.reach, leading.starts[0].earliest if leading.starts else leading.reach)


def _same_until(leading: MergedReplica, replica: MergedReplica) -> int:
    """Return where the last batch that both have ends before the first that differs."""
    most = _most(leading, replica)
    ours, theirs = replica.batches, leading.batches
    if not len(ours) or not len(theirs):
        return most
    rows = np.minimum(np.searchsorted(theirs["last"], ours["first"]), len(theirs) - 1)
    meets = (theirs["last"][rows] >= ours["first"]) & (theirs["first"][rows] <= ours["last"])
    same = meets & is_same(ours, theirs[rows])
    different = np.flatnonzero(meets & ~same)
    if not len(different):
        return most
    before = np.flatnonzero(same[: different[0]])
    return min(most, int(ours["last"][before[-1]]) + 1 if len(before) else int(ours["first"][0]))
