"""Finds the next true batch in bytes of which nothing is known, after damage broke the chain of sizes.

A place counts as a batch only if its header makes sense and its checksum matches. In random bytes a v2 header makes
sense once in 2^24 places where 1 GiB follows (magic, attributes, offset, a size that fits, deltas and counts that go
together), and once in 2^30 where 16 MiB do; one of v0 or v1 once in 2^50 (magic, attributes, lengths that add up to the
size). The checksum then matches by chance once in 2^32: in 1 TiB of random bytes, a false batch is found with a chance
of 2^-16. Salvage also decodes what was found, and what is there by chance does not stand that.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.format.batches import checksums_match, read_headers

_CANDIDATES = 256
_ALLOWANCE = 256 << 20
"""Bytes whose checksums are computed whatever is found; more than any broker's largest batch."""
_SHARE = 8
"""Such bytes for each byte that is searched."""


def find_batch(buffer: NDArray[np.uint8], start: int = 0, until: int | None = None) -> int | None:
    """The position of the first true batch that begins in ``[start, until)``, or None.

    Headers that only look right may be many and each claim all that follows: where their checksums would take more
    than a fixed share of what is searched, those of the largest are not looked at.
    """
    from brokerless.format.candidates import find_candidates

    positions = np.empty(1, np.int64)  # the first one is nearly always true
    begin, spent = start, 0
    while True:
        count, start = find_candidates(buffer, start, len(buffer) if until is None else until, positions)
        batches = read_headers(buffer, positions[:count])
        affordable: list[int] = []
        for row, (position, size) in enumerate(zip(batches.positions.tolist(), batches.sizes.tolist(), strict=True)):
            if spent + size <= _ALLOWANCE + _SHARE * (position - begin):
                affordable.append(row)
                spent += size
        batches = batches.take(np.array(affordable, np.int64))
        found = batches.positions[checksums_match(buffer, batches)]
        if len(found):
            return int(found[0])
        if count < len(positions):
            return None
        positions = np.empty(_CANDIDATES, np.int64)
