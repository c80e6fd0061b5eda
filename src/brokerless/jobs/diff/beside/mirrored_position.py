"""Where a position in a partition is in its mirror: after the last record before it that the mirror has, near where the
nearest pair of offsets says."""

from __future__ import annotations

import numpy as np

from brokerless.jobs.compact.key_offsets import KeyHasher
from brokerless.jobs.diff.alignment.blocks import HashedRows, hash_with_times
from brokerless.jobs.diff.alignment.sequence import WINDOW
from brokerless.jobs.diff.alignment.sides import count_records
from brokerless.jobs.diff.copied_partition import CopiedPartition
from brokerless.jobs.diff.pairs import Pair
from brokerless.log.directory import PartitionPath
from brokerless.log.partition import Reading, read_partition
from brokerless.log.ranges import Range
from brokerless.progress import ignore

_ROW = np.dtype([("offset", "i8"), ("record", "u8")])


def mirrored_position(pair: Pair, offset: int, *, max_batch_bytes: int) -> int:
    """Return where a position of the left side is on the right one.

    MirrorMaker copies records in their order, so that from a pair of offsets on, as many records are before both. Where
    aborted records were copied or not, or some were copied twice, the records themselves say where they are: the
    nearest with the same contents and time is the same. Of a running cluster, nothing is read for that."""
    assert pair.left is not None
    assert pair.right is not None
    assert pair.anchors is not None
    at = max(0, int(np.searchsorted(pair.anchors[:, 0], offset, side="right")) - 1)
    source, target = pair.anchors[at].tolist()
    start, end = sorted((source, offset))
    is_read = not isinstance(pair.left, CopiedPartition)
    between = count_records(pair.left, start, end, max_batch_bytes) if is_read else end - start
    expected = max(0, target + (between if offset >= source else -between))
    if isinstance(pair.left, CopiedPartition) or isinstance(pair.right, CopiedPartition):
        return expected
    hasher = KeyHasher()
    for near in (1, WINDOW):
        before = _rows(pair.left, max(0, offset - near), offset, hasher, max_batch_bytes=max_batch_bytes)
        there = _rows(pair.right, max(0, expected - near), expected - 1 + near, hasher, max_batch_bytes=max_batch_bytes)
        found = np.flatnonzero(np.isin(before["record"], there["record"]))
        if len(found):
            same = there["offset"][there["record"] == before["record"][found[-1]]]
            return int(same[np.argmin(np.abs(same - (expected - 1)))]) + 1
    return expected


def _rows(partition: PartitionPath, start: int, end: int, hasher: KeyHasher, *, max_batch_bytes: int) -> HashedRows:
    """The records at offsets ``[start, end)``, in order."""
    found: list[HashedRows] = [np.zeros(0, _ROW)]
    reading = Reading(Range(start, end), max_batch_bytes=max_batch_bytes)
    for each in read_partition(partition, reading, ignore) if start < end else ():
        columns = each.decoded.columns
        rows = np.zeros(columns.rows, _ROW)
        rows["offset"], rows["record"] = columns.offset[: columns.rows], hash_with_times(hasher, columns)
        found.append(rows if each.rows is None else rows[each.rows])
    return np.concatenate(found)
