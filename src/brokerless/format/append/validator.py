"""Validates produced batches as Kafka's ``LogValidator`` does, and decides which are written again.

Where a batch has the topic's format and codec, only its header changes; otherwise its records are rewritten. The rules,
and the order of exceptions, are those of 4.1.1, and of 3.9.1 for topics of v0 and v1, which 4.x does not have.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokerless.format import layouts
from brokerless.format.append.offsets_and_timestamps import (
    assign_batch,
    assign_messages,
    assign_wrapper,
    check_writable,
    rewrite_records,
)
from brokerless.format.append.produce_request import (
    CUT,
    FIELD_ERRORS,
    RecordFields,
    check_header,
    field_errors,
    find_batches,
    lacks_key_length,
    message_fields,
    read_messages,
    read_partial,
    read_records,
    unwrap,
)
from brokerless.format.append.types import (
    AppendConfig,
    AppendContext,
    AppendResult,
    BatchRefusedError,
    Origin,
    Refusal,
    refuse,
)
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.format.columns import RecordColumns
from brokerless.format.crc.kernels import crc32_ranges
from brokerless.format.read.batch_headers import Batches

_MAGIC, _KEY, _TIMESTAMP, _TYPE = 1, 2, 3, 4
_RECORD_ERRORS = {
    _MAGIC: "its magic is not its wrapper's",
    _KEY: "a compacted topic takes no record without a key",
    _TIMESTAMP: "its timestamp is out of the range that the topic allows",
    _TYPE: "a producer must not set the timestamp type LogAppendTime",
}


def validate(
    buffer: NDArray[np.uint8],
    config: AppendConfig,
    first_offset: int,
    partition_leader_epoch: int,
    now_ms: int,
    origin: Origin = "client",
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> AppendResult | Refusal:
    """Return what ``LogValidator`` makes of one partition's part of a produce request, whose checksums the caller has
    checked: one v2 batch, one wrapper message, or any number of messages. ``buffer`` (uint8) is not changed.

    ``max_batch_bytes``: bytes that a batch may inflate to; past it, it is refused with ``RecordTooLargeException``.
    """
    context = AppendContext(
        config, first_offset, partition_leader_epoch, now_ms=now_ms, origin=origin, max_batch_bytes=max_batch_bytes
    )
    try:
        batches, broken = find_batches(buffer)
        compressed = batches.codec[batches.codec != 0]
        source = int(compressed[-1]) if len(compressed) else 0
        if source >= len(layouts.CODECS):
            refuse("IllegalArgumentException", f"unknown compression type id {source}")
        target = source if config.codec == "producer" else layouts.CODECS.index(config.codec)
        if source == 0 and target == 0:
            if (batches.magic == config.to_magic).all():
                return _assign_plain(buffer, batches, broken, context)
            return _convert_plain(buffer, batches, broken, context)
        return _compressed(buffer, batches, broken, source=source, target=target, context=context)
    except BatchRefusedError as error:
        return error.refusal


def _assign_plain(
    buffer: NDArray[np.uint8], batches: Batches, broken: Refusal | None, context: AppendContext
) -> AppendResult:
    """Nothing is compressed, nor will it be, and the format is the topic's."""
    if broken is not None:
        raise BatchRefusedError(broken)
    if not _is_v2(batches, broken, 0):
        _check_messages(buffer, batches, broken, context)
        return assign_messages(buffer, batches, context)
    _check_batch(batches, context)
    records = read_records(buffer, batches, False, context.max_batch_bytes)
    _refuse_wrong(record_errors(records, batches.timestamp_type, context), batches)
    return assign_batch(buffer, batches, records.timestamp, context)


def _convert_plain(
    buffer: NDArray[np.uint8], batches: Batches, broken: Refusal | None, context: AppendContext
) -> AppendResult:
    """Nothing is compressed, nor will it be, but the format is another one."""
    # Kafka first estimates the size, and so reads everything before it checks anything else.
    contents = [_contents(buffer, part, context) for part in _slices(batches)]
    if broken is not None:
        raise BatchRefusedError(broken)
    if not _is_v2(batches, broken, 0):
        _check_messages(buffer, batches, broken, context, is_written=True)
        return rewrite_records(contents[0], batches, 0, context)
    if context.to_magic < layouts.MAGIC_V2 and batches.is_transactional[0]:
        refuse("IllegalArgumentException", f"v{context.to_magic} has no transactions")
    _check_batch(batches, context)
    columns = contents[0]
    rows = columns.rows
    records = RecordFields(columns.offset[:rows], columns.timestamp[:rows], columns.key_null[:rows].view(np.bool_))
    wrong = record_errors(records, batches.timestamp_type, context)
    # Records are written while they are checked, up to the first one that is wrong.
    check_writable(columns, int(np.argmax(wrong != 0)) if wrong.any() else rows, context.to_magic)
    _refuse_wrong(wrong, batches)
    return rewrite_records(columns, batches, 0, context)


def _compressed(
    buffer: NDArray[np.uint8],
    batches: Batches,
    broken: Refusal | None,
    source: int,
    target: int,
    context: AppendContext,
) -> AppendResult:
    """Something is compressed, or will be."""
    if _is_v2(batches, broken, source):
        return _compressed_batch(buffer, batches, source, target=target, context=context)
    if source:
        return _wrapper(buffer, batches, target, context)
    _check_messages(buffer, batches, broken, context)
    return rewrite_records(read_messages(buffer, batches, message_fields(batches)), batches, target, context)


def _compressed_batch(
    buffer: NDArray[np.uint8], batch: Batches, source: int, target: int, context: AppendContext
) -> AppendResult:
    _check_batch(batch, context)
    is_kept = source == target and context.to_magic == layouts.MAGIC_V2
    records = (
        read_partial(buffer, batch, context.max_batch_bytes)
        if is_kept
        else read_records(buffer, batch, True, context.max_batch_bytes)
    )
    _refuse_wrong(record_errors(records, batch.timestamp_type, context), batch)
    is_kept = is_kept or (source == 0 and bool(batch.is_control[0]))  # markers are not compressed
    if is_kept and (context.to_magic == layouts.MAGIC_V0 or _counts_from_0(records)):
        return assign_batch(buffer, batch, records.timestamp, context)
    if records.contents is None:
        message = "a compressed batch whose offsets are not 0, 1, 2, ...: Kafka cannot rewrite it either"
        refuse("UnsupportedOperationException", message, int(batch.positions[0]))
    return rewrite_records(records.contents, batch, target, context)


def _wrapper(buffer: NDArray[np.uint8], wrapper: Batches, target: int, context: AppendContext) -> AppendResult:
    """One v0 or v1 wrapper message."""
    magic, at = int(wrapper.magic[0]), int(wrapper.positions[0])
    inner = unwrap(buffer, wrapper, context.max_batch_bytes)
    messages, records = inner.messages, inner.records
    is_foreign = messages.magic != magic
    codecs = messages.legacy["attributes"] & layouts.CODEC_MASK
    checksums = np.empty(len(messages), np.uint32)
    crc32_ranges(inner.buffer, messages.positions + layouts.MESSAGE_CRC_START, messages.ends, checksums)
    is_corrupt = ~is_foreign & (checksums != messages.legacy["crc"])
    wrong = record_errors(records, wrapper.timestamp_type, context, is_foreign)
    fields = _unreadable(inner.buffer, messages, wrong, context)
    stops = np.flatnonzero((codecs != 0) | is_corrupt | (fields != 0))
    if len(stops):
        row = int(stops[0])
        if int(codecs[row]) >= len(layouts.CODECS):
            refuse("IllegalArgumentException", f"message {row} in a wrapper has an unknown codec", at)
        if codecs[row]:
            refuse("InvalidRecordException", f"message {row} in a wrapper is compressed itself", at)
        if is_corrupt[row]:
            refuse("CorruptRecordException", f"message {row} in a wrapper has a wrong checksum", at)
        refuse(FIELD_ERRORS[int(fields[row])], f"message {row} in a wrapper: a field reaches past its end", at)
    _refuse_wrong(wrong, wrapper)
    is_kept = int(wrapper.codec[0]) == target and magic == context.to_magic == layouts.MAGIC_V1
    if is_kept and _counts_from_0(records):
        return assign_wrapper(buffer, wrapper, records.timestamp, context)
    return rewrite_records(read_messages(inner.buffer, messages, records), wrapper, target, context)


def _is_v2(batches: Batches, broken: Refusal | None, source: int) -> bool:
    """Return whether there is one v2 batch; if not, one wrapper message, or messages."""
    if not len(batches):
        raise BatchRefusedError(broken or Refusal("InvalidRecordException", "there is no batch"))
    is_v2 = int(batches.magic[0]) == layouts.MAGIC_V2
    if is_v2 or source:
        if len(batches) > 1:
            refuse("InvalidRecordException", "more than one batch at a time", int(batches.positions[1]))
        if broken is not None:
            raise BatchRefusedError(broken)
    return is_v2


def _slices(batches: Batches) -> list[Batches]:
    """The batches one by one, but messages that follow each other together."""
    borders = np.flatnonzero(~batches.is_legacy[1:] | ~batches.is_legacy[:-1]) + 1
    edges = [0, *borders.tolist(), len(batches)]
    return [batches.take(slice(start, end)) for start, end in pairwise(edges) if start < end]


def _contents(buffer: NDArray[np.uint8], part: Batches, context: AppendContext) -> RecordColumns:
    if not part.all_v2:
        return read_messages(buffer, part, message_fields(part))
    contents = read_records(buffer, part, True, context.max_batch_bytes).contents
    assert contents is not None
    return contents


def _counts_from_0(records: RecordFields) -> bool:
    return bool((records.offset == np.arange(len(records.offset))).all())


def _check_batch(batch: Batches, context: AppendContext) -> None:
    """``LogValidator.validateBatch``, of a v2 batch."""
    check_header(batch)
    header: Any = batch.v2[0]
    at, wrong = int(batch.positions[0]), None
    count, last_delta, sequence = int(header["count"]), int(header["last_offset_delta"]), int(header["base_sequence"])
    has_producer = int(header["producer_id"]) > layouts.NO_PRODUCER_ID
    if context.origin == "client":
        if last_delta < 0 or count <= 0 or count != last_delta + 1:
            wrong = f"a count of {count} records, and a last offset delta of {last_delta}"
        elif batch.is_control[0]:
            wrong = "clients may not write control records"
        elif has_producer and sequence < 0:
            wrong = f"the sequence number {sequence} with a producer id"
    if wrong:
        refuse("InvalidRecordException", wrong, at)
    if context.to_magic < layouts.MAGIC_V2 and (batch.is_transactional[0] or has_producer):
        message = f"v{context.to_magic} has neither transactions nor idempotent producers"
        refuse("UnsupportedForMessageFormatException", message, at)


def _check_messages(
    buffer: NDArray[np.uint8],
    batches: Batches,
    broken: Refusal | None,
    context: AppendContext,
    is_written: bool = False,
) -> None:
    """All checks of uncompressed messages, each of which is a batch by itself. ``is_written``: Kafka rewrites each
    right after its check."""
    others = np.flatnonzero(batches.magic != batches.magic[0])
    messages = batches.take(slice(0, int(others[0]) if len(others) else len(batches)))
    records = message_fields(messages)
    wrong = record_errors(records, messages.timestamp_type, context)
    is_negative = (records.timestamp < layouts.NO_TIMESTAMP) & is_written
    fields = _unreadable(buffer, messages, wrong, context)
    stops = np.flatnonzero((wrong != 0) | (fields != 0) | is_negative)
    if len(stops):
        row = int(stops[0])
        at = int(messages.positions[row])
        if fields[row]:
            refuse(FIELD_ERRORS[int(fields[row])], "a field reaches past its message's end", at)
        if wrong[row]:
            _refuse_wrong(wrong[row : row + 1], messages.take(slice(row, row + 1)))
        refuse("IllegalArgumentException", f"the timestamp {int(records.timestamp[row])}", at)
    if len(messages) < len(batches):
        row = len(messages)
        message = f"magic {int(batches.magic[row])} after {int(batches.magic[0])}"
        refuse("InvalidRecordException", message, int(batches.positions[row]))
    if broken is not None:
        raise BatchRefusedError(broken)


def record_errors(
    records: RecordFields,
    batch_type: NDArray[np.int8],
    context: AppendContext,
    is_foreign: NDArray[np.bool_] | None = None,
) -> NDArray[np.int8]:
    """``LogValidator.validateRecord``: for each record 0, or why it is refused. ``batch_type``: the timestamp type of
    the batch, or of each record's; ``is_foreign``: messages of another format than their wrapper's."""
    wrong = np.zeros(len(records.timestamp), np.int8)
    is_append_time = np.broadcast_to(batch_type == layouts.LOG_APPEND_TIME, wrong.shape)
    if context.is_append_time:
        wrong[is_append_time] = _TYPE
    else:
        with np.errstate(over="ignore"):
            age = np.int64(context.now_ms) - records.timestamp
            is_out = (age > context.config.timestamp_before_max_ms) | (-age > context.config.timestamp_after_max_ms)
        is_set = records.timestamp != layouts.NO_TIMESTAMP
        wrong[is_set & is_out] = _TIMESTAMP
        wrong[~is_set & is_append_time] = _TYPE
    if context.config.compacted:
        wrong[records.key_null] = _KEY
    if is_foreign is not None:
        wrong[is_foreign] = _MAGIC
    return wrong


def _unreadable(
    buffer: NDArray[np.uint8], messages: Batches, wrong: NDArray[np.int8], context: AppendContext
) -> NDArray[np.int8]:
    """Return an index of :data:`FIELD_ERRORS` for each message whose key or value reaches past its end, if Kafka reads
    that for its key or for the text of an exception; otherwise 0."""
    if not wrong.any() and not context.config.compacted:
        return np.zeros(len(messages), np.int8)
    found = np.where((wrong == _MAGIC) | (wrong == _TYPE), field_errors(buffer, messages), np.int8(0))
    if context.config.compacted:
        found[(wrong != _MAGIC) & lacks_key_length(messages)] = CUT
    return found


def _refuse_wrong(wrong: NDArray[np.int8], batch: Batches) -> None:
    """Refuses a batch if any of its records is wrong."""
    rows = np.flatnonzero(wrong)
    if not len(rows):
        return
    some = "; ".join(f"record {row}: {_RECORD_ERRORS[int(wrong[row])]}" for row in rows[:3].tolist())
    message = f"{len(rows)} of {len(wrong)} records are refused: {some}{'; ...' if len(rows) > 3 else ''}"
    by_time = bool((wrong >= _TIMESTAMP).any())
    cause = "InvalidTimestampException" if by_time else "InvalidRecordException"
    raise BatchRefusedError(
        Refusal("RecordValidationException", message, int(batch.positions[0]), cause=cause, record_errors=rows)
    )
