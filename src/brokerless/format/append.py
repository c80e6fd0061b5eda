"""The append path: what a broker does to one partition's part of a produce request before it is written to the log.

Checksums, sizes and base offsets are looked at first, as ``UnifiedLog.analyzeAndValidateRecords`` does (4.1.1), then
:func:`brokerless.format.validate.validate` does the rest, and sizes that it may have changed are looked at again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.format import layouts
from brokerless.format.appending import AppendConfig, Appended, Origin, Refusal
from brokerless.format.batches import Batches, checksums_match
from brokerless.format.compression import DEFAULT_LIMIT
from brokerless.format.produced import find_batches
from brokerless.format.validate import validate

__all__ = ["AppendConfig", "Appended", "Refusal", "append"]


def append(
    buffer: NDArray[np.uint8],
    config: AppendConfig,
    first_offset: int,
    partition_leader_epoch: int,
    now_ms: int,
    origin: Origin = "client",
    limit: int = DEFAULT_LIMIT,
) -> Appended | Refusal:
    """What a broker whose log ends at ``first_offset`` would write of produced batches, or why it would refuse them.

    ``buffer`` (uint8): one v2 batch, one wrapper message, or any number of messages; it is not changed. A cut-off batch
    at its end is dropped. ``now_ms``: the broker's time, in ms. ``limit``: bytes that a batch may inflate to; past it,
    it is refused with ``RecordTooLargeException``.
    """
    batches, broken = find_batches(buffer)
    refusal = _analyze(buffer, batches, config, origin) or broken
    if refusal is not None:
        return refusal
    if not len(batches):
        return Appended(np.empty(0, np.uint8), first_offset, first_offset, layouts.NO_TIMESTAMP, True, 0)
    appended = validate(buffer, config, first_offset, partition_leader_epoch, now_ms, origin, limit)
    if isinstance(appended, Appended) and not appended.in_place:
        written, _ = find_batches(appended.buffer)
        return _first_too_large(written, config) or appended
    return appended


def _analyze(buffer: NDArray[np.uint8], batches: Batches, config: AppendConfig, origin: Origin) -> Refusal | None:
    """The refusal of the first batch that is wrong."""
    is_v2 = ~batches.is_legacy
    based = is_v2 & (batches.entry_offset != 0) & (origin == "client")
    headless = is_v2 & (batches.sizes < layouts.position_of(layouts.BATCH_V2, "base_timestamp"))
    too_large = batches.sizes > config.max_message_bytes
    corrupt = ~checksums_match(buffer, batches)
    unknown = batches.codec >= len(layouts.CODECS)
    rows = np.flatnonzero(based | headless | too_large | corrupt | unknown)
    if not len(rows):
        return None
    row = int(rows[0])
    position = int(batches.positions[row])
    if based[row]:
        offset = int(batches.entry_offset[row])
        return Refusal("InvalidRecordException", f"a producer's batch begins at offset 0, not at {offset}", position)
    if headless[row]:
        message = f"a batch of {int(batches.sizes[row])} bytes cannot hold its header"
        return Refusal("IndexOutOfBoundsException", message, position)
    if too_large[row]:
        return _first_too_large(batches.take(slice(row, row + 1)), config)
    if corrupt[row]:
        return Refusal("CorruptRecordException", "the checksum does not match", position)
    codec = int(batches.codec[row])
    return Refusal("IllegalArgumentException", f"unknown compression type id {codec}", position)


def _first_too_large(batches: Batches, config: AppendConfig) -> Refusal | None:
    rows = np.flatnonzero(batches.sizes > config.max_message_bytes)
    if not len(rows):
        return None
    size, position = int(batches.sizes[rows[0]]), int(batches.positions[rows[0]])
    message = f"a batch of {size} bytes, where max.message.bytes is {config.max_message_bytes}"
    return Refusal("RecordTooLargeException", message, position)
