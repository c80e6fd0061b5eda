"""Compares two sides that have the same records in the same order at other offsets, as MirrorMaker 2 writes them.

Both are read forward at once. While the next records of both have the same key and value, they are pairs; else the
nearest record that both have is looked for within a window. Where there is none, both go on at the next pair of offsets
of which MirrorMaker recorded that they are one record. Memory holds hashes of a window of each side.

Key and value alone would pair a record with the wrong one where several have the same: then a record that is near on
the other side with the same headers and time as well is the one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT64
from brokerless.format.arrays import Bools, Int64s
from brokerless.jobs.compact.key_offsets import KeyHasher
from brokerless.jobs.diff.alignment.blocks import HashedRows, hash_bodies, hash_headers, pairs_that_differ, with_times
from brokerless.jobs.diff.alignment.sides import SideReader
from brokerless.jobs.diff.alignment.tally import DifferingRecords, Tally
from brokerless.jobs.diff.partition_diff import ONLY_ON, OTHER, Hand, Uncompared

WINDOW = 1 << 16
"""Records of a side among which those of the other one are looked for."""
_MOST_BATCHES = 1 << 12
_FIRST_PAIRS = 1 << 6
"""Records that are compared, or searched, before many more are."""
_MOST_PARTS, _FEW = 1 << 3, 1 << 3
"""Parts in which the hashes of recent records are kept; rows that are looked for in them one by one."""
_MOST_KNOWN = 1 << 14
"""Pairs that differ of which both offsets are known, so that both records can be shown."""
_ROW = np.dtype([("offset", "i8"), ("timestamp", "i8"), ("body", "u8"), ("contents", "u8"), ("all", "u8")])
"""``body``, ``contents``: as :func:`pairs_that_differ` has them; ``all``: a hash of contents and time."""


class _HashStream:
    """The records of one side, except control records and those that were aborted, whose offsets ``add_aborted``
    gets."""

    def __init__(self, side: SideReader, hasher: KeyHasher, add_aborted: Callable[[Int64s], None]) -> None:
        self.side, self._add_aborted = side, add_aborted
        self.rows = np.zeros(0, _ROW)
        """The records that come next, about :data:`WINDOW` of them."""
        self.has_ended = False
        self.reached = -1
        """The offset of the record that was dropped last."""
        self._hasher = hasher

    def fill(self) -> None:
        """Read until the window is full, or the side ends."""
        found, count = [self.rows], len(self.rows)
        if count > WINDOW // 2 or self.has_ended:  # all of it is copied where some is added
            return
        while count < WINDOW and not self.has_ended:
            for rows in self._read():
                found.append(rows)
                count += len(rows)
        self.rows = np.concatenate(found)

    def _read(self) -> Iterator[HashedRows]:
        side = self.side
        if side.is_idle and side.peek() is None:
            self.has_ended = True
            return
        side.pull(MAX_INT64, _MOST_BATCHES)
        for block in side.take_until(side.frontier):
            rows = np.zeros(block.rows, _ROW)
            rows["offset"], rows["timestamp"] = block.offsets, block.columns.timestamp[: block.rows]
            rows["body"] = hash_bodies(self._hasher, block.columns)
            rows["contents"] = rows["body"] + hash_headers(self._hasher, block.columns)
            rows["all"] = with_times(rows["contents"], rows["timestamp"])
            chosen = ~block.batches.is_control[block.batch_of]
            if block.batches.is_transactional.any():
                is_aborted = chosen & side.transactions.aborted(block.batches)[block.batch_of]
                self._add_aborted(block.offsets[is_aborted])
                chosen &= ~is_aborted
            yield rows[chosen]

    def drop(self, count: int) -> HashedRows:
        """Return the next records, which are decided on."""
        taken, self.rows = self.rows[:count], self.rows[count:]
        if count:
            self.reached = int(taken["offset"][-1])
        return taken


class SequenceAlignment:
    """The comparison of two sides with the same order. ``anchors`` are pairs of offsets that are one record, in order:
    int64, shape ``(n, 2)``. Differences have the offsets of the left side; of records that only the right side has, its
    own."""

    def __init__(self, left: SideReader, right: SideReader, tally: Tally, anchors: Int64s) -> None:
        self.tally = tally
        hasher = KeyHasher()
        self._left = _HashStream(left, hasher, partial(tally.add, ONLY_ON["left"], "aborted"))
        self._right = _HashStream(right, hasher, partial(tally.add, ONLY_ON["right"], "aborted"))
        self._streams: dict[Hand, _HashStream] = {"left": self._left, "right": self._right}
        self._anchors = anchors
        self._recent: deque[NDArray[np.uint64]] = deque()
        self._moved = DifferingRecords(tally)
        self.right_offsets: dict[int, int] = {}
        """Of pairs that differ, the right side's offset by the left one's, as far as it is known."""
        self.has_met = False
        """Whether both sides have had a record that is the same."""
        self._unread: dict[Hand, dict[int, int]] = {"left": {}, "right": {}}

    def run(self) -> None:
        """Compare all of both sides."""
        left, right = self._left, self._right
        while True:
            left.fill()
            right.fill()
            if not len(left.rows) or not len(right.rows):
                break
            count = self._count_pairs()
            if count:
                self._add_pairs(left.drop(count), right.drop(count))
            else:
                self._add_others(*self._next_meeting())
        self._add_rest()
        self._moved.flush()

    def uncompared(self) -> Iterator[Uncompared]:
        """Yield where a side cannot be read, with how many records the other side has there."""
        for hand, stream in self._streams.items():
            for place, each in enumerate(stream.side.unread):
                last = min(each.end, stream.side.settings.end) - 1
                yield Uncompared(hand, each.first, last, records=self._unread[hand].get(place, 0), finding=each.finding)

    def _count_pairs(self) -> int:
        """Return how many of the next records of both sides are pairs."""
        left, right = self._left.rows, self._right.rows
        most = min(len(left), len(right))
        count, step = 0, _FIRST_PAIRS
        while count < most:
            near = slice(count, count + step)
            ours, theirs = left[near][: most - count], right[near][: most - count]
            is_other = ours["body"] != theirs["body"]
            differ = ours["all"] != theirs["all"]
            if (differ & ~is_other).any():
                around = slice(max(0, count - _FIRST_PAIRS), count + step)
                is_other |= differ & np.isin(ours["all"], right["all"][around])
                is_other |= differ & np.isin(theirs["all"], left["all"][around])
            if is_other.any():
                return count + int(np.argmax(is_other))
            count, step = count + len(ours), 4 * step
        return count

    def _next_meeting(self) -> tuple[int, int]:
        """Return how many records of each side come before the next pair, or are decided without any."""
        left, right = self._left.rows, self._right.rows
        within = _FIRST_PAIRS
        while True:
            for name in ("all", "contents", "body"):
                meeting = _nearest(left[name][:within], right[name][:within])
                if meeting is not None:
                    self.has_met |= meeting[0] == meeting[1]  # both have others before it: none was deleted there
                    return meeting
            if within >= max(len(left), len(right)):
                break
            within *= 16
        later = (self._anchors[:, 0] > left["offset"][0]) & (self._anchors[:, 1] > right["offset"][0])
        if later.any():
            upstream, downstream = self._anchors[int(np.argmax(later))]
            return int(np.searchsorted(left["offset"], upstream)), int(np.searchsorted(right["offset"], downstream))
        if self.has_met or (self._left.has_ended and self._right.has_ended):
            return len(left), len(right)
        is_left_older = left["timestamp"][0] <= right["timestamp"][0]  # which the other side deleted
        if self._right.has_ended or (is_left_older and not self._left.has_ended):
            return len(left), 0
        return 0, len(right)

    def _add_pairs(self, left: HashedRows, right: HashedRows) -> None:
        """Decide on records of both sides, of which each is that of the other one. Where key or value differ, it is
        looked for near by."""
        self.has_met = True
        fields = pairs_that_differ(left, right)
        same = ~(fields.contents | fields.headers | fields.timestamps)
        self.tally.add_same(int(same.sum()))
        for cause, rows in fields.causes(self.tally.allowed):
            self.tally.add("changed", cause, left["offset"][rows])
        if fields.contents.any():
            ours, theirs = left[fields.contents], right[fields.contents]
            self._moved.add(ours["offset"], ours["contents"], theirs["contents"])
        if not same.all() and len(self.right_offsets) < _MOST_KNOWN:
            both = (each["offset"][~same][:_MOST_KNOWN].tolist() for each in (left, right))
            self.right_offsets.update(zip(*both, strict=True))
        self._recent.append(np.concatenate([left["all"], right["all"]]))
        if len(self._recent) > _MOST_PARTS:
            self._recent = deque([np.concatenate(self._recent)[-2 * WINDOW :]])

    def _add_others(self, ours: int, theirs: int) -> None:
        """Decide on records that are not the same ones: as many of both sides in one place were changed."""
        left, right = self._left.drop(ours), self._right.drop(theirs)
        if len(left) == len(right) and self.has_met and not self._any_unread():
            self._add_pairs(left, right)
            return
        self._add_only("left", left, "missing")
        self._add_only("right", right, "extra")

    def _add_rest(self) -> None:
        for hand, stream in self._streams.items():
            while len(stream.rows):
                self._add_only(hand, stream.drop(len(stream.rows)), "lagging" if self.has_met else ONLY_ON[hand])
                stream.fill()

    def _add_only(self, hand: Hand, rows: HashedRows, cause: str) -> None:
        if not len(rows):
            return
        place = self._unread_place(OTHER[hand])
        if place is not None:
            counts = self._unread[OTHER[hand]]
            counts[place] = counts.get(place, 0) + len(rows)
            return
        what = ONLY_ON[hand]
        if not self.has_met and self._streams[OTHER[hand]].side.partition.start_offset:
            self.tally.add(what, "retention", rows["offset"].copy())
            return
        is_repeated = np.zeros(len(rows), np.bool_)
        for part in self._recent:
            is_repeated |= _are_among(rows["all"], part)
        self.tally.add(what, "duplicate", rows["offset"][is_repeated])
        rest = rows[~is_repeated]
        if cause == "lagging":
            is_waiting = self._moved.are_waiting(OTHER[hand], rest["contents"])
            self.tally.add(what, cause, rest["offset"][~is_waiting])
            rest = rest[is_waiting]
        hashes = rest["contents"].copy()
        self._moved.add(rest["offset"], hashes if hand == "left" else None, None if hand == "left" else hashes)

    def _any_unread(self) -> bool:
        return any(self._unread_place(hand) is not None for hand in self._streams)

    def _unread_place(self, hand: Hand) -> int | None:
        """Return which of the places that a side cannot be read at is between its last record and the next one."""
        stream = self._streams[hand]
        following = int(stream.rows["offset"][0]) if len(stream.rows) else MAX_INT64
        for place, each in enumerate(stream.side.unread):
            if each.end > stream.reached + 1 and each.first < following:
                return place
        return None


def _are_among(hashes: NDArray[np.uint64], known: NDArray[np.uint64]) -> Bools:
    if len(hashes) > _FEW:
        return np.isin(hashes, known)
    return np.array([bool((known == each).any()) for each in hashes], np.bool_)  # isin would sort what is known


def _nearest(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> tuple[int, int] | None:
    """Return the rows of the nearest hash that both have; of several, that with as many rows before it on both."""
    known, first = np.unique(right, return_index=True)
    at = np.minimum(np.searchsorted(known, left), len(known) - 1)
    rows = np.flatnonzero(known[at] == left)
    if not len(rows):
        return None
    others = first[at[rows]]
    nearest = int(np.lexsort((np.abs(rows - others), rows + others))[0])
    return int(rows[nearest]), int(others[nearest])
