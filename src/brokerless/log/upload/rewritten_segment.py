"""Writes a remote segment again with the batches that an erasure made of it.

Its offset and time index are made of the batches; producers, transactions and leader epochs stay what they were, as no
batch of a producer goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from brokerless.format import layouts
from brokerless.format.write.encoder import encode_empty_batch
from brokerless.log.config import DEFAULTS
from brokerless.log.tiered.manifest import IndexName, Manifest
from brokerless.log.tiered.writing.objects import ObjectFormat, SegmentEnd, SegmentUpload, StoredSegment, UploadPlace
from brokerless.log.write.active_segment import SegmentFollower, SegmentState, no_limits
from brokerless.log.write.follower_append import whole_batches


def rewrite_segment(
    place: UploadPlace,
    old: Manifest,
    indexes: Mapping[IndexName, bytes],
    buffers: Iterable[NDArray[np.uint8]],
    how: ObjectFormat,
) -> StoredSegment:
    """Write whole batches as a segment with the offsets of another one. ``old``: its manifest; ``indexes``: what of its
    indexes stays. Raises :class:`UnwritableError`, and what ``buffers`` raise; then there is no new segment."""
    upload = SegmentUpload(place, old.start_offset, how)
    follower = SegmentFollower(SegmentState(old.start_offset), no_limits(DEFAULTS))
    offsets, times = bytearray(), bytearray()
    end = old.start_offset - 1

    def write(buffer: NDArray[np.uint8]) -> None:
        nonlocal end, offsets, times
        batches = whole_batches(buffer, computed=True)
        if not len(batches):
            return
        placed = follower.place(batches)
        upload.write(buffer)
        offsets += placed.offset_index
        times += placed.time_index
        end = int(batches.last_offset[-1])

    try:
        for each in buffers:
            write(each)
        if end < old.end_offset:  # the last batch was of v0 or v1, which have no empty batches
            write(encode_empty_batch(old.end_offset, max((epoch for epoch, _ in old.epochs), default=-1)))
        state = follower.state
        times += follower.finish()
        known: dict[IndexName, bytes] = {**indexes, "offset": bytes(offsets), "timestamp": bytes(times)}
        timestamp = state.max_timestamp if state.max_timestamp > layouts.NO_TIMESTAMP else old.max_timestamp
        return upload.finish(SegmentEnd(old.end_offset, timestamp, old.epochs, known))
    finally:
        upload.abandon()
