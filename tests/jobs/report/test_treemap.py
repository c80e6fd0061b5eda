"""A treemap fills its rectangle without overlap, and areas are sizes."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from brokerless.jobs.report.treemap import Rectangle, lay_out


@example([6_867_716_781_827, 3_433_858_390_913, 1])
@example([195_679_222_609_961, 8])
@given(st.lists(st.integers(1, 10**15), min_size=1, max_size=60).map(lambda sizes: sorted(sizes, reverse=True)))
def test_areas_are_sizes(sizes: list[int]):
    placed = lay_out(sizes, Rectangle(0, 0, 2.6, 1))
    assert len(placed) == len(sizes)
    for size, each in zip(sizes, placed, strict=True):
        assert each.width * each.height == pytest.approx(2.6 * size / sum(sizes), rel=1e-6, abs=1e-9)
        assert -1e-9 <= each.x <= each.x + each.width <= 2.6 + 1e-9
        assert -1e-9 <= each.y <= each.y + each.height <= 1 + 1e-9


def test_rectangles_do_not_overlap():
    placed = lay_out([50, 30, 20, 10, 10, 5, 5, 1, 1], Rectangle(0, 0, 2, 1))
    for at, one in enumerate(placed):
        for other in placed[at + 1 :]:
            apart_x = one.x + one.width <= other.x + 1e-9 or other.x + other.width <= one.x + 1e-9
            apart_y = one.y + one.height <= other.y + 1e-9 or other.y + other.height <= one.y + 1e-9
            assert apart_x or apart_y


def test_the_example_of_the_paper():
    """Bruls, Huizing and van Wijk, figure 4: sizes 6, 6, 4, 3, 2, 2, 1 in 6 by 4."""
    placed = lay_out([6, 6, 4, 3, 2, 2, 1], Rectangle(0, 0, 6, 4))
    rounded = [tuple(round(value, 3) for value in each) for each in placed[:4]]
    assert rounded == [(0, 0, 3, 2), (0, 2, 3, 2), (3, 0, 1.714, 2.333), (4.714, 0, 1.286, 2.333)]


def test_nothing_is_laid_out_as_nothing():
    assert lay_out([], Rectangle(0, 0, 1, 1)) == []
