"""Spans of offsets behave as sets of offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from brokerless.offset_spans import union, without

SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=6)


@given(SPANS, SPANS)
def test_spans_are_sets_of_offsets(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    def offsets(spans: list[tuple[int, int]]) -> set[int]:
        return {offset for first, end in spans for offset in range(first, end)}

    assert offsets(union(some)) == offsets(some)
    assert offsets(without(union(some), union(others))) == offsets(some) - offsets(others)
