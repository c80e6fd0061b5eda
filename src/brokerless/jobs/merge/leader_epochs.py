"""Finds where each leader epoch of a replica began, from its batches and its ``leader-epoch-checkpoint``.

No checksum covers the epoch in a batch's header, so it is judged by those around it: epochs never fall (KIP-101).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokerless.format import layouts
from brokerless.format.arrays import Int64s, RowNumbers
from brokerless.log.checkpoint.leader_epochs import Epochs

_MANY_ELECTIONS = 8


@dataclass(frozen=True, slots=True)
class EpochStart:
    """The beginning of a leader epoch, at an offset with ``earliest <= offset <= latest``: these differ where damage
    hides it."""

    epoch: int
    earliest: int
    latest: int


Starts = tuple[EpochStart, ...]


def with_right_epochs(batches: NDArray[np.void], recorded: Epochs) -> NDArray[np.void]:
    """Return a log's batches (:data:`INTACT_BATCH`, by offset), where those whose epoch cannot be right have the right
    one and are ``restamped``. ``recorded``: the entries of the ``leader-epoch-checkpoint``, which decide if one batch
    alone, with others after it, says something else."""
    rows = np.flatnonzero(has_epoch(batches))
    if len(rows) < 2:
        return batches
    stamped = batches["epoch"][rows].astype(np.int64)
    offsets = batches["first"][rows]
    is_wrong = np.zeros(len(rows), np.bool_)
    before, this, after = stamped[:-2], stamped[1:-1], stamped[2:]
    is_wrong[1:-1] = (before <= after) & ((this < before) | (this > after))
    right = np.flatnonzero(~is_wrong)
    if len(right) >= 2 and stamped[right[0]] > stamped[right[1]]:
        first_is_recorded = len(right) == 2 and _epochs_at(recorded, offsets[right[:1]])[0] == stamped[right[0]]
        is_wrong[right[1 if first_is_recorded else 0]] = True
    highest = np.maximum.accumulate(np.where(is_wrong, -1, stamped))
    is_wrong |= stamped < highest
    if recorded and not is_wrong.any():
        alone = np.flatnonzero(~_agrees(stamped, offsets, recorded))
        is_wrong[alone] = len(alone) == 1 and alone[0] < len(rows) - 1
    return _restamped(batches, rows, is_wrong, recorded) if is_wrong.any() else batches


def with_right_last_epoch(
    batches: NDArray[np.void], recorded: Epochs, others: Sequence[NDArray[np.void]]
) -> NDArray[np.void]:
    """Correct the epoch of the last batch, after which there is no evidence. A broker records an epoch before it writes
    the first batch of it; so an epoch is wrong that only the last batch has and that is not recorded, if another
    replica has the same batch with the epoch that is recorded, if none has one nearly as large, or if a later one is
    recorded. Else the checkpoint may be older than the log, as in a replica that was taken while the broker ran."""
    rows = np.flatnonzero(has_epoch(batches))
    if not len(rows) or not recorded:
        return batches
    last = batches[rows[-1]]
    is_alone = len(rows) < 2 or batches["epoch"][rows[-2]] != last["epoch"]
    recorded_epoch = int(_epochs_at(recorded, last["first"].reshape(1))[0])
    if not is_alone or recorded_epoch in (-1, last["epoch"]):
        return batches
    known = max([recorded[-1][0], *(int(other["epoch"].max()) for other in others if len(other))])
    is_wrong = int(last["epoch"]) > known + _MANY_ELECTIONS or recorded[-1][1] > last["first"]
    for other in others:
        same = other[other["first"] == last["first"]]
        is_wrong |= bool(len(same) and is_same(same[:1], batches[rows[-1:]])[0] and same["epoch"][0] == recorded_epoch)
    return _restamped(batches, rows, rows == rows[-1], recorded) if is_wrong else batches


def disagreement(batches: NDArray[np.void], recorded: Epochs) -> int | None:
    """Return the first batch whose epoch is not the one that is recorded, as a row; None if there is none."""
    rows = np.flatnonzero(has_epoch(batches))
    if not recorded or not len(rows):
        return None
    agrees = _agrees(batches["epoch"][rows].astype(np.int64), batches["first"][rows], recorded)
    wrong = np.flatnonzero(~agrees)
    return int(rows[wrong[0]]) if len(wrong) else None


def starts_of(batches: NDArray[np.void], recorded: Epochs, begin: int) -> Starts:
    """Return the epochs of a log that begins at ``begin``. ``recorded`` must agree with the batches. Messages v0 and v1
    have no epoch, and those before them count no more, as for a broker (``LeaderEpochFileCache``, 4.1.1)."""
    legacy = np.flatnonzero(batches["magic"] < layouts.MAGIC_V2)
    after = int(legacy[-1]) + 1 if len(legacy) else 0
    rows = np.flatnonzero(has_epoch(batches))
    rows = rows[rows >= after]
    stamped = batches["epoch"][rows].astype(np.int64)
    changes = rows[np.flatnonzero(np.append(True, stamped[1:] != stamped[:-1])[: len(rows)])]
    found: dict[int, EpochStart] = {}
    for row in changes.tolist():
        epoch, first = int(batches["epoch"][row]), int(batches["first"][row])
        found[epoch] = EpochStart(epoch, min(first, int(batches["last"][row - 1]) + 1 if row else begin), first)
    since = int(batches["last"][after - 1]) + 1 if after else 0
    for epoch, offset in recorded:
        if offset >= since and (epoch not in found or found[epoch].latest >= offset):
            found[epoch] = EpochStart(epoch, offset, offset)
    return tuple(found[epoch] for epoch in sorted(found))


def joined(starts: Starts, others: Starts, until: int) -> Starts:
    """Return what two logs know that are the same before ``until``, the first of them better: epochs that only the
    other knows, and less uncertainty of those that both know."""
    found = {each.epoch: each for each in starts}
    for number, each in enumerate(others):
        if each.earliest >= until:
            break
        known = found.get(each.epoch)
        if known is None:
            below = [start for start in found.values() if start.epoch < each.epoch]
            above = [start for start in found.values() if start.epoch > each.epoch]
            fits = all(start.earliest < each.latest for start in below) and all(
                start.latest > each.latest for start in above
            )
            if fits:
                found[each.epoch] = each
        elif number and known.earliest < known.latest:  # the first epoch of a log may have begun before that log does
            earliest = max(known.earliest, min(each.earliest, known.latest))
            found[each.epoch] = EpochStart(each.epoch, earliest, max(earliest, min(known.latest, each.latest)))
    return tuple(found[epoch] for epoch in sorted(found))


def earliest(starts: Starts) -> Epochs:
    """Each epoch with the first offset at which it may have begun: whoever follows keeps nothing that is in doubt."""
    epochs: Epochs = ()
    for each in starts:
        if not epochs or each.earliest > epochs[-1][1]:
            epochs = (*epochs, (each.epoch, each.earliest))
        else:
            epochs = (*epochs[:-1], (each.epoch, epochs[-1][1]))
    return epochs


def has_epoch(batches: NDArray[np.void]) -> NDArray[np.bool_]:
    return (batches["magic"] >= layouts.MAGIC_V2) & (batches["epoch"] >= 0)


def is_same(batches: NDArray[np.void], others: NDArray[np.void]) -> NDArray[np.bool_]:
    """Return whether batches are the same in pairs, but for what no checksum covers."""
    same = np.ones(len(batches), np.bool_)
    for name in ("first", "last", "size", "checksum", "magic"):
        same &= batches[name] == others[name]
    return same


def _agrees(stamped: Int64s, offsets: Int64s, recorded: Epochs) -> NDArray[np.bool_]:
    expected = _epochs_at(recorded, offsets)
    # Records that were deleted from the log's start may be there still, and their epochs are recorded no more.
    return np.where(expected < 0, stamped <= recorded[0][0], stamped == expected)


def _epochs_at(recorded: Epochs, offsets: Int64s) -> Int64s:
    """The recorded epoch of each offset, -1 before the first."""
    epochs = np.array([-1, *(epoch for epoch, _ in recorded)], np.int64)
    return epochs[np.searchsorted(np.array([offset for _, offset in recorded], np.int64), offsets, side="right")]


def _restamped(
    batches: NDArray[np.void], rows: RowNumbers, is_wrong: NDArray[np.bool_], recorded: Epochs
) -> NDArray[np.void]:
    batches = batches.copy()
    right = rows[~is_wrong]
    for row in rows[is_wrong].tolist():
        at = int(np.searchsorted(right, row))
        before = int(batches["epoch"][right[at - 1]]) if at else None
        after = int(batches["epoch"][right[at]]) if at < len(right) else None
        recorded_epoch = int(_epochs_at(recorded, batches["first"][row : row + 1])[0])
        fits = recorded_epoch >= (before or 0) and (after is None or recorded_epoch <= after)
        either = before if before is not None else after
        batches["epoch"][row] = recorded_epoch if fits else either
        batches["restamped"][row] = True
    return batches
