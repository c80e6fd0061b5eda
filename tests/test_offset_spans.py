"""Spans of offsets behave as sets of offsets."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from brokerless.offset_spans import add, touching, union, without

SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=6)


def offsets(spans: Iterable[tuple[int, int]]) -> set[int]:
    return {offset for first, end in spans for offset in range(first, end)}


@given(SPANS, SPANS)
def test_spans_are_sets_of_offsets(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    assert offsets(union(some)) == offsets(some)
    assert offsets(without(union(some), union(others))) == offsets(some) - offsets(others)
    added = union(some)
    add(added, union(others))
    assert added == union([*some, *others])


@given(SPANS, st.integers(0, 30), st.integers(0, 30))
def test_spans_that_touch_a_range_have_all_that_is_of_it(some: list[tuple[int, int]], first: int, end: int) -> None:
    found = touching(union(some), first, end)
    of_range = set(range(first, end))
    assert offsets(found) & of_range == offsets(some) & of_range
    assert all(each[0] <= end and first <= each[1] for each in found)
