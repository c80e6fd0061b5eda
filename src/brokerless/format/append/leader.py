"""The leader's append path: validates produced batches and assigns offsets, before they are written to the log.

Checksums, sizes and base offsets are checked first, as ``UnifiedLog.analyzeAndValidateRecords`` does (4.1.1), then
:func:`brokerless.format.append.validator.validate` does the rest, and sizes that it may have changed are checked
again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT32, check_arguments
from brokerless.errors import UsageError
from brokerless.format import layouts
from brokerless.format.append.produce_request import find_batches
from brokerless.format.append.types import AppendConfig, AppendResult, Origin, Refusal
from brokerless.format.append.validator import validate
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.format.read.batch_headers import Batches, checksums_match

__all__ = ["AppendConfig", "AppendResult", "Refusal", "append"]

_BASE_OFFSET, _NO_HEADER, _TOO_LARGE, _CORRUPT, _UNKNOWN_CODEC = 1, 2, 3, 4, 5


@check_arguments
def append(
    buffer: NDArray[np.uint8],
    config: AppendConfig,
    first_offset: int,
    partition_leader_epoch: int,
    now_ms: int,
    origin: Origin = "client",
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> AppendResult | Refusal:
    """Return what a broker writes of produced batches, or why it refuses them.

    Parameters
    ----------
    buffer
        uint8: one v2 batch, one wrapper message, or any number of messages. It is not changed. A batch that is cut off
        at its end is dropped.
    config
        The topic's settings.
    first_offset
        Where the broker's log ends: the offset of the first record.
    partition_leader_epoch
        The epoch for the batches' headers.
    now_ms
        The broker's time, in ms since the epoch.
    origin
        Who appends.
    max_batch_bytes
        Bytes that a batch may inflate to (in several times as much memory); a larger one is refused with
        ``RecordTooLargeException``.

    Returns
    -------
    AppendResult or Refusal
        The batches as they are written, or the exception that Kafka throws.

    Raises
    ------
    UsageError
        For 2 GiB or more, and for a level that the topic's codec does not have.
    """
    if len(buffer) > MAX_INT32:
        raise UsageError(f"{len(buffer)} bytes at once: a produce request must be smaller than 2 GiB")
    batches, broken = find_batches(buffer)
    wrong = check_checksums(buffer, batches, config, origin)
    if wrong.any():
        return _refusal(batches, int(np.argmax(wrong != 0)), wrong, config)
    if broken is not None:
        return broken
    if not len(batches):
        return AppendResult(
            np.empty(0, np.uint8),
            first_offset,
            first_offset,
            max_timestamp=layouts.NO_TIMESTAMP,
            in_place=True,
            records_converted=0,
        )
    appended = validate(
        buffer,
        config,
        first_offset,
        partition_leader_epoch=partition_leader_epoch,
        now_ms=now_ms,
        origin=origin,
        max_batch_bytes=max_batch_bytes,
    )
    if isinstance(appended, AppendResult) and not appended.in_place:
        written, _ = find_batches(appended.buffer)
        wrong = np.where(written.sizes > config.max_message_bytes, _TOO_LARGE, np.int8(0))
        if wrong.any():
            return _refusal(written, int(np.argmax(wrong != 0)), wrong, config)
    return appended


def check_checksums(
    buffer: NDArray[np.uint8], batches: Batches, config: AppendConfig, origin: Origin
) -> NDArray[np.int8]:
    """Return 0 for each batch, or the first check that it fails."""
    is_v2 = ~batches.is_legacy
    wrong = np.zeros(len(batches), np.int8)
    wrong[batches.codec >= len(layouts.CODECS)] = _UNKNOWN_CODEC
    wrong[~checksums_match(buffer, batches)] = _CORRUPT
    wrong[batches.sizes > config.max_message_bytes] = _TOO_LARGE
    wrong[is_v2 & (batches.sizes < layouts.position_of(layouts.BATCH_V2, "base_timestamp"))] = _NO_HEADER
    if origin == "client":
        wrong[is_v2 & (batches.entry_offset != 0)] = _BASE_OFFSET
    return wrong


def _refusal(batches: Batches, row: int, wrong: NDArray[np.int8], config: AppendConfig) -> Refusal:
    size, offset, codec = int(batches.sizes[row]), int(batches.entry_offset[row]), int(batches.codec[row])
    error, message = {
        _BASE_OFFSET: ("InvalidRecordException", f"a producer's batch begins at offset 0, not at {offset}"),
        _NO_HEADER: ("IndexOutOfBoundsException", f"a batch of {size} bytes cannot hold its header"),
        _TOO_LARGE: (
            "RecordTooLargeException",
            f"a batch of {size} bytes, where max.message.bytes is {config.max_message_bytes}",
        ),
        _CORRUPT: ("CorruptRecordException", "the checksum does not match"),
        _UNKNOWN_CODEC: ("IllegalArgumentException", f"unknown compression type id {codec}"),
    }[int(wrong[row])]
    return Refusal(error, message, int(batches.positions[row]))
