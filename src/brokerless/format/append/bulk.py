"""Validates many produced batches at once: each batch of a buffer is a request of its own.

The result is that of :func:`brokerless.format.append.leader.append` for each in turn. Well-formed v2 batches are
checked, and rewritten if necessary, many at a call of a kernel; all others one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from brokerless.format import layouts
from brokerless.format.append.leader import append, check_batches
from brokerless.format.append.offsets_and_timestamps import assign_batches, normalize_header_keys
from brokerless.format.append.produce_request import ReadRecords, decode_all, find_batches, read_all_partial
from brokerless.format.append.types import AppendConfig, AppendContext, BatchRefusedError, Origin, Refusal
from brokerless.format.append.validator import record_errors
from brokerless.format.codecs.decompression import DEFAULT_MAX_BATCH_BYTES, Inflater, find_payloads
from brokerless.format.read.batch_headers import Batches
from brokerless.format.read.batch_scan import scan_batches
from brokerless.format.write.encoder import Encoder

Int64s = NDArray[np.int64]

_GROUP = 1 << 21
"""Bytes of batches, or inflated bytes, that are taken together."""


@dataclass(frozen=True, slots=True)
class BulkAppendResult:
    """The result of ``n`` requests: an :class:`~brokerless.format.append.types.AppendResult` for all together.

    ``first_offsets`` (int64, shape ``(n,)``): where the records of each begin, -1 where nothing was written.
    ``refusals``: by the request's number, with its position in the buffer that was given.
    """

    buffer: NDArray[np.uint8]
    first_offset: int
    next_offset: int
    max_timestamp: int
    records_converted: int
    first_offsets: Int64s
    refusals: dict[int, Refusal]


def append_bulk(
    buffer: NDArray[np.uint8],
    config: AppendConfig,
    first_offset: int,
    partition_leader_epoch: int,
    now_ms: int,
    origin: Origin = "client",
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
) -> BulkAppendResult:
    """What a broker whose log ends at ``first_offset`` writes of many produce requests of one batch, wrapper message or
    message each. Arguments as for :func:`append`; a request that is refused leaves no gap in the offsets.

    Where the chain of sizes breaks, the request after the last one that was found is refused.
    """
    batches, broken = find_batches(buffer)
    context = AppendContext(config, first_offset, partition_leader_epoch, now_ms, origin, max_batch_bytes)
    output = _BulkOutput(buffer, len(batches))
    if config.to_magic == layouts.MAGIC_V2:
        _append_well_formed(buffer, batches, context, output)
    refusals = _append_others(buffer, batches, context, output)
    if broken is not None:
        refusals[len(batches)] = broken
    return _finished(output, context, refusals)


class _BulkOutput:
    """Where the bytes that go into the log of each request are, as far as they are known: ``buffers[which[i]]`` from
    ``starts[i]`` to ``ends[i]``. ``which`` is 0 for the buffer that was given, -1 for none."""

    def __init__(self, buffer: NDArray[np.uint8], count: int) -> None:
        self.buffers = [buffer]
        self.which = np.full(count, -1, np.int64)
        self.starts, self.ends = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.counts, self.max_timestamps = np.zeros(count, np.int64), np.full(count, layouts.NO_TIMESTAMP, np.int64)
        self.converted = 0

    def put(self, rows: Int64s, buffer: NDArray[np.uint8] | None, starts: Int64s, ends: Int64s) -> None:
        self.which[rows] = 0 if buffer is None else len(self.buffers)
        self.starts[rows], self.ends[rows] = starts, ends
        if buffer is not None:
            self.buffers.append(buffer)


def _append_well_formed(
    buffer: NDArray[np.uint8], batches: Batches, context: AppendContext, output: _BulkOutput
) -> None:
    """Fast path: accepts well-formed v2 batches."""
    header, config = batches.v2, context.config
    targets = batches.codec if config.codec == "producer" else np.full(len(batches), layouts.CODECS.index(config.codec))
    is_well_formed = (
        (check_batches(buffer, batches, config, context.origin) == 0) & ~batches.is_legacy & ~batches.is_control
    )
    is_well_formed &= (
        (batches.count > 0) & (header["last_offset_delta"] == batches.count - 1) & (batches.entry_offset == 0)
    )
    has_producer = batches.producer_id != layouts.NO_PRODUCER_ID
    has_state = (batches.producer_id >= 0) & (batches.producer_epoch >= 0) & (batches.base_sequence >= 0)
    is_well_formed &= np.where(has_producer, has_state, ~batches.is_transactional)
    for codec in np.unique(batches.codec[is_well_formed]).tolist():
        for target in np.unique(targets[is_well_formed & (batches.codec == codec)]).tolist():
            rows = np.flatnonzero(is_well_formed & (batches.codec == codec) & (targets == target))
            for part in np.split(rows, np.flatnonzero(np.diff(np.cumsum(batches.sizes[rows]) // _GROUP)) + 1):
                _append_group(buffer, batches.take(part), part, codec, target, context, output)


def _append_group(
    buffer: NDArray[np.uint8],
    run: Batches,
    rows: Int64s,
    codec: int,
    target: int,
    context: AppendContext,
    output: _BulkOutput,
) -> None:
    """Accepts valid batches of one codec, many at once; leaves the others."""
    payloads = run.positions + layouts.BATCH_V2_SIZE
    if codec == 0:
        _append_decoded(buffer, payloads, run.ends, set(), run, rows, target, context, output)
        return
    inflater = Inflater(context.max_batch_bytes)
    found = find_payloads(buffer, payloads, run.ends, run.codec, run.magic)
    first = 0
    while first < len(run):
        inflater.clear()
        starts, ends, errors = inflater.inflate_many(found, first, _GROUP)
        some = slice(first, first + len(starts))
        _append_decoded(inflater.buffer, starts, ends, set(errors), run.take(some), rows[some], target, context, output)
        first += len(starts)


def _append_decoded(
    source: NDArray[np.uint8],
    starts: Int64s,
    ends: Int64s,
    failed: set[int],
    run: Batches,
    rows: Int64s,
    target: int,
    context: AppendContext,
    output: _BulkOutput,
) -> None:
    """Accepts the batches whose records, at ``source[starts[i]:ends[i]]``, are valid."""
    codec = int(run.codec[0])
    incomplete = np.zeros(len(run), np.uint8)
    incomplete[list(failed)] = 1
    if int((ends - starts).sum()) > 1 << 30:
        return
    try:
        if codec and codec == target:
            read = read_all_partial(source, starts, ends, run)
        else:
            read = decode_all(source, starts, ends, run, incomplete, codec != target)
    except BatchRefusedError:
        return
    given = np.diff(read.row_ends)
    records = read.records
    wrong = record_errors(records, np.repeat(run.timestamp_type, given), context) != 0
    if codec == target and codec:
        wrong |= records.offset != np.arange(len(wrong)) - np.repeat(read.row_ends[:-1], given)
    elif codec != target:
        wrong |= records.timestamp < layouts.NO_TIMESTAMP
    wrong_before = np.concatenate([[0], np.cumsum(wrong)])
    is_valid = (read.status == 0) & (incomplete == 0) & (np.diff(wrong_before[read.row_ends]) == 0)
    max_timestamps = np.full(len(run), context.now_ms)
    if not context.is_append_time:
        max_timestamps = np.full(len(run), layouts.NO_TIMESTAMP)
        filled = np.flatnonzero(given)
        if len(filled):
            largest = np.maximum.reduceat(records.timestamp, read.row_ends[:-1][filled])
            max_timestamps[filled] = np.maximum(largest, layouts.NO_TIMESTAMP)
    if codec == target:
        output.put(rows[is_valid], None, run.positions[is_valid], run.ends[is_valid])
    else:
        written = _rewrite_group(read, run, max_timestamps, target, context)
        positions = np.append(scan_batches(written).positions, len(written))
        is_valid &= np.diff(positions) <= context.config.max_message_bytes
        output.put(rows[is_valid], written, positions[:-1][is_valid], positions[1:][is_valid])
        output.converted += int(given[is_valid].sum())
    output.counts[rows[is_valid]] = given[is_valid]
    output.max_timestamps[rows[is_valid]] = max_timestamps[is_valid]


def _rewrite_group(
    read: ReadRecords, run: Batches, max_timestamps: Int64s, target: int, context: AppendContext
) -> NDArray[np.uint8]:
    """All batches, also invalid ones; their base offsets are 0."""
    columns, row_ends = read.records.contents, read.row_ends
    assert columns is not None
    given = np.diff(row_ends)
    columns.offset[: row_ends[-1]] = np.arange(row_ends[-1]) - np.repeat(row_ends[:-1], given)
    normalize_header_keys(columns)
    headers = run.v2.copy()
    headers["base_offset"], headers["last_offset_delta"], headers["count"] = 0, np.maximum(given - 1, 0), given
    headers["base_timestamp"] = np.append(columns.timestamp[: row_ends[-1]], 0)[row_ends[:-1]]
    headers["max_timestamp"] = max_timestamps
    headers["partition_leader_epoch"] = context.partition_leader_epoch
    kept = headers["attributes"].astype(np.int16) & layouts.TRANSACTIONAL_BIT
    headers["attributes"] = kept | layouts.TIMESTAMP_TYPE_BIT * context.is_append_time
    codec = layouts.CODECS[target]
    level = context.config.level if codec == context.config.codec else None
    return Encoder(layouts.MAGIC_V2, codec, level).encode(columns, row_ends, headers)


def _append_others(
    buffer: NDArray[np.uint8], batches: Batches, context: AppendContext, output: _BulkOutput
) -> dict[int, Refusal]:
    """Appends the remaining batches one by one, and returns what was refused."""
    refusals: dict[int, Refusal] = {}
    is_v2 = context.to_magic == layouts.MAGIC_V2
    offset = context.first_offset
    for row in np.flatnonzero(output.which < 0).tolist():
        start, end = int(batches.positions[row]), int(batches.ends[row])
        # Base offsets of v2 are set at the end.
        found = append(
            buffer[start:end], context.config, 0 if is_v2 else offset, context.partition_leader_epoch, context.now_ms,
            context.origin, context.max_batch_bytes,
        )  # fmt: skip
        if isinstance(found, Refusal):
            place = None if found.position is None else found.position + start
            refusals[row] = replace(found, position=place)
            continue
        if not len(found.buffer):  # no records, and so no batch
            continue
        one = np.array([row])
        output.put(one, found.buffer, np.zeros(1, np.int64), np.array([len(found.buffer)]))
        output.counts[row], output.max_timestamps[row] = found.next_offset - found.first_offset, found.max_timestamp
        output.converted += found.records_converted
        offset += found.next_offset - found.first_offset
    return refusals


def _finished(output: _BulkOutput, context: AppendContext, refusals: dict[int, Refusal]) -> BulkAppendResult:
    """All batches, one after the other, with their headers."""
    rows = np.flatnonzero(output.which >= 0)
    counts = output.counts[rows]
    offsets = context.first_offset + np.cumsum(counts) - counts
    first_offsets = np.full(len(output.which), -1, np.int64)
    first_offsets[rows] = offsets
    which, starts, ends = output.which[rows], output.starts[rows], output.ends[rows]
    breaks = np.flatnonzero((np.diff(which) != 0) | (starts[1:] != ends[:-1])) + 1
    firsts, lasts = np.append(0, breaks)[: len(rows)], np.append(breaks, len(rows))[: len(rows)] - 1
    parts = [
        output.buffers[which[first]][starts[first] : ends[last]]
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)
    ]
    buffer = np.concatenate(parts) if parts else np.empty(0, np.uint8)
    if context.to_magic == layouts.MAGIC_V2 and len(rows):
        sizes = ends - starts
        assign_batches(buffer, np.cumsum(sizes) - sizes, offsets, output.max_timestamps[rows], which == 0, context)
    next_offset = context.first_offset + int(counts.sum())
    largest = int(output.max_timestamps[rows].max()) if len(rows) else layouts.NO_TIMESTAMP
    return BulkAppendResult(
        buffer, context.first_offset, next_offset, largest, output.converted, first_offsets, refusals
    )
