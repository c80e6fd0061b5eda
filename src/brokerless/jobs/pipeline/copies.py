"""Chooses which copy of a partition is exported next, of snapshots and replicas that overlap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from brokerless.errors import UnreadableError
from brokerless.jobs.ledger import Ledger
from brokerless.jobs.pipeline.recording import was_tried
from brokerless.log import seek
from brokerless.log.directory import PartitionPath
from brokerless.table_formats.export_state import Exported


def next_copy(
    copies: Sequence[PartitionPath], tried: Iterable[str], exported: Exported | None, ledger: Ledger
) -> PartitionPath | None:
    """Return the copy that has more than was exported, and of several the one that leaves nothing out: it begins where
    the export ended, or earlier, has the least damage, and reaches furthest; then those that may fill in what is
    missing, or was damaged in others. None if there is nothing new, or nothing but what an earlier run tried in vain.

    Where all copies end before what was exported, the furthest one is returned once, as the export reports that."""
    tried = set(tried)
    left = [each for each in copies if each.path not in tried and each.segments]
    ends = {each.path: end_offset(each, ledger) for each in left}
    following = None if exported is None else exported.next_offset
    if following is None:
        start = min((each.start_offset or 0 for each in left), default=0)
        return max(
            (each for each in left if (each.start_offset or 0) == start),
            key=lambda each: (-_damage(each, ledger), ends[each.path]),
            default=None,
        )
    is_short = not tried and all(end < following for end in ends.values())
    left = [each for each in left if exported is None or not was_tried(ledger, each, exported)]
    new = [each for each in left if ends[each.path] > following]
    joined = [each for each in new if (each.start_offset or 0) <= following]
    if joined:
        return max(joined, key=lambda each: (-_damage(each, ledger), ends[each.path]))
    if new:
        return min(new, key=lambda each: (each.start_offset or 0, -ends[each.path]))
    has_gaps = exported is not None and bool(
        exported.missing or exported.left_out or exported.filling or exported.until is not None
    )
    if left and (is_short or has_gaps):
        return max(left, key=lambda each: ends[each.path])
    return None


def end_offset(partition: PartitionPath, ledger: Ledger) -> int:
    """Return the offset after the last intact batch, as the ledger has it; by the files where it was not verified."""
    ends = [segment.base_offset for segment in partition.segments[-1:]]
    for segment in partition.segments:
        known = ledger.verified(segment)
        if known is None:
            with suppress(UnreadableError):  # which the check or the export of that segment reports
                ends += [seek.end_offset(partition) or 0]
            return max(ends)
        ends += [] if known.lastOffset is None else [known.lastOffset + 1]
    return max(ends, default=0)


def _damage(partition: PartitionPath, ledger: Ledger) -> int:
    known = (ledger.get("segment", segment.log.path) for segment in partition.segments)
    return sum(len(each.ranges) for each in known if each is not None)
