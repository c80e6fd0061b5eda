"""Finds the next valid batch after damage, in bytes of unknown content.

A position counts as a batch only if its header is plausible and its checksum matches. In random bytes a v2 header is
plausible once in 2^24 positions where 1 GiB follows (magic, attributes, offset, a size that fits, consistent deltas and
counts), and once in 2^30 where 16 MiB do; one of v0 or v1 once in 2^50 (magic, attributes, lengths that add up to the
size). The checksum then matches by chance once in 2^32: in 1 TiB of random bytes, a false batch is found with a chance
of 2^-16. Salvage also decodes what was found, which a false batch does not survive.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from brokerless.format.read.batch_headers import Batches, checksums_match, read_headers

_CANDIDATES = 256
_ALLOWANCE = 256 << 20
"""Bytes whose checksums are always computed; more than any broker's largest batch."""
_SHARE = 8
"""Such bytes for each byte that is searched."""
_FIRST_WINDOW, _WINDOW = 1 << 16, 8 << 20
"""Bytes that are searched at once, at first and later; a batch that is found may end far after them."""
_OVERLAP = 60
"""One less than the header that must be in the window where a batch begins in it."""

ReadRange = Callable[[int, int], NDArray[np.uint8]]
"""Reads from a position (the first argument) a number of bytes (the second), or as many as there are."""


def find_batch(buffer: NDArray[np.uint8], start: int = 0, until: int | None = None) -> int | None:
    """The position of the first valid batch that begins in ``[start, until)`` of a buffer, or None; by the rules of
    :func:`find_next_batch`."""
    end = len(buffer) if until is None else until
    return find_next_batch(lambda position, length: buffer[position : position + length], len(buffer), start, end)


def find_next_batch(
    read: ReadRange,
    size: int,
    start: int,
    until: int,
    largest: int = _ALLOWANCE,
    skip: Callable[[int], int] = lambda at: at,
) -> int | None:
    """The position of the first valid batch that begins in ``[start, until)`` of ``size`` bytes, or None.

    There may be many false headers that each claim all the bytes after them: where their checksums would take more
    than a fixed share of what is searched, those of the largest are not computed; nor are those of batches of more than
    ``largest`` bytes. ``skip`` returns where to continue from a position after which there may be nothing but zeros.
    """
    from brokerless.format.read.batch_candidate_kernels import find_candidates

    begin, spent, window = start, 0, _FIRST_WINDOW
    while (start := max(start, skip(start) - _OVERLAP)) < until:
        buffer = read(start, min(window + _OVERLAP, size - start))
        if not len(buffer):
            return None
        at, end, more = 0, min(window, until - start), size - start - len(buffer)
        positions = np.empty(1, np.int64)  # the first one is nearly always valid
        while True:
            count, at = find_candidates(buffer, at, end, more, positions)
            batches = read_headers(buffer, positions[:count])
            affordable: list[int] = []
            searched = (batches.positions + (start - begin)).tolist()
            for row, (before, each) in enumerate(zip(searched, batches.sizes.tolist(), strict=True)):
                if each <= largest and spent + each <= _ALLOWANCE + _SHARE * before:
                    affordable.append(row)
                    spent += each
            found = _first_valid(read, start, buffer, batches.take(np.array(affordable, np.int64)))
            if found is not None:
                return found
            if count < len(positions):
                break
            positions = np.empty(_CANDIDATES, np.int64)
        start += end
        window = min(8 * window, _WINDOW)
    return None


def _first_valid(read: ReadRange, start: int, buffer: NDArray[np.uint8], batches: Batches) -> int | None:
    """The position of the first batch with a matching checksum, in a buffer that is at ``start`` or after it."""
    is_inside = batches.ends <= len(buffer)
    inside = batches.take(is_inside)
    true = inside.positions[checksums_match(buffer, inside)]
    for row in np.flatnonzero(~is_inside).tolist():
        position, size = int(batches.positions[row]), int(batches.sizes[row])
        if len(true) and true[0] < position:
            break
        whole = read(start + position, size)
        if len(whole) == size and checksums_match(whole, read_headers(whole, np.zeros(1, np.int64)))[0]:
            return start + position
    return start + int(true[0]) if len(true) else None
