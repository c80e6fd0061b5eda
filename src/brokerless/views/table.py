"""Formats tables of aligned columns, offsets and counts as plain text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from brokerless.text import count_of
from brokerless.views import screen

NOTHING = "-"
WIDEST = 300
"""Characters of a column; Kafka's longest names of topics have 249."""
SPARE = (
    "codecs", "format", "topicId", "hours", "batches", "segments", "indexes rebuilt", "segments deleted", "from", "to",
    "offsets after", "after", "before", "transactionPartitions", "eligibleLeaderReplicas", "protocolType", "metadata",
    "producerEpoch", "brokerEpoch", "leaderEpoch", "transactionLastUpdateTimestamp", "commitTimestamp",
)  # fmt: skip
"""Columns that a narrow terminal does without, in this order."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z|-")
_NARROWEST = 12
"""Characters to which texts are shortened, at least."""


def table(
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[str] = (),
    *,
    margin: int = 0,
    needed: Sequence[str] = (),
) -> Iterator[str]:
    """Lines: the names, then the rows, columns two spaces apart; those named in ``right`` are flush right. A cell that
    is wider than :data:`WIDEST` sticks out: of one huge name, not all rows get as long.

    On a screen that is too narrow, long texts are shortened to half of it, then columns are left out, which a last line
    names, then texts are shortened further, then the last columns are left out; numbers and times are never shortened.
    ``margin``: characters that are written
    before each line. ``needed``: columns without which the others say nothing, which are not left out."""
    widths = [min(WIDEST, max(map(len, column))) for column in zip(names, *rows, strict=True)]
    width = screen.width()
    times = [name for name, *cells in zip(names, *rows, strict=True) if all(map(_TIME.fullmatch, cells))]
    shown, widths = _fit(names, widths, (*right, *times), most=None if width is None else width - margin, needed=needed)
    for row in (names, *rows):
        cells = [(names[at], _shorten(row[at], widths[at]), widths[at]) for at in shown]
        yield "  ".join(
            cell.rjust(width) if name in right else cell.ljust(width) for name, cell, width in cells
        ).rstrip()
    if len(shown) < len(names):
        left_out = (name for at, name in enumerate(names) if at not in shown)
        text = f"(--wide shows {', '.join(left_out)} as well)"
        yield from [text] if width is None else screen.wrapped(text, width - margin)


def _fit(
    names: Sequence[str], widths: Sequence[int], right: Sequence[str], most: int | None, needed: Sequence[str]
) -> tuple[list[int], list[int]]:
    """Chooses the columns that are shown, and how wide each is, for ``most`` characters a line."""
    shown, fitted = list(range(len(names))), list(widths)
    if most is None:
        return shown, fitted

    def excess() -> int:
        return sum(fitted[at] for at in shown) + 2 * (len(shown) - 1) - most

    def shorten(least: int) -> None:
        texts = [at for at in shown if names[at] not in right and fitted[at] > least]
        while excess() > 0 and texts:
            widest = max(texts, key=fitted.__getitem__)
            fitted[widest] = max(least, fitted[widest] - excess())
            texts = [at for at in texts if fitted[at] > least]

    shorten(max(_NARROWEST, most // 2))
    for name in SPARE:
        if excess() > 0 and name in names and name not in needed:
            shown.remove(names.index(name))
    shorten(_NARROWEST)
    while excess() > 0 and len(shown) > 1:
        shown.pop()
    return shown, fitted


def _shorten(cell: str, width: int) -> str:
    """Leaves out the middle: where a name ends is the number of its partition."""
    if len(cell) <= width or width >= WIDEST:
        return cell
    end = (width - 1) // 2
    return f"{cell[: width - 1 - end]}…{cell[len(cell) - end :]}"


def format_number(value: int | None) -> str:
    """``1,234,567``, or ``-``."""
    return NOTHING if value is None else f"{value:,}"


def format_offsets(first: int | None, last: int | None) -> str:
    """``0..699``: the first and last offset that there are; ``-`` for none."""
    return NOTHING if last is None else f"{NOTHING if first is None else first}..{last}"


def format_span(start: int, end: int) -> str:
    """``0..699``: the offsets ``[0, 700)``; ``-`` for none."""
    return format_offsets(start, end - 1 if end > start else None)


def where_written(to: object, *, dry_run: bool, has_any: bool = True) -> str:
    """Return where a job wrote what it made, if it made ``any``, and was not a dry run."""
    if dry_run:
        return "nothing was written, as in a dry run"
    return f"written to {to}" if has_any else "nothing was written"


def segments_changed(name: str, before: Sequence[int], after: Sequence[int]) -> str:
    """Return the message about a log that was divided into other segments; their base offsets."""
    counts = f"{count_of(len(before), 'segment')}, now {len(after):,}"
    return f"{name}: segments begin at other offsets than before: {counts}"
