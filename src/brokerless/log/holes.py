"""Offsets that a log does not have, and whether compaction took them.

A log that was only appended to has every offset. Compaction leaves holes, and other signs of itself: batches with
fewer records than offsets, holes within a file, or a line in the cleaner's checkpoint. A hole between two files without
any such sign is a file that is missing, or that was not copied to its end.
"""

from __future__ import annotations

import numpy as np

from brokerless.errors import Finding
from brokerless.format.batches import Batches
from brokerless.log import names
from brokerless.log.checkpoints import noted_offset
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.live_segments import open_listed
from brokerless.log.seek import last_offset
from brokerless.log.segment import ignore, scan_headers
from brokerless.log.storage import File, StorageOptions


def shows_compaction(batches: Batches) -> bool:
    """Whether batches say themselves that records were taken out of them."""
    data = ~batches.is_legacy & ~batches.is_control
    spans = batches.last_offset - batches.entry_offset + 1
    return bool((data & (batches.count < spans) | batches.has_delete_horizon).any())


def missing_behind(
    partition: PartitionPath,
    segment: SegmentPaths,
    following: SegmentPaths,
    file: File,
    storage_options: StorageOptions | None = None,
) -> range | None:
    """The offsets between a segment (``file``) and the one that follows it, if compaction does not explain them.

    None as well where the segment's chain of batches breaks: that is damage, which is told where it is read."""
    found: list[Finding] = []
    last = last_offset(file, segment, storage_options, found.append)
    end = segment.base_offset if last is None else last + 1
    is_damaged = any(each.severity != "info" for each in found)
    if is_damaged or end >= following.base_offset or _is_compacted(partition, (segment, following), storage_options):
        return None
    return range(end, following.base_offset)


def _is_compacted(
    partition: PartitionPath, segments: tuple[SegmentPaths, ...], storage_options: StorageOptions | None
) -> bool:
    if noted_offset(partition, names.CLEANER_CHECKPOINT, storage_options) is not None:
        return True
    for segment in segments:
        before = segment.base_offset
        with open_listed(segment, segment is partition.segments[-1], storage_options) as file:
            for chunk in scan_headers(file, ignore):
                batches = chunk.batches
                ends = np.concatenate([[before], batches.last_offset + 1])
                # Of a wrapper message, it cannot be seen from outside what it has.
                if shows_compaction(batches) or bool((batches.is_wrapper | (batches.entry_offset > ends[:-1])).any()):
                    return True
                before = int(ends[-1])
    return False
