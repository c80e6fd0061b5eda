"""Lays out a squarified treemap: rectangles whose areas are sizes, none of them long and thin.

The algorithm is that of Bruls, Huizing and van Wijk, "Squarified Treemaps" (2000).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Rectangle(NamedTuple):
    """A rectangle, ``width`` to the right and ``height`` down from its upper left corner (``x``, ``y``)."""

    x: float
    y: float
    width: float
    height: float


def lay_out(sizes: Sequence[float], within: Rectangle) -> list[Rectangle]:
    """Return a rectangle for each size, in that order; together they fill ``within``. Sizes are above 0 and descend."""
    free = within
    placed: list[Rectangle] = []
    while len(placed) < len(sizes):
        left = sizes[len(placed) :]
        scale, side = free.width * free.height / sum(left), min(free.width, free.height)
        count = 1
        while count < len(left) and _worst(left[: count + 1], scale, side) <= _worst(left[:count], scale, side):
            count += 1
        row = left[:count]
        # By shares of what is free, not by areas: so rounding never leads outside of it.
        rectangles, free = _take_row(row, sum(row) / sum(left), free)
        placed += rectangles
    return placed


def _worst(row: Sequence[float], scale: float, side: float) -> float:
    """The largest ratio of sides among the rectangles of a row along a side; areas are sizes times ``scale``."""
    if not scale or not side:
        return 0.0
    width = sum(row) * scale / side
    return max(max(row) * scale / width / width, width / (min(row) * scale / width))


def _take_row(row: Sequence[float], share: float, free: Rectangle) -> tuple[list[Rectangle], Rectangle]:
    """Rectangles for a row along the shorter side of ``free``, of which they take this share; and what is left."""
    x, y, width, height = free
    total = sum(row)
    placed: list[Rectangle] = []
    if width >= height:
        strip = width * share
        for size in row:
            placed.append(Rectangle(x, y, strip, height * (size / total)))
            y += placed[-1].height
        return placed, Rectangle(x + strip, free.y, width - strip, height)
    strip = height * share
    for size in row:
        placed.append(Rectangle(x, y, width * (size / total), strip))
        x += placed[-1].width
    return placed, Rectangle(free.x, y + strip, width, height - strip)
