"""Finds batches that are the same on both sides without decoding them, and how batches of the same records differ."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from brokerless.format import layouts
from brokerless.format.arrays import Bools, Int64s
from brokerless.format.read.batch_headers import Batches
from brokerless.format.read.wrappers import inspect_wrappers
from brokerless.jobs.diff.alignment.sides import BatchRows

_EPOCH = slice(
    layouts.position_of(layouts.BATCH_V2, "partition_leader_epoch"), layouts.position_of(layouts.BATCH_V2, "magic")
)
"""The bytes of a v2 batch's header that have its leader epoch, which no checksum covers."""
_MAGIC = _EPOCH.stop
_FIRST_COMPARED = 16
_BLOCK = 1 << 16
"""Bytes that are compared at once: what says which of them differ is as large, and stays in the cache."""


def headers_agree(left: NDArray[np.uint8], right: NDArray[np.uint8]) -> Bools:
    """Return which headers (uint8, shape ``(n, 61)``) are the same but for the leader epoch."""
    agree = left == right
    is_v2 = left[:, _MAGIC].view(np.int8) >= layouts.MAGIC_V2
    agree[:, _EPOCH] |= is_v2[:, None]
    if not is_v2.all():  # a message may be shorter than a header
        sizes = np.ascontiguousarray(left[:, 8:12]).view(">i4").reshape(-1) + layouts.LOG_ENTRY_SIZE
        agree |= ~is_v2[:, None] & (np.arange(left.shape[1]) >= sizes[:, None])
    return agree.all(axis=1)


def epochs_agree(left: NDArray[np.uint8], right: NDArray[np.uint8]) -> Bools:
    """Return which of headers that agree otherwise have the same leader epoch, or none."""
    return (left[:, _EPOCH] == right[:, _EPOCH]).all(axis=1)


def count_same(left: BatchRows, right: BatchRows, start: int, end: int, *, quick: bool) -> int:
    """Return how many batches from the first on are the same on both sides, but for leader epochs, and are within the
    offsets from ``start`` to ``end``. ``quick``: by headers alone."""
    if int(left.firsts[0]) < start:
        return 0
    most = min(len(left), len(right), int(np.searchsorted(left.ends, end, side="right")))
    count, step = 0, _FIRST_COMPARED
    while count < most:
        stop = min(count + step, most)
        agree = headers_agree(left.raw[count:stop], right.raw[count:stop])
        if not agree.all():
            count += int(np.argmin(agree))
            break
        count, step = stop, 4 * step
    return count if quick else _count_same_bytes(left, right, count)


def _count_same_bytes(left: BatchRows, right: BatchRows, count: int) -> int:
    if not count:
        return 0
    same_epoch = epochs_agree(left.raw[:count], right.raw[:count])
    positions, ends = zip(
        *((_of(each, "positions", count), _of(each, "ends", count)) for each in (left, right)), strict=True
    )
    is_border = ~same_epoch[1:] | ~same_epoch[:-1]
    for position, end in zip(positions, ends, strict=True):
        is_border |= position[1:] != end[:-1]
    borders = [0, *(np.flatnonzero(is_border) + 1).tolist(), count]
    for first, stop in pairwise(borders):
        skipped = 0 if same_epoch[first] else _MAGIC
        if not _same_bytes(left.between(first, stop), right.between(first, stop), skipped):
            rows = range(first, stop)
            return next(
                row for row in rows if not _same_bytes(left.between(row, row + 1), right.between(row, row + 1), skipped)
            )
    return count


def _of(rows: BatchRows, name: str, count: int) -> Int64s:
    return getattr(rows.chunk.batches, name)[rows.at : rows.at + count]


def _same_bytes(left: BatchRows, right: BatchRows, skipped: int) -> bool:
    """Return whether batches that lie one after the other have the same bytes, but for the first ones."""
    one, two = (
        each.chunk.buffer[
            int(each.chunk.batches.positions[each.at]) + skipped : int(each.chunk.batches.ends[each.stop - 1])
        ]
        for each in (left, right)
    )
    if len(one) != len(two):
        return False
    return all(np.array_equal(one[at : at + _BLOCK], two[at : at + _BLOCK]) for at in range(0, len(one), _BLOCK))


def count_records(rows: BatchRows, count: int) -> Int64s:
    """Return how many records each of the first batches has, none in those of control records."""
    batches = rows.between(0, count).batches()
    found = np.where(batches.is_legacy, 1, np.maximum(batches.count, 0)).astype(np.int64)
    if batches.is_wrapper.any():
        found = inspect_wrappers(rows.chunk.buffer, batches).count.astype(np.int64)
    return np.where(batches.is_control, 0, found)


SAME, RESTAMPED, COMPACTION, RECOMPRESSED, REGROUPED = range(5)
CAUSE_OF = {RESTAMPED: "restamped", COMPACTION: "compaction", RECOMPRESSED: "recompressed", REGROUPED: "regrouped"}
"""How batches differ whose records are the same, and the cause of each."""


def compare_batches(left: Batches, right: Batches) -> NDArray[np.int8]:
    """Return, of pairs of batches that have some same records, how the batches differ. Where another record of them
    differs, their bytes do, but neither their borders nor what they are compressed with: that is nothing to say of
    those that are the same."""
    found = np.full(len(left), REGROUPED, np.int8)
    same_bounds = np.ones(len(left), np.bool_)
    for name in ("entry_offset", "end_of_records", "producer_id", "producer_epoch", "base_sequence"):
        same_bounds &= getattr(left, name) == getattr(right, name)
    same_bounds &= left.is_wrapper == right.is_wrapper
    is_alike = same_bounds & (left.codec == right.codec) & (left.magic == right.magic)
    found[same_bounds] = RECOMPRESSED
    found[is_alike] = SAME
    found[is_alike & ~left.is_legacy & ~epochs_agree(left.raw, right.raw)] = RESTAMPED
    found[same_bounds & (left.has_delete_horizon != right.has_delete_horizon)] = COMPACTION
    return found
