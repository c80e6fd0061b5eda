"""Which ranges of offsets some spans have, against looking at each span."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from brokerless.bounds import MAX_INT64
from brokerless.log.offsets_once.records import are_within, have_common

OFFSETS = st.one_of(st.integers(0, 30), st.integers(MAX_INT64 - 2, MAX_INT64))
RANGES = st.tuples(OFFSETS, OFFSETS).map(lambda pair: (min(pair), max(pair)))


@examples(200)
@given(st.lists(RANGES, max_size=5), st.lists(RANGES, min_size=1, max_size=5))
def test_spans_that_overlap_and_end_where_offsets_do(
    pieces: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    spans = sorted((first, last + 1) for first, last in pieces)
    firsts, lasts = (np.array(column, np.int64) for column in zip(*asked, strict=True))
    within = [any(one <= first and last < end for one, end in spans) for first, last in asked]
    common = [any(one <= last and first < end for one, end in spans) for first, last in asked]
    assert are_within(spans, firsts, lasts).tolist() == within
    assert have_common(spans, firsts, lasts).tolist() == common
