"""Lays out a squarified treemap: rectangles whose areas are sizes, none of them long and thin.

The algorithm is that of Bruls, Huizing and van Wijk, "Squarified Treemaps" (2000).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Rectangle(NamedTuple):
    """From its upper left corner (``x``, ``y``), ``width`` to the right and ``height`` down."""

    x: float
    y: float
    width: float
    height: float


def lay_out(sizes: Sequence[float], within: Rectangle) -> list[Rectangle]:
    """A rectangle for each size, in that order; together they fill ``within``. Sizes are above 0 and descend."""
    total = sum(sizes)
    scale = within.width * within.height / total if total else 0.0
    areas, free = [size * scale for size in sizes], within
    placed: list[Rectangle] = []
    while len(placed) < len(areas):
        left, side = areas[len(placed) :], min(free.width, free.height)
        count = 1
        while count < len(left) and _worst(left[: count + 1], side) <= _worst(left[:count], side):
            count += 1
        row = left[:count]
        placed += _place(row, free)
        free = _rest(sum(row), free)
    return placed


def _worst(row: Sequence[float], side: float) -> float:
    """The largest ratio of sides among the rectangles of a row along a side."""
    total = sum(row)
    return max(side * side * max(row) / (total * total), total * total / (side * side * min(row))) if side else 0.0


def _place(row: Sequence[float], free: Rectangle) -> list[Rectangle]:
    x, y, width, height = free
    total = sum(row)
    placed: list[Rectangle] = []
    for area in row:
        if width >= height:
            each = Rectangle(x, y, total / height, area / (total / height))
            y += each.height
        else:
            each = Rectangle(x, y, area / (total / width), total / width)
            x += each.width
        placed.append(each)
    return placed


def _rest(taken: float, free: Rectangle) -> Rectangle:
    x, y, width, height = free
    if width >= height:
        strip = min(taken / height, width)
        return Rectangle(x + strip, y, width - strip, height)
    strip = min(taken / width, height)
    return Rectangle(x, y + strip, width, height - strip)
