"""The kernel that reads a file, checks its batches and decodes their records, a small window after another.

Bytes that were read are checked, searched and decoded while they are in the processor's cache: in memory of the size of
a chunk they would be fetched three times. What a batch and its records are, other kernels say, which this one calls.
"""

# Inside kernels, numbers are Numba's, and intrinsics take what Numba gives them.
# pyright: basic, reportCallIssue=false, reportReturnType=false, reportArgumentType=false, reportAssignmentType=false

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.format.codecs.payload_kernels import inflate_or_copy
from brokerless.format.columns import COLUMNS_SIGNATURE, SLACK
from brokerless.format.crc.kernels import crc32c
from brokerless.format.intrinsics import copy_bytes, keep_apart, load_u32_be, load_u64_be
from brokerless.format.kernel import external_function, inlined, kernel, separate
from brokerless.format.layouts import (
    BATCH_CRC_START,
    BATCH_V2,
    BATCH_V2_SIZE,
    CODEC_MASK,
    CONTROL_BIT,
    CREATE_TIME,
    LOG_APPEND_TIME,
    LOG_ENTRY_SIZE,
    MAGIC_POSITION,
    MAGIC_V2,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    position_of,
)
from brokerless.format.read.intact_batch_kernels import NO_ROOM, decode_intact_batches
from brokerless.format.read.search_kernels import mark_containing

CARE, FULL = 1, 2
"""Why reading stopped before the requested end, if not because there was no place for more batches: at a batch that is
not for this kernel, or for whose records the columns have no room."""
NOT_FOUND, PASSED_OVER = -1, -2
"""What is given of a batch that was checked but not decoded: it has none of the byte strings, or control records."""
PAGE = 4096

_HEADER = BATCH_V2_SIZE
_CRC, _ATTRIBUTES = position_of(BATCH_V2, "crc"), position_of(BATCH_V2, "attributes") + 1
_BASE_TIME, _MAX_TIME = position_of(BATCH_V2, "base_timestamp"), position_of(BATCH_V2, "max_timestamp")
_SEQUENCE, _COUNT = position_of(BATCH_V2, "base_sequence"), position_of(BATCH_V2, "count")
_SIZE, _LAST_DELTA = position_of(BATCH_V2, "size"), position_of(BATCH_V2, "last_offset_delta")
_pread = external_function("pread", "intp(intc, voidptr, uintp, int64)")


@inlined
def _size_of_intact(window: NDArray[np.uint8], at: int, end: int, codec: int) -> int:
    """The bytes of the batch at a position; 0 if it is not whole before ``end``, and -1 if it is no v2 batch with this
    codec or without one whose checksum is right. A compressed batch without a record is for others, too: of its payload
    nothing but the header is to be read."""
    if at + _HEADER > end:
        return np.int64(0)
    size, own = _declared_size(window, at, end), np.int64(window[at + _ATTRIBUTES] & CODEC_MASK)
    if size < _HEADER or window[at + MAGIC_POSITION] != MAGIC_V2 or (own != 0 and own != codec):
        return np.int64(-1)
    if own != 0 and load_u32_be(window, at + _COUNT) == 0:
        return np.int64(-1)
    if size > end - at:
        return np.int64(0)
    is_intact = crc32c(window, at + BATCH_CRC_START, at + size) == load_u32_be(window, at + _CRC)
    return size if is_intact else np.int64(-1)


@inlined
def _declared_size(window: NDArray[np.uint8], at: int, end: int) -> int:
    """The bytes of the batch at a position, as its header has them; 0 where that is not before ``end``."""
    if at + LOG_ENTRY_SIZE > end:
        return np.int64(0)
    return np.int64(np.int32(load_u32_be(window, at + 8))) + LOG_ENTRY_SIZE


@separate
def _mark_found(
    source: NDArray[np.uint8],
    patterns: NDArray[np.uint8],
    pattern_ends: NDArray[np.int64],
    rarest: NDArray[np.int64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    found: NDArray[np.uint8],
) -> None:
    """Sets ``found`` to 1 where ``source[starts[i]:ends[i]]`` has one of the byte strings, to 0 elsewhere."""
    keep_apart()
    found[:] = 0
    first = np.int64(0)
    for pattern in range(len(pattern_ends)):
        last, places = pattern_ends[pattern], 3 * pattern
        mark_containing(source, starts, ends, patterns[first:last], rarest[places : places + 3], found)
        first = last


@kernel(
    "UniTuple(int64, 3)(int32, int64, int64, int64, int64, uint8[::1], Array(uint8, 1, 'C', readonly=True), int64[::1],"
    " int64[::1], boolean, int64, int64, int64, uint64, int64, int64, uint8[::1], int64[::1], int64[::1],"
    " int64[::1], uint8[::1], int32[::1], int64[::1], int64[::1], int64[::1], int64[::1],"
    " int64[::1], int32[::1], int32[::1], int8[::1], int8[::1], int32[::1], uint8[::1], uint8[::1], uint8[::1], "
    + COLUMNS_SIGNATURE
    + ")"
)
def read_intact_batches(
    descriptor: int,
    start: int,
    until: int,
    size: int,
    step: int,
    window: NDArray[np.uint8],
    patterns: NDArray[np.uint8],
    pattern_ends: NDArray[np.int64],
    rarest: NDArray[np.int64],
    control: bool,
    codec: int,
    function: int,
    context: int,
    lz4_header: int,
    enough: int,
    largest: int,
    inflated: NDArray[np.uint8],
    bounds: NDArray[np.int64],
    state: NDArray[np.int64],
    positions: NDArray[np.int64],
    heads: NDArray[np.uint8],
    given: NDArray[np.int32],
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    base_offsets: NDArray[np.int64],
    base_timestamps: NDArray[np.int64],
    counts: NDArray[np.int32],
    base_sequences: NDArray[np.int32],
    timestamp_types: NDArray[np.int8],
    codecs: NDArray[np.int8],
    decoded: NDArray[np.int32],
    incomplete: NDArray[np.uint8],
    found: NDArray[np.uint8],
    selected: NDArray[np.uint8],
    offset: NDArray[np.int64],
    timestamp: NDArray[np.int64],
    sequence: NDArray[np.int32],
    timestamp_type: NDArray[np.int8],
    key_ends: NDArray[np.int32],
    key_null: NDArray[np.uint8],
    key_data: NDArray[np.uint8],
    value_ends: NDArray[np.int32],
    value_null: NDArray[np.uint8],
    value_data: NDArray[np.uint8],
    header_ends: NDArray[np.int32],
    header_key_ends: NDArray[np.int32],
    header_key_data: NDArray[np.uint8],
    header_value_ends: NDArray[np.int32],
    header_value_null: NDArray[np.uint8],
    header_value_data: NDArray[np.uint8],
    used: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Reads the batches of a file of ``size`` bytes that begin in ``[start, until)``, ``step`` bytes at once, as far as
    they are intact v2 batches with ``codec`` or without one, and decodes them into columns. Returns how many, where it
    stopped (bytes), and why: 0 at ``until`` or where ``positions`` is full, :data:`CARE` or :data:`FULL`.

    ``window``: memory of a page, and :data:`SLACK`, more than the largest batch takes. ``patterns``: byte strings that
    end at ``pattern_ends``, of which the records of a batch must have one to be decoded, if there are any; ``rarest``
    as ``mark_containing`` has it, three for each. ``control``: control records are decoded too. ``codec``: 0, or that
    of payloads that inflate into ``inflated``, ``enough`` bytes before they are decoded; ``function``, ``context``,
    ``lz4_header`` and ``largest`` as ``INFLATE`` in ``codecs/payload_kernels`` has them; ``bounds`` (one more than
    batches of a window) and ``state`` (3) are memory for that. For each batch, ``positions`` gets where it begins,
    counted from ``start``, ``heads`` its first 61 bytes, and ``given`` its records, :data:`NOT_FOUND` or
    :data:`PASSED_OVER`. ``rows`` to ``found``: memory for the batches of one window, of one length; ``incomplete`` is
    all 0.

    A file that became shorter, and what the system does not read, is for others: there it stops.
    """
    at, count, length, most = start, 0, step, len(window) - PAGE - SLACK
    while at < until and count < len(positions):
        place = at % PAGE
        end = place + _pread(descriptor, window.ctypes.data + place, min(length, most, size - at), at)
        here, batches, chosen = place, 0, 0
        batch_size = np.int64(0)
        while here - place < until - at and batches < len(rows) and count + batches < len(positions):
            batch_size = _size_of_intact(window, here, end, codec)
            if batch_size <= 0:
                break
            row = count + batches
            positions[row] = at - start + here - place
            copy_bytes(heads, _HEADER * row, window, here, _HEADER)
            if window[here + _ATTRIBUTES] & CONTROL_BIT != 0 and not control:
                given[row] = PASSED_OVER
            else:
                given[row] = NOT_FOUND
                attributes = window[here + _ATTRIBUTES]
                is_appended = attributes & TIMESTAMP_TYPE_BIT != 0
                time = _MAX_TIME if is_appended else _BASE_TIME
                rows[chosen], starts[chosen], ends[chosen] = row, here + _HEADER, here + batch_size
                timestamp_types[chosen] = LOG_APPEND_TIME if is_appended else CREATE_TIME
                base_timestamps[chosen] = np.int64(load_u64_be(window, here + time))
                base_offsets[chosen] = np.int64(load_u64_be(window, here))
                base_sequences[chosen] = np.int32(load_u32_be(window, here + _SEQUENCE))
                counts[chosen] = np.int32(load_u32_be(window, here + _COUNT))
                codecs[chosen], decoded[chosen] = attributes & CODEC_MASK, 0
                chosen += 1
            batches += 1
            here += batch_size
        if batches == 0:
            wanted = _declared_size(window, here, end)
            if batch_size < 0 or wanted <= length or wanted > most or wanted > size - at:
                return count, at, CARE
            length = wanted
            continue
        source, begins, finishes, first = window, starts[:chosen], ends[:chosen], np.int64(0)
        while first < chosen:
            after = np.int64(chosen)
            if codec != 0:
                bounds[first] = 0
                after = inflate_or_copy(
                    codec, function, context, window, starts[:chosen], ends[:chosen], codecs, lz4_header, first,
                    enough, inflated, SLACK, largest, bounds, state,
                )  # fmt: skip
                if after == first:
                    count = rows[first]
                    return count, start + positions[count], CARE
                source, begins, finishes = inflated, bounds[:after], bounds[1 : after + 1]
            if len(pattern_ends) > 0:
                group = found[first:after]
                _mark_found(source, patterns, pattern_ends, rarest, begins[first:after], finishes[first:after], group)
            while first < after:
                last = first
                while last < after and (len(pattern_ends) == 0 or found[last] != 0):
                    last += 1
                done = decode_intact_batches(
                    source, first, begins[:last], finishes, counts, base_offsets, base_timestamps, timestamp_types,
                    base_sequences, incomplete, selected, offset, timestamp, sequence, timestamp_type, key_ends,
                    key_null, key_data, value_ends, value_null, value_data, header_ends, header_key_ends,
                    header_key_data, header_value_ends, header_value_null, header_value_data, used, decoded,
                )  # fmt: skip
                for batch in range(first, done):
                    given[rows[batch]] = decoded[batch]
                if done < last:
                    count = rows[done]
                    return count, start + positions[count], FULL if decoded[done] == NO_ROOM else CARE
                first = last
                while first < after and len(pattern_ends) > 0 and found[first] == 0:
                    first += 1
        count += batches
        at += here - place
        if batch_size < 0:
            return count, at, CARE
        length = step
    return count, at, 0


@kernel("void(uint8[:, ::1], int64[::1], int64[:, ::1], int32[::1], int8[:, ::1])")
def read_v2_headers(
    raw: NDArray[np.uint8],
    positions: NDArray[np.int64],
    wide: NDArray[np.int64],
    counts: NDArray[np.int32],
    narrow: NDArray[np.int8],
) -> None:
    """Reads the headers ``raw`` (61 bytes each) of v2 batches at ``positions``, all fields of one batch after another:
    NumPy goes through all of the headers for each of its columns.

    ``wide``, shape ``(6, n)``: base offset, last offset, the highest that its records may have, highest timestamp, size
    and end (bytes). ``counts``: records. ``narrow``, shape ``(6, n)``: attributes, codec, timestamp type, and flags:
    transactional, control, and whether records go past the last offset. Numbers wrap, as in NumPy and in Java.
    """
    for row in range(len(positions)):
        header = raw[row]
        first, size = np.int64(load_u64_be(header, 0)), np.int64(np.int32(load_u32_be(header, _SIZE))) + LOG_ENTRY_SIZE
        last = first + np.int64(np.int32(load_u32_be(header, _LAST_DELTA)))
        count = np.int32(load_u32_be(header, _COUNT))
        attributes = np.int8(header[_ATTRIBUTES])
        wide[0, row], wide[1, row], wide[2, row] = first, last, max(last, first + np.int64(count) - 1)
        wide[3, row] = np.int64(load_u64_be(header, _MAX_TIME))
        wide[4, row], wide[5, row] = size, positions[row] + size
        counts[row] = count
        narrow[0, row], narrow[1, row] = attributes, attributes & CODEC_MASK
        narrow[2, row] = attributes & TIMESTAMP_TYPE_BIT != 0
        narrow[3, row] = attributes & TRANSACTIONAL_BIT != 0
        narrow[4, row] = attributes & CONTROL_BIT != 0
        narrow[5, row] = wide[2, row] > last
