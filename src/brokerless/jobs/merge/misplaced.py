"""Detects batches with a wrong offset by comparing replicas.

No checksum covers it either. Within one replica, a batch is judged by those that are right beside it (decision 18);
where they are damaged too, another replica may have the very same batch elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT64
from brokerless.findings import Kind
from brokerless.jobs.recovered.damaged_regions import Region
from brokerless.jobs.recovered.losses import TO_THE_END, are_side_by_side
from brokerless.jobs.recovered.reading import RecoveredLog

_BITS = 2


def without_moved(founds: Sequence[RecoveredLog]) -> list[RecoveredLog]:
    """Return what was found of each replica, without batches that belong to other offsets: their bytes count as
    damaged."""
    return [_without(found, _are_moved(found, [*founds[:at], *founds[at + 1 :]])) for at, found in enumerate(founds)]


def _are_moved(found: RecoveredLog, others: Sequence[RecoveredLog]) -> NDArray[np.bool_]:
    """Only of batches without another one right beside them that goes on where they end, or ends where they begin, and
    which no other replica has here. Such a batch is moved if another replica has it elsewhere, and it is in the file of
    another segment, or the offset there differs in a bit or two, and this replica has none there."""
    batches = found.saved
    beside = are_side_by_side(batches)
    beside[1:] &= batches["first"][1:] == batches["last"][:-1] + 1
    is_alone = ~(beside | np.append(beside[1:], False))
    base = np.array([each.base_offset for each in found.files.files], np.int64)
    bases = np.unique([*(each.base_offset for each in found.files.paths[0].segments), MAX_INT64])
    from_ = base[batches["file"]]
    is_outside = (batches["first"] < from_) | (batches["first"] >= bases[np.searchsorted(bases, from_, side="right")])
    known = [other.saved for other in others]
    is_here = np.zeros(len(batches), np.bool_)
    is_known = np.zeros(len(batches), np.bool_)
    for each in filter(len, known):
        at = np.minimum(np.searchsorted(each["first"], batches["first"]), len(each) - 1)
        is_here |= (each["first"][at] == batches["first"]) & (each["checksum"][at] == batches["checksum"])
        is_known |= np.isin(batches["checksum"], each["checksum"])
    may_be_moved = is_alone & is_known & ~is_here
    moved = may_be_moved & is_outside
    for row in np.flatnonzero(may_be_moved & ~is_outside).tolist():
        moved[row] = _is_elsewhere(batches, row, known)
    return moved


def _is_elsewhere(batches: NDArray[np.void], row: int, others: Sequence[NDArray[np.void]]) -> bool:
    batch = batches[row]
    found = np.concatenate([_the_same(other, batch) for other in others]) if others else batches[:0]
    if (found["first"] == batch["first"]).any():
        return False
    rest = np.delete(batches, row)
    for each in found:
        at = int(np.searchsorted(rest["last"], each["first"]))
        is_free = at == len(rest) or rest["first"][at] > each["last"]
        if is_free and (int(each["first"]) ^ int(batch["first"])).bit_count() <= _BITS:
            return True
    return False


def _the_same(others: NDArray[np.void], batch: np.void) -> NDArray[np.void]:
    """Those that differ in nothing but the offset."""
    same = others["last"] - others["first"] == batch["last"] - batch["first"]
    for name in ("checksum", "size", "magic", "epoch"):
        same &= others[name] == batch[name]
    return others[same]


def _without(found: RecoveredLog, moved: NDArray[np.bool_]) -> RecoveredLog:
    if not moved.any():
        return found
    saved = found.saved[~moved]
    live = max((each.base_offset for each in found.files.paths[0].segments), default=0)
    end = max(live, found.files.checkpointed_end or 0, *(saved["last"][-1:] + 1).tolist(), found.begin)
    regions = [_as_region(found, saved, each) for each in found.saved[moved]]
    return replace(found, saved=saved, regions=[*found.regions, *regions], end=end)


def _as_region(found: RecoveredLog, saved: NDArray[np.void], batch: np.void) -> tuple[Region, int]:
    """A batch as damaged bytes, between those that are around it in its file."""
    file = found.files.files[int(batch["file"])]
    position = int(batch["position"])
    before = saved[(saved["file"] == batch["file"]) & (saved["position"] < position)]
    later = saved[(saved["file"] == batch["file"]) & (saved["position"] > position)]
    after = max([file.base_offset, *(before["last"] + 1).tolist()])
    bases = (each.base_offset for each in found.files.files if each.base_offset > file.base_offset)
    following = min([*later["first"].tolist(), min(bases, default=TO_THE_END)])
    text = "a batch whose offset cannot be right"
    end = position + int(batch["size"])
    return Region(
        file.path, position, end, kind=Kind.OFFSET_MISPLACED, message=text, after=after, offset=int(batch["first"])
    ), following
