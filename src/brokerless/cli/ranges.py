"""Ranges of offsets as people type them."""

from __future__ import annotations

import re

from brokerless.bounds import MAX_INT64
from brokerless.errors import UsageError

_OFFSETS = re.compile(r"(\d{1,19})?(:(\d{1,19})?)?")


def parse_offsets(text: str) -> tuple[int | None, int | None]:
    """``42`` -> from 42 on; ``42:50`` -> 42 to 49; ``:50`` -> before 50. Raises :class:`UsageError`."""
    match = _OFFSETS.fullmatch(text)
    if match is None or not text or text == ":":
        raise UsageError(
            f"{text!r} is not an offset; use the first one (42), a range (42:50, without 50), or an end (:50)"
        )
    start, end = (None if each is None else int(each) for each in (match[1], match[3]))
    if max(start or 0, end or 0) > MAX_INT64:
        raise UsageError(f"{text!r}: an offset is at most 2^63 - 1")
    if start is not None and end is not None and start > end:
        raise UsageError(f"{text!r}: the range ends before it starts; write the smaller offset first")
    return start, end
