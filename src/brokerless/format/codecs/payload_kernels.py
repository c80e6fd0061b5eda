"""Inflates many payloads in one call, without the GIL: those in the framing that Kafka writes (kernel).

What is anything else, or does not inflate, is left to the codecs' modules, which say what is wrong with it. What is
inflated here must be what they make of it.
"""

# Inside kernels, numbers are Numba's, and intrinsics take what Numba gives them.
# pyright: basic, reportCallIssue=false, reportReturnType=false, reportArgumentType=false

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.format.codecs.c_calls import address_of, call_c
from brokerless.format.codecs.snappy_kernels import inflate_elements, read_length
from brokerless.format.codecs.zstd_frame_kernels import FRAME_MAGIC, walk_frame
from brokerless.format.intrinsics import copy_bytes, load_u32_be, load_u64, load_u64_be
from brokerless.format.kernel import inlined, kernel, separate
from brokerless.format.layouts import GZIP, LZ4, SNAPPY, ZSTD

_GZIP_WITHOUT_OPTIONS = 0x1F8B0800
_XERIAL = 0x82534E4150505900
_LZ4_BLOCK = 64 << 10
_ZSTD_BLOCK = 128 << 10
_ZSTD_WINDOW = 1 << 27
_SIGNATURE = (
    "int64(int64, int64, Array(uint8, 1, 'C', readonly=True), int64[::1], int64[::1], uint64, int64, int64,"
    " uint8[::1], int64, int64, int64[::1], int64[::1])"
)


@inlined
def _u32(buffer: NDArray[np.uint8], at: int) -> int:
    low = np.int64(buffer[np.uint64(at)]) | np.int64(buffer[np.uint64(at + 1)]) << 8
    return low | np.int64(buffer[np.uint64(at + 2)]) << 16 | np.int64(buffer[np.uint64(at + 3)]) << 24


@inlined
def _lz4_room(buffer: NDArray[np.uint8], start: int, end: int, header: int) -> int:
    if end - start < 15 or header == np.uint64(0):
        return 0
    if load_u64(buffer, start) & np.uint64(0x00FFFFFFFFFFFFFF) != header:
        return 0
    at, room = start + 7, np.int64(0)
    while end - at > 4:
        word = _u32(buffer, at)
        size = word & 0x7FFFFFFF
        if size == 0 or size > _LZ4_BLOCK or size > end - at - 4:
            return 0
        room += size if word >> 31 else min(_LZ4_BLOCK, 255 * size + 64)
        at += 4 + size
    return room if end - at == 4 and load_u32_be(buffer, at) == 0 else np.int64(0)


@inlined
def _snappy_room(buffer: NDArray[np.uint8], start: int, end: int) -> int:
    if end - start < 16 or load_u64_be(buffer, start) != np.uint64(_XERIAL):
        length, _ = read_length(buffer, start, end)
        return length if length <= 64 * (end - start) else np.int64(0)
    at, room = start + 16, np.int64(0)
    while end - at > 4:
        size = np.int64(load_u32_be(buffer, at))
        if size == 0 or size > end - at - 4:
            return 0
        length, _ = read_length(buffer, at + 4, at + 4 + size)
        if length < 0 or length > 64 * size:
            return 0
        room += length
        at += 4 + size
    return room if at == end else np.int64(0)


@inlined
def _zstd_room(buffer: NDArray[np.uint8], start: int, end: int) -> int:
    if end - start <= 12 or load_u32_be(buffer, start) != FRAME_MAGIC:
        return 0
    frame_end, blocks = walk_frame(buffer, start, end)
    if frame_end != end:
        return 0
    descriptor = np.int64(buffer[np.uint64(start + 4)])
    if descriptor & 32 == 0:  # else the content is the window
        window = np.int64(buffer[np.uint64(start + 5)])
        base = np.int64(1) << (10 + (window >> 3))
        if base + (base >> 3) * (window & 7) > _ZSTD_WINDOW:
            return 0
    return min(blocks * _ZSTD_BLOCK, _ZSTD_WINDOW)


@inlined
def _gzip_room(buffer: NDArray[np.uint8], start: int, end: int) -> int:
    if end - start <= 18 or load_u32_be(buffer, start) != _GZIP_WITHOUT_OPTIONS:
        return 0
    # The trailer has the length, if this is the only member. Nothing is deflated to less than 1 / 1032.
    length = np.int64(load_u64(buffer, end - 8) >> np.uint64(32))
    return length if length <= 1032 * (end - start) else np.int64(0)


@inlined
def _read_lz4(
    function: int, buffer: NDArray[np.uint8], start: int, end: int, output: NDArray[np.uint8], used: int
) -> int:
    at, to = start + 7, used
    while end - at > 4:
        word = _u32(buffer, at)
        size = word & 0x7FFFFFFF
        if word >> 31:
            copy_bytes(output, to, buffer, at + 4, size)
            to += size
        else:
            room = min(_LZ4_BLOCK, 255 * size + 64)
            source, target = address_of(buffer, at + 4, size), address_of(output, to, room)
            made = np.int64(np.int32(call_c(function, (source, target, np.int64(size), np.int64(room)))))
            if made < 0:
                return -1
            to += made
        at += 4 + size
    return int(to - used)


@inlined
def _read_snappy(buffer: NDArray[np.uint8], start: int, end: int, output: NDArray[np.uint8], used: int) -> int:
    if end - start < 16 or load_u64_be(buffer, start) != np.uint64(_XERIAL):
        length, first = read_length(buffer, start, end)
        return length if inflate_elements(buffer, first, end, output, used, length) else np.int64(-1)
    at, to = start + 16, used
    while end - at > 4:
        size = np.int64(load_u32_be(buffer, at))
        length, first = read_length(buffer, at + 4, at + 4 + size)
        if not inflate_elements(buffer, first, at + 4 + size, output, to, length):
            return -1
        to += length
        at += 4 + size
    return int(to - used)


@inlined
def _needed(room: int, used: int, slack: int, largest: int, output: NDArray[np.uint8]) -> int:
    """Bytes that a payload needs of ``output``: below 0 where there are so many, 0 where it is to be read otherwise."""
    if room <= 0 or room > largest:
        return 0
    return room if used + room + slack > len(output) else np.int64(-1)


@kernel(_SIGNATURE)
def inflate_lz4(
    function, context, buffer, starts, ends, lz4_header, first, enough, output, slack, largest, bounds, state
):
    row, used, state[0] = first, bounds[first], -1
    while row < len(starts) and used < enough:
        room = np.int64(_lz4_room(buffer, starts[row], ends[row], lz4_header))
        state[0] = _needed(room, used, slack, largest, output)
        made = _read_lz4(function, buffer, starts[row], ends[row], output, used) if state[0] < 0 else np.int64(-1)
        if made < 0:
            break
        used += made
        row += 1
        bounds[row] = used
    return row


@kernel(_SIGNATURE)
def inflate_snappy(
    function, context, buffer, starts, ends, lz4_header, first, enough, output, slack, largest, bounds, state
):
    row, used, state[0] = first, bounds[first], -1
    while row < len(starts) and used < enough:
        room = np.int64(_snappy_room(buffer, starts[row], ends[row]))
        state[0] = _needed(room, used, slack, largest, output)
        made = _read_snappy(buffer, starts[row], ends[row], output, used) if state[0] < 0 else np.int64(-1)
        if made < 0:
            break
        used += made
        row += 1
        bounds[row] = used
    return row


@kernel(_SIGNATURE)
def inflate_zstd(
    function, context, buffer, starts, ends, lz4_header, first, enough, output, slack, largest, bounds, state
):
    row, used, state[0] = first, bounds[first], -1
    while row < len(starts) and used < enough:
        start, size = starts[row], ends[row] - starts[row]
        room = np.int64(_zstd_room(buffer, start, ends[row]))
        state[0] = _needed(room, used, slack, largest, output)
        if state[0] >= 0:
            break
        source, target = address_of(buffer, start, size), address_of(output, used, room)
        made = call_c(function, (context, target, room, source, size))
        if made < 0 or made > room:
            break
        used += made
        row += 1
        bounds[row] = used
    return row


@kernel(_SIGNATURE)
def inflate_gzip(
    function, context, buffer, starts, ends, lz4_header, first, enough, output, slack, largest, bounds, state
):
    row, used, state[0] = first, bounds[first], -1
    while row < len(starts) and used < enough:
        start, size = starts[row], ends[row] - starts[row]
        room = np.int64(_gzip_room(buffer, start, ends[row]))
        state[0] = _needed(room, used, slack, largest, output)
        if state[0] >= 0:
            break
        source, target = address_of(buffer, start, size), address_of(output, used, room)
        taken, given = address_of(state, 8, 8), address_of(state, 16, 8)
        wrong = call_c(function, (context, source, size, target, room, taken, given))
        if np.int32(wrong) != 0 or state[1] != size or state[2] != room:
            break
        used += room
        row += 1
        bounds[row] = used
    return row


@inlined
def _inflate(
    codec, function, context, buffer, starts, ends, lz4_header, first, enough, output, slack, largest, bounds, state
):
    if codec == LZ4:
        return inflate_lz4(
            function, context, buffer, starts, ends, lz4_header, first, enough, output, slack, largest, bounds, state
        )
    if codec == SNAPPY:
        return inflate_snappy(
            function, context, buffer, starts, ends, lz4_header, first, enough, output, slack, largest, bounds, state
        )
    if codec == ZSTD:
        return inflate_zstd(
            function, context, buffer, starts, ends, lz4_header, first, enough, output, slack, largest, bounds, state
        )
    if codec == GZIP:
        return inflate_gzip(
            function, context, buffer, starts, ends, lz4_header, first, enough, output, slack, largest, bounds, state
        )
    return first


@separate
def inflate_or_copy(
    codec, function, context, buffer, starts, ends, codecs, lz4_header, first, enough, output, slack, largest, bounds,
    state,
):  # fmt: skip
    """For kernels: as :data:`INFLATE`, of payloads that have this codec or, by ``codecs``, none: these are copied."""
    row = first
    while row < len(starts) and bounds[row] < enough:
        after = row
        while after < len(starts) and codecs[after] == codec:
            after += 1
        if after > row:
            last = _inflate(
                codec, function, context, buffer, starts[:after], ends, lz4_header, row, enough, output, slack,
                largest, bounds, state,
            )  # fmt: skip
            if last < after:
                return last
        else:
            size = ends[row] - starts[row]
            if bounds[row] + size + slack > len(output):
                break
            copy_bytes(output, bounds[row], buffer, starts[row], size)
            bounds[row + 1] = bounds[row] + size
            after += 1
        row = after
    return row


INFLATE = {LZ4: inflate_lz4, SNAPPY: inflate_snappy, ZSTD: inflate_zstd, GZIP: inflate_gzip}
"""The kernel of each codec: so a machine compiles only those of the codecs that it reads.

``function, context, buffer, starts, ends, lz4_header, first, enough, output, slack, largest, bounds, state``: inflates
payloads ``buffer[starts[i]:ends[i]]`` from ``first`` on, one after the other to ``output[bounds[i]:bounds[i + 1]]``,
until there are ``enough`` bytes; returns the first that was not.

``bounds[first]`` is given. ``function`` and ``context``: the codec's, see ``c_functions``. ``slack``: bytes at the end
of ``output`` that stay free; ``largest``: bytes that a payload may need. ``state[0]``, where it stops early: the bytes
that the next payload needs, if ``output`` has not so many left; otherwise below 1, and that payload is to be read in
another way. ``lz4_header``: the 7 bytes of a plain frame header.
"""
