"""Compares two sides of a partition by offsets: batches by headers and bytes, records only where those differ.

Both sides are read forward at once. Where batches differ, their records are decoded and merged by offset, each side as
far as the other one is known, until both are at a batch again. So memory holds a window of each file, and one or a few
batches that are decoded, however long the logs are.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT64
from brokerless.errors import UnreadableError
from brokerless.format.arrays import Bools, Int64s
from brokerless.jobs.compact.key_offsets import KeyHasher
from brokerless.jobs.diff.alignment.blocks import Block, compare_rows, hash_contents, hash_with_times, joined
from brokerless.jobs.diff.alignment.erased_records import ErasedRecords
from brokerless.jobs.diff.alignment.removed_keys import CANDIDATE, LastOfKeys, are_explained
from brokerless.jobs.diff.alignment.same_batches import (
    CAUSE_OF,
    compare_batches,
    count_records,
    count_same,
    epochs_agree,
)
from brokerless.jobs.diff.alignment.schema_ids import SchemaIds
from brokerless.jobs.diff.alignment.sides import SideReader
from brokerless.jobs.diff.alignment.tally import DifferingRecords, Tally
from brokerless.jobs.diff.causes import UNPROVEN
from brokerless.jobs.diff.copied_partition import CopiedPartition
from brokerless.jobs.diff.partition_diff import ONLY_ON, OTHER, Hand
from brokerless.log import names
from brokerless.log.checkpoint.offset_checkpoints import recorded_offset
from brokerless.log.directory import PartitionPath
from brokerless.log.settings.topic import CLEANUP_POLICY, cleanup_policies

_MOST_BATCHES = 1 << 12
"""Batches of a side that are decoded at once where many differ."""
_MOST_CANDIDATES = 1 << 20


class OffsetAlignment:
    """The comparison of two sides whose offsets are the same ones. ``erased`` has what an erasure did to the left side,
    and ``schema_ids`` the schemas of both."""

    def __init__(
        self, left: SideReader, right: SideReader, tally: Tally, erased: ErasedRecords | None = None,
        schema_ids: SchemaIds | None = None,
    ) -> None:  # fmt: skip
        self.sides: dict[Hand, SideReader] = {"left": left, "right": right}
        self.tally, self._erased, self._schema_ids = tally, erased, schema_ids
        self.unread: dict[Hand, dict[int, int]] = {"left": {}, "right": {}}
        """How many records the other side has where a side cannot be read, by the place in the list ``unread`` of that
        side."""
        self._hasher = KeyHasher()
        self._window = DifferingRecords(tally)
        self._group = 1
        self._are_batches_compared = all(each.has_same_offsets and each.has_own_batches for each in (left, right))
        self._previous: dict[Hand, tuple[Block, bool] | None] = {"left": None, "right": None}
        self._candidates: dict[Hand, list[NDArray[np.void]]] = {"left": [], "right": []}
        self._keys: dict[tuple[Hand, bool], LastOfKeys] = {}
        policies = [policy for each in (left, right) if (policy := _policy(each.partition)) is not None]
        written: tuple[Hand, ...] = () if erased is None else ("right",)
        self._is_compacted: dict[Hand, bool | None] = {
            hand: _is_compacted(each.partition, policies, is_written=hand in written)
            for hand, each in self.sides.items()
        }
        """Whether a side may have been compacted; None where only its batches can show that."""

    def run(self) -> None:
        """Compare all of both sides."""
        left, right = self.sides["left"], self.sides["right"]
        settings = left.settings
        while True:
            ours, theirs = left.peek(), right.peek()
            if ours is None and theirs is None:
                break
            count = 0
            if ours is not None and theirs is not None and self._are_batches_compared:
                count = count_same(ours, theirs, settings.start, settings.end, quick=settings.quick)
            if not count:
                self._compare_records()
                continue
            assert ours is not None
            assert theirs is not None
            records = count_records(ours, count)
            restamped = ~epochs_agree(ours.raw[:count], theirs.raw[:count])
            self.tally.add_same(int(records.sum()), "restamped", int(records[restamped].sum()))
            left.skip(count)
            right.skip(count)
            self._group = self._group if count < self._group else max(1, self._group // 2)
        for hand in self.sides:
            self._decide(hand)
        self._window.flush()

    def _compare_records(self) -> None:
        """Decode batches of both sides until both are at a batch, and compare their records."""
        left, right = self.sides["left"], self.sides["right"]
        groups = 0
        while True:
            behind, other = (left, right) if left.frontier <= right.frontier else (right, left)
            is_even = behind.frontier == other.frontier
            groups += behind.pull(MAX_INT64 if is_even else other.frontier, self._group)
            if groups > 2:
                groups, self._group = 0, min(2 * self._group, _MOST_BATCHES)
            bound = min(left.frontier, right.frontier)
            self._merge(*(joined(each.take_until(bound)) for each in (left, right)))
            if left.is_idle and right.is_idle:
                break
        self._group = min(2 * self._group, _MOST_BATCHES)

    def _merge(self, left: Block | None, right: Block | None) -> None:
        left, right = self._common(left), self._common(right)
        if left is None or right is None:
            if left is not None:
                self._add_only("left", left, np.zeros(left.rows, np.bool_))
            if right is not None:
                self._add_only("right", right, np.zeros(right.rows, np.bool_))
            return
        if left.rows == right.rows and np.array_equal(left.offsets, right.offsets):
            ours, theirs = np.ones(left.rows, np.bool_), np.ones(right.rows, np.bool_)
        else:
            ours = np.isin(left.offsets, right.offsets, assume_unique=True)
            theirs = np.isin(right.offsets, left.offsets, assume_unique=True)
        if ours.any():
            self._compare(left.take(ours), right.take(theirs))
        self._add_only("left", left, ours)
        self._add_only("right", right, theirs)

    def _common(self, block: Block | None) -> Block | None:
        """The records of a block at offsets that both sides should have; None where there are none."""
        if block is None:
            return None
        settings = self.sides["left"].settings
        start, stop = np.searchsorted(block.offsets, [settings.start, settings.end]).tolist()
        return block.between(start, stop) if start < stop else None

    # Records at the same offsets

    def _compare(self, left: Block, right: Block) -> None:
        fields = compare_rows(left.columns, right.columns)
        is_control = left.batches.is_control[left.batch_of]
        others = fields.contents | (is_control != right.batches.is_control[right.batch_of])
        same = ~(others | fields.timestamps | fields.headers)
        if same.any():
            self._add_same(left, right, same & ~is_control)
        if same.all():
            return
        if self._erased is not None and (rows := others & ~is_control).any():
            rows[rows] = self._erased.blanked(left.take(rows), right.take(rows))
            self.tally.add("changed", "erased", left.offsets[rows])
            same |= rows
        if self._schema_ids is not None and (rows := ~(same | fields.timestamps | is_control)).any():
            found = self._schema_ids.compare(left.take(rows), right.take(rows))
            for cause, which in zip(("schema-id", "schema-changed"), found, strict=True):
                chosen = np.flatnonzero(rows)[which]
                self.tally.add("changed", cause, left.offsets[chosen])
                same[chosen] = True
        for cause, rows in fields._replace(contents=others | same).causes(self.tally.allowed):
            self.tally.add("changed", cause, left.offsets[rows])
            same |= rows
        if not same.all():
            ours, theirs = left.take(~same), right.take(~same)
            hashes = [hash_contents(self._hasher, each.columns) for each in (ours, theirs)]
            self._window.add(ours.offsets, *hashes)

    def _add_same(self, left: Block, right: Block, rows: Bools) -> None:
        """Count records that are the same by how their batches differ."""
        ours, theirs = left.batch_of[rows], right.batch_of[rows]
        if not len(ours) or not self._are_batches_compared:
            self.tally.add_same(len(ours))
            return
        starts = np.append(0, np.flatnonzero((np.diff(ours) != 0) | (np.diff(theirs) != 0)) + 1)
        counts = np.diff(np.append(starts, len(ours)))
        how = compare_batches(left.batches.take(ours[starts]), right.batches.take(theirs[starts]))
        self.tally.add_same(len(ours))
        for number, cause in CAUSE_OF.items():
            self.tally.note(cause, int(counts[how == number].sum()))

    # Records that only one side has

    def _add_only(self, hand: Hand, block: Block, is_common: Bools) -> None:
        """Count the records of a side, where they are not on both sides, by their causes."""
        side = self.sides[hand]
        if is_common.all():
            side.last, self._previous[hand] = None, (block.between(block.rows - 1, block.rows), True)
            return
        repeats = block.repeats[block.batch_of] | self._equal_neighbours(hand, block, is_common)
        rest = ~is_common & ~self._are_unread(hand, block.offsets, ~is_common)
        is_control = block.batches.is_control[block.batch_of]
        causes = [("retention", self._are_gone(OTHER[hand], block.offsets)), ("control", is_control)]
        if self._erased is not None and hand == "left":
            causes.append(("erased", self._erased.removed(block.offsets)))
        if (rest & block.batches.is_transactional[block.batch_of]).any():
            causes.append(("aborted", side.transactions.aborted(block.batches)[block.batch_of]))
        if self._is_compacted[OTHER[hand]] is False:
            causes.append(("duplicate", repeats))
        for cause, rows in causes:
            self.tally.add(ONLY_ON[hand], cause, block.offsets[rest & rows])
            rest &= ~rows
        if not rest.any():
            return
        chosen = block.take(rest)
        if self._is_compacted[OTHER[hand]] is False:
            self._add_to_window(hand, chosen.offsets, hash_contents(self._hasher, chosen.columns))
        else:
            self._add_candidates(hand, chosen, repeats[rest])

    def _add_candidates(self, hand: Hand, block: Block, repeats: Bools) -> None:
        """Add records that compaction may have taken on the other side."""
        candidates = np.zeros(block.rows, CANDIDATE)
        has_key = block.columns.key_null[: block.rows] == 0
        candidates["offset"], candidates["keyless"], candidates["repeats"] = block.offsets, ~has_key, repeats
        candidates["key"] = self._hasher.hash(block.columns, has_key)
        candidates["contents"] = hash_contents(self._hasher, block.columns)
        self._candidates[hand].append(candidates)
        if sum(map(len, self._candidates[hand])) >= _MOST_CANDIDATES:
            self._decide(hand)

    def _are_unread(self, hand: Hand, offsets: Int64s, rows: Bools) -> Bools:
        """Return which records are at offsets at which the other side cannot be read; of ``rows``, they are counted."""
        other = OTHER[hand]
        found = np.zeros(len(offsets), np.bool_)
        for place in range(len(self.sides[other].unread) - 1, -1, -1):
            each = self.sides[other].unread[place]
            if each.end <= offsets[0]:
                break
            within = rows & ~found & (offsets >= each.first) & (offsets < each.end)
            if within.any():
                self.unread[other][place] = self.unread[other].get(place, 0) + int(within.sum())
                found |= within
        return found

    def _are_gone(self, hand: Hand, offsets: Int64s) -> Bools:
        """Return which offsets were deleted on a side while it was read."""
        found = np.zeros(len(offsets), np.bool_)
        for first, end in self.sides[hand].gone:
            found |= (offsets >= first) & (offsets < end)
        return found

    def _equal_neighbours(self, hand: Hand, block: Block, is_common: Bools) -> Bools:
        """Return which records are the same as one right before or after them, of one of which both sides have."""
        before = self._previous[hand]
        if self.sides[hand].last is not None:
            record = self.sides[hand].last_record()
            before = None if record is None else (record, True)
        hashes = hash_with_times(self._hasher, block.columns)
        is_other = np.append(True, hashes[1:] != hashes[:-1])
        if before is not None:
            is_other[0] = hash_with_times(self._hasher, before[0].columns)[-1] != hashes[0]
        run_of = np.cumsum(is_other)
        has_common = np.zeros(int(run_of[-1]) + 1, np.bool_)
        has_common[0] = before is not None and before[1]
        has_common[run_of[is_common]] = True
        repeats = has_common[run_of] & ~is_common
        self._previous[hand] = block.between(block.rows - 1, block.rows), bool(has_common[run_of[-1]])
        return repeats

    def _add_to_window(self, hand: Hand, offsets: Int64s, hashes: NDArray[np.uint64]) -> None:
        is_left = hand == "left"
        self._window.add(offsets, hashes if is_left else None, None if is_left else hashes)

    def _decide(self, hand: Hand) -> None:
        """Decide which records that only this side has were taken by compaction on the other one."""
        if not self._candidates[hand]:
            return
        candidates = np.concatenate(self._candidates[hand])
        self._candidates[hand] = []
        other = OTHER[hand]
        explained = np.zeros(len(candidates), np.bool_)
        cause = self._cause_of_removal(other)
        if cause is not None:
            first = int(candidates["offset"][0])
            there, here = self._last_of_keys(other, first, True), self._last_of_keys(hand, first, False)
            explained = are_explained(candidates, there, here)
        what = ONLY_ON[hand]
        self.tally.add(what, cause or "compaction", candidates["offset"][explained])
        repeats = ~explained & candidates["repeats"]
        self.tally.add(what, "duplicate", candidates["offset"][repeats])
        rest = candidates[~explained & ~repeats]
        self._add_to_window(hand, rest["offset"].copy(), rest["contents"].copy())

    def _cause_of_removal(self, hand: Hand) -> str | None:
        """Return the cause of records that compaction would take, where a side lacks them; None where it took none.

        A broker takes no batch from a producer that has fewer records than offsets (``LogValidator``, 4.4.0), so that
        something took records out of it: the cleaner, or who erases records, or who wrote the file. Only the cleaner
        sets a delete horizon.
        """
        side, is_compacted = self.sides[hand], self._is_compacted[hand]
        if is_compacted or side.was_cleaned or (is_compacted is None and UNPROVEN in self.tally.allowed):
            return "compaction"
        return UNPROVEN if is_compacted is None and side.is_sparse and side.has_own_batches else None

    def _last_of_keys(self, hand: Hand, first: int, is_there: bool) -> LastOfKeys:
        """The keys of a side. ``is_there``: up to its own end, and not to that of the common offsets."""
        if (hand, is_there) not in self._keys:
            end = None if is_there else self.sides[hand].settings.end
            self._keys[hand, is_there] = LastOfKeys(self.sides[hand], self._hasher, first, end)
        return self._keys[hand, is_there]


def _policy(partition: PartitionPath) -> str | None:
    """The cleanup policy of a partition's topic by the cluster's metadata beside it, if that is known."""
    if isinstance(partition, CopiedPartition):
        return partition.cleanup_policy
    if partition.read_setting is None or partition.topic is None or partition.topic == names.CLUSTER_METADATA:
        return None
    return partition.read_setting(partition.location, partition.topic, CLEANUP_POLICY)


def _is_compacted(partition: PartitionPath, policies: list[str], *, is_written: bool) -> bool | None:
    """Return whether records of a side may have been taken by compaction: of such a topic, or, where nobody knows its
    policy, as a cleaner was there once. None where nothing but batches can say so. ``is_written``: the side is what an
    erasure wrote.

    An erasure, and a copy of records, has a cleaner's checkpoint of ours beside it, lest gaps be taken for lost
    segments: no cleaner was there."""
    if partition.topic in names.COMPACTED_BY_KAFKA or any("compact" in cleanup_policies(each) for each in policies):
        return True
    if policies:
        return False
    if is_written or isinstance(partition, CopiedPartition):
        return None
    place = partition.location, partition.topic, partition.partition
    with suppress(UnreadableError):
        if recorded_offset(*place, names.CLEANER_CHECKPOINT) is not None:
            return True
    return None
