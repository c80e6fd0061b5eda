"""Formats tables of aligned columns, offsets and counts as plain text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

NOTHING = "-"
WIDEST = 300
"""Characters of a column; Kafka's longest names of topics have 249."""


def table(names: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> Iterator[str]:
    """Lines: the names, then the rows, columns two spaces apart; those named in ``right`` are flush right. A cell that
    is wider than :data:`WIDEST` sticks out: of one huge name, not all rows get as long."""
    widths = [min(WIDEST, max(map(len, column))) for column in zip(names, *rows, strict=True)]
    for row in (names, *rows):
        cells = zip(names, row, widths, strict=True)
        yield "  ".join(
            cell.rjust(width) if name in right else cell.ljust(width) for name, cell, width in cells
        ).rstrip()


def format_number(value: int | None) -> str:
    """``1,234,567``, or ``-``."""
    return NOTHING if value is None else f"{value:,}"


def format_offsets(first: int | None, last: int | None) -> str:
    """``0..699``: the first and last offset that there are; ``-`` for none."""
    return NOTHING if last is None else f"{NOTHING if first is None else first}..{last}"


def count_of(number: int, name: str) -> str:
    """``1 record``, ``1,234 records``."""
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def segments_changed(name: str, before: Sequence[int], after: Sequence[int]) -> str:
    """The message about a log that was divided into other segments; their base offsets."""
    counts = f"{count_of(len(before), 'segment')}, now {len(after):,}"
    return f"{name}: segments begin at other offsets than before: {counts}"
