"""Finds the next true batch in bytes of which nothing is known, after damage broke the chain of sizes.

A place counts as a batch only if its header makes sense and its checksum matches. In random bytes a header makes sense
about once in 2^40 places for v2 (magic, attributes, size, deltas and counts that go together) and once in 2^24 for v0
and v1; the checksum then matches by chance once in 2^32.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless.format.batches import Batches, checksums_match, read_headers

_CANDIDATES = 256


def find_batch(buffer: NDArray[np.uint8], start: int = 0) -> int | None:
    """The position of the first true batch at or after ``start``, or None."""
    from brokerless.format.candidates import find_candidates

    positions = np.empty(_CANDIDATES, np.int64)
    while True:
        count, start = find_candidates(buffer, start, positions)
        for row in range(count):
            batch: Batches = read_headers(buffer, positions[row : row + 1])
            if checksums_match(buffer, batch)[0]:
                return int(positions[row])
        if count < _CANDIDATES:
            return None
