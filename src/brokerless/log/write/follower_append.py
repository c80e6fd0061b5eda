"""Checks batches that are appended unchanged, with their own offsets, as a follower does.

What a follower requires of the batches that its leader sends (``UnifiedLog.analyzeAndValidateRecords`` and
``appendAsFollower``, 4.1.1), as if each came by itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import RefusedError
from brokerless.format import layouts
from brokerless.format.read.batch_headers import Batches, checksums_match, read_headers
from brokerless.format.read.batch_scan import scan_batches
from brokerless.log.config import LogConfig
from brokerless.log.producer.state import ProducerState


def whole_batches(buffer: NDArray[np.uint8], *, computed: bool = False) -> Batches:
    """Return the headers of all batches in a buffer. ``computed``: their checksums were computed just now.

    Raises :class:`RefusedError` for a batch that is not whole, is of an unknown format, or whose checksum is wrong.
    """
    walked = scan_batches(buffer)
    batches = read_headers(buffer, walked.positions)
    if walked.stopped_at != len(buffer):
        left = len(buffer) - walked.stopped_at
        raise RefusedError("CorruptRecordException", f"{left} bytes at {walked.stopped_at} are not a complete batch")
    is_unknown = (batches.magic < 0) | (batches.magic > layouts.MAGIC_V2)
    if is_unknown.any():
        raise _refused(batches, is_unknown, "CorruptRecordException", "an unknown format")
    if not computed and not (matches := checksums_match(buffer, batches)).all():
        raise _refused(batches, ~matches, "CorruptRecordException", "a wrong checksum")
    return batches


def check_next(batches: Batches, buffer: NDArray[np.uint8], log_end_offset: int, producers: ProducerState) -> None:
    """Check that the batches of a buffer can be appended at ``log_end_offset`` unchanged.

    Raises :class:`RefusedError` for the first of the reasons that there is: offsets that do not grow; a batch that does
    not fit what its producer wrote before.
    """
    first, last = batches.entry_offset, batches.last_offset
    following = np.append(log_end_offset, last[:-1] + 1)
    for wrong, reason, text in (
        (first < following, "OffsetsOutOfOrderException", "an offset that was there already"),
        (~batches.is_legacy & (last < first), "OffsetsOutOfOrderException", "a last offset before its first"),
    ):
        if wrong.any():
            if reason == "OffsetsOutOfOrderException" and wrong[0] and first[0] < log_end_offset:
                reason = "UnexpectedAppendOffsetException"
            raise _refused(batches, wrong, reason, text)
    has_producers = (batches.producer_id > layouts.NO_PRODUCER_ID).any()
    refused = producers.refusal(batches, buffer) if has_producers else None
    if refused is not None:
        raise RefusedError(refused.exception, f"batch {refused.row}, offset {refused.offset}: {refused.message}")


def check_sizes(batches: Batches, config: LogConfig) -> None:
    """Raises :class:`RefusedError` for a new batch that is larger than a segment may be."""
    wrong = batches.sizes > config.segment_bytes
    if wrong.any():
        text = f"more bytes than a segment, which has {config.segment_bytes} at most (segment.bytes)"
        raise _refused(batches, wrong, "RecordBatchTooLargeException", text)


def _refused(batches: Batches, wrong: NDArray[np.bool_], reason: str, text: str) -> RefusedError:
    row = int(np.argmax(wrong))
    return RefusedError(reason, f"batch {row}, offset {batches.entry_offset[row]}: {text}")
