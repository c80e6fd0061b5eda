"""Sets of offsets as spans ``[first, end)``: union and difference."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

Span = tuple[int, int]
"""The first offset, and the one after the last."""


def union(spans: Iterable[Span]) -> list[Span]:
    """Return the offsets in as few spans as possible, in order; empty spans are dropped."""
    merged: list[Span] = []
    for first, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((first, end))
    return merged


def touching(spans: Sequence[Span], first: int, end: int) -> Sequence[Span]:
    """Return those of ``spans``, which are in order, that have an offset of ``[first, end)`` or are right beside it."""
    return spans[bisect_left(spans, first, key=_end) : bisect_right(spans, end, key=_first)]


def add(spans: list[Span], others: Sequence[Span]) -> None:
    """Adds ``others`` to ``spans``; both as :func:`union` returns them."""
    if not others:
        return
    low = bisect_left(spans, others[0][0], key=_end)
    high = max(low, bisect_right(spans, others[-1][1], key=_first))
    spans[low:high] = union([*spans[low:high], *others])


def _first(span: Span) -> int:
    return span[0]


def _end(span: Span) -> int:
    return span[1]


def without(spans: Sequence[Span], others: Sequence[Span]) -> list[Span]:
    """Return the offsets that are in ``spans`` and not in ``others``; both as :func:`union` returns them."""
    left: list[Span] = []
    at = 0
    for first, end in spans:
        while at and others[at - 1][1] > first:
            at -= 1
        while at < len(others) and others[at][1] <= first:
            at += 1
        start, each = first, at
        while each < len(others) and others[each][0] < end:
            if others[each][0] > start:
                left.append((start, others[each][0]))
            start = max(start, others[each][1])
            each += 1
        if start < end:
            left.append((start, end))
    return left
