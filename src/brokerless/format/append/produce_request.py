"""Parses a produce request as a broker does, with the exceptions that Kafka throws.

The rules are those of Kafka's in-memory reader: an invalid size or magic is refused, a cut-off last batch is dropped.
Of compressed batches that are not rewritten, keys and values are skipped. Sources:
``ByteBufferLogInputStream``, ``DefaultRecordBatch``, ``AbstractLegacyRecordBatch``, ``LegacyRecord`` (3.9.1, 4.1.1).
"""

# Kernels take all columns as positional arguments, which the checker cannot count.
# pyright: reportCallIssue=false

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT32
from brokerless.format import columns as reasons
from brokerless.format import layouts
from brokerless.format.append.types import Refusal, refuse
from brokerless.format.arrays import Int64s
from brokerless.format.codecs.decompression import Inflater
from brokerless.format.codecs.decompression_buffer import CodecError, LimitError
from brokerless.format.columns import RecordColumns, allocate, allocate_array
from brokerless.format.read.batch_headers import Batches, read_headers
from brokerless.format.read.batch_scan import ScanStop, scan_batches
from brokerless.format.read.decoder import MOST_HEADERS
from brokerless.format.read.message_kernels import decode_messages
from brokerless.format.read.partial_record_kernels import ENDED, read_partial_records
from brokerless.format.read.record_kernels import decode_batches
from brokerless.format.read.wrappers import find_wrapper_values
from brokerless.format.varint import MAX_VARINT_SIZE

_MOST_INFLATED = 1 << 30
"""Bytes of one batch; what is in columns counts in 32 bits."""


CUT, TOO_LONG = 1, 2
FIELD_ERRORS = ("", "IndexOutOfBoundsException", "IllegalArgumentException")
"""What Java throws for a key or value past its message's end: its length is not there (``CUT``), or is too large."""


@dataclass(frozen=True, slots=True)
class RecordFields:
    """The fields of records that are checked: arrays of shape ``(n,)``, timestamps in ms."""

    offset: Int64s
    timestamp: Int64s
    key_null: NDArray[np.bool_]
    contents: RecordColumns | None = None
    """The records themselves, where they were read to be rewritten, with the same timestamps."""


def find_batches(buffer: NDArray[np.uint8]) -> tuple[Batches, Refusal | None]:
    """Return the batches of a produce request, and what Kafka throws where the next one should be, if anything."""
    found = scan_batches(buffer)
    batches = read_headers(buffer, found.positions)
    wrong = np.flatnonzero((batches.magic < 0) | (batches.magic > layouts.MAGIC_V2))
    at = found.stopped_at
    if len(wrong):
        at = int(batches.positions[wrong[0]])
        batches = batches.take(slice(0, int(wrong[0])))
    left = len(buffer) - at
    size = int.from_bytes(buffer[at + 8 : at + 12].tobytes(), "big", signed=True)
    if found.stop == ScanStop.SIZE_TOO_SMALL or (left >= layouts.LOG_ENTRY_SIZE and size < layouts.MESSAGE_V0_OVERHEAD):
        message = f"a batch's size is {size}, below {layouts.MESSAGE_V0_OVERHEAD}"
        return batches, Refusal("CorruptRecordException", message, at)
    if left >= layouts.HEADER_SIZE_UP_TO_MAGIC:
        magic = int(buffer[at + layouts.MAGIC_POSITION].astype(np.int8))
        if not layouts.MAGIC_V0 <= magic <= layouts.MAGIC_V2:
            return batches, Refusal("CorruptRecordException", f"a batch of magic {magic}", at)
        if size > MAX_INT32 - layouts.LOG_ENTRY_SIZE:
            return batches, Refusal("IllegalArgumentException", f"a batch's size is {size}", at)
    return batches, None


def check_header(batch: Batches) -> None:
    """Refuses a v2 batch that is too small for its own header."""
    if batch.too_small[0]:
        message = f"a batch of {int(batch.sizes[0])} bytes cannot hold its header"
        refuse("IndexOutOfBoundsException", message, int(batch.positions[0]))


def read_records(buffer: NDArray[np.uint8], batch: Batches, contents: bool, max_batch_bytes: int) -> RecordFields:
    """Return the records of one v2 batch, read to the last byte as Kafka does where it may rewrite them."""
    check_header(batch)
    codec, at = int(batch.codec[0]), int(batch.positions[0])
    source, starts, ends, error = _payload(buffer, batch, max_batch_bytes)
    if int(batch.count[0]) < 0:
        refuse("InvalidRecordException", f"a count of {int(batch.count[0])} records", at)
    incomplete = np.full(1, error is not None, np.uint8)
    read = decode_all(source, starts, ends, batches=batch, incomplete=incomplete, contents=contents)
    code, left = int(read.status[0]), int(ends[0] - read.stopped_at[0])
    if code:
        message = reasons.REASONS[code][1]
        # Where the bytes end too soon because their decompression failed, that is what Kafka throws.
        ended = code == reasons.LENGTH_PAST_END or (code == reasons.LENGTH_INVALID and left < MAX_VARINT_SIZE)
        if error is not None and (ended or (code == reasons.BYTES_LEFT and left == 0)):
            refuse("KafkaException", f"the payload does not decompress: {error}", at)
        if not codec and code == reasons.LENGTH_INVALID and left >= MAX_VARINT_SIZE:
            refuse("IllegalArgumentException", message, at)
        refuse("InvalidRecordException", message, at)
    return read.records


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """The records of ``n`` batches: batch ``i`` gave the rows ``row_ends[i]`` to ``row_ends[i + 1]``, and stopped at
    ``stopped_at[i]`` (int64) for a reason ``status[i]`` (int8) of :mod:`columns`, or 0 if it is whole."""

    records: RecordFields
    row_ends: Int64s
    status: NDArray[np.int8]
    stopped_at: Int64s


def decode_all(
    source: NDArray[np.uint8],
    starts: Int64s,
    ends: Int64s,
    batches: Batches,
    incomplete: NDArray[np.uint8],
    contents: bool,
) -> ReadRecords:
    """Reads the records at ``source[starts[i]:ends[i]]`` of v2 batches. ``incomplete``: those whose payload does not
    inflate."""
    sizes = ends - starts
    rows = int(np.minimum(np.maximum(batches.count, 0), sizes // layouts.RECORD_OVERHEAD_V2 + 1).sum())
    data, headers, selected = int(sizes.sum()) * contents, contents << 10, np.full(3, contents, np.uint8)
    given, status = np.zeros(len(batches), np.int32), np.zeros(len(batches), np.int8)
    stopped_at = np.zeros(len(batches), np.int64)
    while True:
        columns, resume = allocate(rows, data, headers), np.zeros(4, np.int64)
        after = decode_batches(
            source, 0, starts, ends, batches.count, batches.entry_offset, _base_timestamps(batches),
            batches.timestamp_type, batches.base_sequence, incomplete, selected, *columns.arrays(),
            given, status, stopped_at, resume,
        )  # fmt: skip
        if after == len(batches):
            break
        if int(resume[3]) > MOST_HEADERS:
            refuse("RecordTooLargeException", f"a record with {int(resume[3])} headers", int(batches.positions[after]))
        headers = 4 * max(headers, int(resume[3]))
    rows = columns.rows
    key_null = columns.key_null[:rows].view(np.bool_)
    records = RecordFields(columns.offset[:rows], columns.timestamp[:rows], key_null, columns if contents else None)
    return ReadRecords(records, np.cumsum([0, *given.tolist()]), status, stopped_at)


def read_partial(buffer: NDArray[np.uint8], batch: Batches, max_batch_bytes: int) -> RecordFields:
    """Return the records of one compressed v2 batch whose payload will not change: without contents."""
    count, at = int(batch.count[0]), int(batch.positions[0])
    if count == 0:
        return RecordFields(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_))
    source, starts, ends, error = _payload(buffer, batch, max_batch_bytes)
    if count < 0:
        refuse("InvalidRecordException", f"a count of {count} records", at)
    read = read_all_partial(source, starts, ends, batch)
    if error is not None and read.status[0] in (0, ENDED):
        refuse("KafkaException", f"the payload does not decompress: {error}", at)
    if read.status[0]:
        refuse("InvalidRecordException", "the records are malformed, or not as many as the header declares", at)
    return read.records


def read_all_partial(source: NDArray[np.uint8], starts: Int64s, ends: Int64s, batches: Batches) -> ReadRecords:
    """Skips through the records at ``source[starts[i]:ends[i]]`` of v2 batches, with statuses of
    :mod:`brokerless.format.read.partial_record_kernels`."""
    rows = int(np.minimum(np.maximum(batches.count, 0), (ends - starts) // layouts.RECORD_OVERHEAD_V2).sum())
    offset, timestamp, key_null = (
        allocate_array(rows, np.int64),
        allocate_array(rows, np.int64),
        allocate_array(rows, np.uint8),
    )
    row_ends, status = np.zeros(len(batches) + 1, np.int64), np.zeros(len(batches), np.int8)
    read_partial_records(
        source, starts, ends, batches.count, batches.entry_offset, _base_timestamps(batches), batches.timestamp_type,
        offset, timestamp, key_null, row_ends, status,
    )  # fmt: skip
    rows = int(row_ends[-1])
    records = RecordFields(offset[:rows], timestamp[:rows], key_null[:rows].view(np.bool_))
    return ReadRecords(records, row_ends, status, np.empty(0, np.int64))


def _base_timestamps(batches: Batches) -> Int64s:
    is_append_time = batches.timestamp_type == layouts.LOG_APPEND_TIME
    return np.where(is_append_time, batches.max_timestamp, batches.base_timestamp)


def _payload(
    buffer: NDArray[np.uint8], batch: Batches, max_batch_bytes: int
) -> tuple[NDArray[np.uint8], Int64s, Int64s, CodecError | None]:
    """Return where the records of a v2 batch are, inflated if need be; and what stopped that early."""
    starts, ends, codec = batch.positions + layouts.BATCH_V2_SIZE, batch.ends, int(batch.codec[0])
    if codec == 0:
        return buffer, starts, ends, None
    at = int(batch.positions[0])
    if codec > layouts.ZSTD:
        refuse("IllegalArgumentException", f"unknown compression type id {codec}", at)
    payload = buffer[starts[0] : ends[0]].data
    if int(batch.count[0]) <= 0:
        error = Inflater(max_batch_bytes).check_header(codec, layouts.MAGIC_V2, payload)
        if error is not None:
            refuse("KafkaException", f"the payload does not decompress: {error}", at)
        return buffer, starts, starts, None
    return _inflate(codec, layouts.MAGIC_V2, payload, max_batch_bytes=max_batch_bytes, position=at)


def _inflate(
    codec: int, magic: int, payload: memoryview, max_batch_bytes: int, position: int
) -> tuple[NDArray[np.uint8], Int64s, Int64s, CodecError | None]:
    inflater = Inflater(min(max_batch_bytes, _MOST_INFLATED))
    start, end, error = inflater.inflate(codec, magic, payload)
    if isinstance(error, LimitError):
        refuse("RecordTooLargeException", str(error), position)
    return inflater.buffer, np.array([start]), np.array([end]), error


@dataclass(frozen=True, slots=True)
class InnerMessages:
    """The inner messages of a wrapper."""

    buffer: NDArray[np.uint8]
    messages: Batches
    """The headers of the messages, at positions in ``buffer``."""
    records: RecordFields
    """The absolute offsets of the messages, and their timestamps as consumers see them."""


def unwrap(buffer: NDArray[np.uint8], wrapper: Batches, max_batch_bytes: int) -> InnerMessages:
    """Return the inner messages of one v0 or v1 wrapper message, found as ``DeepRecordsIterator`` does."""
    at, magic, codec = int(wrapper.positions[0]), int(wrapper.magic[0]), int(wrapper.codec[0])
    if codec > layouts.ZSTD:
        refuse("IllegalArgumentException", f"unknown compression type id {codec}", at)
    if codec == layouts.ZSTD:
        refuse("InvalidRecordException", f"a wrapper message of v{magic} compressed with zstd", at)
    field = int(field_errors(buffer, wrapper, keys=False)[0])
    if field:
        refuse(FIELD_ERRORS[field], "a wrapper message's value reaches past its end", at)
    wrong, starts, ends = find_wrapper_values(buffer, wrapper)
    if wrong:
        refuse("InvalidRecordException", reasons.REASONS[wrong[0]][1], at)
    payload = buffer[starts[0] : ends[0]].data
    inflated, starts, ends, error = _inflate(codec, magic, payload, max_batch_bytes=max_batch_bytes, position=at)
    inner = inflated[starts[0] : ends[0]]
    found = scan_batches(inner)
    left = inner[found.stopped_at :]
    size = int.from_bytes(left[8:12].tobytes(), "big", signed=True)
    if len(left) >= layouts.LOG_ENTRY_SIZE and size < layouts.MESSAGE_V0_OVERHEAD:
        refuse("CorruptRecordException", reasons.REASONS[reasons.MESSAGE_TOO_SMALL][1], at)
    if len(left) >= layouts.LOG_ENTRY_SIZE and size >= _MOST_INFLATED:
        # Kafka allocates a message before it reads it, and finds out only then that it is cut off.
        refuse("OutOfMemoryError", reasons.REASONS[reasons.MESSAGE_TOO_LARGE][1], at)
    if error is not None:
        refuse("KafkaException", f"the wrapper's value does not decompress: {error}", at)
    if not len(found.positions):
        refuse("InvalidRecordException", reasons.REASONS[reasons.NO_MESSAGES][1], at)
    messages = read_headers(inner, found.positions)
    offset, outer = messages.entry_offset.copy(), int(wrapper.entry_offset[0])
    if magic == layouts.MAGIC_V1 and outer != 0:
        if outer < offset[-1]:
            refuse("InvalidRecordException", reasons.REASONS[reasons.WRAPPER_OFFSET][1], at)
        with np.errstate(over="ignore"):
            offset += np.int64(outer) - offset[-1]
    timestamp = messages.max_timestamp
    if int(wrapper.timestamp_type[0]) == layouts.LOG_APPEND_TIME:
        timestamp = np.where(messages.magic == layouts.MAGIC_V1, wrapper.max_timestamp[0], timestamp)
    return InnerMessages(inner, messages, RecordFields(offset, timestamp, _key_lengths(messages) < 0))


def message_fields(messages: Batches) -> RecordFields:
    """Return the checked fields of uncompressed v0 and v1 messages, from their headers."""
    return RecordFields(messages.entry_offset, messages.max_timestamp, _key_lengths(messages) < 0)


def _key_lengths(messages: Batches) -> NDArray[np.int32]:
    """Return the lengths of keys as stored, below 0 for null; meaningless where :func:`lacks_key_length`."""
    in_v0 = _int32s(messages, layouts.MESSAGE_V0_HEADER_SIZE - 4)
    return np.where(messages.magic == layouts.MAGIC_V0, in_v0, _int32s(messages, layouts.MESSAGE_V1_HEADER_SIZE - 4))


def _int32s(messages: Batches, at: int) -> NDArray[np.int32]:
    return np.ascontiguousarray(messages.raw[:, at : at + 4]).view(">i4").reshape(-1).astype(np.int32)


def lacks_key_length(messages: Batches) -> NDArray[np.bool_]:
    """Return which v0 and v1 messages end before their key's length. v0's smallest one has it."""
    return (messages.magic != layouts.MAGIC_V0) & (messages.sizes < layouts.MESSAGE_V1_HEADER_SIZE)


def field_errors(buffer: NDArray[np.uint8], messages: Batches, keys: bool = True) -> NDArray[np.int8]:
    """Return for each message 0, or an index of :data:`FIELD_ERRORS` if its value, or with ``keys`` its key, reaches
    past its end."""
    is_v0 = messages.magic == layouts.MAGIC_V0
    key = messages.positions + np.where(is_v0, layouts.MESSAGE_V0_HEADER_SIZE, layouts.MESSAGE_V1_HEADER_SIZE)
    length = _key_lengths(messages).astype(np.int64)
    value = key + np.maximum(length, 0) + 4
    has_value = value <= messages.ends
    at = np.where(has_value, value - 4, 0)[:, np.newaxis] + np.arange(4)
    value_length = buffer[at].view(">i4").reshape(-1)
    found = np.where(has_value & (value_length > messages.ends - value), np.int8(TOO_LONG), np.int8(0))
    found[~has_value] = CUT
    if keys:
        found[length > messages.ends - key] = TOO_LONG
    found[lacks_key_length(messages)] = CUT
    return found


def read_messages(buffer: NDArray[np.uint8], messages: Batches, records: RecordFields) -> RecordColumns:
    """Return the contents of v0 and v1 messages, with the offsets and timestamps of ``records``."""
    count = len(messages)
    errors = field_errors(buffer, messages)
    if errors.any():
        row = int(np.argmax(errors != 0))
        refuse(FIELD_ERRORS[int(errors[row])], f"message {row}: a key or value reaches past its end")
    columns = allocate(count, int(messages.sizes.sum()), 0)
    decode_messages(
        buffer, 0, messages.positions, messages.ends, records.offset, np.ones(3, np.uint8), *columns.arrays(),
        np.zeros(count, np.int32), np.zeros(count, np.int8),
    )  # fmt: skip
    columns.timestamp[:count] = records.timestamp
    return columns
