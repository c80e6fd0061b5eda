"""Whether batches can be appended to a log as they are, with the offsets that they have.

What a follower asks of the batches that its leader sends (``UnifiedLog.analyzeAndValidateRecords`` and
``appendAsFollower``, 4.1.1), as if each came by itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import RefusedError
from brokerless.format import layouts
from brokerless.format.batches import Batches, checksums_match, read_headers, walk
from brokerless.log.config import LogConfig
from brokerless.log.producers import ProducerState


def checked(
    buffer: NDArray[np.uint8],
    log_end_offset: int,
    config: LogConfig,
    producers: ProducerState,
    *,
    computed: bool = False,
) -> Batches:
    """The headers of all batches in a buffer, which are to be appended at ``log_end_offset`` as they are. ``computed``:
    their checksums were computed or checked just now.

    Raises :class:`RefusedError` for the first of the reasons that there is: a batch that is not whole, of an unknown
    format, or whose checksum is wrong; offsets that do not grow; a batch larger than a segment may be; one that does
    not fit what its producer wrote before.
    """
    walked = walk(buffer)
    batches = read_headers(buffer, walked.positions)
    if walked.stopped_at != len(buffer):
        left = len(buffer) - walked.stopped_at
        raise RefusedError("CorruptRecordException", f"{left} bytes at {walked.stopped_at} are no whole batch")
    is_legacy, first, last = batches.is_legacy, batches.entry_offset, batches.last_offset
    following = np.append(log_end_offset, last[:-1] + 1)
    for wrong, reason, text in (
        ((batches.magic < 0) | (batches.magic > layouts.MAGIC_V2), "CorruptRecordException", "an unknown format"),
        (_has_wrong_checksum(buffer, batches, computed), "CorruptRecordException", "a wrong checksum"),
        (first < following, "OffsetsOutOfOrderException", "an offset that was there already"),
        (~is_legacy & (last < first), "OffsetsOutOfOrderException", "a last offset before its first"),
        (batches.sizes > config.segment_bytes, "RecordBatchTooLargeException", "more bytes than a segment"),
    ):
        if wrong.any():
            row = int(np.argmax(wrong))
            if reason == "OffsetsOutOfOrderException" and row == 0 and first[0] < log_end_offset:
                reason = "UnexpectedAppendOffsetException"
            raise RefusedError(reason, f"batch {row}, offset {first[row]}: {text}")
    has_producers = (batches.producer_id > layouts.NO_PRODUCER_ID).any()
    refused = producers.refusal(batches, buffer) if has_producers else None
    if refused is not None:
        raise RefusedError(refused.exception, f"batch {refused.row}, offset {refused.offset}: {refused.message}")
    return batches


def _has_wrong_checksum(buffer: NDArray[np.uint8], batches: Batches, computed: bool) -> NDArray[np.bool_]:
    return np.zeros(len(batches), np.bool_) if computed else ~checksums_match(buffer, batches)
