"""Compares two sides that have the same records in the same order at other offsets, as MirrorMaker 2 writes them.

Both are read forward at once. While the next records of both are the same, they go on; else the nearest record that
both have is looked for within a window. Where there is none, both go on at the next pair of offsets of which
MirrorMaker recorded that they are one record. Memory holds hashes of a window of each side.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from brokerless.bounds import MAX_INT64
from brokerless.format.arrays import Int64s
from brokerless.jobs.compact.key_offsets import KeyHasher
from brokerless.jobs.diff.alignment.blocks import HashedRows, hash_contents
from brokerless.jobs.diff.alignment.sides import SideReader
from brokerless.jobs.diff.alignment.tally import Tally
from brokerless.jobs.diff.partition_diff import ONLY_ON, OTHER, Hand, Uncompared

WINDOW = 1 << 16
"""Records of a side among which those of the other one are looked for."""
_MOST_BATCHES = 1 << 12
_ROW = np.dtype([("offset", "i8"), ("timestamp", "i8"), ("contents", "u8"), ("is_aborted", "?")])


class _HashStream:
    """The records of one side, but control records. ``rows``: those that come next, up to :data:`WINDOW`."""

    def __init__(self, side: SideReader, hasher: KeyHasher) -> None:
        self.side = side
        self.rows = np.zeros(0, _ROW)
        self.has_ended = False
        self.reached = -1
        """The offset of the record that was dropped last."""
        self._hasher = hasher

    def fill(self) -> None:
        """Read until the window is full, or the side ends."""
        found, count = [self.rows], len(self.rows)
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
            rows["contents"] = hash_contents(self._hasher, block.columns)
            if block.batches.is_transactional.any():
                rows["is_aborted"] = side.transactions.aborted(block.batches)[block.batch_of]
            yield rows[~block.batches.is_control[block.batch_of]]

    def drop(self, count: int) -> HashedRows:
        """Return the next records, which are decided on."""
        taken, self.rows = self.rows[:count], self.rows[count:]
        if count:
            self.reached = int(taken["offset"][-1])
        return taken


class SequenceAlignment:
    """The comparison of two sides with the same order. ``anchors``: pairs of offsets that are one record, in order:
    int64, shape ``(n, 2)``. Differences have the offsets of the left side; of records that only the right side has,
    its own."""

    def __init__(self, left: SideReader, right: SideReader, tally: Tally, anchors: Int64s) -> None:
        self.tally = tally
        hasher = KeyHasher()
        self._left, self._right = _HashStream(left, hasher), _HashStream(right, hasher)
        self._streams: dict[Hand, _HashStream] = {"left": self._left, "right": self._right}
        self._anchors = anchors
        self._recent = np.zeros(0, np.uint64)
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
            most = min(len(left.rows), len(right.rows))
            differ = left.rows["contents"][:most] != right.rows["contents"][:most]
            count = int(np.argmax(differ)) if differ.any() else most
            if count:
                self._add_same(left.drop(count), right.drop(count))
            else:
                self._add_others(*self._next_meeting())
        self._add_rest()

    def uncompared(self) -> Iterator[Uncompared]:
        """Yield where a side cannot be read, with how many records the other side has there."""
        for hand, stream in self._streams.items():
            for place, each in enumerate(stream.side.unread):
                last = min(each.end, stream.side.settings.end) - 1
                yield Uncompared(hand, each.first, last, records=self._unread[hand].get(place, 0), finding=each.finding)

    def _next_meeting(self) -> tuple[int, int]:
        """Return how many records of each side come before the next ones that are the same, or are decided without
        any."""
        left, right = self._left.rows, self._right.rows
        known, first = np.unique(right["contents"], return_index=True)
        at = np.minimum(np.searchsorted(known, left["contents"]), len(known) - 1)
        rows = np.flatnonzero(known[at] == left["contents"])
        if len(rows):
            nearest = int(rows[np.argmin(rows + first[at[rows]])])
            return nearest, int(first[at[nearest]])
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

    def _add_same(self, left: HashedRows, right: HashedRows) -> None:
        self.has_met = True
        differ = left["timestamp"] != right["timestamp"]
        self.tally.add_same(int((~differ).sum()))
        self.tally.add("changed", "timestamps", left["offset"][differ].copy())
        self._recent = np.concatenate([self._recent, left["contents"]])[-WINDOW:]

    def _add_others(self, ours: int, theirs: int) -> None:
        """Decide on records that are not the same ones: as many of both sides in one place were changed."""
        left, right = self._left.drop(ours), self._right.drop(theirs)
        if len(left) == len(right) and not left["is_aborted"].any() and self.has_met and not self._any_unread():
            self.tally.add("changed", "changed", left["offset"].copy())
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
        what, rest = ONLY_ON[hand], np.ones(len(rows), np.bool_)
        if not self.has_met and self._streams[OTHER[hand]].side.partition.start_offset:
            self.tally.add(what, "retention", rows["offset"].copy())
            return
        is_repeated = np.isin(rows["contents"], self._recent)
        for known, chosen in (("aborted", rows["is_aborted"]), ("duplicate", is_repeated)):
            self.tally.add(what, known, rows["offset"][rest & chosen])
            rest &= ~chosen
        self.tally.add(what, cause, rows["offset"][rest])

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
